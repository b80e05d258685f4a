"""Where a log was read up to, and what of an answer is new. Pure: the rules; ``logreader`` asks.

The kubelet stamps every line with nanoseconds. A position is the stamp of the last line and how many lines bore it. The
client offers no ``sinceTime``, so a window of whole seconds is asked for, and clocks differ. Neither matters, because
an answer proves itself: one that holds the position's own line has lost nothing since and is of the same run of the
container; one that begins later is asked for again with a wider window.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from trainer_ops.model.times import parse_time

__all__ = ["MAX_LINE", "Gap", "Part", "Position", "Reading", "Run", "lines_of", "run_of", "window"]

MAX_LINE = 64 * 1024
# What the kubelet answers with status 200 in place of a log that is gone (seen on Kubernetes 1.36).
_COLLECTED = "unable to retrieve container logs for"


class Gap(Exception):
    """The answer begins after the position: lines between them may be missing."""


@dataclass(frozen=True, slots=True)
class Position:
    """After the ``count``-th line that bears ``stamp``, after all of them when ``count`` is None.

    Stamps are RFC 3339 with up to nine digits of a second. The start of a log is the empty stamp.
    """

    stamp: str = ""
    count: int | None = 0

    @classmethod
    def parse(cls, text: str) -> Position:
        """The inverse of ``str``; "" is the start."""
        stamp, _, count = text.partition("|")
        return cls(stamp, None if count == "*" else int(count or 0))

    def __str__(self) -> str:
        return f"{self.stamp}|{'*' if self.count is None else self.count}" if self.stamp else ""

    def after(self, stamp: str) -> Position:
        """The position after one more line with that stamp."""
        if stamp != self.stamp:
            return Position(stamp, 1)
        return self if self.count is None else Position(stamp, self.count + 1)


def _order(stamp: str) -> tuple[str, str]:
    """Stamps drop trailing zeros of the fraction, so text does not sort: 10.5 is after 10.49."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return whole, f"{fraction:0<9}"


def window(after: Position, now: float, margin: float) -> int | None:
    """``sinceSeconds`` that reaches ``margin`` seconds behind the position; None reads from the start.

    Args:
        after: what was read already.
        now: this machine's time; the node's may differ, which the margin covers.
        margin: seconds; negative when the node's clock is known to be behind.
    """
    at = parse_time(after.stamp)
    return None if at is None else max(1, math.ceil(now - at + margin))


@dataclass(frozen=True, slots=True)
class Part:
    """A line, or a piece of a long one; ``starts`` tells the first piece."""

    text: str
    starts: bool = True


def lines_of(chunks: Iterable[bytes]) -> Iterator[Part]:
    """Lines of a byte stream: invalid UTF-8 replaced, long lines in parts of ``MAX_LINE``, in bounded memory."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    rest, starts = "", True
    for piece in chunks:
        *whole, rest = (rest + decoder.decode(piece)).split("\n")
        for line in whole:
            yield from _parts(line, starts)
            starts = True
        while len(rest) > MAX_LINE:
            yield Part(rest[:MAX_LINE], starts)
            rest, starts = rest[MAX_LINE:], False
    rest += decoder.decode(b"", final=True)
    if rest:
        yield from _parts(rest, starts)


def _parts(line: str, starts: bool) -> Iterator[Part]:
    line = line.removesuffix("\r")
    for start in range(0, len(line), MAX_LINE) or (0,):
        yield Part(line[start : start + MAX_LINE], starts and not start)


class Reading:
    """The new lines of one answer, taken piece by piece.

    Attributes:
        position: after the last line that was taken.
        proven: the answer holds the position that reading began from.
        first: the stamp of the answer's first line, "" before it.
        collected: the kubelet says that the log is gone.
        whole: the answer was read to its end.
    """

    def __init__(self, lines: Iterator[Part], after: Position, *, strict: bool, tail: bool = False) -> None:
        """Begin.

        Args:
            lines: as the API gives them with ``timestamps``: a stamp, a space, the text.
            after: what was read already.
            strict: an answer that begins after the position raises ``Gap``; otherwise it is taken as it is.
            tail: only the last lines were asked for: what bears the same stamp as the first of them is unknown.
        """
        self.position = after
        self.proven = False
        self.first = ""
        self.collected = False
        self.whole = False
        self._lines = lines
        self._after = after
        self._strict = strict
        self._tail = tail
        self._stamp = after.stamp
        self._seen = 0
        self._passed = not after.stamp

    def take(self, limit_bytes: int) -> tuple[str, ...]:
        """New lines, until there are no more or ``limit_bytes`` of them are taken.

        Raises:
            Gap: see ``strict``.
        """
        taken: list[str] = []
        size = 0
        while size < limit_bytes:
            part = next(self._lines, None)
            if part is None:
                self.whole = True
                break
            text = self._text(part)
            if text is None or (not self._passed and self._is_old()):
                continue
            self._passed = True
            taken.append(text)
            self._move()
            size += len(text) + 1
        return tuple(taken)

    def _text(self, part: Part) -> str | None:
        """The line without its stamp, which is remembered; None for the kubelet's words about a log that is gone."""
        if not part.starts:
            return part.text
        stamp, text = _split(part.text)
        if stamp is not None:
            self._stamp = stamp
            self.first = self.first or stamp
        elif text.startswith(_COLLECTED):
            self.collected = True
            return None
        return text

    def _is_old(self) -> bool:
        """Whether the present line was read before. In the log's own order: a node's clock may be set back."""
        after = self._after
        if self._stamp == after.stamp:
            self._seen += 1
            self.proven = self._passed = self._seen == after.count
            return True
        if after.count is None and self._seen:
            self.proven = True
            return False
        if _order(self._stamp) < _order(after.stamp):
            return True
        if self._strict:
            raise Gap
        return False

    def _move(self) -> None:
        self.position = Position(self._stamp, None) if self._tail else self.position.after(self._stamp)


def _split(raw: str) -> tuple[str | None, str]:
    """(stamp, text); no stamp for the kubelet's own words."""
    stamp, space, text = raw.partition(" ")
    if len(stamp) >= 20 and stamp[4:5] == "-" and stamp[10:11] == "T" and parse_time(stamp) is not None:
        return stamp, text if space else ""
    return None, raw


@dataclass(frozen=True, slots=True)
class Run:
    """Where a container stands.

    Attributes:
        restarts: how many runs were before the newest.
        over: the newest has ended.
        unborn: it has never run.
    """

    restarts: int = 0
    over: bool = False
    unborn: bool = True


def run_of(pod: dict[str, Any], container: str) -> Run:
    """Of a container of a pod; one without a status has never run."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status["name"] == container:
            state, restarts = status.get("state") or {}, int(status.get("restartCount") or 0)
            over = state.get("terminated") is not None
            born = restarts or over or state.get("running") is not None or (status.get("lastState") or {})
            return Run(restarts, over, not born)
    return Run()
