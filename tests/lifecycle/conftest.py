"""A target in memory, a clock on which nobody waits, and a listener that remembers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from trainer_ops.backends.base import LogSource
from trainer_ops.lifecycle.submit import Submitted, submit
from trainer_ops.model.identity import JobRef, RunKey
from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.model.phase import State
from trainer_ops.model.request import TrainRequest
from trainer_ops.status.wait import Wait
from trainer_ops.testing import MemoryBackend, VirtualClock


class Recorder:
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.lines: list[str] = []
        self.notes: list[str] = []
        self.heard: list[str] = []
        self.unanswered = 0

    def on_state(self, state: State, obs: Observation | None) -> None:
        self.unanswered += obs is None
        if not self.phases or self.phases[-1] != state.phase.value:
            self.phases.append(state.phase.value)

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        texts = [f"[{source.node}] {line}" for line in lines]
        self.lines += texts
        self.heard += texts

    def on_note(self, text: str) -> None:
        self.notes.append(text)
        self.heard.append(text)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def memory(clock: VirtualClock) -> MemoryBackend:
    return MemoryBackend(clock)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def ask() -> Callable[..., TrainRequest]:
    """Makes a request; fields as of TrainRequest."""

    def make(**fields: Any) -> TrainRequest:
        return TrainRequest(**{"runtime": "torch-distributed", "name": "digits", "command": ["train"], **fields})

    return make


@pytest.fixture
def key() -> Callable[..., RunKey]:
    """Makes a key of one task instance."""

    def make(run: str = "r1", generation: int = 0) -> RunKey:
        return RunKey.of("airflow", {"dag_id": "digits", "run_id": run}, generation=generation, slug="digits")

    return make


@pytest.fixture
def put(
    memory: MemoryBackend, clock: VirtualClock, ask: Callable[..., TrainRequest], key: Callable[..., RunKey]
) -> Callable[..., Submitted]:
    """Submits a request of one task instance; ``run`` and ``generation`` make the key, the rest the request."""

    def make(run: str = "r1", generation: int = 0, **fields: Any) -> Submitted:
        return submit(memory, ask(**fields), key(run, generation), clock=clock)

    return make


@pytest.fixture
def begun(clock: VirtualClock) -> Callable[..., Wait]:
    """Begins a wait now; limits as of Limits."""

    def make(ref: JobRef | Submitted, **limits: Any) -> Wait:
        known = ref.ref if isinstance(ref, Submitted) else ref
        return Wait.begin(known, Limits(**limits), now=clock.now())

    return make
