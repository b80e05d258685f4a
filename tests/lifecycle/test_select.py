"""Waiting for trainings of others, in a thread and in an event loop alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.errors import (
    ConditionNotMet,
    Forbidden,
    InvalidRequest,
    TrainJobDeleted,
    TrainJobFailed,
    Unreachable,
)
from trainer_ops.lifecycle.select import Rule, Verdict, await_for, wait_for
from trainer_ops.lifecycle.selection import Selection, wanted_labels
from trainer_ops.model import keys
from trainer_ops.status.until import Until
from trainer_ops.testing import MemoryBackend, VirtualClock
from trainer_ops.testing.memory import Script

Wait = Callable[..., Verdict]


@pytest.fixture(params=["thread", "event loop"])
def wait(request: pytest.FixtureRequest, memory: MemoryBackend, clock: VirtualClock) -> Wait:
    """Waits; keywords are those of the selection, of what is waited for (``until``) and of the rule."""

    def waiting(until: Until | None = None, listener_for: Any = None, **given: Any) -> Verdict:
        of_rule = {name: given.pop(name) for name in ("of", "fail_fast", "nothing", "deadline") if name in given}
        rule = Rule(until or Until(), **of_rule)
        selection = Selection.of(**given)
        if request.param == "thread":
            return wait_for(memory, selection, rule, clock=clock, listener_for=listener_for)
        return asyncio.run(await_for(memory, selection, rule, clock=clock, listener_for=listener_for))

    return waiting


def trains(seconds: float, accuracy: float = 0.9, uri: str | None = None) -> Script:
    result = {"metrics": {"accuracy": accuracy}, "model_uri": uri}
    return [(0, lambda t: t.pending()), (1, lambda t: t.running()), (seconds, lambda t: t.complete(result))]


def fails(seconds: float) -> Script:
    crash = (seconds / 2, lambda t: t.crash(exit_code=3))
    return [(0, lambda t: t.running()), crash, (seconds, lambda t: t.fail(exit_code=3, keep_pods=False))]


@pytest.fixture
def create(memory: MemoryBackend) -> Callable[..., str]:
    """Creates a TrainJob of others; returns its uid."""

    def make(name: str, script: Script | None = None, **labels: str) -> str:
        if script is not None:
            memory.script(name, script)
        spec = {"runtimeRef": {"name": "torch-distributed"}}
        made = memory.create({"metadata": {"name": name, "labels": labels}, "spec": spec})
        return str(made["metadata"]["uid"])

    return make


def names(verdict: Verdict) -> list[str]:
    return [waited.ref.name for waited in verdict.trainings]


class TestOne:
    def test_that_trains(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        create("x", trains(5))
        begun = clock.now()
        verdict = wait(name="x")
        assert verdict.met
        assert verdict.error is None
        assert clock.now() == begun + 5
        (waited,) = verdict.trainings
        assert waited.outcome.metrics == {"accuracy": 0.9}

    def test_that_comes_later(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        begun = clock.now()
        clock.after(100, lambda: create("x", trains(5)))
        assert wait(name="x").met
        assert clock.now() < begun + 107

    def test_that_fails_is_diagnosed_from_what_was_seen(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        create("x", fails(5))
        verdict = wait(name="x")
        assert not verdict.met
        assert isinstance(verdict.error, TrainJobFailed)
        assert "exit code 3" in str(verdict.error)  # though its pods are gone

    def test_that_somebody_deletes(self, wait: Wait, create: Any, memory: MemoryBackend, clock: VirtualClock) -> None:
        create("x", trains(50))
        clock.after(5, lambda: memory.delete("x"))
        verdict = wait(name="x")
        assert isinstance(verdict.error, TrainJobDeleted)
        assert verdict.trainings[0].outcome.phase.value == "deleted"

    def test_any_end(self, wait: Wait, create: Any) -> None:
        create("x", fails(5))
        verdict = wait(Until.of("end"), name="x")
        assert (verdict.met, verdict.error) == (True, None)

    def test_a_phase_on_the_way(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        create("x", trains(50))
        begun = clock.now()
        verdict = wait(Until.of("running"), name="x")
        assert verdict.met
        assert clock.now() <= begun + 2
        assert verdict.trainings[0].outcome.phase.value == "running"

    def test_a_metric_on_the_way(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        steps = [(i, lambda t, i=i: t.progress(i, metrics={"accuracy": i / 10})) for i in range(2, 10)]
        create("x", [(0, lambda t: t.running()), *steps])
        begun = clock.now()
        verdict = wait(Until.of("running", metric="accuracy", at_least=0.5), name="x")
        assert verdict.met
        assert clock.now() == begun + 5
        assert verdict.trainings[0].outcome.metrics == {"accuracy": 0.5}

    def test_a_metric_that_is_missed(self, wait: Wait, create: Any) -> None:
        create("x", trains(5, accuracy=0.5))
        verdict = wait(Until.of(metric="accuracy", at_least=0.9), name="x")
        assert not verdict.met
        assert isinstance(verdict.error, ConditionNotMet)

    def test_a_later_attempt_of_the_same_run_is_meant(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        create("x", fails(1), **{keys.LABEL_RUN_KEY: "r", keys.LABEL_ATTEMPT: "1"})
        clock.advance(5)
        create("x-2", trains(5), **{keys.LABEL_RUN_KEY: "r", keys.LABEL_ATTEMPT: "2"})
        verdict = wait(name="x")
        assert verdict.met
        assert names(verdict) == ["x-2"]

    def test_the_deadline(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        create("x", trains(500))
        begun = clock.now()
        verdict = wait(name="x", deadline=begun + 60)
        assert (verdict.met, verdict.timed_out, verdict.error) == (False, True, None)
        assert clock.now() == begun + 60

    def test_nothing_until_the_deadline(self, wait: Wait, clock: VirtualClock) -> None:
        verdict = wait(name="x", deadline=clock.now() + 60)
        assert (verdict.timed_out, verdict.trainings) == (True, ())

    def test_never_touches_it(self, wait: Wait, create: Any, memory: MemoryBackend, clock: VirtualClock) -> None:
        crashes = [(i, lambda t: t.restart(exit_code=1)) for i in range(2, 20)]
        create("x", [(0, lambda t: t.running()), *crashes, (30, lambda t: t.complete())])
        assert wait(name="x").met
        assert not [call for call in memory.calls if call[0] in ("delete", "set_suspended", "create")][1:]


class TestMany:
    def test_all(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        begun = clock.now()
        for number in range(5):
            create(f"x-{number}", trains(number + 3), team="a")
        create("other", trains(100))
        verdict = wait(labels={"team": "a"})
        assert verdict.met
        assert names(verdict) == [f"x-{number}" for number in range(5)]
        assert clock.now() < begun + 8

    def test_one_that_joins_is_waited_for(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        create("x", trains(50), team="a")
        clock.after(10, lambda: create("y", trains(100), team="a"))
        begun = clock.now()
        assert names(wait(labels="team=a")) == ["x", "y"]
        assert clock.now() >= begun + 110

    def test_the_first_failure_ends_it(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        create("x", trains(500), team="a")
        create("y", fails(5), team="a")
        begun = clock.now()
        verdict = wait(labels="team=a")
        assert isinstance(verdict.error, TrainJobFailed)
        assert clock.now() < begun + 10

    def test_or_does_not(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        create("x", trains(50), team="a")
        create("y", fails(5), team="a")
        begun = clock.now()
        verdict = wait(labels="team=a", fail_fast=False)
        assert [waited.answer.value for waited in verdict.trainings] == ["met", "never"]
        assert clock.now() >= begun + 50

    def test_any(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        create("x", trains(500), team="a")
        create("y", fails(5), team="a")
        create("z", trains(20), team="a")
        begun = clock.now()
        verdict = wait(labels="team=a", of="any")
        assert (verdict.met, verdict.error) == (True, None)
        assert clock.now() < begun + 25

    def test_any_of_none_that_trains(self, wait: Wait, create: Any) -> None:
        create("y", fails(5), team="a")
        create("z", fails(20), team="a")
        verdict = wait(labels="team=a", of="any")
        assert not verdict.met
        assert isinstance(verdict.error, TrainJobFailed)

    def test_a_newer_attempt_takes_the_place_of_the_failed_one(
        self, wait: Wait, create: Any, clock: VirtualClock
    ) -> None:
        create("x", fails(5), team="a", **{keys.LABEL_RUN_KEY: "r", keys.LABEL_ATTEMPT: "1"})
        create("y", trains(100), team="a")
        attempt = {keys.LABEL_RUN_KEY: "r", keys.LABEL_ATTEMPT: "2"}
        clock.after(20, lambda: create("x-2", trains(5), team="a", **attempt))
        verdict = wait(labels="team=a", fail_fast=False)
        assert verdict.met
        assert sorted(names(verdict)) == ["x-2", "y"]

    def test_nothing_there_may_be_refused(self, wait: Wait) -> None:
        with pytest.raises(InvalidRequest, match='no TrainJob is meant by "team=a"'):
            wait(labels="team=a", nothing="refuse")

    def test_many(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        for number in range(60):
            create(f"x-{number}", trains(2 + number % 7), team="a")
        verdict = wait(labels="team=a")
        assert verdict.met
        assert len(verdict.trainings) == 60

    def test_each_is_heard_of(self, wait: Wait, create: Any, recorder: Any) -> None:
        create("x", trains(5), team="a")
        heard: list[str] = []

        def listener_for(ref: Any) -> Any:
            heard.append(ref.name)
            return recorder

        wait(labels="team=a", listener_for=listener_for)
        assert heard == ["x"]
        assert recorder.phases == ["pending", "running", "succeeded"]


class TestByModel:
    @pytest.mark.parametrize("uri", ["s3://models/digits", "s3://models/digits/", "s3://models"])
    def test_the_one_that_reports_it(self, uri: str, wait: Wait, create: Any) -> None:
        create("other", trains(2, uri="s3://models-of-others/digits"))
        create("fails", fails(3))
        create("x", trains(5, uri="s3://models/digits/1/model.json"))
        verdict = wait(model_uri=uri)
        assert verdict.met
        assert names(verdict) == ["x"]
        assert verdict.trainings[0].outcome.model_uri == "s3://models/digits/1/model.json"

    def test_one_that_is_not_good_enough_is_not_the_last_word(
        self, wait: Wait, create: Any, clock: VirtualClock
    ) -> None:
        create("x", trains(5, accuracy=0.5, uri="s3://m"))
        clock.after(50, lambda: create("y", trains(5, accuracy=0.95, uri="s3://m")))
        verdict = wait(Until.of(metric="accuracy", at_least=0.9), model_uri="s3://m")
        assert verdict.met
        assert names(verdict) == ["x", "y"]

    def test_since(self, wait: Wait, create: Any, clock: VirtualClock) -> None:
        create("old", trains(5, uri="s3://m"))
        clock.advance(100)
        create("new", trains(5, uri="s3://m"))
        assert names(wait(model_uri="s3://m", since=clock.now())) == ["new"]


class TestTrouble:
    @pytest.mark.parametrize("given", [{"name": "x"}, {"labels": "team=a"}])
    def test_a_target_that_is_away_for_a_while(
        self, given: dict[str, str], wait: Wait, create: Any, memory: MemoryBackend, clock: VirtualClock
    ) -> None:
        clock.after(1, lambda: create("x", trains(400), team="a"))
        for call in ("observe", "overview"):
            memory.faults.fail_next(call, Unreachable("reset"), times=5)
        assert wait(**given).met

    def test_a_target_that_stays_away(self, wait: Wait, memory: MemoryBackend, clock: VirtualClock) -> None:
        memory.faults.fail_next("overview", Unreachable("reset"), times=1000)
        with pytest.raises(Unreachable):
            wait(labels="team=a")

    def test_a_first_look_that_is_refused(self, wait: Wait, memory: MemoryBackend) -> None:
        memory.faults.fail_next("overview", Forbidden("no"))
        with pytest.raises(Forbidden):
            wait(labels="team=a")

    def test_no_watch_is_left(self, wait: Wait, create: Any, memory: MemoryBackend, clock: VirtualClock) -> None:
        create("x", trains(500), team="a")
        wait(labels="team=a", deadline=clock.now() + 5)
        assert not any(memory._watches.values())
        assert not memory._watches_of_all


def test_one_look(memory: MemoryBackend, clock: VirtualClock, create: Any) -> None:
    create("x", trains(5), team="a")
    rule = Rule(deadline=clock.now())
    begun = clock.now()
    assert wait_for(memory, Selection.of(labels="team=a"), rule, clock=clock).timed_out
    assert clock.now() == begun
    clock.advance(5)
    assert wait_for(memory, Selection.of(labels="team=a"), rule, clock=clock).met


@pytest.mark.parametrize(
    ("text", "labels"),
    [("a=b", {"a": "b"}), (" a = b , c=", {"a": "b", "c": ""}), ("x.io/a=b,c==d", {"x.io/a": "b", "c": "d"})],
)
def test_labels(text: str, labels: dict[str, str]) -> None:
    assert wanted_labels(text) == labels


@pytest.mark.parametrize("text", ["a", "a=b,", "=b", "a!=b", "a=b,a=c", "a in (b)", "a b=c", "a=b c", ","])
def test_labels_that_are_none(text: str) -> None:
    with pytest.raises(InvalidRequest):
        wanted_labels(text)


# What would be waited for for ever, or be matched by nothing: told at once.
VAIN: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "name: neither a name nor labels nor a model are given"),
    "a name and labels": ({"name": "x", "labels": "a=b"}, "exclude each other"),
    "a name and a model": ({"name": "x", "model_uri": "s3://m"}, "exclude each other"),
    "no name": ({"name": "No There!"}, 'name: "No There!" is no name of a TrainJob'),
    "an XCom that was empty": ({"name": "None"}, 'name: "None" is no name of a TrainJob'),
    "a key with a blank": ({"labels": {"a b": "c"}}, 'labels: "a b" is no label key'),
    "a value with a slash": ({"labels": {"a": "b/c"}}, 'labels: "b/c" is no label value'),
    "no value": ({"labels": {"a": None}}, "labels: a has no value"),
    "a list": ({"labels": ["a"]}, "labels: ['a'] is no mapping"),
}


@pytest.mark.parametrize("case", VAIN)
def test_selections_that_are_none(case: str) -> None:
    given, says = VAIN[case]
    with pytest.raises(InvalidRequest) as raised:
        Selection.of(**given)
    assert says in str(raised.value)


def test_numbers_are_labels() -> None:
    assert wanted_labels({"sweep": 42}) == {"sweep": "42"}


def test_a_selection_crosses_a_process() -> None:
    selection = Selection.of(labels="b=2,a=1", model_uri="s3://m", since=3.0)
    assert Selection.from_json(selection.to_json()) == selection
    assert str(selection) == "a=1,b=2 with the model s3://m"
    assert str(Selection.of(model_uri="s3://m")) == "with the model s3://m"
