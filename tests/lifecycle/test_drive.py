from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.errors import BackendError, Forbidden, Unreachable
from trainer_ops.lifecycle.cursor import LogCursor
from trainer_ops.lifecycle.drive import adrive, drive
from trainer_ops.lifecycle.submit import Submitted
from trainer_ops.model.identity import JobRef
from trainer_ops.model.outcome import Category, Ending, Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.status.wait import Wait
from trainer_ops.testing import MemoryBackend, Training, VirtualClock

Put = Callable[..., Submitted]
Begun = Callable[..., Wait]

_RUNNING = [(0.0, Training.pending), (1.0, Training.running)]


@pytest.fixture(params=["drive", "adrive"])
def go(request: pytest.FixtureRequest, memory: MemoryBackend, clock: VirtualClock) -> Callable[..., Outcome]:
    """Waits in one of the two colours: whatever holds for one holds for the other."""

    def run(wait: Wait, **more: Any) -> Outcome:
        if request.param == "drive":
            return drive(memory, wait, clock=clock, **more)
        return asyncio.run(adrive(memory, wait, clock=clock, **more))

    return run


Go = Callable[..., Outcome]


def category(outcome: Outcome) -> Category | None:
    return outcome.diagnosis.category if outcome.diagnosis else None


class TestEnds:
    def test_trained(self, put: Put, begun: Begun, go: Go, recorder: Any) -> None:
        made = put()
        outcome = go(begun(made), listener=recorder)
        assert outcome.succeeded
        assert (outcome.name, outcome.uid, outcome.target) == (made.ref.name, made.ref.uid, made.ref.target)
        assert outcome.metrics == {"accuracy": 0.95}
        assert outcome.model_uri == "memory:///model"
        assert outcome.started_at is not None
        assert outcome.finished_at is not None
        assert recorder.phases == ["pending", "running", "succeeded"]

    def test_wakes_at_every_change_and_does_not_sleep_it_away(
        self, clock: VirtualClock, put: Put, begun: Begun, go: Go
    ) -> None:
        go(begun(put()))
        assert clock.slept == [1, 5]

    def test_failed(self, memory: MemoryBackend, put: Put, begun: Begun, go: Go) -> None:
        memory.script(
            "*", [*_RUNNING, (2, lambda t: t.say("Traceback", "KeyError: 'x'", node=1)), (3, lambda t: t.fail(1, 3))]
        )
        outcome = go(begun(put(num_nodes=2)))
        assert (outcome.phase, outcome.ending, category(outcome)) == (Phase.FAILED, Ending.FAILED, Category.EXIT_CODE)
        assert outcome.diagnosis is not None
        assert "node-1" in outcome.diagnosis.summary
        assert any("KeyError: 'x'" in line for line in outcome.diagnosis.evidence)

    def test_failed_with_its_pods_deleted_is_explained_by_what_was_seen(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go
    ) -> None:
        steps = [*_RUNNING, (2, lambda t: t.say("KeyError: 'x'", node=0)), (3, lambda t: t.restart(0, 3))]
        memory.script("*", [*steps, (4, lambda t: t.fail(0, 3, keep_pods=False))])
        outcome = go(begun(put()))
        assert category(outcome) is Category.EXIT_CODE
        assert outcome.diagnosis is not None
        assert any("KeyError: 'x'" in line for line in outcome.diagnosis.evidence)

    def test_out_of_memory(self, memory: MemoryBackend, put: Put, begun: Begun, go: Go) -> None:
        memory.script("*", [*_RUNNING, (2, lambda t: t.out_of_memory())])
        assert category(go(begun(put()))) is Category.OUT_OF_MEMORY

    def test_deadline(self, memory: MemoryBackend, put: Put, begun: Begun, go: Go) -> None:
        memory.script("*", [*_RUNNING, (2, Training.deadline_exceeded)])
        assert category(go(begun(put()))) is Category.DEADLINE

    def test_a_failure_that_trainer_forgets_stays_one(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put, begun: Begun, go: Go
    ) -> None:
        memory.script("*", [*_RUNNING, (2, lambda t: t.fail(0, 3)), (2.5, Training.forget_failure)])
        wait = begun(put())
        assert go(wait).phase is Phase.FAILED
        assert clock.now() == wait.began_at + 2

    def test_deleted_by_somebody(self, memory: MemoryBackend, put: Put, begun: Begun, go: Go) -> None:
        memory.script("*", [*_RUNNING, (3, lambda t: memory.delete(t.name))])
        outcome = go(begun(put()))
        assert (outcome.phase, outcome.ending) == (Phase.DELETED, Ending.CANCELLED)
        assert category(outcome) is Category.DELETED

    def test_replaced_by_another_of_the_same_name(self, memory: MemoryBackend, put: Put, begun: Begun, go: Go) -> None:
        memory.script("*", [*_RUNNING, (3, lambda t: memory.replace(t.name))], times=1)
        outcome = go(begun(put()))
        assert (outcome.phase, outcome.ending) == (Phase.REPLACED, Ending.CANCELLED)

    def test_superseded_by_a_newer_generation(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put, begun: Begun, go: Go
    ) -> None:
        memory.script("*", _RUNNING)
        made = put(generation=0)
        newer: list[Submitted] = []
        clock.after(5, lambda: newer.append(put(generation=1)))
        outcome = go(begun(made))
        assert category(outcome) is Category.SUPERSEDED
        assert outcome.diagnosis is not None
        assert newer[0].ref.name in str(outcome.diagnosis)

    def test_one_that_has_ended_before(self, clock: VirtualClock, put: Put, begun: Begun, go: Go) -> None:
        made = put()
        clock.advance(1000)
        assert go(begun(made)).metrics == {"accuracy": 0.95}
        assert clock.slept == []


class TestLimits:
    @pytest.mark.parametrize(
        ("limit", "script", "expected"),
        [
            ("queue_timeout", [(0.0, Training.queued)], Category.QUEUED_TOO_LONG),
            ("startup_timeout", [(0.0, Training.unschedulable)], Category.UNSCHEDULABLE),
            ("startup_timeout", [(0.0, Training.image_pull_error)], Category.IMAGE),
            ("startup_timeout", [(0.0, lambda t: t.blocked("quota exceeded"))], None),
            ("wait_timeout", _RUNNING, Category.DEADLINE),
        ],
    )
    def test_gives_up_at_its_moment_and_leaves_the_training(
        self,
        memory: MemoryBackend,
        clock: VirtualClock,
        put: Put,
        begun: Begun,
        go: Go,
        limit: str,
        script: Any,
        expected: Category | None,
    ) -> None:
        memory.script("*", script)
        made = put()
        wait = begun(made, **{limit: 95.0})
        outcome = go(wait)
        assert clock.now() == wait.began_at + 95
        assert outcome.ending is Ending.GAVE_UP
        assert expected is None or category(outcome) is expected
        assert memory.get(made.ref.name) is not None

    def test_restarts(self, memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any) -> None:
        restarts = [(10.0 * n, lambda t, n=n: (t.say(f"run {n}"), t.restart(0, 3))) for n in range(1, 9)]
        memory.script("*", [*_RUNNING, *restarts])
        made = put()
        outcome = go(begun(made, max_restarts=2), listener=recorder)
        assert category(outcome) is Category.RESTARTS_EXHAUSTED
        assert outcome.phase is Phase.FAILED
        assert memory.get(made.ref.name) is None
        assert ("delete", made.ref.name) in memory.calls
        assert "node-0 restarted (1): exit code 3" in recorder.notes

    def test_restarts_of_one_that_was_replaced_delete_nothing(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go
    ) -> None:
        memory.script("*", [*_RUNNING, (5, lambda t: t.restart(0, 3))], times=1)
        made = put()
        delete = memory.delete

        def replaced_first(name: str, *, uid: str | None = None) -> bool:
            memory.delete = delete  # type: ignore[method-assign]
            memory.replace(name)
            return delete(name, uid=uid)

        memory.delete = replaced_first  # type: ignore[method-assign]
        assert go(begun(made, max_restarts=0)).phase is Phase.FAILED
        assert memory.get(made.ref.name) is not None

    def test_restarts_are_ended_also_when_the_target_is_away_just_then(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go
    ) -> None:
        memory.script("*", [*_RUNNING, (5, lambda t: t.restart(0, 3))])
        made = put()
        memory.faults.fail_next("delete", Unreachable("reset"), times=3)
        go(begun(made, max_restarts=0))
        assert memory.get(made.ref.name) is None

    def test_restarts_that_may_not_be_ended_are_told(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any
    ) -> None:
        memory.script("*", [*_RUNNING, (5, lambda t: t.restart(0, 3))])
        made = put()
        memory.faults.fail("delete", Forbidden("deleting trainjobs"))
        outcome = go(begun(made, max_restarts=0), listener=recorder)
        assert outcome.phase is Phase.FAILED
        assert any("could not be deleted" in note for note in recorder.notes)
        assert outcome.diagnosis is not None
        assert "could not be cancelled and may go on (deleting trainjobs)" in outcome.diagnosis.summary


class TestUnreachable:
    def test_for_a_while_is_only_told(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any
    ) -> None:
        made = put()
        memory.faults.fail_next("observe", Unreachable("connection reset"), times=5)
        assert go(begun(made), listener=recorder).succeeded
        assert recorder.notes == [
            "no answer from memory://memory: connection reset; trying again",
            "memory://memory answers again",
        ]
        assert recorder.unanswered == 5

    def test_for_too_long_leaves_the_training(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put, begun: Begun, go: Go
    ) -> None:
        memory.script("*", _RUNNING)
        made = put()
        memory.faults.fail("observe", Unreachable("connection refused"))
        wait = begun(made, unreachable_timeout=600.0)
        outcome = go(wait)
        assert (outcome.ending, category(outcome)) == (Ending.UNREACHABLE, Category.UNREACHABLE)
        assert clock.now() == wait.began_at + 600
        assert "connection refused" in str(outcome.diagnosis)
        assert memory.get(made.ref.name) is not None

    @pytest.mark.parametrize("error", [Forbidden("token expired"), BackendError("odd", status=418)])
    def test_a_refusal_after_the_first_answer_counts_as_none(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put, begun: Begun, go: Go, error: BackendError
    ) -> None:
        made = put()
        clock.after(2, lambda: memory.faults.fail_next("observe", error, times=4))
        assert go(begun(made)).succeeded

    def test_a_refusal_of_the_first_look_is_raised(self, memory: MemoryBackend, put: Put, begun: Begun, go: Go) -> None:
        made = put()
        memory.faults.fail("observe", Forbidden("reading trainjobs in namespace default"))
        with pytest.raises(Forbidden):
            go(begun(made))
        assert memory.get(made.ref.name) is not None


class TestManyAtOnce:
    def test_a_thousand_waiters_on_one_loop(self, memory: MemoryBackend, clock: VirtualClock, begun: Begun) -> None:
        def made(number: int) -> JobRef:
            manifest = {"metadata": {"name": f"t{number}"}, "spec": {"runtimeRef": {"name": "torch-distributed"}}}
            return JobRef(memory.target, "default", f"t{number}", memory.create(manifest)["metadata"]["uid"])

        waits = [begun(made(number)) for number in range(1000)]

        async def main() -> list[Outcome]:
            return await asyncio.gather(*(adrive(memory, wait, clock=clock) for wait in waits))

        outcomes = asyncio.run(main())
        assert {outcome.phase for outcome in outcomes} == {Phase.SUCCEEDED}
        assert [outcome.uid for outcome in outcomes] == [wait.ref.uid for wait in waits]
        assert clock.now() == waits[0].began_at + 6

    def test_cancelling_one_leaves_its_training_and_the_others(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put, begun: Begun
    ) -> None:
        first, second = put("r1"), put("r2")

        async def main() -> Outcome:
            one = asyncio.create_task(adrive(memory, begun(first), clock=clock))
            two = asyncio.create_task(adrive(memory, begun(second), clock=clock))
            await clock.asleep(2)
            one.cancel()
            with pytest.raises(asyncio.CancelledError):
                await one
            return await two

        assert asyncio.run(main()).succeeded
        assert memory.get(first.ref.name) is not None
        assert not memory._watches[first.ref.name]


def test_an_interrupt_leaves_the_training(memory: MemoryBackend, clock: VirtualClock, put: Put, begun: Begun) -> None:
    made = put()

    def interrupt() -> None:
        raise KeyboardInterrupt

    clock.after(2, interrupt)
    with pytest.raises(KeyboardInterrupt):
        drive(memory, begun(made), clock=clock)
    assert memory.get(made.ref.name) is not None
    assert not memory._watches[made.ref.name]


def test_a_wait_goes_on_in_another_process(
    memory: MemoryBackend, clock: VirtualClock, put: Put, begun: Begun, recorder: Any
) -> None:
    import json

    memory.script("*", [*_RUNNING, (2, lambda t: t.say("one")), (20, lambda t: t.say("two")), (30, Training.complete)])
    wait, cursor = begun(put(), wait_timeout=25.0), LogCursor()
    drive(memory, wait, clock=clock, cursor=cursor, listener=recorder)
    carried = json.loads(json.dumps(begun(wait.ref).to_json())), json.loads(json.dumps(cursor.to_json()))
    again = drive(
        memory, Wait.from_json(carried[0]), clock=clock, cursor=LogCursor.from_json(carried[1]), listener=recorder
    )
    assert again.succeeded
    assert recorder.lines == ["[node-0] one", "[node-0] two"]
