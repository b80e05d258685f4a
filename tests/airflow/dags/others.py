"""Waiting for trainings that this Airflow did not start: a sensor in the triggerer, and an asset that they update."""

from datetime import datetime, timezone
from typing import Any

from airflow.sdk import Asset, AssetWatcher, dag, task

from trainer_ops.airflow import TrainJobEventTrigger, TrainJobSensor

ends = TrainJobEventTrigger(labels={"team": "others"}, conn_id="training")
trained = Asset("trained_by_others", watchers=[AssetWatcher(name="ends", trigger=ends)])
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dag(schedule=None, start_date=BEGIN, params={"name": ""})  # type: ignore[untyped-decorator]
def waits_for_others() -> None:
    TrainJobSensor(
        task_id="wait",
        conn_id="training",
        name="{{ params.name }}",
        metric="accuracy",
        at_least=0.9,
        deferrable=True,
        timeout=300,
    )


@task
def told(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
    return [event.extra["payload"] for event in triggering_asset_events[trained]]


@dag(schedule=[trained], start_date=BEGIN)  # type: ignore[untyped-decorator]
def after_others() -> None:
    told()


waits_for_others()
after_others()
