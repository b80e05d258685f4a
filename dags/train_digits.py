"""Train a classifier of handwritten digits on two nodes, every day.

Runs as it is on this machine, with a connection ``training`` of type ``trainer-local``:

    export AIRFLOW_CONN_TRAINING='trainer-local:///tmp/trainings'

The same file trains on a cluster when ``training`` is of type ``kubernetes``: the connection decides.
"""

from datetime import datetime, timezone

from airflow.sdk import dag, task

from trainer_ops.airflow import TrainJobOperator


@task
def report(accuracy: float, model_uri: str) -> str:
    line = f"accuracy {accuracy:.3f}   model {model_uri}"
    print(line)
    return line


@dag(
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    params={"rounds": 20},
    tags=["trainer-ops"],
)
def digits() -> None:
    train = TrainJobOperator(
        task_id="train",
        conn_id="training",  # a cluster or this machine: the connection decides
        runtime="xgboost-distributed",
        script="scripts/train_digits.py",  # or image=/command=, or python_callable=
        num_nodes=2,
        env={"ROUNDS": "{{ params.rounds }}"},
        max_restarts=2,
        deferrable=True,
    )
    report(train.output["metrics"]["accuracy"], train.output["model_uri"])


digits()
