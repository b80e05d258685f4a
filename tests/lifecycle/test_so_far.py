"""Looking at a training once: the same Outcome as a wait's, without a wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.errors import BackendError, Forbidden, Unreachable
from trainer_ops.lifecycle.so_far import so_far
from trainer_ops.model.identity import JobRef
from trainer_ops.model.outcome import Category
from trainer_ops.model.phase import Phase
from trainer_ops.testing import MemoryBackend, Training, VirtualClock


@pytest.fixture
def look(clock: VirtualClock, memory: MemoryBackend) -> Callable[..., Any]:
    """Submit what a script moves, let time pass, look once."""

    def look(script: Any, after: float, **request: Any) -> Any:
        import trainer_ops

        memory.script("*", script)
        made = trainer_ops.submit(
            runtime="torch-distributed", num_nodes=2, target=memory.target, clock=clock, **request
        )
        clock.advance(after)
        return so_far(memory, made.ref, now=clock.now())

    return look


RUNS = [(0, Training.pending), (5, Training.running), (6, lambda t: t.say("epoch 1", "epoch 2", node=1))]


def test_one_that_goes_on(look: Callable[..., Any]) -> None:
    outcome = look(RUNS, 60)
    assert (outcome.phase, outcome.diagnosis, outcome.finished_at) == (Phase.RUNNING, None, None)
    assert [change["phase"] for change in outcome.phases] == ["submitted", "pending", "running"]
    assert [row["last_line"] for row in outcome.nodes] == ["", "epoch 2"]
    assert outcome.num_nodes == 2


def test_one_that_waits_is_given_no_diagnosis_whatever_limits_it_was_submitted_with(look: Callable[..., Any]) -> None:
    outcome = look([(0, Training.queued)], 999, queue_timeout=10, wait_timeout=20)
    assert (outcome.phase, outcome.diagnosis) == (Phase.QUEUED, None)


def test_one_that_restarts_too_often_is_not_ended_by_being_looked_at(
    look: Callable[..., Any], memory: MemoryBackend
) -> None:
    script = [(0, Training.running), (5, lambda t: t.restart(0, 3)), (9, lambda t: t.restart(0, 3))]
    outcome = look(script, 20, max_restarts=1)
    assert (outcome.phase, outcome.diagnosis) == (Phase.RUNNING, None)
    assert outcome.nodes[0]["restarts"] == 2
    assert memory.get(outcome.name) is not None


def test_one_that_failed_says_why_with_its_last_lines(look: Callable[..., Any]) -> None:
    script = [(0, Training.running), (5, lambda t: t.say("ValueError: x", node=1)), (9, lambda t: t.fail(1, 3))]
    outcome = look(script, 60)
    assert outcome.phase is Phase.FAILED
    assert outcome.diagnosis.category is Category.EXIT_CODE
    assert "ValueError: x" in outcome.diagnosis.evidence


def test_one_that_trained(look: Callable[..., Any]) -> None:
    outcome = look([(0, Training.running), (9, lambda t: t.complete({"metrics": {"accuracy": 0.9}}))], 60)
    assert (outcome.succeeded, outcome.metrics) == (True, {"accuracy": 0.9})


def test_one_that_is_gone(memory: MemoryBackend) -> None:
    outcome = so_far(memory, JobRef(memory.target, "default", "none", "u"), now=0.0)
    assert outcome.phase is Phase.DELETED


@pytest.mark.parametrize("error", [Forbidden("logs may not be read"), Unreachable("away")], ids=["forbidden", "away"])
def test_without_logs_it_goes_without(look: Callable[..., Any], memory: MemoryBackend, error: BackendError) -> None:
    memory.faults.fail("logs", error)
    outcome = look(RUNS, 60)
    assert outcome.phase is Phase.RUNNING
    assert [row["last_line"] for row in outcome.nodes] == ["", ""]
