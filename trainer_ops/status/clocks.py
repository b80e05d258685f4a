"""The clocks of a wait: which limit counts now, since when, and when it runs out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from trainer_ops.model.limits import Limits
from trainer_ops.model.phase import Phase

__all__ = ["QUEUE", "RESTARTS", "STARTUP", "UNREACHABLE", "WAIT", "Clocks", "overdue", "until"]

# The limits by the names that people give them.
QUEUE, STARTUP, WAIT, UNREACHABLE = "queue_timeout", "startup_timeout", "wait_timeout", "unreachable_timeout"
RESTARTS = "max_restarts"
# A deadline that is nearer than a clock can tell must not become a sleep of nothing.
_SHORTEST = 0.001


@dataclass(frozen=True, slots=True)
class Clocks:
    """Since when what counts; all in seconds since the epoch.

    * The queue clock runs in queue phases, from the moment the training entered them. A training that is preempted and
      queued again starts it anew.
    * The startup clock runs in starting phases, from the moment the training entered them: at the begin of the wait,
      or when it left the queue. Once the training has run it stays off, so that a restart (JobSet makes pods anew, a
      node is replaced) is not taken for a slow start; only a new turn in the queue allows it again.
    * The other two run always: from the begin of the wait, and from the last answer of the target.
    """

    began_at: float
    answered_at: float
    queue_since: float | None = None
    startup_since: float | None = None
    started: bool = False

    @classmethod
    def begin(cls, now: float) -> Clocks:
        """At the begin of a wait nothing is known: that counts as starting."""
        return cls(now, now, startup_since=now)

    def enter(self, phase: Phase, now: float) -> Clocks:
        """An answer of the target, in this phase."""
        clocks = replace(self, answered_at=now)
        if phase.waiting_in_queue:
            since = now if self.queue_since is None else self.queue_since
            return replace(clocks, queue_since=since, startup_since=None, started=False)
        if phase.starting and not self.started:
            since = now if self.startup_since is None else self.startup_since
            return replace(clocks, queue_since=None, startup_since=since)
        return replace(clocks, queue_since=None, startup_since=None, started=self.started or not phase.starting)

    def deadlines(self, limits: Limits, *, answered: bool) -> Iterator[tuple[str, float]]:
        """Limits that count now and when each runs out, the most telling first.

        Without an answer nobody knows the phase, so only the two that need none count.
        """
        if answered and limits.queue_timeout is not None and self.queue_since is not None:
            yield QUEUE, self.queue_since + limits.queue_timeout
        if answered and limits.startup_timeout is not None and self.startup_since is not None:
            yield STARTUP, self.startup_since + limits.startup_timeout
        if not answered:
            yield UNREACHABLE, self.answered_at + limits.unreachable_timeout
        if limits.wait_timeout is not None:
            yield WAIT, self.began_at + limits.wait_timeout

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``Clocks(**data)`` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Clocks:
        """The inverse of ``to_json``."""
        return cls(**data)


def overdue(clocks: Clocks, limits: Limits, now: float, *, answered: bool) -> str:
    """The limit that has run out, "" when none has. At the very moment of its deadline a limit has run out."""
    return next((name for name, at in clocks.deadlines(limits, answered=answered) if now >= at), "")


def until(
    clocks: Clocks, limits: Limits, now: float, poll: float, *, answered: bool, look_at: float | None = None
) -> float:
    """Seconds to sleep: ``poll``, less when a deadline (or ``look_at``) comes before; always more than zero."""
    moments = [at for _, at in clocks.deadlines(limits, answered=answered)]
    if look_at is not None:
        moments.append(look_at)
    return max(_SHORTEST, min([poll, *(at - now for at in moments)]))
