"""Log lines of one container run through the API server, from a position on. The rules are pure, ``read`` streams.

The kubelet stamps every line with nanoseconds. A position is the stamp of the last line and how many lines bore it, so
reading again neither loses nor repeats; the client has no ``sinceTime``, so a window of seconds is asked for and what
is before the position is dropped while it streams by.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from trainer_ops.backends.base import LogChunk
from trainer_ops.model.times import parse_time

__all__ = ["MAX_LINE", "Position", "chunk", "lines_of", "window"]

MAX_LINE = 64 * 1024
# Clocks of nodes and of this machine differ; what is read twice is dropped, what is not read is lost.
_SKEW_SECONDS = 10.0
# What the kubelet answers with status 200 in place of a log that is gone (seen on Kubernetes 1.36).
_COLLECTED = "unable to retrieve container logs for"


@dataclass(frozen=True, slots=True)
class Position:
    """After the ``count``-th line that bears ``stamp``; stamps are RFC 3339 with up to nine digits of a second."""

    stamp: str = ""
    count: int = 0

    @classmethod
    def parse(cls, text: str) -> Position:
        """The inverse of ``str``; "" is the start."""
        stamp, _, count = text.partition("|")
        return cls(stamp, int(count or 0))

    def __str__(self) -> str:
        return f"{self.stamp}|{self.count}" if self.stamp else ""

    def after(self, stamp: str) -> Position:
        """The position after one more line with that stamp."""
        return replace(self, count=self.count + 1) if stamp == self.stamp else Position(stamp, 1)


def _order(stamp: str) -> tuple[str, str]:
    """Stamps drop trailing zeros of the fraction, so text does not sort: 10.5 is after 10.49."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return whole, f"{fraction:0<9}"


def window(after: Position, now: float) -> int | None:
    """``sinceSeconds`` that surely holds everything after the position; None reads from the start."""
    at = parse_time(after.stamp)
    return None if at is None else max(1, math.ceil(now - at + _SKEW_SECONDS))


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines of a byte stream: invalid UTF-8 replaced, long lines in parts of ``MAX_LINE``, in bounded memory."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    rest = ""
    for piece in chunks:
        *whole, rest = (rest + decoder.decode(piece)).split("\n")
        for line in whole:
            yield from _parts(line)
        while len(rest) > MAX_LINE:
            yield rest[:MAX_LINE]
            rest = rest[MAX_LINE:]
    rest += decoder.decode(b"", final=True)
    if rest:
        yield from _parts(rest)


def _parts(line: str) -> Iterator[str]:
    line = line.removesuffix("\r")
    for start in range(0, len(line), MAX_LINE) or (0,):
        yield line[start : start + MAX_LINE]


def chunk(stamped: Iterable[str], after: Position, *, limit_bytes: int, over: bool) -> LogChunk:
    """The lines after a position, up to a limit.

    Args:
        stamped: lines as the API gives them with ``timestamps``: a stamp, a space, the text.
        after: what was read already.
        limit_bytes: stop when so much was taken.
        over: the container run has ended, so that the end of the stream is the end of the log.
    """
    taken: list[str] = []
    position, size, same = after, 0, 0
    for raw in stamped:
        stamp, text = _split(raw)
        if stamp is None:
            if raw.startswith(_COLLECTED):
                return LogChunk(position=str(position), ended=True)
            stamp = position.stamp
        elif after.stamp and _order(stamp) < _order(after.stamp):
            continue
        elif stamp == after.stamp:
            same += 1
            if same <= after.count:
                continue
        taken.append(text)
        position = position.after(stamp)
        size += len(text) + 1
        if size >= limit_bytes:
            return LogChunk(tuple(taken), str(position), more=True)
    return LogChunk(tuple(taken), str(position), ended=over)


def _split(raw: str) -> tuple[str | None, str]:
    """(stamp, text); no stamp for the later parts of a long line and for the kubelet's own words."""
    stamp, space, text = raw.partition(" ")
    if len(stamp) >= 20 and stamp[4:5] == "-" and stamp[10:11] == "T" and parse_time(stamp) is not None:
        return stamp, text if space else ""
    return None, raw


def container_state(pod: dict[str, Any], container: str) -> tuple[int, bool] | None:
    """(restartCount, terminated now) of a container; None while it has no status."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status["name"] == container:
            return int(status.get("restartCount") or 0), bool((status.get("state") or {}).get("terminated"))
    return None
