from __future__ import annotations

from collections.abc import Callable

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.find import begin, find
from trainer_ops.lifecycle.submit import Submitted
from trainer_ops.model import keys
from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.testing import MemoryBackend, Training, VirtualClock

Put = Callable[..., Submitted]


@pytest.fixture
def attempts(memory: MemoryBackend, clock: VirtualClock, put: Put) -> list[Submitted]:
    """Eleven attempts of one run, the last of which runs."""
    memory.script("*", [(0, Training.running)])
    memory.script("*", [(1, lambda t: t.fail())], times=10)
    made = []
    for _ in range(11):
        made.append(put())
        clock.advance(2)
    return made


def test_any_attempt_leads_to_the_newest(memory: MemoryBackend, attempts: list[Submitted]) -> None:
    for attempt in (attempts[0], attempts[8], attempts[10]):
        assert find(memory, attempt.ref.name) == attempts[10].ref


def test_also_from_one_that_was_deleted(memory: MemoryBackend, attempts: list[Submitted]) -> None:
    memory.delete(attempts[0].ref.name)
    assert find(memory, attempts[0].ref.name) == attempts[10].ref


def test_another_run_is_not_mixed_in(memory: MemoryBackend, attempts: list[Submitted], put: Put) -> None:
    other = put("r2")
    assert find(memory, other.ref.name) == other.ref


def test_one_that_is_not_ours(memory: MemoryBackend) -> None:
    raw = memory.create({"metadata": {"name": "theirs"}, "spec": {"runtimeRef": {"name": "torch-distributed"}}})
    assert find(memory, "theirs") == JobRef(memory.target, "default", "theirs", raw["metadata"]["uid"])


def test_none_of_that_name_lists_close_ones(memory: MemoryBackend, put: Put) -> None:
    name = put().ref.name
    with pytest.raises(InvalidRequest, match=f"Did you mean {name}") as caught:
        find(memory, name[:-1])
    assert caught.value.field == "name"
    with pytest.raises(InvalidRequest, match=f"Did you mean {name}"):
        find(memory, "digits")
    with pytest.raises(InvalidRequest, match="trainer-ops status"):
        find(memory, "zzz")


class TestBeginning:
    def test_with_the_limits_it_was_submitted_with(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put, attempts: list[Submitted]
    ) -> None:
        made = put("r2", queue_timeout=60, max_restarts=2)
        wait = begin(memory, made.ref, now=clock.now())
        assert wait.limits == Limits(queue_timeout=60, max_restarts=2)
        assert (wait.ref, wait.attempt, wait.began_at) == (made.ref, 1, clock.now())
        assert begin(memory, attempts[10].ref, now=1.0).attempt == 11

    def test_or_others(self, memory: MemoryBackend, put: Put) -> None:
        made = put(queue_timeout=60)
        assert begin(memory, made.ref, now=1.0, limits=Limits(wait_timeout=5)).limits == Limits(wait_timeout=5)

    def test_of_one_that_is_gone_or_another(self, memory: MemoryBackend, put: Put) -> None:
        made = put(queue_timeout=60)
        memory.replace(made.ref.name)
        assert begin(memory, made.ref, now=1.0).limits == Limits()

    @pytest.mark.parametrize("text", [None, "", "{", "7", "null"])
    def test_with_an_annotation_that_is_not_ours(self, memory: MemoryBackend, put: Put, text: str | None) -> None:
        made = put(queue_timeout=60)

        def edit(training: Training) -> None:
            notes = training.job["metadata"]["annotations"]
            notes.pop(keys.ANNOTATION_LIMITS)
            if text is not None:
                notes[keys.ANNOTATION_LIMITS] = text

        memory.change(made.ref.name, edit)
        assert begin(memory, made.ref, now=1.0).limits == Limits()
