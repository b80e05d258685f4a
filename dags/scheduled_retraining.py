"""Retrain on a schedule, and put the model into use only when it is better than the one in use.

snapshot → decide (skip when data and code are what the champion was made from) → train → evaluate on held-out rows,
the champion too → promote by a margin. The logic is ``trainer_ops.lifecycle.retraining``. On this machine:

    python dags/scripts/retrain_digits.py data /tmp/digits                # data to train on
    export AIRFLOW_CONN_TRAINING='trainer-local:///tmp/trainings'
    airflow dags test scheduled_retraining                                # trains and promotes; once more: skips
    cat /tmp/champions/champion.json

On a cluster ``training`` is of type ``kubernetes``, ``store`` is ``pvc://CLAIM``, and ``runtime`` one that mounts a
volume at ``models``; with ``copy`` false the champion stays on that volume. Where the training saves its model to
object storage, ``registry`` may be ``s3://…`` and ``copy`` true. MLflow: ``mlflow://NAME``.
"""

from datetime import datetime, timezone
from pathlib import Path

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable, dag, task
from airflow.sdk.exceptions import AirflowSkipException

from trainer_ops.airflow import DatasetInitializerOperator, TrainJobOperator, WebhookNotifier

SCRIPT = "scripts/retrain_digits.py"
DATA, CHAMPION = Asset("digits_data"), Asset("digits_champion")  # who delivers data has the one as outlet
PARAMS = {
    "data": "file:///tmp/digits", "store": "", "runtime": "xgboost-distributed", "models": "", "rounds": 20,
    "registry": "file:///tmp/champions", "copy": True, "margin": 0.005, "keep": 5, "force": False, "webhook": "",
}  # fmt: skip
tell = WebhookNotifier(webhook="{{ params.webhook }}")


def registry(params):
    from trainer_ops.lifecycle.champion import open_registry

    return open_registry(params["registry"], copy=params["copy"])


@task
def decide(data: dict, params=None, ti=None) -> dict:
    from trainer_ops.lifecycle.retraining import decide

    made_from = data, Path(__file__).parent / SCRIPT, {"rounds": params["rounds"]}
    plan = decide(registry(params), *made_from, force=params["force"])
    ti.xcom_push("text", plan.reason)
    if not plan.train:
        raise AirflowSkipException(plan.reason)
    return plan.to_json()


@task(outlets=[CHAMPION], on_success_callback=tell)
def promote(plan: dict, trained: dict, scores: dict, data: dict, params=None, ti=None) -> dict:
    from trainer_ops.lifecycle.retraining import Plan, conclude

    note = {"trainjob": trained["name"], "data": data["uri"], "revision": data["revision"]}
    found = {"model_uri": trained["model_uri"], "metrics": scores["metrics"], "note": note}
    rule = {"metric": "accuracy", "margin": params["margin"], "keep": params["keep"]}
    done = conclude(registry(params), Plan.from_json(plan), **found, **rule)
    ti.xcom_push("text", done.text)
    if not done.promoted:
        raise AirflowSkipException(done.text)  # so there is no event of CHAMPION
    return done.to_json()


@dag(
    schedule=AssetOrTimeSchedule(timetable=CronTriggerTimetable("0 5 * * *", timezone="UTC"), assets=[DATA]),
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    params=PARAMS,
    default_args={"on_failure_callback": tell, "on_skipped_callback": tell},
    tags=["trainer-ops"],
)
def scheduled_retraining() -> None:
    job = {"conn_id": "training", "runtime": "{{ params.runtime }}", "script": SCRIPT, "num_nodes": 1}
    source = {"uri": "{{ params.data }}", "to": "{{ params.store }}", "outlets": []}
    data = DatasetInitializerOperator(task_id="snapshot", conn_id="training", **source).output
    plan = decide(data)
    made = {"args": ["train"], "env": {"ROUNDS": "{{ params.rounds }}"}, "checkpoint_dir": "{{ params.models }}"}
    train = TrainJobOperator(task_id="train", dataset=data, **made, **job)
    models = {"MODEL_URI": train.output["model_uri"], "CHAMPION_URI": plan["champion_uri"]}
    evaluate = TrainJobOperator(task_id="evaluate", dataset=data, args=["evaluate"], env=models, **job)
    plan >> train
    promote(plan, train.output, evaluate.output, data)


scheduled_retraining()
