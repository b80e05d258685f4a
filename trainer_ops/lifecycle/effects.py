"""What a wait asks its driver to do, as values, and what it is sent back."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from trainer_ops.backends.base import Backend, LogChunk, LogSource
from trainer_ops.errors import BackendError
from trainer_ops.lifecycle.attempts import Attempt, attempts_of
from trainer_ops.model.observed import Observation

__all__ = ["Delete", "Effect", "Find", "Observe", "Part", "Pause", "ReadLogs", "Reply"]


@dataclass(frozen=True, slots=True)
class Observe:
    """Look at the training; the reply's value is an Observation."""

    name: str

    def ask(self, backend: Backend, now: float) -> Observation:
        """Make the call."""
        return backend.observe(self.name, now=now)


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """Read lines of one source; the reply's value is a LogChunk."""

    source: LogSource
    after: str
    tail: int | None
    limit_bytes: int

    def ask(self, backend: Backend, now: float) -> LogChunk:
        """Make the call."""
        return backend.logs(self.source, after=self.after, tail=self.tail, limit_bytes=self.limit_bytes)


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the training, this one only; the reply's value is whether it was there."""

    name: str
    uid: str

    def ask(self, backend: Backend, now: float) -> bool:
        """Make the call."""
        return backend.delete(self.name, uid=self.uid)


@dataclass(frozen=True, slots=True)
class Find:
    """List the TrainJobs with these labels; the reply's value is a tuple of Attempts."""

    labels: Mapping[str, str]

    def ask(self, backend: Backend, now: float) -> tuple[Attempt, ...]:
        """Make the call."""
        return attempts_of(backend, self.labels, now=now)


@dataclass(frozen=True, slots=True)
class Pause:
    """Sleep, or be woken by a change; the reply has no value."""

    seconds: float


Effect = Observe | ReadLogs | Delete | Find | Pause


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of an effect, and when: a value or an error of the target."""

    at: float
    value: Any = None
    error: BackendError | None = None


# A piece of a wait: what it has found out stays in the object whose method it is.
Part = Generator[Effect, Reply, None]
