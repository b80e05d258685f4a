"""A snapshot of a folder, and a training of it."""

from datetime import datetime, timezone
from typing import Any

from airflow.sdk import dag

from trainer_ops.airflow import DatasetInitializerOperator, TrainJobOperator


def measure() -> dict[str, float]:
    import os

    return {"bytes": os.path.getsize(os.path.join(os.environ["TRAINER_OPS_DATASET_DIR"], "train.csv"))}


@dag(schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), params={"data": ""})  # type: ignore[untyped-decorator]
def snapshot() -> None:
    data = DatasetInitializerOperator(task_id="data", conn_id="training", uri="{{ params.data }}")
    common: dict[str, Any] = {"conn_id": "training", "runtime": "torch-distributed", "runner": "python", "num_nodes": 1}
    TrainJobOperator(task_id="train", python_callable=measure, dataset=data.output, **common)


snapshot()
