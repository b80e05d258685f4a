"""All that a diagnosis is made of, as one value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from trainer_ops.model.limits import Limits
from trainer_ops.model.phase import State
from trainer_ops.model.times import duration
from trainer_ops.status.evidence import Evidence

__all__ = ["LINE_LIMIT", "SHOWN_LINES", "Facts"]

LINE_LIMIT = 500
SHOWN_LINES = 20


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when a wait ends without a success.

    Attributes:
        name: the TrainJob's.
        state: the last one seen.
        limits: of the wait.
        limit: the name of the limit that ended it, "" when the training itself ended.
        silent: seconds for which the target gave no answer.
        evidence: what was seen of the nodes in flight.
        tails: last log lines by node.
        clues: the cluster's own texts: events, conditions.
        error: the target's last error: it did not answer, or would not delete what used up its restarts.
        superseded_by: the newer training of the same task, for which this one was deleted.
        target: where it runs, as a URL.
        unreadable: plural kinds that this user may not read.
    """

    name: str
    state: State
    limits: Limits = field(default_factory=Limits)
    limit: str = ""
    silent: float = 0.0
    evidence: Evidence = field(default_factory=Evidence)
    tails: Mapping[str, Sequence[str]] = field(default_factory=dict)
    clues: tuple[str, ...] = ()
    error: str = ""
    superseded_by: str = ""
    target: str = ""
    unreadable: Collection[str] = ()

    @property
    def bound(self) -> str:
        """The limit as it was set: ``queue_timeout=0:15``."""
        seconds = getattr(self.limits, self.limit, None)
        return self.limit if seconds is None else f"{self.limit}={duration(seconds)}"

    def tail(self, node: str) -> tuple[str, ...]:
        """The last lines of that node that are worth showing: none of blanks only."""
        lines = [line[:LINE_LIMIT].rstrip() for line in self.tails.get(node, ())]
        return tuple(line for line in lines if line)[-SHOWN_LINES:]
