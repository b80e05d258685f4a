"""A task that is told to stop: the policy is applied, and it never ends in success (airflow #73006)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from trainer_ops import errors
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.testing import MemoryBackend, VirtualClock
from trainer_ops.testing.training import Training


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The task runner sets SIGTERM's handler and leaves it."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def make(**kwargs: Any) -> Any:
    from airflow.sdk import DAG

    from trainer_ops.airflow import TrainJobOperator

    with DAG("digits", schedule=None):
        return TrainJobOperator(**{"task_id": "train", "runtime": "torch-distributed", "command": ["true"], **kwargs})


def sigterm() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


POLICIES: dict[str, tuple[type[Exception], str]] = {
    "delete": (errors.TrainJobDeleted, "was deleted"),
    "suspend": (errors.Detached, "was suspended"),
    "keep": (errors.Detached, "goes on, as on_kill says"),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_policy_is_applied(policy: str, worker: Any, memory: MemoryBackend, virtual_clock: VirtualClock) -> None:
    error, text = POLICIES[policy]
    virtual_clock.after(3, sigterm)
    ran = worker(make(on_kill=policy, retries=1))
    assert ran.state == "up_for_retry"
    assert isinstance(ran.error, error)
    assert text in str(ran.error)
    jobs = memory.list()
    assert len(jobs) == (0 if policy == "delete" else 1)
    assert [job["spec"]["suspend"] for job in jobs] == {"delete": [], "suspend": [True], "keep": [False]}[policy]


def test_a_retry_resumes_what_was_suspended(worker: Any, memory: MemoryBackend, virtual_clock: VirtualClock) -> None:
    virtual_clock.after(3, sigterm)
    assert worker(make(on_kill="suspend", retries=1)).state == "up_for_retry"
    (before,) = memory.list()
    ran = worker(make(on_kill="suspend", retries=1), try_number=2)
    assert ran.state == "success"
    assert ran.result["uid"] == before["metadata"]["uid"]


def test_a_retry_goes_on_with_what_was_kept(worker: Any, memory: MemoryBackend, virtual_clock: VirtualClock) -> None:
    virtual_clock.after(3, sigterm)
    worker(make(on_kill="keep", retries=1))
    (before,) = memory.list()
    assert worker(make(retries=1), try_number=2).result["uid"] == before["metadata"]["uid"]


def _signal_at_call(memory: MemoryBackend, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM inside the target's n-th call, its lock held."""
    before = memory.faults.before

    def counted(method: str) -> Any:
        if len(memory.calls) == number:
            sigterm()
        return before(method)

    monkeypatch.setattr(memory.faults, "before", counted)


def test_sigterm_in_any_call_to_the_target(worker: Any, virtual_clock: VirtualClock, monkeypatch: Any) -> None:
    from trainer_ops.airflow import TrainJobOperator

    monkeypatch.setattr(TrainJobOperator, "clock", lambda _self: virtual_clock)
    monkeypatch.setenv("TRAINER_OPS_TARGET", "memory://sweep")
    calls = 1
    number = 0
    while number < calls:
        memory = MemoryBackend(virtual_clock, name="sweep")
        if number:
            _signal_at_call(memory, number, monkeypatch)
        ran = worker(make())
        if number == 0:
            assert ran.state == "success"
            calls = len(memory.calls)
            assert calls > 8  # the sweep is over all calls of an undisturbed run
        else:
            assert ran.state == "failed", f"call {number}: {memory.calls[number - 1]}"
            assert "told to stop" in str(ran.error)
            trained = [job for job in memory.list() if not _complete(job)]
            assert trained == [], f"call {number}: {memory.calls[number - 1]}"
        number += 1


def _complete(job: Any) -> bool:
    return any(c["type"] == "Complete" for c in job["status"].get("conditions", ()))


def test_sigterm_before_execute_creates_nothing(worker: Any, memory: MemoryBackend) -> None:
    class Early(type(make())):  # type: ignore[misc]
        def pre_execute(self, context: Any) -> None:
            sigterm()

    from airflow.sdk import DAG

    with DAG("digits", schedule=None):
        task = Early(task_id="train", runtime="torch-distributed", command=["true"])
    assert worker(task).state == "failed"
    assert not any(method == "create" for method, _ in memory.calls)


def test_sigterm_while_the_target_is_away_does_not_wait_for_it(
    worker: Any, memory: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    memory.faults.fail_next("runtime", errors.Unreachable("no route"), times=20)
    virtual_clock.after(5, sigterm)
    ran = worker(make())
    assert ran.state == "failed"
    assert "nothing had been created" in str(ran.error)
    assert virtual_clock.now() < 1_800_000_000.0 + 60


def test_a_target_that_is_away_at_the_kill_is_said(
    worker: Any, memory: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    memory.script("*", [(0, lambda t: t.running())])
    memory.faults.fail_next("delete", errors.Unreachable("no route"), times=100)
    virtual_clock.after(3, sigterm)
    ran = worker(make())
    assert ran.state == "failed"
    assert "the training may go on: no route" in str(ran.error)
    assert len(memory.list()) == 1


def test_a_training_that_ended_keeps_its_result_for_the_retry(worker: Any, memory: MemoryBackend) -> None:
    def end(training: Training) -> None:
        training.complete()
        sigterm()

    memory.script("*", [(0, lambda t: t.running()), (3, end)])
    ran = worker(make(retries=1))
    assert ran.state == "up_for_retry"
    assert "had already ended" in str(ran.error)
    assert worker(make(retries=1), try_number=2).state == "success"
    assert len(memory.list()) == 1


@pytest.mark.parametrize("policy", ["delete", "keep"])
def test_execution_timeout_applies_the_policy(
    policy: str, worker: Any, memory: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainer_ops.airflow import TrainJobOperator

    memory.script("*", [(0, lambda t: t.running())])
    monkeypatch.setattr(TrainJobOperator, "clock", lambda _self: RealClock())
    ran = worker(make(on_kill=policy, execution_timeout=timedelta(seconds=0.3)))
    assert ran.state == "failed"
    assert type(ran.error).__name__ == "AirflowTaskTimeout"
    assert len(memory.list()) == (0 if policy == "delete" else 1)
