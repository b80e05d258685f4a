"""The cluster's events of a training: kept, as a cluster forgets them after an hour; few, because they are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from trainer_ops.model.observed import Observation, ObservedEvent
from trainer_ops.model.times import rfc3339
from trainer_ops.status.wording import clip

__all__ = ["EVENTS_LIMIT", "EventLog", "EventNote", "add", "bounded"]

EVENTS_LIMIT = 50
# Of 64 nodes each is scheduled, pulled, created and started: a few of these tell it all.
_ALIKE = {True: 12, False: 4}


@dataclass(frozen=True, slots=True)
class EventNote:
    """One event.

    Attributes:
        object: what it is about: ``Pod/train-node-0-1-x7k2p``.
        node: the node's name when that is a pod, else "".
        reason: the event's.
        message: the event's, in one line.
        warning: whether it is a warning.
        at: when it happened last, seconds since the epoch; None when the target does not say.
        count: how often.
    """

    object: str
    node: str
    reason: str
    message: str
    warning: bool = False
    at: float | None = None
    count: int = 1

    def to_json(self) -> dict[str, Any]:
        """The documented form."""
        return {**asdict(self), "at": None if self.at is None else rfc3339(self.at)}


EventLog = tuple[EventNote, ...]


def add(log: EventLog, obs: Observation) -> EventLog:
    """The log with the events of one more look; the same event again only moves on."""
    known = {(note.object, note.reason, note.message): note for note in log}
    nodes = {pod.name: pod.node for pod in obs.pods}
    for event in obs.events:
        note = _note(event, nodes)
        key = (note.object, note.reason, note.message)
        before = known.pop(key, None)
        if before is not None:
            newest = max((at for at in (before.at, note.at) if at is not None), default=None)
            node, count = before.node or note.node, max(before.count, note.count)
            note = EventNote(note.object, node, note.reason, note.message, note.warning, newest, count)
        known[key] = note
    return bounded(sorted(known.values(), key=lambda note: note.at or 0.0), EVENTS_LIMIT)


def _note(event: ObservedEvent, nodes: dict[str, str]) -> EventNote:
    about = clip(f"{event.kind}/{event.name}", 100)
    node = nodes.get(event.name, "") if event.kind == "Pod" else ""
    return EventNote(about, node, clip(event.reason, 60), clip(event.message), event.warning, event.at, event.count)


def bounded(notes: Iterable[EventNote], limit: int) -> EventLog:
    """At most ``limit``, and few that are alike: the newest are kept, and warnings before the others."""
    seen: Counter[tuple[str, str, bool]] = Counter()
    few: list[EventNote] = []
    for note in reversed(list(notes)):
        alike = (note.object.partition("/")[0], note.reason, note.warning)
        seen[alike] += 1
        if seen[alike] <= _ALIKE[note.warning]:
            few.append(note)
    kept = {id(note) for note in sorted(few, key=lambda note: not note.warning)[:limit]}
    return tuple(note for note in reversed(few) if id(note) in kept)
