"""Logs of container runs: stamped while they are printed, read back as a kubelet reads them."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.controlplane.kubelet_clock import rfc3339_nano

__all__ = ["LogFile", "LogQuery"]

_STAMP = 30  # 2026-11-30T12:00:00.123456789Z
_LONGEST = 16 * 1024


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What was asked for; ``since`` is the least stamp."""

    follow: bool = False
    timestamps: bool = False
    since: str = ""
    tail: int | None = None
    limit: int | None = None


class LogFile:
    """The log of one run of one container, in a file: ``STAMP text`` a line.

    Attributes:
        ended: nothing more will come.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended = False
        self._grown = threading.Condition()
        path.touch()

    def collect(self, source: IO[bytes]) -> None:
        """Copy and stamp everything that comes out of a process, until it closes its output. Blocks."""
        rest = b""
        with source, self.path.open("ab", buffering=0) as file:
            while piece := os.read(source.fileno(), 65536):
                *lines, rest = (rest + piece).split(b"\n")
                if len(rest) >= _LONGEST:
                    lines, rest = [*lines, rest], b""
                self._write(file, lines)
            if rest:
                self._write(file, [rest])
        self.end()

    def write(self, text: bytes) -> None:
        """Add some whole lines."""
        with self.path.open("ab", buffering=0) as file:
            self._write(file, text.splitlines())

    def end(self) -> None:
        """Nothing more will come."""
        with self._grown:
            self.ended = True
            self._grown.notify_all()

    def read(self, query: LogQuery) -> Iterator[bytes]:
        """Pieces of the answer to a query; with ``follow`` until the run has ended."""
        left = query.limit if query.limit is not None else float("inf")
        for line in self._lines(query):
            if left <= 0:
                return
            text = line if query.timestamps else line[_STAMP + 1 :]
            text = text[: int(min(left, len(text)))]
            left -= len(text)
            yield text

    def _write(self, file: IO[bytes], lines: list[bytes]) -> None:
        if lines:
            stamp = rfc3339_nano(time.time_ns()).encode()
            file.write(b"".join(stamp + b" " + line + b"\n" for line in lines))
            with self._grown:
                self._grown.notify_all()

    def _lines(self, query: LogQuery) -> Iterator[bytes]:
        since = query.since.encode()
        with self.path.open("rb") as file:
            lines = (line for line in _whole(file) if line[:_STAMP] >= since)
            yield from lines if query.tail is None else deque(lines, maxlen=query.tail)
            while query.follow:
                with self._grown:
                    ended = self.ended
                    if not ended and file.tell() >= self.path.stat().st_size:
                        self._grown.wait(timeout=1.0)
                yield from (line for line in _whole(file) if line[:_STAMP] >= since)
                if ended:
                    return


def _whole(file: IO[bytes]) -> Iterator[bytes]:
    """The lines up to the end of the file; one that is being written waits for the next time."""
    while True:
        at = file.tell()
        line = file.readline()
        if not line.endswith(b"\n"):
            file.seek(at)
            return
        yield line
