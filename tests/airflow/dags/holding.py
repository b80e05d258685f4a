"""Trainings that go on until they are told to stop: what the tests kill."""

from datetime import datetime, timezone

from airflow.sdk import dag

from trainer_ops.airflow import TrainJobOperator


@dag(schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc))  # type: ignore[untyped-decorator]
def holding() -> None:
    for name, deferrable in (("deferred", True), ("in_worker", False)):
        TrainJobOperator(
            task_id=name,
            conn_id="training",
            runtime="torch-distributed",
            command=["python", "-c", "import time; print('holding', flush=True); time.sleep(600)"],
            num_nodes=2,
            deferrable=deferrable,
        )


holding()
