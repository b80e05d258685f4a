from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.errors import Forbidden, Unreachable
from trainer_ops.lifecycle.cancel import Cancelled, cancel
from trainer_ops.lifecycle.submit import Submitted
from trainer_ops.model.identity import JobRef
from trainer_ops.testing import MemoryBackend, Training, VirtualClock

Put = Callable[..., Submitted]
Stop = Callable[..., Cancelled]


@pytest.fixture
def ref(memory: MemoryBackend, clock: VirtualClock, put: Put) -> JobRef:
    """A training that runs, with two seconds of grace."""
    memory.script("*", [(0, Training.pending), (1, Training.running)])
    made = put(num_nodes=2)
    clock.advance(5)
    return made.ref


@pytest.fixture
def stop(memory: MemoryBackend, clock: VirtualClock) -> Stop:
    return lambda ref, **more: cancel(memory, ref, clock=clock, **more)


def test_deleted_is_not_stopped(memory: MemoryBackend, ref: JobRef, stop: Stop) -> None:
    assert stop(ref) == Cancelled("deleted", ended=False)
    assert memory.get(ref.name) is None
    assert len(memory.pods(ref.name, uid=ref.uid)) == 2


def test_waits_until_its_processes_have_ended(clock: VirtualClock, ref: JobRef, stop: Stop) -> None:
    start = clock.now()
    assert stop(ref, wait=30) == Cancelled("deleted", ended=True)
    assert clock.now() - start == 2


def test_waits_no_longer_than_asked(clock: VirtualClock, ref: JobRef, stop: Stop) -> None:
    start = clock.now()
    assert stop(ref, wait=1.2) == Cancelled("deleted", ended=False)
    assert clock.now() - start == pytest.approx(1.2)


def test_again_it_is_gone_and_is_waited_for_all_the_same(ref: JobRef, stop: Stop) -> None:
    stop(ref)
    assert stop(ref) == Cancelled("gone", ended=False)
    assert stop(ref, wait=30) == Cancelled("gone", ended=True)


def test_suspended_keeps_the_record(memory: MemoryBackend, ref: JobRef, stop: Stop) -> None:
    assert stop(ref, policy="suspend", wait=30) == Cancelled("suspended", ended=True)
    job = memory.get(ref.name)
    assert job is not None
    assert job["spec"]["suspend"] is True


def test_kept_goes_on(memory: MemoryBackend, clock: VirtualClock, ref: JobRef, stop: Stop) -> None:
    assert stop(ref, policy="keep", wait=30) == Cancelled("kept", ended=False)
    assert clock.slept == []
    assert memory.pods(ref.name, uid=ref.uid)


@pytest.mark.parametrize("policy", ["delete", "suspend", "keep"])
def test_what_has_ended_is_left_as_it_is(memory: MemoryBackend, ref: JobRef, stop: Stop, policy: str) -> None:
    memory.change(ref.name, lambda t: t.complete())
    before = memory.get(ref.name)
    assert stop(ref, policy=policy) == Cancelled("already_finished", ended=True)
    assert memory.get(ref.name) == before


@pytest.mark.parametrize("policy", ["delete", "suspend", "keep"])
def test_another_of_the_same_name_is_never_touched(memory: MemoryBackend, ref: JobRef, stop: Stop, policy: str) -> None:
    memory.replace(ref.name)
    before = memory.get(ref.name)
    assert stop(ref, policy=policy).how == "gone"
    assert memory.get(ref.name) == before


def test_also_when_it_is_replaced_between_look_and_delete(memory: MemoryBackend, ref: JobRef, stop: Stop) -> None:
    get = memory.get

    def then_replace(name: str) -> Any:
        memory.get = get  # type: ignore[method-assign]
        found = get(name)
        memory.replace(name)
        return found

    memory.get = then_replace  # type: ignore[method-assign]
    assert stop(ref).how == "gone"
    assert memory.get(ref.name) is not None


@pytest.mark.parametrize("method", ["get", "delete", "pods"])
def test_a_lost_answer_is_asked_for_again(memory: MemoryBackend, ref: JobRef, stop: Stop, method: str) -> None:
    memory.faults.fail_next(method, Unreachable("reset"), times=2)
    assert stop(ref, wait=30) == Cancelled("deleted", ended=True)


def test_a_lost_reply_of_the_delete(memory: MemoryBackend, ref: JobRef, stop: Stop) -> None:
    memory.faults.lose_reply("delete")
    # Whose delete it was cannot be told any more; that it is gone can.
    assert stop(ref, wait=30) == Cancelled("gone", ended=True)


def test_patience_ends(memory: MemoryBackend, clock: VirtualClock, ref: JobRef, stop: Stop) -> None:
    memory.faults.fail("*", Unreachable("reset"))
    with pytest.raises(Unreachable):
        stop(ref, patience=7)
    assert sum(clock.slept) == 7


def test_forbidden(memory: MemoryBackend, ref: JobRef, stop: Stop) -> None:
    memory.faults.fail("delete", Forbidden("deleting trainjobs"))
    with pytest.raises(Forbidden):
        stop(ref)


def test_pods_that_may_not_be_read(memory: MemoryBackend, ref: JobRef, stop: Stop) -> None:
    memory.faults.fail("pods", Forbidden("listing pods"))
    assert stop(ref, wait=30) == Cancelled("deleted", ended=False)
