"""Train once for every point of a grid, a few at a time, and keep the best.

Each point is a mapped task with a training of its own, named by its point in the grid view. One that fails does not
spoil the others; clearing it trains that point alone. On this machine:

    export AIRFLOW_CONN_TRAINING='trainer-local:///tmp/trainings'
    airflow dags test hyperparameter_sweep

A cluster with Kueue queues what does not fit: give ``queue_name`` and leave ``max_active_tis_per_dagrun`` out.
"""

from datetime import datetime, timezone
from itertools import product

from airflow.sdk import TriggerRule, dag, task

from trainer_ops.airflow import TrainJobOperator


@task
def grid(params=None) -> list[dict[str, str]]:
    """What each training finds in its environment."""
    points = product(params["depths"], params["etas"])
    return [{"DEPTH": str(depth), "ETA": str(eta), "ROUNDS": str(params["rounds"])} for depth, eta in points]


@task(trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS)
def best(trials: list[dict]) -> dict:
    """The outcome with the highest accuracy among those that trained."""
    ranked = sorted(trials, key=lambda outcome: outcome["metrics"]["accuracy"], reverse=True)
    for outcome in ranked:
        print(f"accuracy {outcome['metrics']['accuracy']:.4f}   {outcome['artifacts']}   {outcome['name']}")
    return ranked[0]


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    params={"depths": [2, 4, 6], "etas": [0.1, 0.3], "rounds": 15},
    tags=["trainer-ops"],
)
def hyperparameter_sweep() -> None:
    trial = TrainJobOperator.partial(
        task_id="trial",
        conn_id="training",
        runtime="xgboost-distributed",
        script="scripts/train_digits.py",
        num_nodes=1,
        deferrable=True,
        max_active_tis_per_dagrun=4,
        map_index_template="depth {{ task.env.DEPTH }}, eta {{ task.env.ETA }}",
    ).expand(env=grid())
    best(trial.output)


hyperparameter_sweep()
