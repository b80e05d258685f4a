"""Reading log files in pieces: bounded memory whatever is in them, and a position from which anybody can go on.

A position is a byte offset at which a line (or a part of a long one) begins, so that no line is lost or repeated and no
character is cut. A progress bar that redraws itself with carriage returns counts as one line, the newest drawing of it.
"""

from __future__ import annotations

import os
from typing import BinaryIO

from trainer_ops.backends.base import LogChunk

__all__ = ["LINE_LIMIT", "read_log"]

LINE_LIMIT = 64 * 1024
_BLOCK = 256 * 1024


def read_log(path: str | os.PathLike[str], *, after: str, tail: int | None, limit_bytes: int, over: bool) -> LogChunk:
    """Lines of one file after a position, or its last ones.

    Args:
        path: the file; one that is not there is empty.
        after: an earlier chunk's position; "" is the start.
        tail: how many lines from the end, within ``limit_bytes`` of it; only from the start.
        limit_bytes: how much to read; one line is read whole (or 64 KiB of it) even if that is more.
        over: nothing will be added to the file: its last line counts without a line end.
    """
    start = int(after) if after.isdigit() else 0
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if tail is not None and not after:
                start = _tail_start(file, size, tail, limit_bytes)
            file.seek(start)
            data = file.read(max(limit_bytes, LINE_LIMIT + 8))  # enough to see that a line is too long
    except OSError:
        return LogChunk(position=after, ended=over)
    last = start + len(data) >= size
    lines, used = _split(data, over and last)
    if len(lines) > 1 and used > limit_bytes:
        lines, used = _shorten(data, limit_bytes, lines, used)
    position = start + used
    more = position < size and (not last or used < len(data)) and bool(used)
    if last and not over:
        more = False  # an unfinished line: it is not there yet
    return LogChunk(tuple(lines), str(position), more, over and position >= size)


def _shorten(data: bytes, limit: int, lines: list[str], used: int) -> tuple[list[str], int]:
    cut = data.rfind(b"\n", 0, limit) + 1
    return _split(data[:cut], False) if cut else (lines, used)


def _split(data: bytes, over: bool) -> tuple[list[str], int]:
    """Complete lines at the front of ``data`` and how many bytes they take; ``over``: the rest is a line too."""
    lines: list[str] = []
    position = 0
    while True:
        end = data.find(b"\n", position)
        if end < 0:
            break
        _add(lines, _drawn(data[position:end]))
        position = end + 1
    rest = data[position:]
    if over and rest:
        _add(lines, _drawn(rest))
        return lines, len(data)
    redraw = rest.rfind(b"\r", 0, len(rest) - 1) + 1  # the last byte may be half of \r\n
    if redraw:
        _add(lines, _drawn(rest[:redraw]))
        position, rest = position + redraw, rest[redraw:]
    while len(rest) > LINE_LIMIT + 4:
        part = _part(rest)
        lines.append(part.decode("utf-8", "replace"))
        position, rest = position + len(part), rest[len(part) :]
    return lines, position


def _drawn(line: bytes) -> bytes:
    """What a terminal would show of a line in the end: what follows the last carriage return."""
    line = line.rstrip(b"\r")
    return line[line.rfind(b"\r") + 1 :]


def _add(lines: list[str], line: bytes) -> None:
    while len(line) > LINE_LIMIT:
        part = _part(line)
        lines.append(part.decode("utf-8", "replace"))
        line = line[len(part) :]
    lines.append(line.decode("utf-8", "replace"))


def _part(line: bytes) -> bytes:
    """The first 64 KiB, or up to three bytes less, so that no character is cut."""
    for cut in range(LINE_LIMIT, LINE_LIMIT - 4, -1):
        if line[cut] & 0xC0 != 0x80:
            return line[:cut]
    return line[:LINE_LIMIT]  # no UTF-8 at all


def _tail_start(file: BinaryIO, size: int, lines: int, limit: int) -> int:
    """Where the last ``lines`` lines begin, looking back at most ``limit`` bytes."""
    if lines <= 0:
        return size
    position, wanted = size, lines + 1
    newlines: list[int] = []
    while position > 0 and size - position < limit and len(newlines) < wanted:
        begin = max(0, position - _BLOCK)
        file.seek(begin)
        block = file.read(position - begin)
        found = [begin + i for i, byte in enumerate(block) if byte == 0x0A]
        newlines[:0] = found
        position = begin
    ends_clean = bool(newlines) and newlines[-1] == size - 1
    needed = lines + 1 if ends_clean else lines
    if len(newlines) >= needed:
        return newlines[-needed] + 1
    return 0 if position == 0 else newlines[0] + 1 if newlines else position
