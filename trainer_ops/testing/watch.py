"""The wake-ups of ``MemoryBackend``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

__all__ = ["MemoryWatch"]


class MemoryWatch:
    """``backends.base.Watch`` in memory; also calls back, which is how ``VirtualClock`` hears of changes."""

    def __init__(self, close: Callable[[MemoryWatch], None]) -> None:
        self._changed = threading.Event()
        self._close = close
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
        self.listen(lambda: loop.call_soon_threadsafe(woken.set))
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
        self._close(self)
