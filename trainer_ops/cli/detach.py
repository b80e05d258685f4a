"""Ctrl-C and SIGTERM leave a training alone: they end the wait, not what is waited for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Detach", "Interrupts", "interrupts"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Detach(BaseException):
    """Raised where the wait stands when a person (Ctrl-C) or a system (SIGTERM) ends it.

    No Exception, so that nothing that handles errors on the way takes it for one.
    """


class Interrupts:
    """Decides what a signal does now."""

    def __init__(self) -> None:
        self._held = False
        self._pending = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Put the first signal off, for ``check`` after this block; a second one acts at once.

        For the submission: interrupted in the middle, nobody would know whether there is a training.
        """
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def check(self) -> None:
        """Raise for a signal that was put off."""
        if self._pending:
            raise Detach

    @contextmanager
    def released(self) -> Iterator[None]:
        """Within ``held``: a signal acts at once again, one that was put off included. For pauses between calls."""
        self.check()
        held, self._held = self._held, False
        try:
            yield
        finally:
            self._held = held

    def handle(self, number: int, frame: FrameType | None) -> None:
        """A signal came."""
        if self._held and not self._pending:
            self._pending = True
            return
        raise Detach


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """SIGINT and SIGTERM raise Detach in this block; elsewhere than in the main thread they are not ours to take."""
    mine = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield mine
        return
    before = [signal.signal(number, mine.handle) for number in _SIGNALS]
    try:
        yield mine
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)
