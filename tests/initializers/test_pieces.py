"""Pieces of a large file: small at first and on a slow line, so that a download that breaks off keeps what has come."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trainer_ops.initializers.pieces import PIECE, Pieces

MIB = 1 << 20


class Line:
    """Reads one piece after the other, each in as many seconds as it says; ``asked`` are their sizes."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.now = 0.0
        self.asked: list[int] = []
        self._seconds = seconds
        self.pieces = Pieces(at_once=1, clock=lambda: self.now)

    def copy(self, size: int) -> tuple[bytes, list[int]]:
        out, wrote = bytearray(), list[int]()
        try:
            self.pieces.copy(0, size, out.extend, self._read, wrote.append)
        finally:
            self.pieces.close()
        return bytes(out), wrote

    def _read(self, offset: int, view: memoryview, stopped: Callable[[], bool]) -> None:
        self.asked.append(len(view))
        self.now += self._seconds(len(view))
        view[:] = bytes([offset // MIB % 251]) * len(view)


def test_on_a_quick_line_they_grow() -> None:
    line = Line(lambda _size: 0.01)
    found, wrote = line.copy(40 * MIB)
    assert [size // MIB for size in line.asked] == [1, 2, 4, 8, 8, 8, 8, 1]
    assert wrote == line.asked
    assert len(found) == 40 * MIB
    assert max(line.asked) == PIECE


def test_on_a_slow_line_they_stay_small() -> None:
    """Half a megabyte a second: something is there, and told, every two seconds."""
    line = Line(lambda size: size / (MIB / 2))
    _, wrote = line.copy(6 * MIB)
    assert wrote == [MIB] * 6


def test_they_shrink_where_a_line_becomes_slow() -> None:
    line = Line(lambda _size: 0.1 if len(line.asked) < 4 else 20.0)
    line.copy(24 * MIB)
    assert [size // MIB for size in line.asked] == [1, 2, 4, 8, 4, 2, 1, 1, 1]


def test_what_has_come_before_it_breaks_off_is_written() -> None:
    line = Line(lambda size: size / MIB * 4)
    written = bytearray()

    def read(offset: int, view: memoryview, stopped: Callable[[], bool]) -> None:
        if offset == 3 * MIB:
            raise OSError("the line was cut")
        line._read(offset, view, stopped)

    with pytest.raises(OSError, match="cut"):
        line.pieces.copy(0, 64 * MIB, written.extend, read, lambda _count: None)
    line.pieces.close()
    assert len(written) == 3 * MIB
