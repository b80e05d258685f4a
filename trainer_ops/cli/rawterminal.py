"""The person's own terminal, lent to a command that runs elsewhere. Given back on every way out."""

from __future__ import annotations

import os
import signal
import termios
import tty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from trainer_ops.backends.base import Terminal

__all__ = ["is_terminal", "lent"]

_USUAL_SIZE = (80, 24)


def is_terminal(fd: int) -> bool:
    """Whether it is a terminal; False for one that is closed."""
    try:
        return os.isatty(fd)
    except OSError:
        return False


@contextmanager
def lent(fd: int) -> Iterator[Terminal]:
    """Pass every key on, Ctrl-C too, and each change of the window's size.

    Args:
        fd: of the terminal; of something else that stands for one, as when keys come from a pipe: then the size is
            80x24 and nothing is to be given back.

    SIGTERM and SIGHUP leave the block as ``SystemExit``, so that the terminal is given back before this process ends.
    """
    with ExitStack() as back:
        for number in (signal.SIGTERM, signal.SIGHUP):
            back.callback(signal.signal, number, signal.signal(number, _leave))
        if not is_terminal(fd):
            yield Terminal(lambda: _USUAL_SIZE)
            return
        # TCSANOW: a terminal that is stopped with Ctrl-S would keep the others waiting.
        back.callback(termios.tcsetattr, fd, termios.TCSANOW, termios.tcgetattr(fd))
        tty.setraw(fd, termios.TCSANOW)
        yield Terminal(lambda: _size(fd), back.enter_context(_window_changes()))


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _size(fd: int) -> tuple[int, int]:
    try:
        columns, rows = os.get_terminal_size(fd)
    except OSError:
        return _USUAL_SIZE
    return (columns, rows) if columns and rows else _USUAL_SIZE


@contextmanager
def _window_changes() -> Iterator[int]:
    """A descriptor that gives a byte for each SIGWINCH."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def changed(number: int, frame: FrameType | None) -> None:
        try:
            os.write(writer, b"!")
        except BlockingIOError:
            pass  # so many are waiting that this one is among them

    before = signal.signal(signal.SIGWINCH, changed)
    try:
        yield reader
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(reader)
        os.close(writer)
