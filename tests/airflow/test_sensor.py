"""TrainJobSensor: waits for trainings of others in a worker, over reschedules, and in the triggerer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from trainer_ops import errors
from trainer_ops.testing import MemoryBackend, VirtualClock

Create = Callable[..., str]


def make(**kwargs: Any) -> Any:
    from airflow.sdk import DAG

    from trainer_ops.airflow import TrainJobSensor

    with DAG("digits", schedule=None):
        return TrainJobSensor(**{"task_id": "wait", "poke_interval": 0, **kwargs})


def trigger_of(ran: Any) -> Any:
    """The trigger as the triggerer makes it: from JSON, by its path."""
    from airflow.sdk.module_loading import import_string
    from airflow.sdk.serde import deserialize

    kwargs = json.loads(json.dumps(deserialize(ran.message.trigger_kwargs)))
    return import_string(ran.message.classpath)(**kwargs)


def fire(trigger: Any) -> dict[str, Any]:
    """Run it as the triggerer does; the one event's payload, as it comes back from the database."""

    async def events() -> list[Any]:
        return [event async for event in trigger.run()]

    (event,) = asyncio.run(events())
    payload: dict[str, Any] = json.loads(json.dumps(event.payload))
    return payload


@pytest.fixture
def create(memory: MemoryBackend) -> Create:
    """Creates a TrainJob of others; what its name begins with is what it does."""
    memory.script("good-*", [(0, lambda t: t.running()), (20, lambda t: t.complete(RESULT))])
    memory.script("bad-*", [(0, lambda t: t.running()), (20, lambda t: t.fail(exit_code=3))])
    memory.script("long-*", [(0, lambda t: t.running())])

    def one(name: str, **labels: str) -> str:
        spec = {"runtimeRef": {"name": "torch-distributed"}}
        made = memory.create({"metadata": {"name": name, "labels": labels}, "spec": spec})
        return str(made["metadata"]["uid"])

    return one


RESULT = {"metrics": {"accuracy": 0.9}, "model_uri": "s3://models/digits/7"}


@pytest.fixture
def worker(worker: Any, virtual_clock: VirtualClock) -> Any:
    """A worker in the time of the virtual clock."""
    return lambda task, **given: worker(task, **{"start": virtual_clock.now(), **given})


@pytest.fixture(params=["poke", "reschedule", "deferrable"])
def run(request: pytest.FixtureRequest, worker: Any, virtual_clock: VirtualClock, monkeypatch: Any) -> Any:
    """Runs a sensor to its end in one of its modes, on the virtual clock."""
    import time

    monkeypatch.setattr(time, "sleep", lambda _seconds: virtual_clock.advance(10))

    def to_the_end(**kwargs: Any) -> Any:
        if request.param == "deferrable":
            ran = worker(make(deferrable=True, **kwargs))
            if ran.state != "deferred":
                return ran
            event = fire(trigger_of(ran))
            return worker(make(deferrable=True, **kwargs), resume=("execute_complete", {"event": event}))
        for _ in range(100):
            ran = worker(make(deferrable=False, mode=request.param, **kwargs))
            if ran.state != "up_for_reschedule":
                return ran
            virtual_clock.advance(10)
        raise AssertionError("never ends")

    return to_the_end


class TestEveryMode:
    def test_a_success(self, run: Any, create: Create) -> None:
        uid = create("good-a")
        ran = run(name="good-a")
        assert ran.state == "success", ran.error
        assert (ran.result["uid"], ran.result["phase"]) == (uid, "succeeded")
        assert ran.result["metrics"] == {"accuracy": 0.9}

    def test_one_that_comes_later(self, run: Any, create: Create, virtual_clock: VirtualClock) -> None:
        virtual_clock.after(50, lambda: create("good-a"))
        assert run(name="good-a").state == "success"

    def test_one_that_is_over_already(self, run: Any, create: Create, virtual_clock: VirtualClock) -> None:
        create("good-a")
        virtual_clock.advance(100)
        assert run(name="good-a").state == "success"

    def test_a_failure_raises_its_error(self, run: Any, create: Create) -> None:
        create("bad-a")
        ran = run(name="bad-a")
        assert ran.state == "failed"
        assert isinstance(ran.error, errors.TrainJobFailed)
        assert "exit code 3" in str(ran.error)

    def test_soft_fail_skips(self, run: Any, create: Create) -> None:
        create("bad-a")
        assert run(name="bad-a", soft_fail=True).state == "skipped"

    def test_never_fail_skips(self, run: Any, create: Create) -> None:
        create("bad-a")
        assert run(name="bad-a", never_fail=True).state == "skipped"

    def test_any_end_takes_a_failure(self, run: Any, create: Create) -> None:
        create("bad-a")
        ran = run(name="bad-a", until="end")
        assert (ran.state, ran.result["phase"]) == ("success", "failed")
        assert ran.result["diagnosis"]["category"] == "exit_code"

    def test_a_phase(self, run: Any, create: Create) -> None:
        create("long-a")
        ran = run(name="long-a", until="running")
        assert (ran.state, ran.result["phase"]) == ("success", "running")

    @pytest.mark.parametrize(("least", "state"), [(0.9, "success"), ("0.95", "failed")])
    def test_a_metric(self, least: Any, state: str, run: Any, create: Create) -> None:
        create("good-a")
        ran = run(name="good-a", metric="accuracy", at_least=least)
        assert ran.state == state
        assert state == "success" or isinstance(ran.error, errors.ConditionNotMet)

    def test_labels_wait_for_all(self, run: Any, create: Create, virtual_clock: VirtualClock) -> None:
        for number in range(3):
            create(f"good-{number}", team="a")
        create("bad-of-others", team="b")
        begun = virtual_clock.now()
        ran = run(labels={"team": "a"})
        assert ran.state == "success"
        assert [outcome["name"] for outcome in ran.result] == ["good-0", "good-1", "good-2"]
        assert virtual_clock.now() >= begun + 20

    def test_labels_and_any(self, run: Any, create: Create) -> None:
        create("bad-a", team="a")
        create("good-a", team="a")
        create("long-a", team="a")
        ran = run(labels="team=a", of="any")
        assert [outcome["name"] for outcome in ran.result] == ["good-a"]

    @pytest.mark.parametrize("given", ["text", "asset"])
    def test_an_asset(self, given: str, run: Any, create: Create) -> None:
        from airflow.sdk import Asset

        create("bad-a")
        create("good-a")
        ran = run(asset="s3://models/digits" if given == "text" else Asset("digits", uri="s3://models/digits"))
        assert ran.state == "success", ran.error
        assert ran.result["model_uri"] == "s3://models/digits/7"

    def test_since(self, run: Any, create: Create, virtual_clock: VirtualClock) -> None:
        from datetime import datetime, timezone

        create("good-old", team="a")
        virtual_clock.advance(1000)
        now = datetime.fromtimestamp(virtual_clock.now(), tz=timezone.utc)
        create("good-new", team="a")
        for since in (now, now.isoformat(), str(now)):
            assert [outcome["name"] for outcome in run(labels="team=a", since=since).result] == ["good-new"]

    def test_it_touches_nothing(self, run: Any, create: Create, memory: MemoryBackend) -> None:
        create("bad-a")
        run(name="bad-a")
        assert {call for call, _ in memory.calls} & {"delete", "set_suspended"} == set()

    def test_a_target_that_is_away_is_waited_for(self, run: Any, create: Create, memory: MemoryBackend) -> None:
        create("good-a", team="a")
        memory.faults.fail_next("overview", errors.Unreachable("reset"), times=3)
        assert run(labels="team=a").state == "success"

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({}, "neither a name nor labels nor a model"),
            ({"name": "x", "labels": "a=b"}, "exclude each other"),
            ({"labels": "team"}, "not written as key=value"),
            ({"name": "x", "until": "done"}, '"done" is none of'),
            ({"name": "x", "metric": "accuracy"}, "has no limit"),
            ({"name": "x", "since": "tomorrow"}, "'tomorrow' is not a time"),
            ({"name": "x", "conn_id": "nowhere"}, 'there is no connection "nowhere"'),
        ],
    )
    def test_what_makes_no_sense_is_not_tried_again(
        self, given: dict[str, Any], words: str, run: Any, memory: MemoryBackend
    ) -> None:
        ran = run(retries=3, **given)
        assert ran.state == "failed"
        assert type(ran.error).__name__ == "AirflowFailException"
        assert words in str(ran.error)


def test_templates(worker: Any, create: Create, virtual_clock: VirtualClock) -> None:
    create("good-a", team="a")
    virtual_clock.advance(100)
    given = {"labels": {"team": "{{ params.team }}"}, "at_least": "{{ params.least }}", "metric": "accuracy"}
    ran = worker(make(params={"team": "a", "least": 0.5}, **given))
    assert ran.state == "success", ran.error


class TestDeferred:
    def test_what_the_trigger_carries_is_plain_and_short(self, worker: Any, create: Create, memory: Any) -> None:
        ran = worker(make(name="good-a", deferrable=True))
        path, kwargs = trigger_of(ran).serialize()
        assert path == "trainer_ops.airflow.waits.TrainJobsTrigger"
        assert set(kwargs) == {"selection", "until", "deadline"}
        assert trigger_of(ran).serialize()[1] == kwargs

    def test_a_failure_has_the_evidence_that_is_gone(self, worker: Any, create: Create, memory: MemoryBackend) -> None:
        def crash(t: Any) -> None:
            t.say("oh no")
            t.crash(exit_code=3)

        memory.script("bad-*", [(0, lambda t: t.running()), (5, crash), (9, lambda t: t.fail(keep_pods=False))])
        create("bad-a")
        ran = worker(make(name="bad-a", deferrable=True))
        event = fire(trigger_of(ran))
        memory.delete("bad-a")
        done = worker(make(name="bad-a", deferrable=True), resume=("execute_complete", {"event": event}))
        assert isinstance(done.error, errors.TrainJobFailed)
        assert "oh no" in str(done.error)

    def test_one_that_is_deleted(
        self, worker: Any, create: Create, memory: MemoryBackend, virtual_clock: VirtualClock
    ) -> None:
        create("long-a")
        virtual_clock.after(5, lambda: memory.delete("long-a"))
        done = complete(worker, fire(trigger_of(worker(make(name="long-a", deferrable=True)))), name="long-a")
        assert isinstance(done.error, errors.TrainJobDeleted)

    @pytest.mark.parametrize(
        ("limits", "error"),
        [
            ({"timeout": 60}, "AirflowSensorTimeout"),
            ({"execution_timeout": timedelta(seconds=60)}, "AirflowTaskTimeout"),
        ],
    )
    def test_time_limits_count_from_the_start_of_the_try(
        self, limits: dict[str, Any], error: str, worker: Any, create: Create, virtual_clock: VirtualClock
    ) -> None:
        create("long-a")
        start = virtual_clock.now() - 40
        ran = worker(make(name="long-a", deferrable=True, **limits), start=start)
        assert ran.message.trigger_timeout == timedelta(seconds=20 + 60)
        event = fire(trigger_of(ran))
        assert event["status"] == "timeout"
        assert virtual_clock.now() == start + 60
        done = complete(worker, event, name="long-a", **limits)
        assert type(done.error).__name__ == error

    def test_a_time_out_with_soft_fail_skips(self, worker: Any, create: Create, virtual_clock: VirtualClock) -> None:
        ran = worker(make(name="x", deferrable=True, timeout=60, soft_fail=True), start=virtual_clock.now())
        assert complete(worker, fire(trigger_of(ran)), name="x", timeout=60, soft_fail=True).state == "skipped"

    def test_a_wait_that_broke_goes_back_a_few_times(self, worker: Any, create: Create, memory: MemoryBackend) -> None:
        create("good-a")
        ran = worker(make(name="good-a", deferrable=True))
        for redefers in (1, 2, 3):
            memory.faults.fail_next("observe", errors.Forbidden("token without rights"))
            event = fire(trigger_of(ran))
            assert (event["status"], "token without rights" in event["error"]) == ("error", True)
            ran = complete(worker, event, name="good-a")
            assert ran.state == "deferred"
            assert trigger_of(ran).redefers == redefers
        memory.faults.fail_next("observe", errors.Forbidden("token without rights"))
        done = complete(worker, fire(trigger_of(ran)), name="good-a")
        assert done.state == "failed"
        assert "token without rights" in str(done.error)

    def test_a_trigger_that_cannot_even_start_leaves_it_to_the_worker(
        self, worker: Any, create: Create, virtual_clock: VirtualClock
    ) -> None:
        create("good-a")
        virtual_clock.advance(50)
        details = {"error": "Trigger failure", "traceback": ["ModuleNotFoundError"]}
        assert worker(make(name="good-a", deferrable=True), resume=("__fail__", details)).state == "success"

    def test_many_share_one_target(self, worker: Any, create: Create, memory: MemoryBackend) -> None:
        from trainer_ops.airflow import leases

        for number in range(20):
            create(f"good-{number}")
        triggers = [trigger_of(worker(make(name=f"good-{i}", deferrable=True), run_id=f"r{i}")) for i in range(20)]

        async def all_of_them() -> tuple[list[Any], int]:
            waiting = asyncio.gather(*(anext(trigger.run()) for trigger in triggers))
            await asyncio.sleep(0.05)
            users = [lease.users for lease in leases._leases[asyncio.get_running_loop()].values()]
            events = await waiting
            assert not leases._leases[asyncio.get_running_loop()]
            return list(events), sum(users) * len(users)

        events, users = asyncio.run(all_of_them())
        assert {event.payload["status"] for event in events} == {"ended"}
        assert users <= 20


def complete(worker: Any, event: Mapping[str, Any], **kwargs: Any) -> Any:
    return worker(make(deferrable=True, **kwargs), resume=("execute_complete", {"event": event}))


def test_making_one_looks_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer_ops.airflow import TrainerHook

    monkeypatch.setattr(TrainerHook, "get_connection", lambda *_: pytest.fail("looked up"))
    make(name="{{ params.x }}", conn_id="nowhere", at_least="{{ params.y }}", metric="m")


def test_of_is_checked_at_once() -> None:
    with pytest.raises(ValueError, match="of: 'most' is neither all nor any"):
        make(name="x", of="most")


def test_the_dag_serializes() -> None:
    from airflow.sdk import DAG, Asset
    from airflow.serialization.serialized_objects import DagSerialization

    from trainer_ops.airflow import TrainJobSensor

    with DAG("waits", schedule=None) as dag:
        TrainJobSensor(task_id="a", asset=Asset("m", uri="s3://m"), labels={"a": "b"}, metric="x", at_least=0.5)
        TrainJobSensor(task_id="b", name="x", mode="reschedule", until="end", since="{{ ds }}")
    json.dumps(DagSerialization.to_dict(dag))
