"""TrainJobEventTrigger: each training that ends is told once, whatever stops in between."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest, Unreachable
from trainer_ops.testing import MemoryBackend, VirtualClock

pytest.importorskip("airflow.triggers.shared_stream")


@dataclass
class AssetStateStore:
    """What Airflow injects, over a dict that outlives the triggerer."""

    kept: dict[str, str]
    saves: int = 0

    async def aget(self, key: str, default: Any = None) -> Any:
        return json.loads(self.kept[key]) if key in self.kept else default

    async def aset(self, key: str, value: Any) -> None:
        self.saves += 1
        self.kept[key] = json.dumps(value)


@dataclass
class Triggerer:
    """Runs watchers as Airflow's triggerer does, with its own shared streams.

    Attributes:
        database: the events that are stored, by watcher.
        states: what the watchers' assets keep.
        at: when each was told last.
        stores: False: events get lost on the way to the database.
    """

    database: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    states: dict[str, dict[str, str]] = field(default_factory=dict)
    at: dict[str, float] = field(default_factory=dict)
    stores: bool = True

    def run(self, until: Callable[[], bool], clock: VirtualClock, **watchers: Any) -> None:
        """Run these watchers until that is so, then stop as a triggerer that is stopped."""
        asyncio.run(self._run(until, clock, watchers))

    async def _run(self, until: Callable[[], bool], clock: VirtualClock, watchers: dict[str, Any]) -> None:
        from airflow.triggers.shared_stream import SharedStreamManager

        manager = SharedStreamManager()
        tasks = []
        for number, (name, trigger) in enumerate(watchers.items()):
            # From its path and JSON, as from the database.
            from airflow.sdk.module_loading import import_string

            path, kwargs = trigger.serialize()
            again = import_string(path)(**json.loads(json.dumps(kwargs)))
            again.asset_state_store = AssetStateStore(self.states.setdefault(name, {}))
            tasks.append(asyncio.create_task(self._watch(manager, number, name, again, clock)))
        deadline = clock.now() + 10_000
        while not until():
            for task in tasks:
                if task.done():
                    task.result()
            assert clock.now() < deadline
            await clock.asleep(0.25)
        for _ in range(20):  # confirmations are on their way
            await clock.asleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await manager.stop_all()

    async def _watch(self, manager: Any, number: int, name: str, trigger: Any, clock: VirtualClock) -> None:
        key = trigger.shared_stream_key()
        stream = manager.subscribe(trigger_id=number, trigger=trigger, key=key)
        try:
            async for event in trigger.filter_shared_stream(stream):
                seq = manager.bind_pending_event(trigger_id=number, key=key)
                self.at[event.payload["name"]] = clock.now()
                if self.stores:
                    self.database.setdefault(name, []).append(json.loads(json.dumps(event.payload)))
                    manager.confirm_persisted([seq])
        finally:
            await manager.unsubscribe(number, key)

    def names(self, watcher: str = "all") -> list[str]:
        return [payload["name"] for payload in self.database.get(watcher, ())]


@pytest.fixture
def triggerer(memory: MemoryBackend) -> Triggerer:
    return Triggerer()


def watcher(**kwargs: Any) -> Any:
    from trainer_ops.airflow import TrainJobEventTrigger

    return TrainJobEventTrigger(**kwargs)


@pytest.fixture
def create(memory: MemoryBackend) -> Callable[..., str]:
    def one(name: str, seconds: float = 5, accuracy: float = 0.9, **labels: str) -> str:
        result = {"metrics": {"accuracy": accuracy}, "model_uri": f"s3://models/{name}"}
        end = (lambda t: t.fail(exit_code=3)) if name.startswith("bad") else (lambda t: t.complete(result))
        memory.script(name, [(0, lambda t: t.running()), (seconds, end)])
        spec = {"runtimeRef": {"name": "torch-distributed"}}
        made = memory.create({"metadata": {"name": name, "labels": labels}, "spec": spec})
        return str(made["metadata"]["uid"])

    return one


def test_each_end_is_told(triggerer: Triggerer, create: Any, virtual_clock: VirtualClock) -> None:
    uid = create("good")
    create("bad", seconds=10)
    create("long", seconds=10_000)
    triggerer.run(lambda: len(triggerer.names()) == 2, virtual_clock, all=watcher())
    good, bad = triggerer.database["all"]
    assert good == {
        "name": "good",
        "namespace": "default",
        "uid": uid,
        "target": "memory://memory",
        "phase": "succeeded",
        "model_uri": "s3://models/good",
        "metrics": {"accuracy": 0.9},
        "finished_at": good["finished_at"],
        "reason": "AllJobsCompleted",
        "message": "jobset completed successfully",
    }
    assert (bad["name"], bad["phase"], bad["model_uri"]) == ("bad", "failed", None)


def test_what_had_ended_before_the_first_start_is_not_told(
    triggerer: Triggerer, create: Any, virtual_clock: VirtualClock
) -> None:
    create("old")
    virtual_clock.advance(100)
    create("new")
    triggerer.run(lambda: bool(triggerer.names()), virtual_clock, all=watcher())
    assert triggerer.names() == ["new"]


def test_but_with_backlog_it_is(triggerer: Triggerer, create: Any, virtual_clock: VirtualClock) -> None:
    create("old")
    virtual_clock.advance(100)
    create("new")
    triggerer.run(lambda: len(triggerer.names()) == 2, virtual_clock, all=watcher(backlog=True))
    assert triggerer.names() == ["old", "new"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ["good-a", "good-b", "bad-a"]),
        ({"state": "success"}, ["good-a", "good-b"]),
        ({"state": "failed"}, ["bad-a"]),
        ({"labels": {"team": "b"}}, ["good-b"]),
        ({"metric": "accuracy", "at_least": 0.8}, ["good-a"]),
        ({"metric": "accuracy", "at_most": 0.8, "state": "success"}, ["good-b"]),
    ],
)
def test_which_are_told(
    given: dict[str, Any], told: list[str], triggerer: Triggerer, create: Any, virtual_clock: VirtualClock
) -> None:
    create("good-a", seconds=5, team="a")
    create("good-b", seconds=6, team="b", accuracy=0.5)
    create("bad-a", seconds=7, team="a")
    create("good-end", seconds=60, team="end")
    watchers = {"chosen": watcher(**given), "end": watcher(labels={"team": "end"})}
    triggerer.run(lambda: triggerer.names("end") == ["good-end"], virtual_clock, **watchers)
    assert [name for name in triggerer.names("chosen") if name != "good-end"] == told


def test_over_restarts_each_is_told_once(triggerer: Triggerer, create: Any, virtual_clock: VirtualClock) -> None:
    for number in range(120):
        create(f"good-{number:03}", seconds=5 + number)
    for told in (30, 60, 90):
        triggerer.run(lambda told=told: len(triggerer.names()) >= told, virtual_clock, all=watcher())  # type: ignore[misc]
        virtual_clock.advance(10)  # nobody looks meanwhile
    triggerer.run(lambda: len(triggerer.names()) >= 120, virtual_clock, all=watcher())
    assert sorted(triggerer.names()) == [f"good-{number:03}" for number in range(120)]


def test_many_at_once_are_told_in_turns(triggerer: Triggerer, create: Any, virtual_clock: VirtualClock) -> None:
    for number in range(180):
        create(f"good-{number:03}", seconds=5)
    triggerer.run(lambda: len(triggerer.names()) >= 180, virtual_clock, all=watcher())
    assert triggerer.at["good-179"] - triggerer.at["good-000"] < 10
    triggerer.run(lambda: True, virtual_clock, all=watcher())
    assert triggerer.names() == [f"good-{number:03}" for number in range(180)]


@pytest.mark.parametrize(
    ("ends", "pauses"),
    [
        pytest.param([5, 5, 5, 5], [0, 0, 5], id="several at once: the last waits for the run of the others"),
        pytest.param([5, 6], [5], id="soon after another"),
        pytest.param([5, 6, 7], [2, 5], id="soon after others: the last one waits, for those before it too"),
        pytest.param([5, 30], [25], id="long after another"),
        pytest.param([5, 5, -5], [5], id="what is not told is no last one"),
    ],
)
def test_the_last_one_is_told_when_a_run_can_be_made_for_it(
    ends: list[int], pauses: list[int], triggerer: Triggerer, create: Any, virtual_clock: VirtualClock
) -> None:
    for number, end in enumerate(ends):
        create(f"good-{number}", seconds=abs(end), accuracy=0.9 if end > 0 else 0.1)
    told = len(pauses) + 1
    chosen = watcher(metric="accuracy", at_least=0.5)
    triggerer.run(lambda: len(triggerer.names()) == told, virtual_clock, all=chosen)
    times = [triggerer.at[f"good-{number}"] for number in range(told)]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == pytest.approx(pauses, abs=1)


def test_what_was_not_stored_is_told_again(triggerer: Triggerer, create: Any, virtual_clock: VirtualClock) -> None:
    create("good")
    triggerer.stores = False
    end = virtual_clock.now() + 20
    triggerer.run(lambda: virtual_clock.now() > end, virtual_clock, all=watcher())
    triggerer.stores = True
    triggerer.run(lambda: bool(triggerer.names()), virtual_clock, all=watcher())
    assert triggerer.names() == ["good"]


def test_a_failed_one_that_runs_and_fails_again_is_told_once(
    triggerer: Triggerer, create: Any, memory: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    create("bad")
    virtual_clock.after(20, lambda: memory.change("bad", lambda t: t.forget_failure()))
    virtual_clock.after(40, lambda: memory.change("bad", lambda t: t.fail(exit_code=3)))
    virtual_clock.after(60, lambda: create("good"))
    triggerer.run(lambda: "good" in triggerer.names(), virtual_clock, all=watcher())
    assert triggerer.names() == ["bad", "good"]


def test_one_of_the_same_name_is_another(
    triggerer: Triggerer, create: Any, memory: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    first = create("good")
    virtual_clock.after(20, lambda: memory.replace("good"))
    triggerer.run(lambda: len(triggerer.names()) == 2, virtual_clock, all=watcher())
    uids = [payload["uid"] for payload in triggerer.database["all"]]
    assert uids[0] == first
    assert uids[1] != first


def test_a_target_that_is_away(
    triggerer: Triggerer, create: Any, memory: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    create("good")
    memory.faults.fail_next("overview", Unreachable("reset"), times=4)
    memory.faults.fail_next("observe", Unreachable("reset"), times=2)
    triggerer.run(lambda: bool(triggerer.names()), virtual_clock, all=watcher(backlog=True))
    assert triggerer.names() == ["good"]


def test_many_watchers_cost_one_look(
    triggerer: Triggerer, create: Any, memory: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    create("good")
    watchers = {f"w{number}": watcher(labels={"x": str(number)} if number else {}) for number in range(50)}
    triggerer.run(lambda: bool(triggerer.names("w0")), virtual_clock, **watchers)
    assert len([call for call in memory.calls if call[0] == "overview"]) < 10
    assert not memory._watches_of_all


class TestWithoutSharedStreams:
    """Airflow before 3.3: no confirmation, no store of assets."""

    def test_it_keeps_a_variable_and_tells_each_once(
        self, create: Any, memory: MemoryBackend, virtual_clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from airflow.sdk import Variable

        import trainer_ops.airflow.events as events

        kept: dict[str, str] = {}
        monkeypatch.setattr(Variable, "get", lambda key, default=None: kept.get(key, default))
        monkeypatch.setattr(Variable, "set", lambda key, value, description=None: kept.update({key: value}))
        monkeypatch.setattr(events, "_STORED_SECONDS", 0.0)

        async def tell(number: int) -> list[str]:
            told: list[str] = []

            async def listen() -> None:
                async for event in watcher(labels={"team": "a"}).run():
                    told.append(event.payload["name"])

            listening = asyncio.create_task(listen())
            while len(told) < number or not all(f'"{uid}"' in str(kept) for uid in uids[:number]):
                await virtual_clock.asleep(1)
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            return told

        uids = [create(f"good-{number}", seconds=1000 * (number + 1), team="a") for number in range(4)]
        assert asyncio.run(tell(2)) == ["good-0", "good-1"]
        assert [name for name in kept if name.startswith("trainer_ops_events_")] == list(kept)
        virtual_clock.advance(5000)
        uids = uids[2:]
        assert asyncio.run(tell(2)) == ["good-2", "good-3"]


def test_what_was_told_stays_small() -> None:
    from trainer_ops.lifecycle.endings import Told

    told = Told()
    limit = Told.LIMIT

    def ended(number: int, at: int) -> Any:
        from trainer_ops.testing.objects import condition

        raw = {
            "metadata": {"name": f"x-{number}", "uid": f"{number:036}", "namespace": "default"},
            "spec": {"runtimeRef": {"name": "t"}},
            "status": {"conditions": [condition("Complete", "", "", at)]},
        }
        from trainer_ops.lifecycle.endings import Ended

        found = Ended.of(raw)
        assert found is not None
        return found

    all_of_them = [ended(number, 1000 + number // 3) for number in range(2 * limit)]
    for one in all_of_them:
        told.add([one])
    again = Told.from_json(json.loads(json.dumps(told.to_json())))
    assert all(one in again for one in all_of_them)
    assert len(json.dumps(again.to_json())) < 64_000
    assert ended(9_999_999, 1000 + 2 * limit) not in again


@pytest.mark.parametrize(
    "given",
    [
        {"state": "running"},
        {"metric": "accuracy"},
        {"at_least": 1},
        {"metric": "a", "at_least": "b"},
        {"metric": "a", "at_least": 2, "at_most": 1},
        {"labels": {"a b": "c"}},
        {"labels": ["a"]},
        {"labels": "a"},
    ],
)
def test_what_makes_no_sense_is_an_error_of_the_dag(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        watcher(**given)


def test_in_a_dag_file() -> None:
    from airflow.sdk import DAG, Asset, AssetWatcher
    from airflow.serialization.serialized_objects import DagSerialization

    trigger = watcher(labels={"team": "a"}, state="success", metric="accuracy", at_least=0.9)
    asset = Asset("trained", watchers=[AssetWatcher(name="ends", trigger=trigger)])
    with DAG("after_training", schedule=[asset]) as dag:
        pass
    json.dumps(DagSerialization.to_dict(dag))
