"""The supervisor's event loop: readable files, timers, ended children. One thread; nothing is polled.

asyncio would do, but its import alone takes longer than everything else a supervisor loads. May import: the standard
library.
"""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["Loop", "Timer"]

Callback = Callable[[], None]


class Timer:
    """A call at a later time, unless it is cancelled; ``cancelled`` also once it was made."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callback) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Do not call; idempotent, also after it was called."""
        self.cancelled = True


class Loop:
    """Runs callbacks until ``stop``.

    Args:
        on_child: called when a child may have ended.
        on_terminate: called after SIGTERM.
    """

    def __init__(self, *, on_child: Callback, on_terminate: Callback) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self.stopped = False
        self._handlers = {signal.SIGCHLD: on_child, signal.SIGTERM: on_terminate}
        self._signals, writer = os.pipe()
        for fd in (self._signals, writer):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        # Handlers, never SIG_IGN: what is ignored here would stay ignored in the training.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, _nothing)
        self.add_reader(self._signals, self._on_signal)

    def add_reader(self, file: Any, callback: Callback) -> None:
        """Call whenever that file can be read from."""
        self._selector.register(file, selectors.EVENT_READ, callback)

    def later(self, seconds: float, callback: Callback) -> Timer:
        """Call once, after that many seconds."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + max(0.0, seconds), next(self._order), timer))
        return timer

    def stop(self) -> None:
        """Let ``run`` return after the current callback."""
        self.stopped = True

    def run(self) -> None:
        """Run until ``stop``."""
        while not self.stopped:
            for key, _ in self._selector.select(self._timeout()):
                if not self.stopped:
                    key.data()
            self._run_timers()

    def _timeout(self) -> float | None:
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _run_timers(self) -> None:
        now = time.monotonic()
        while not self.stopped and self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled:
                timer.cancelled = True
                timer.callback()

    def _on_signal(self) -> None:
        try:
            numbers = set(os.read(self._signals, 4096))
        except BlockingIOError:
            return
        for number, handler in self._handlers.items():
            if number in numbers:
                handler()


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """The wakeup file does the work; this only keeps the default action away."""
