"""One wait for one training, as a frozen value: each look gives a new value and what to do next.

A ``Wait`` holds no clock and does no I/O. Its times are absolute (seconds since the epoch) and it is plain JSON, so it
crosses processes: an operator begins it, a triggerer goes on with it, a worker reads its outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union

from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Category, Diagnosis, Outcome
from trainer_ops.model.phase import Phase, State
from trainer_ops.model.times import rfc3339

__all__ = ["Done", "GaveUp", "Sleep", "Step", "Stop", "Wait"]


@dataclass(frozen=True, slots=True)
class Sleep:
    """Look again after this many seconds (more than zero), or as soon as something changed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """The training is over: succeeded, failed, deleted or replaced."""


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A limit of the wait ran out; the training is left alone."""


@dataclass(frozen=True, slots=True)
class Stop:
    """``max_restarts`` is used up: the caller deletes the training (uid precondition), then reads the outcome."""


Step = Union[Sleep, Done, GaveUp, Stop]


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait. Make it with ``begin``; every other method gives a new value."""

    ref: JobRef
    limits: Limits
    began_at: float
    attempt: int = 1
    poll: float = 10.0
    state: State = field(default=State(Phase.NOT_OBSERVED))

    @classmethod
    def begin(cls, ref: JobRef, limits: Limits, *, now: float, attempt: int = 1, poll: float = 10.0) -> Wait:
        """Start to wait at ``now`` (seconds since the epoch), looking at most ``poll`` seconds apart."""
        return cls(ref, limits, now, attempt, poll)

    def see(self, obs: Observation, now: float) -> tuple[Wait, Step]:
        """Take a look into account."""
        job = obs.job
        phase = Phase.RUNNING
        if job is None:
            phase = Phase.DELETED
        elif job.holds("Complete"):
            phase = Phase.SUCCEEDED
        elif job.holds("Failed"):
            phase = Phase.FAILED
        seen = replace(self, state=State(phase))
        return seen, Done() if phase.finished else Sleep(self.poll)

    def unreachable(self, error: str, now: float) -> tuple[Wait, Step]:
        """Take into account that the target gave no answer."""
        return self, Sleep(self.poll)

    def hear(self, tails: Mapping[str, Sequence[str]]) -> Wait:
        """Keep the newest log lines of nodes (``node-1`` to lines); bounded."""
        return self

    def superseded(self, by: str) -> Wait:
        """Say that the training was deleted for a newer one of the same task; ``by`` names that one."""
        return self

    def outcome(self) -> Outcome:
        """How it ended; valid once a step was Done, GaveUp or Stop."""
        ref, phase = self.ref, self.state.phase
        diagnosis = None if phase is Phase.SUCCEEDED else Diagnosis(Category.UNKNOWN, f"the training {ref.name} {phase}")
        return Outcome(
            ref.name,
            ref.namespace,
            ref.uid,
            ref.target,
            phase,
            attempt=self.attempt,
            started_at=rfc3339(self.began_at),
            diagnosis=diagnosis,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, free of secrets; ``from_json`` gives an equal value."""
        return {
            "ref": self.ref.to_json(),
            "limits": self.limits.to_json(),
            "began_at": self.began_at,
            "attempt": self.attempt,
            "poll": self.poll,
            "state": {"phase": self.state.phase.value, "reason": self.state.reason, "detail": self.state.detail},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Wait:
        """The inverse of ``to_json``."""
        state = data["state"]
        return cls(
            JobRef.from_json(data["ref"]),
            Limits.from_json(data["limits"]),
            data["began_at"],
            data["attempt"],
            data["poll"],
            State(Phase(state["phase"]), state["reason"], state["detail"]),
        )
