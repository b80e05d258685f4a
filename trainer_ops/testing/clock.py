"""A clock on which nobody waits: sleeping is what makes time pass."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

from trainer_ops.backends.base import Watch
from trainer_ops.lifecycle.threads import pending_calls

__all__ = ["Timer", "VirtualClock"]

# How many rounds of an event loop must pass without anybody going to sleep before everybody is thought to be asleep.
# A task that was woken needs a few to pass through the futures and gathers above it.
_QUIET_ROUNDS = 16


@dataclass(order=True, slots=True)
class Timer:
    """A callback to come; ``cancel`` makes it never come."""

    when: float
    order: int
    callback: Callable[[], object] | None = field(compare=False)

    def cancel(self) -> None:
        """Idempotent."""
        self.callback = None


class VirtualClock:
    """``lifecycle.clock.Clock`` for tests.

    ``sleep`` moves the time itself: to the next callback that is due, or to its end. In an event loop time moves to
    the next wake-up when all who wait on this clock sleep and no backend call is under way, so a thousand waiters are
    deterministic. What else a test awaits (its own threads, sockets) the clock does not know of.

    Attributes:
        slept: how long each sleep lasted, in the order in which they ended.
    """

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self.slept: list[float] = []
        self._now = start
        self._timers: list[Timer] = []
        self._order = itertools.count()
        self._lock = threading.Lock()
        self._activity = 0
        self._sleepers = 0
        self._pumping: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    def now(self) -> float:
        """Seconds since the epoch, as far as this test is concerned."""
        return self._now

    def at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call back when the time is ``when``."""
        timer = Timer(when, next(self._order), callback)
        with self._lock:
            heapq.heappush(self._timers, timer)
        return timer

    def after(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call back in ``seconds``."""
        return self.at(self._now + seconds, callback)

    def advance(self, seconds: float) -> None:
        """Let time pass, callbacks included, without a sleeper."""
        deadline = self._now + seconds
        while self._step(deadline):
            pass

    def sleep(self, seconds: float, watch: Watch | None = None) -> None:
        """Let time pass; ``watch`` ends it early."""
        start = self._now
        deadline = start + max(0.0, seconds)
        while not (watch is not None and watch.wait(0)) and self._step(deadline):
            pass
        self.slept.append(self._now - start)

    async def asleep(self, seconds: float, watch: Watch | None = None) -> None:
        """Sleep until time has passed, or ``watch`` wakes."""
        loop = asyncio.get_running_loop()
        start = self._now
        awake: asyncio.Future[None] = loop.create_future()
        timer = self.after(max(0.0, seconds), lambda: loop.call_soon_threadsafe(_wake, awake))
        listening = watch is not None and _listen(watch, lambda: loop.call_soon_threadsafe(_wake, awake))
        self._activity += 1
        self._sleepers += 1
        self._pump(loop)
        try:
            await awake
        finally:
            self._sleepers -= 1
            timer.cancel()
            if watch is not None and listening:
                _listen(watch, None)
                watch.wait(0)
            self._activity += 1
        self.slept.append(self._now - start)

    def _step(self, deadline: float) -> bool:
        """Move to the next callback that is due until ``deadline`` and make it; False: moved to ``deadline``."""
        with self._lock:
            if self._next() > deadline:
                self._now = max(self._now, deadline)
                return False
            timer = heapq.heappop(self._timers)
            callback, timer.callback = timer.callback, None
            self._now = max(self._now, timer.when)
        # Not under the lock: it will schedule others, and takes its own locks.
        if callback is not None:
            callback()
        return True

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._pumping:
            self._pumping.add(loop)
            loop.call_soon(self._round, loop, self._activity, 0)

    def _round(self, loop: asyncio.AbstractEventLoop, activity: int, quiet: int) -> None:
        if pending_calls(loop):
            # Threads are at work, in real time; look again when they may be done.
            loop.call_later(0.0005, self._round, loop, -1, 0)
            return
        if activity != self._activity:
            loop.call_soon(self._round, loop, self._activity, 0)
        elif quiet < _QUIET_ROUNDS:
            loop.call_soon(self._round, loop, activity, quiet + 1)
        elif self._sleepers and self._step_to_next():
            loop.call_soon(self._round, loop, self._activity, 0)
        else:
            self._pumping.discard(loop)

    def _step_to_next(self) -> bool:
        with self._lock:
            when = self._next()
        if when == math.inf:
            return False
        # All that is due at that moment, before anybody who wakes up looks around.
        while self._step(when):
            pass
        return True

    def _next(self) -> float:
        """When the next timer is due; the lock is held."""
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0].when if self._timers else math.inf


def _wake(awake: asyncio.Future[None]) -> None:
    if not awake.done():
        awake.set_result(None)


def _listen(watch: Watch, callback: Callable[[], object] | None) -> bool:
    """Have a watch of ``MemoryBackend`` call back; other watches are left to their own time."""
    listen = getattr(watch, "listen", None)
    if listen is None:
        return False
    listen(callback)
    return True
