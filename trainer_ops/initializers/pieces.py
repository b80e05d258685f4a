"""One large file read in pieces by several threads, written in order by one.

Written in order, so that what is there is always the file's beginning: whatever breaks, the next attempt goes on from
its length. What waits to be written is bounded for all files of a provider together.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

__all__ = ["PIECE", "Pieces", "Read", "Stopped"]

# As large as the AWS tools take it: the time to ask does not matter beside it, and eight of them are little memory.
PIECE: Final = 8 << 20
AT_ONCE: Final = 8
# The first ones are small, and grow while they come quickly: what has not come whole is lost when a download breaks
# off, and on a slow line eight large ones would be a minute of it, again and again.
_FIRST: Final = 1 << 20
_QUICK_SECONDS: Final = 2.0


class Stopped(Exception):
    """Another piece of the same file failed; this one is not wanted any more."""


# ``read(offset, view, stopped)``
Read = Callable[[int, memoryview, Callable[[], bool]], None]


class Pieces:
    """Threads and memory for pieces, shared by all files of a provider.

    Args:
        size: bytes of one piece, at most.
        at_once: pieces being read or waiting to be written, of all files together: the memory is ``size * at_once``.
        clock: seconds, for how quickly a piece came.
    """

    def __init__(
        self, *, size: int = PIECE, at_once: int = AT_ONCE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.size = size
        self._clock = clock
        self._permits = threading.Semaphore(at_once)
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="piece")
        self._free: deque[bytearray] = deque()

    def copy(
        self, start: int, stop: int, write: Callable[[memoryview], object], read: Read, wrote: Callable[[int], None]
    ) -> None:
        """Bytes ``start`` to ``stop`` of something, in order.

        Args:
            start: the first byte.
            stop: one past the last.
            write: takes one piece after the other.
            read: ``read(offset, view, stopped)`` fills all of ``view`` from ``offset``, or raises; it raises
                ``Stopped`` when ``stopped()`` turns true.
            wrote: told of each further so many bytes.

        Raises:
            Exception: the first that ``read``, ``write`` or ``wrote`` raises; no piece is being read any more then.
        """
        ahead: deque[tuple[Future[float], bytearray, int]] = deque()
        stopped = threading.Event()
        width, size = 2, min(_FIRST, self.size)
        try:
            while start < stop or ahead:
                # At least one piece is always ours, so that files wait for each other and never in a circle.
                while start < stop and len(ahead) < width and self._permits.acquire(blocking=not ahead):
                    count = min(size, stop - start)
                    buffer = self._buffer()
                    view = memoryview(buffer)[:count]
                    ahead.append((self._pool.submit(self._timed, read, start, view, stopped.is_set), buffer, count))
                    start += count
                future, buffer, count = ahead[0]
                if not future.done():
                    # The line is slower than the disk: one more connection may help. Otherwise it only costs.
                    width += 1
                size = self._next(size, future.result())
                write(memoryview(buffer)[:count])
                ahead.popleft()
                self._give_back(buffer)
                wrote(count)
        finally:
            stopped.set()
            wait([future for future, _, _ in ahead])
            for _, buffer, _ in ahead:
                self._give_back(buffer)

    def _timed(self, read: Read, start: int, view: memoryview, stopped: Callable[[], bool]) -> float:
        began = self._clock()
        read(start, view, stopped)
        return self._clock() - began

    def _next(self, size: int, took: float) -> int:
        """How large the pieces are that are asked for now, after one of ``size`` took so long."""
        if took < _QUICK_SECONDS:
            return min(self.size, size * 2)
        return size if took < 4 * _QUICK_SECONDS else max(min(_FIRST, self.size), size // 2)

    def close(self) -> None:
        """Let the threads and the memory go; idempotent."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._free.clear()

    def _buffer(self) -> bytearray:
        try:
            return self._free.pop()
        except IndexError:
            return bytearray(self.size)

    def _give_back(self, buffer: bytearray) -> None:
        self._free.append(buffer)
        self._permits.release()
