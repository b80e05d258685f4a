from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import trainer_ops
from trainer_ops.lifecycle.submit import Submitted
from trainer_ops.model import keys
from trainer_ops.testing import MemoryBackend, Training, VirtualClock


@pytest.fixture(autouse=True)
def here(memory: MemoryBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory is what everything takes that names no target."""
    monkeypatch.setenv(keys.ENV_TARGET, memory.target)


def train(rounds: int = 1) -> dict[str, float]:
    return {"rounds": rounds}


class TestRun:
    def test_by_fields(self, clock: VirtualClock) -> None:
        outcome = trainer_ops.run(runtime="torch-distributed", command=["train"], num_nodes=2, clock=clock)
        assert outcome.succeeded
        assert outcome.metrics == {"accuracy": 0.95}

    def test_by_request(self, clock: VirtualClock, memory: MemoryBackend) -> None:
        request = trainer_ops.TrainRequest(runtime="torch-distributed", command=["train"])
        assert trainer_ops.run(request, target=memory, clock=clock).succeeded

    @pytest.mark.parametrize("given", [{"runtime": "torch-distributed"}, "torch-distributed"])
    def test_something_else_than_a_request(self, given: Any) -> None:
        with pytest.raises(trainer_ops.InvalidRequest, match=r"request: is of type \w+, not TrainRequest"):
            trainer_ops.run(given)

    def test_by_function(self, clock: VirtualClock, memory: MemoryBackend) -> None:
        outcome = trainer_ops.run(
            runtime="torch-distributed", python_callable=train, python_kwargs={"rounds": 3}, clock=clock
        )
        assert outcome.name.startswith("train-")
        assert memory.training(outcome.name).job["spec"]["trainer"]["command"]

    def test_by_script(self, clock: VirtualClock, tmp_path: Path) -> None:
        script = tmp_path / "digits.py"
        script.write_text("print('hello')\n")
        outcome = trainer_ops.run(runtime="torch-distributed", script=str(script), clock=clock)
        assert outcome.name.startswith("digits-")

    def test_each_call_is_a_training_of_its_own(self, clock: VirtualClock, memory: MemoryBackend) -> None:
        names = {trainer_ops.run(runtime="torch-distributed", clock=clock).name for _ in range(3)}
        assert len(names) == 3

    def test_a_key_makes_it_one(self, clock: VirtualClock, memory: MemoryBackend) -> None:
        first = trainer_ops.run(runtime="torch-distributed", key="nightly", clock=clock)
        again = trainer_ops.run(runtime="torch-distributed", key="nightly", clock=clock)
        # Phases that were watched have more to tell than what the objects remember of them.
        assert replace(again, phases=first.phases) == first
        assert len(memory.list()) == 1

    def test_a_failure_is_returned_or_raised(self, clock: VirtualClock, memory: MemoryBackend) -> None:
        memory.script("*", [(0, Training.running), (1, lambda t: t.out_of_memory())])
        outcome = trainer_ops.run(runtime="torch-distributed", clock=clock)
        assert outcome.diagnosis is not None
        assert outcome.diagnosis.category is trainer_ops.Category.OUT_OF_MEMORY
        with pytest.raises(trainer_ops.TrainJobOutOfMemory) as caught:
            trainer_ops.run(runtime="torch-distributed", clock=clock, check=True)
        assert caught.value.outcome.phase is trainer_ops.Phase.FAILED

    def test_its_limits_hold(self, clock: VirtualClock, memory: MemoryBackend) -> None:
        memory.script("*", [(0, Training.queued)])
        with pytest.raises(trainer_ops.TrainJobNotStarted):
            trainer_ops.run(runtime="torch-distributed", clock=clock, check=True, queue_timeout=30)

    def test_an_interrupt_detaches(self, clock: VirtualClock, memory: MemoryBackend) -> None:
        def interrupt() -> None:
            raise KeyboardInterrupt

        clock.after(2, interrupt)
        with pytest.raises(trainer_ops.Detached) as caught:
            trainer_ops.run(runtime="torch-distributed", clock=clock)
        ref = caught.value.ref
        assert f"trainer-ops wait {ref.name} --target {memory.target}" in str(caught.value)
        assert f"trainer-ops cancel {ref.name}" in str(caught.value)
        assert trainer_ops.wait(ref, clock=clock).succeeded

    @pytest.mark.parametrize(
        ("given", "field"),
        [
            ({"request": True, "num_nodes": 2}, "num_nodes"),
            ({"request": True, "python_callable": train}, "python_callable"),
            ({"python_kwargs": {"rounds": 1}, "runtime": "torch-distributed"}, "python_kwargs"),
            ({"runtime": "torch-distributed", "key": ""}, "key"),
            ({"runtime": "torch-distributed", "nodes": 2}, "nodes"),
            ({"runtime": "torch-distributed", "python_callable": train, "command": ["x"]}, None),
            (
                {
                    "runtime": "torch-distributed",
                    "python_callable": train,
                    "code": {"kind": "script", "filename": "a.py", "source": ""},
                },
                "python_callable",
            ),
        ],
    )
    def test_what_contradicts_itself_is_refused(
        self, clock: VirtualClock, memory: MemoryBackend, given: dict[str, Any], field: str | None
    ) -> None:
        request = trainer_ops.TrainRequest(runtime="torch-distributed") if given.pop("request", None) else None
        with pytest.raises(trainer_ops.InvalidRequest) as caught:
            trainer_ops.run(request, clock=clock, **given)
        assert field is None or caught.value.field == field
        assert memory.list() == []


class TestTheRest:
    def test_submit_and_wait_by_name_and_by_ref(self, clock: VirtualClock, memory: MemoryBackend) -> None:
        made = trainer_ops.submit(runtime="torch-distributed", key="a", clock=clock)
        assert isinstance(made, Submitted)
        saw, read = trainer_ops.wait(made.ref.name, clock=clock), trainer_ops.wait(made.ref, clock=clock)
        assert replace(read, phases=saw.phases) == saw

    def test_wait_takes_the_limits_of_the_submitter(self, clock: VirtualClock, memory: MemoryBackend) -> None:
        memory.script("*", [(0, Training.queued)])
        made = trainer_ops.submit(runtime="torch-distributed", queue_timeout=30, clock=clock)
        with pytest.raises(trainer_ops.TrainJobNotStarted):
            trainer_ops.wait(made.ref.name, clock=clock, check=True)
        outcome = trainer_ops.wait(made.ref.name, clock=clock, limits=trainer_ops.Limits(wait_timeout=5))
        assert outcome.ending is trainer_ops.Ending.GAVE_UP

    def test_cancel(self, clock: VirtualClock, memory: MemoryBackend) -> None:
        made = trainer_ops.submit(runtime="torch-distributed", clock=clock)
        assert trainer_ops.cancel(made.ref.name, wait=10, clock=clock) == trainer_ops.Cancelled("deleted", ended=True)
        assert trainer_ops.cancel(made.ref, clock=clock).how == "gone"
        with pytest.raises(trainer_ops.InvalidRequest, match="no TrainJob"):
            trainer_ops.cancel(made.ref.name, clock=clock)

    def test_logs(self, clock: VirtualClock, memory: MemoryBackend) -> None:
        memory.script("*", [(0, Training.running), (1, lambda t: t.say("hello")), (2, Training.complete)])
        made = trainer_ops.submit(runtime="torch-distributed", num_nodes=2, clock=clock)
        lines = [(source.node, line) for source, line in trainer_ops.logs(made.ref.name, follow=True, clock=clock)]
        assert lines == [("node-0", "hello"), ("node-1", "hello")]
        assert [line for _, line in trainer_ops.logs(made.ref, node=1, clock=clock)] == ["hello"]

    def test_a_ref_brings_its_own_target(
        self, clock: VirtualClock, memory: MemoryBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = trainer_ops.submit(runtime="torch-distributed", clock=clock)
        monkeypatch.setenv(keys.ENV_TARGET, "memory://another")
        assert trainer_ops.wait(made.ref, clock=clock).succeeded

    def test_what_was_opened_here_is_closed_here(
        self, clock: VirtualClock, memory: MemoryBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        closed: list[Callable[[], None]] = []
        monkeypatch.setattr(memory, "close", lambda: closed.append(memory.close))
        trainer_ops.run(runtime="torch-distributed", clock=clock, target=memory)
        assert closed == []
        trainer_ops.run(runtime="torch-distributed", clock=clock, target=memory.target)
        assert len(closed) == 1
