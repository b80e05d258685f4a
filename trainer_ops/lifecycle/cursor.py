"""How far the logs of a training have been read: decisions only, no reading."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainer_ops.backends.base import LogChunk, LogSource, log_sources
from trainer_ops.model.observed import ObservedPod

__all__ = ["CHUNK_BYTES", "LogCursor", "Tails", "due_runs"]

# One read. Small enough that a front end's event loop is not held for long by the lines of one.
CHUNK_BYTES = 256 << 10

TAIL_LINES = 50
_TAIL_LINE_CHARS = 2000


class LogCursor:
    """Where reading goes on: moves as chunks are taken, so its owner can carry it into another process.

    Attributes:
        positions: source key to the backend's position.
        done: keys of sources of which nothing more will come.
    """

    __slots__ = ("done", "positions")

    def __init__(self, positions: Mapping[str, str] | None = None, done: Sequence[str] = ()) -> None:
        self.positions = dict(positions or {})
        self.done = set(done)

    def after(self, source: LogSource) -> str:
        """The position to read this source from; "" is its start."""
        return self.positions.get(source.key, "")

    def take(self, source: LogSource, chunk: LogChunk) -> None:
        """Move past what was read."""
        if chunk.position:
            self.positions[source.key] = chunk.position
        if chunk.ended and not chunk.more:
            self.close(source)

    def close(self, source: LogSource) -> None:
        """Read nothing more of this source."""
        self.done.add(source.key)
        self.positions.pop(source.key, None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"positions": dict(self.positions), "done": sorted(self.done)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LogCursor:
        """The inverse of ``to_json``."""
        return cls(data["positions"], data["done"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogCursor) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LogCursor({self.positions!r}, {sorted(self.done)!r})"


def due_runs(pods: Sequence[ObservedPod], cursor: LogCursor) -> list[deque[LogSource]]:
    """What may have new lines: for each pod its runs not read to the end, the earlier before the later."""
    unborn = {pod.uid for pod in pods if _never_ran(pod)}
    by_pod: dict[str, deque[LogSource]] = {}
    for source in log_sources(tuple(pods)):
        if source.key not in cursor.done and source.pod_uid not in unborn:
            by_pod.setdefault(source.pod_uid, deque()).append(source)
    return list(by_pod.values())


def _never_ran(pod: ObservedPod) -> bool:
    # Asking for the log of a waiting container is answered with HTTP 400 by a cluster: a call for nothing.
    main = pod.main
    return main is None or (main.state == "waiting" and main.last is None and not main.restarts)


class Tails:
    """The last lines of each node, in bounded memory: what a failure is explained with."""

    def __init__(self, lines: int = TAIL_LINES) -> None:
        self._limit = lines
        self._of: dict[str, deque[str]] = {}

    def add(self, node: str, lines: Sequence[str]) -> None:
        """Take new lines; across restarts the older run's lines stay as long as there is room for them."""
        kept = self._of.setdefault(node, deque(maxlen=self._limit))
        kept.extend(line[:_TAIL_LINE_CHARS] for line in lines[-self._limit :])

    def items(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """(node, last lines), nodes in the order in which they first spoke."""
        return ((node, tuple(lines)) for node, lines in self._of.items())

    def to_dict(self) -> dict[str, tuple[str, ...]]:
        """Node to its last lines."""
        return dict(self.items())
