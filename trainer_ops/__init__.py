"""Training runs as steps of larger pipelines, on Kubeflow Trainer v2 or on this machine.

::

    import trainer_ops

    outcome = trainer_ops.run(runtime="torch-distributed", script="train.py", num_nodes=2)
    print(outcome.metrics, outcome.model_uri)

In the training's own code, ``trainer_ops.report(metrics=..., model_uri=...)`` says what came of it.

This module holds the names that a user imports, nothing else, and each is imported when it is first asked for:
``import trainer_ops`` costs nothing where only ``report`` is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer_ops.errors import (
        AlreadyExists,
        BackendError,
        ConditionNotMet,
        Detached,
        Forbidden,
        InvalidRequest,
        NotFound,
        PreconditionFailed,
        Rejected,
        RunConflict,
        RuntimeNotFound,
        TargetUnreachable,
        TrainerOpsError,
        TrainingEnded,
        TrainJobDeadlineExceeded,
        TrainJobDeleted,
        TrainJobFailed,
        TrainJobNotStarted,
        TrainJobOutOfMemory,
        TrainJobRestartsExhausted,
        TrainJobWaitTimeout,
        Unreachable,
    )
    from trainer_ops.initializers.provider import SnapshotError
    from trainer_ops.lifecycle.api import cancel, logs, run, submit, take_snapshot, wait
    from trainer_ops.lifecycle.cancel import Cancelled
    from trainer_ops.lifecycle.listener import Listener, Silent
    from trainer_ops.lifecycle.submit import Submitted
    from trainer_ops.model.identity import JobRef, RunKey
    from trainer_ops.model.limits import Limits
    from trainer_ops.model.outcome import Category, Diagnosis, Ending, Outcome
    from trainer_ops.model.phase import Phase, State
    from trainer_ops.model.request import TrainRequest
    from trainer_ops.model.snapshot import Snapshot
    from trainer_ops.shipped.reporting import report

    __version__: str

__all__ = [
    "AlreadyExists",
    "BackendError",
    "Cancelled",
    "Category",
    "ConditionNotMet",
    "Detached",
    "Diagnosis",
    "Ending",
    "Forbidden",
    "InvalidRequest",
    "JobRef",
    "Limits",
    "Listener",
    "NotFound",
    "Outcome",
    "Phase",
    "PreconditionFailed",
    "Rejected",
    "RunConflict",
    "RunKey",
    "RuntimeNotFound",
    "Silent",
    "Snapshot",
    "SnapshotError",
    "State",
    "Submitted",
    "TargetUnreachable",
    "TrainJobDeadlineExceeded",
    "TrainJobDeleted",
    "TrainJobFailed",
    "TrainJobNotStarted",
    "TrainJobOutOfMemory",
    "TrainJobRestartsExhausted",
    "TrainJobWaitTimeout",
    "TrainRequest",
    "TrainerOpsError",
    "TrainingEnded",
    "Unreachable",
    "__version__",
    "cancel",
    "logs",
    "report",
    "run",
    "submit",
    "take_snapshot",
    "wait",
]

_HOMES = {
    "initializers.provider": ("SnapshotError",),
    "lifecycle.api": ("cancel", "logs", "run", "submit", "take_snapshot", "wait"),
    "lifecycle.cancel": ("Cancelled",),
    "lifecycle.listener": ("Listener", "Silent"),
    "lifecycle.submit": ("Submitted",),
    "model.identity": ("JobRef", "RunKey"),
    "model.limits": ("Limits",),
    "model.outcome": ("Category", "Diagnosis", "Ending", "Outcome"),
    "model.phase": ("Phase", "State"),
    "model.request": ("TrainRequest",),
    "model.snapshot": ("Snapshot",),
    "shipped.reporting": ("report",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from trainer_ops.lifecycle.version import tool_version

        return tool_version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    # All that is public and has no other home is an error.
    value = getattr(import_module(f"{__name__}.{_HOME_OF.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
