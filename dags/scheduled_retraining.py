"""Retrain on a schedule, and put the model into use only when it is better than the one in use.

snapshot → decide (skip when data and code are what the champion was made from) → train → evaluate on held-out rows,
the champion too → promote by a margin. On this machine:

    python dags/scripts/retrain_digits.py data /tmp/digits                # data to train on
    export AIRFLOW_CONN_TRAINING='trainer-local:///tmp/trainings'
    airflow dags test scheduled_retraining                                # trains and promotes; once more: skips
    cat /tmp/champions/champion.json

On a cluster ``training`` is of type ``kubernetes``, ``store`` is ``pvc://CLAIM``, and ``runtime`` one that mounts a
volume at ``models``; with ``copy`` false the champion stays on that volume. Where the training saves its model to
object storage, ``registry`` may be ``s3://…`` and ``copy`` true. MLflow: ``mlflow://NAME``.
"""

from datetime import datetime, timezone

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable, dag

from trainer_ops.airflow import (
    DatasetInitializerOperator,
    DecideRetrainingOperator,
    PromoteModelOperator,
    TrainJobOperator,
    WebhookNotifier,
)

SCRIPT = "scripts/retrain_digits.py"
DATA, CHAMPION = Asset("digits_data"), Asset("digits_champion")  # who delivers data has the one as outlet
PARAMS = {
    "data": "file:///tmp/digits", "store": "", "runtime": "xgboost-distributed", "models": "", "rounds": 20,
    "registry": "file:///tmp/champions", "copy": True, "margin": 0.005, "keep": 5, "force": False, "webhook": "",
}  # fmt: skip
P = {name: f"{{{{ params['{name}'] }}}}" for name in PARAMS}  # not params.copy: that is a method
tell = WebhookNotifier(webhook=P["webhook"])


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
    job = {"conn_id": "training", "runtime": P["runtime"], "script": SCRIPT, "num_nodes": 1}
    source = {"uri": P["data"], "to": P["store"], "outlets": []}
    data = DatasetInitializerOperator(task_id="snapshot", conn_id="training", **source).output
    made_from = {"snapshot": data, "script": SCRIPT, "settings": {"rounds": P["rounds"]}, "force": P["force"]}
    plan = DecideRetrainingOperator(task_id="decide", registry=P["registry"], **made_from).output
    made = {"args": ["train"], "env": {"ROUNDS": P["rounds"]}, "checkpoint_dir": P["models"]}
    train = TrainJobOperator(task_id="train", dataset=data, **made, **job)
    models = {"MODEL_URI": train.output["model_uri"], "CHAMPION_URI": plan["champion_uri"]}
    evaluate = TrainJobOperator(task_id="evaluate", dataset=data, args=["evaluate"], env=models, **job)
    plan >> train
    found = {"model_uri": train.output["model_uri"], "metrics": evaluate.output["metrics"]}
    rule = {"metric": "accuracy", **{name: P[name] for name in ("registry", "margin", "keep", "copy")}}
    note = {"trainjob": train.output["trainjob"], "data": data}
    PromoteModelOperator(
        task_id="promote", plan=plan, **found, **rule, note=note, outlets=[CHAMPION], on_success_callback=tell
    )


scheduled_retraining()
