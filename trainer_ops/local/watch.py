"""Wake-ups for one TrainJob or for all: a few stat calls now and then, no connection, no thread, no database."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from trainer_ops.local.store import Store

__all__ = ["LocalWatch", "RootWatch"]

_FAST, _SLOW = 0.02, 0.1
_FAST_SECONDS = 2.0
_LOOK_UP_SECONDS = 0.5

Mark = tuple[object, ...]


class _Watch:
    """Compares marks: what files look like from outside."""

    def __init__(self) -> None:
        self._closed = False
        self._seen = self._mark()

    def wait(self, timeout: float) -> bool:
        """Block for a change, at most ``timeout`` seconds; whether there was one."""
        began = time.monotonic()
        while not self._changed():
            pause = _pause(began, timeout)
            if pause <= 0:
                return False
            time.sleep(pause)
        return True

    async def wait_async(self, timeout: float) -> bool:
        """The same without blocking the event loop."""
        began = time.monotonic()
        while not self._changed():
            pause = _pause(began, timeout)
            if pause <= 0:
                return False
            await asyncio.sleep(pause)
        return True

    def close(self) -> None:
        """Let go of it; whoever waits wakes up."""
        self._closed = True

    def _changed(self) -> bool:
        if self._closed:
            return True
        mark = self._mark()
        changed, self._seen = mark != self._seen, mark
        return changed

    def _mark(self) -> Mark:
        raise NotImplementedError


class LocalWatch(_Watch):
    """Sees changes of a TrainJob, its pods and its logs within a tenth of a second.

    Args:
        find: gives the uid of the TrainJob of this name, None when there is none.
    """

    def __init__(self, store: Store, find: Callable[[], str | None]) -> None:
        self._store, self._find = store, find
        self._looked_up = 0.0
        self._uid: str | None = None
        super().__init__()

    def _mark(self) -> Mark:
        if self._uid is None:
            now = time.monotonic()
            if self._looked_up and now - self._looked_up < _LOOK_UP_SECONDS:
                return ()
            self._looked_up = now
            self._uid = self._find()
        if self._uid is None:
            return ()
        folder = self._store.folder(self._uid)
        try:
            changed = os.stat(f"{folder}/changed").st_mtime_ns
            with os.scandir(f"{folder}/logs") as entries:
                logs = tuple(sorted((e.name, e.stat().st_size) for e in entries))
        except OSError:
            self._uid = None  # it was deleted: from now on another one of this name counts
            return ("gone",)
        return (changed, logs)


class RootWatch(_Watch):
    """Sees changes of any TrainJob of a root and its pods, but not of logs, within a tenth of a second.

    Every change is a transaction, and every transaction is written to the database's log or, when that is taken in,
    to the database. How many TrainJobs there are does not matter.
    """

    def __init__(self, store: Store) -> None:
        self._files = (f"{store.root}/state.db-wal", f"{store.root}/state.db")
        super().__init__()

    def _mark(self) -> Mark:
        return tuple(map(_look, self._files))


def _look(path: str) -> Mark:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _pause(began: float, timeout: float) -> float:
    waited = time.monotonic() - began
    return min(_FAST if waited < _FAST_SECONDS else _SLOW, timeout - waited)
