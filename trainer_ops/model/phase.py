"""Where a training stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Phase", "State"]


class Phase(str, Enum):
    """The states of a training, derived by ``status.classify``; TrainJobs have no such field."""

    NOT_OBSERVED = "not_observed"
    SUBMITTED = "submitted"
    BLOCKED = "blocked"
    EXTERNAL = "external"
    QUEUED = "queued"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    INITIALIZING = "initializing"
    PENDING = "pending"
    RUNNING = "running"
    RESTARTING = "restarting"
    FAILING = "failing"
    COMPLETING = "completing"
    DELETING = "deleting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DELETED = "deleted"
    REPLACED = "replaced"

    @property
    def finished(self) -> bool:
        """Never left again: the first finished phase seen of a uid is the answer."""
        return self in _FINISHED

    @property
    def waiting_in_queue(self) -> bool:
        """Time here counts against ``queue_timeout``."""
        return self in _QUEUE

    @property
    def starting(self) -> bool:
        """Time here counts against ``startup_timeout``."""
        return self in _STARTING

    @property
    def word(self) -> str:
        """The phase in one short word for people, at most 10 characters."""
        return _WORDS.get(self, self.value)

    def __str__(self) -> str:
        return self.value


_WORDS = {
    Phase.NOT_OBSERVED: "submitted",
    Phase.BLOCKED: "starting",
    Phase.EXTERNAL: "elsewhere",
    Phase.RESUMING: "starting",
    Phase.INITIALIZING: "preparing",
    Phase.PENDING: "starting",
    Phase.COMPLETING: "finishing",
    Phase.DELETING: "stopping",
    Phase.SUCCEEDED: "trained",
}
_FINISHED = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.DELETED, Phase.REPLACED})
_QUEUE = frozenset({Phase.QUEUED, Phase.SUSPENDED, Phase.EXTERNAL})
_STARTING = frozenset(
    {Phase.NOT_OBSERVED, Phase.SUBMITTED, Phase.BLOCKED, Phase.RESUMING, Phase.INITIALIZING, Phase.PENDING}
)


@dataclass(frozen=True, slots=True)
class State:
    """A phase and, for a person, why.

    Attributes:
        phase: the phase.
        reason: one CamelCase word from the cluster where there is one (``ImagePullBackOff``, ``Unschedulable``).
        detail: one line, such as ``node-1: pulling image`` or Kueue's quota text.
    """

    phase: Phase
    reason: str = ""
    detail: str = ""
