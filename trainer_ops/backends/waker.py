"""A wake-up for one waiter, from any thread, for a thread or for an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

__all__ = ["Waker"]


class Waker:
    """``base.Watch`` for adapters that are told of changes. Costs an event and no thread.

    It also calls back, which is how a clock that does not really sleep hears of changes.
    """

    def __init__(self, on_close: Callable[[Waker], object]) -> None:
        """Make it; ``on_close`` is called once, when the waiter lets go."""
        self._changed = threading.Event()
        self._on_close: Callable[[Waker], object] | None = on_close
        self._callback: Callable[[], object] | None = None

    def notify(self) -> None:
        """Something changed."""
        self._changed.set()
        callback = self._callback
        if callback is not None:
            callback()

    def listen(self, callback: Callable[[], object] | None) -> None:
        """Call back at the next change, or at once when there was one since the last wait; None stops it."""
        self._callback = callback
        if callback is not None and self._changed.is_set():
            callback()

    def wait(self, timeout: float) -> bool:
        """Block for a change, in real time; 0 only asks."""
        changed = self._changed.wait(timeout) if timeout > 0 else self._changed.is_set()
        self._changed.clear()
        return changed

    async def wait_async(self, timeout: float) -> bool:
        """The same without blocking the event loop."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(woken.set)
            except RuntimeError:
                # The loop was closed under a notifier that still held this callback: there is nobody to wake.
                return

        self.listen(wake)
        try:
            await asyncio.wait_for(woken.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        finally:
            self.listen(None)
            self._changed.clear()
        return True

    def close(self) -> None:
        """Idempotent."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close(self)
