"""Training runs as Airflow tasks: TrainJobOperator, TrainJobSensor, TrainJobEventTrigger and what belongs to them.

What belongs here: Airflow's idiom and nothing else. Connection to target, task instance to run key, outcome to XCom
or exception, task log, deferral. How to submit, wait and cancel is ``lifecycle``'s. Only here may ``airflow`` be
imported. May import: everything below ``lifecycle`` too, but heavy things (pydantic models, yaml, sqlite3,
kubernetes) only inside functions: this package is imported by every DAG file, by every process that parses one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer_ops.airflow.actions import (
        DeleteTrainJobsOperator,
        ResumeTrainJobOperator,
        SuspendTrainJobOperator,
        TrainingRuntimeOperator,
    )
    from trainer_ops.airflow.events import TrainJobEventTrigger
    from trainer_ops.airflow.hook import TrainerHook
    from trainer_ops.airflow.initializers import DatasetInitializerOperator, ModelInitializerOperator
    from trainer_ops.airflow.notifier import WebhookNotifier
    from trainer_ops.airflow.operators import TrainJobOperator
    from trainer_ops.airflow.retraining import DecideRetrainingOperator, PromoteModelOperator
    from trainer_ops.airflow.sensors import TrainJobSensor
    from trainer_ops.airflow.snapshot_trigger import SnapshotTrigger
    from trainer_ops.airflow.triggers import TrainJobTrigger

__all__ = [
    "DatasetInitializerOperator",
    "DecideRetrainingOperator",
    "DeleteTrainJobsOperator",
    "ModelInitializerOperator",
    "PromoteModelOperator",
    "ResumeTrainJobOperator",
    "SnapshotTrigger",
    "SuspendTrainJobOperator",
    "TrainJobEventTrigger",
    "TrainJobOperator",
    "TrainJobSensor",
    "TrainJobTrigger",
    "TrainerHook",
    "TrainingRuntimeOperator",
    "WebhookNotifier",
]

_HOME = {
    "TrainJobOperator": "trainer_ops.airflow.operators",
    "TrainJobTrigger": "trainer_ops.airflow.triggers",
    "TrainerHook": "trainer_ops.airflow.hook",
    "DatasetInitializerOperator": "trainer_ops.airflow.initializers",
    "ModelInitializerOperator": "trainer_ops.airflow.initializers",
    "SnapshotTrigger": "trainer_ops.airflow.snapshot_trigger",
    "DeleteTrainJobsOperator": "trainer_ops.airflow.actions",
    "ResumeTrainJobOperator": "trainer_ops.airflow.actions",
    "SuspendTrainJobOperator": "trainer_ops.airflow.actions",
    "TrainingRuntimeOperator": "trainer_ops.airflow.actions",
    "TrainJobEventTrigger": "trainer_ops.airflow.events",
    "TrainJobSensor": "trainer_ops.airflow.sensors",
    "WebhookNotifier": "trainer_ops.airflow.notifier",
    "DecideRetrainingOperator": "trainer_ops.airflow.retraining",
    "PromoteModelOperator": "trainer_ops.airflow.retraining",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as exc:
        if (exc.name or "").split(".")[0] != "airflow":
            raise
        raise ImportError(f"{name} needs Airflow 3: pip install 'trainer-ops[airflow]'", name=exc.name) from exc


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
