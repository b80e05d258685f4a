"""The example DAG in a real Airflow: scheduler, worker and triggerer are processes, everything is asked by REST."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from trainer_ops.backends.base import Backend
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model import keys

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def trainings(airflow: Any) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """The TrainJobs of a task."""
    engine: Backend = open_backend(f"local://{airflow.home / 'trainings'}")

    def of(task_id: str) -> list[dict[str, Any]]:
        words = f"task_id={task_id} "
        return [job for job in engine.list() if words in job["metadata"]["annotations"][keys.ANNOTATION_IDENTITY]]

    yield of
    engine.close()


@pytest.fixture
def others(airflow: Any) -> Iterator[Callable[..., str]]:
    """Somebody else's training on the same engine: reports an accuracy, ends; gives its uid."""
    engine: Backend = open_backend(f"local://{airflow.home / 'trainings'}")

    def train(name: str, seconds: float = 0, **labels: str) -> str:
        result = '{"metrics": {"accuracy": 0.95}, "model_uri": "file:///model"}'
        write = f"open(os.environ['TRAINER_OPS_RESULT_PATH'], 'w').write('{result}')"
        code = f"import os, time; time.sleep({seconds}); {write}"
        made = engine.create(
            {
                "apiVersion": keys.API_VERSION,
                "kind": keys.KIND,
                "metadata": {"name": name, "labels": labels},
                "spec": {
                    "runtimeRef": {"name": "plain"},
                    "trainer": {"numNodes": 1, "command": ["python3", "-c", code]},
                },
            }
        )
        return str(made["metadata"]["uid"])

    yield train
    engine.close()


@pytest.fixture
def scheduling(airflow: Any) -> Iterator[None]:
    """The scheduler starts runs by itself, except of DAGs that have a time for it."""
    for dag_id in BY_TIME:
        airflow.pause(dag_id)
    airflow.halt("scheduler", grace=0.0)
    airflow.spawn("scheduler", AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE="true")
    yield
    airflow.halt("scheduler", grace=0.0)
    airflow.spawn("scheduler")
    for dag_id in BY_TIME:
        airflow.pause(dag_id, paused=False)


def test_the_digits_dag_trains_deferred_on_two_nodes(airflow: Any) -> None:
    run_id = airflow.trigger("digits", {"rounds": 12})
    assert airflow.wait_run("digits", run_id) == "success", airflow.log("digits", run_id, "train")

    outcome = airflow.xcom("digits", run_id, "train")
    assert outcome["phase"] == "succeeded"
    assert outcome["metrics"]["accuracy"] > 0.85
    assert airflow.xcom("digits", run_id, "train", "accuracy") == outcome["metrics"]["accuracy"]
    assert airflow.xcom("digits", run_id, "train", "model_uri") == outcome["model_uri"]
    assert airflow.xcom("digits", run_id, "report").startswith(f"accuracy {outcome['metrics']['accuracy']:.3f}")

    log = airflow.log("digits", run_id, "train")
    assert "Pausing task as DEFERRED" in log
    assert "[node-0] round 12  mlogloss" in log  # written by the triggerer, shown on the task's page
    assert "[node-1] round 12  mlogloss" in log
    assert log.count("[node-1] round 12  mlogloss") == 1


def test_clearing_a_task_trains_again_and_clearing_its_neighbour_does_not(airflow: Any) -> None:
    run_id = airflow.trigger("digits", {"rounds": 2})
    assert airflow.wait_run("digits", run_id) == "success"
    uid = airflow.xcom("digits", run_id, "train")["uid"]
    tries = airflow.task("digits", run_id, "train")["max_tries"]

    # What run keys rest upon: clearing counts for the task that was cleared, not for its neighbours.
    airflow.clear("digits", run_id, "report")
    assert airflow.wait_run("digits", run_id) == "success"
    assert airflow.task("digits", run_id, "train")["max_tries"] == tries
    assert airflow.xcom("digits", run_id, "train")["uid"] == uid

    airflow.clear("digits", run_id, "train")
    assert airflow.wait_run("digits", run_id) == "success"
    assert airflow.task("digits", run_id, "train")["max_tries"] != tries
    assert airflow.xcom("digits", run_id, "train")["uid"] != uid


def test_a_user_or_a_signal_stops_the_training_and_never_ends_in_success(airflow: Any, trainings: Any) -> None:
    run_id = airflow.trigger("holding")
    for task_id in TASKS:
        _until_it_holds(airflow, run_id, task_id)
        assert len(trainings(task_id)) == 1
    assert airflow.task("holding", run_id, "deferred")["state"] == "deferred"

    airflow.mark("holding", run_id, "deferred", "failed")
    os.kill(airflow.task("holding", run_id, "in_worker")["pid"], signal.SIGTERM)
    _until_nothing_trains(airflow, trainings)
    assert airflow.wait_run("holding", run_id) == "failed"
    assert airflow.task("holding", run_id, "in_worker")["state"] == "failed"
    assert "was told to stop; TrainJob" in airflow.log("holding", run_id, "in_worker")


def test_a_triggerer_that_dies_leaves_the_training_to_the_next(airflow: Any, trainings: Any) -> None:
    def waits(times: int) -> bool | None:
        return airflow.log("holding", run_id, "deferred").count("  running") >= times or None

    run_id = airflow.trigger("holding")
    airflow.until(lambda: waits(1), 120, "nobody waits")
    (before,) = trainings("deferred")
    airflow.halt("triggerer", grace=0.0)
    airflow.spawn("triggerer")
    airflow.until(lambda: waits(2), 120, "nobody waits again")
    (after,) = trainings("deferred")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    _until_it_holds(airflow, run_id, "in_worker")
    for task_id in TASKS:
        airflow.mark("holding", run_id, task_id, "failed")
    _until_nothing_trains(airflow, trainings)


def test_a_deferred_sensor_waits_for_a_training_of_others(airflow: Any, others: Callable[..., str]) -> None:
    run_id = airflow.trigger("waits_for_others", {"name": "theirs"})
    airflow.wait_task("waits_for_others", run_id, "wait", "deferred")
    uid = others("theirs", seconds=3)
    assert airflow.wait_run("waits_for_others", run_id) == "success", airflow.log("waits_for_others", run_id, "wait")
    outcome = airflow.xcom("waits_for_others", run_id, "wait")
    assert (outcome["uid"], outcome["metrics"]) == (uid, {"accuracy": 0.95})
    assert "theirs  running" in airflow.log("waits_for_others", run_id, "wait")  # written by the triggerer


@pytest.mark.usefixtures("scheduling")
def test_each_end_starts_a_run_once_over_a_killed_triggerer(airflow: Any, others: Callable[..., str]) -> None:
    def told() -> list[str]:
        """All events; Airflow 3.3.2 answers 500 as long as a run of one has not started."""
        events = airflow.get("/api/v2/assets/events?limit=100")["asset_events"]
        return [event["extra"]["payload"]["uid"] for event in events if event["extra"].get("from_trigger")]

    def kept() -> str:
        with closing(sqlite3.connect(airflow.home / "airflow.db")) as database:
            rows = database.execute("SELECT value FROM asset_state_store WHERE key = 'trainer_ops_told'").fetchall()
        return str(rows)

    def heard() -> list[dict[str, Any]]:
        """What the runs that the scheduler has started were started for, as their tasks see it."""
        runs = airflow.runs("after_others")
        assert {airflow.wait_run("after_others", run_id) for run_id in runs} <= {"success"}
        return [payload for run_id in runs for payload in airflow.xcom("after_others", run_id, "told")]

    airflow.until(lambda: "uids" in kept() or None, 120, "nobody watches")
    first = others("ends-1", team="others")
    airflow.until(lambda: first in kept() or None, 120, "the first end is not told")
    (payload,) = airflow.until(lambda: heard() or None, 60, "the first end starts no run")
    assert (payload["name"], payload["uid"], payload["phase"]) == ("ends-1", first, "succeeded")
    assert (payload["model_uri"], payload["metrics"]) == ("file:///model", {"accuracy": 0.95})
    assert (payload["target"], payload["namespace"]) == (f"local://{airflow.home / 'trainings'}", "default")
    assert told() == [first]

    airflow.halt("triggerer", grace=0.0)
    meanwhile = [others(f"ends-{number}", team="others") for number in (2, 3)]
    others("of-nobody", team="nobody")
    airflow.spawn("triggerer")
    last = others("ends-4", team="others", seconds=20)
    airflow.until(lambda: last in kept() or None, 180, "the last end is not told")
    airflow.until(lambda: last in str(heard()) or None, 60, "the last end starts no run")
    assert sorted(payload["uid"] for payload in heard()) == sorted([first, *meanwhile, last])
    assert sorted(told()) == sorted([first, *meanwhile, last])


# Their runs would train beside the test.
BY_TIME = ("digits", "scheduled_retraining")
TASKS = ("deferred", "in_worker")


def _until_it_holds(airflow: Any, run_id: str, task_id: str) -> None:
    airflow.until(lambda: "[node-1] holding" in airflow.log("holding", run_id, task_id) or None, 120, task_id)


def _until_nothing_trains(airflow: Any, trainings: Any) -> None:
    airflow.until(lambda: not any(map(trainings, TASKS)) or None, 60, "still trains")
