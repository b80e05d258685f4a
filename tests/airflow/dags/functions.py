"""Functions and scripts on the engine, waited for in the worker: what ``dag.test()`` runs."""

from datetime import datetime, timezone
from typing import Any

from airflow.sdk import dag, task

from trainer_ops.airflow import TrainJobOperator


def fit(depth: int) -> dict[str, float]:
    print(f"depth {depth}", flush=True)
    return {"accuracy": 1 - 1 / depth}


@task
def best(accuracies: list[float]) -> float:
    return max(accuracies)


@dag(schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc))  # type: ignore[untyped-decorator]
def functions() -> None:
    common: dict[str, Any] = {"conn_id": "training", "runtime": "torch-distributed", "runner": "python"}
    common["deferrable"] = False
    fits = TrainJobOperator.partial(task_id="fit", python_callable=fit, **common).expand(
        op_kwargs=[{"depth": 2}, {"depth": 4}]
    )
    best(fits.output["metrics"]["accuracy"])
    TrainJobOperator(task_id="breaks", script="scripts/breaks.py", num_nodes=2, **common)


functions()
