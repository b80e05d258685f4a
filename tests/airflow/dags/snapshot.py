"""A snapshot of a folder, a training of it, and DAGs that run when there is a new one."""

import os
from datetime import datetime, timezone
from typing import Any

from airflow.sdk import Asset, AssetAlias, dag, task

from trainer_ops.airflow import DatasetInitializerOperator, TrainJobOperator


def measure() -> dict[str, float]:
    import os

    return {"bytes": os.path.getsize(os.path.join(os.environ["TRAINER_OPS_DATASET_DIR"], "train.csv"))}


BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dag(schedule=None, start_date=BEGIN, params={"data": ""})  # type: ignore[untyped-decorator]
def snapshot() -> None:
    data = DatasetInitializerOperator(task_id="data", conn_id="training", uri="{{ params.data }}")
    common: dict[str, Any] = {"conn_id": "training", "runtime": "torch-distributed", "runner": "python", "num_nodes": 1}
    TrainJobOperator(task_id="train", python_callable=measure, dataset=data.output, **common)


@task
def look() -> None: ...


# Any dataset, and one of which the source is known.
DIGITS = Asset(f"file://{os.environ['AIRFLOW_HOME']}/digits")
for name, schedule in (("on_any_dataset", AssetAlias("trainer-ops-datasets")), ("on_digits", DIGITS)):

    @dag(name, schedule=[schedule], start_date=BEGIN)  # type: ignore[untyped-decorator]
    def follower() -> None:
        look()

    follower()

snapshot()
