"""What a supervisor has to say, gathered and written in one transaction per turn of its loop."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from trainer_ops.errors import Unreachable
from trainer_ops.local import records
from trainer_ops.local.loop import Loop, Timer
from trainer_ops.local.store import Store

__all__ = ["Recorder"]

Raw = dict[str, Any]
Change = Callable[[sqlite3.Connection, Raw], None]
RETRY_SECONDS = 1.0


class Recorder:
    """Gathers changes of one TrainJob; ``flush`` writes them, at the latest in the loop's next turn.

    Args:
        status: gives the current ``status.jobsStatus``; asked at each flush.
    """

    def __init__(self, store: Store, loop: Loop, uid: str, name: str, *, status: Callable[[], list[Raw]]) -> None:
        self._store, self._loop, self.uid, self.name = store, loop, uid, name
        self._status = status
        self._pods: dict[str, Raw] = {}
        self._events: list[tuple[str, str, str, str, bool, float]] = []
        self._processes: list[tuple[int, str]] = []
        self._changes: list[Change] = []
        self._last_status: list[Raw] | None = None
        self._soon: Timer | None = None

    def pod(self, pod: Raw) -> None:
        """This pod has changed."""
        self._pods[pod["metadata"]["uid"]] = pod
        self._flush_soon()

    def process(self, pid: int, start: str) -> None:
        """This is the first process of a container."""
        self._processes.append((pid, start))
        self._flush_soon()

    def event(self, kind: str, name: str, reason: str, message: str, *, warning: bool = False) -> None:
        """This has happened."""
        self._events.append((kind, name, reason, message, warning, time.time()))
        self._flush_soon()

    def changed(self) -> None:
        """``jobsStatus`` may have changed."""
        self._flush_soon()

    def forget_pods(self) -> None:
        """The pods of an earlier run are of no interest any more."""
        self._pods.clear()

    @property
    def pending(self) -> bool:
        """Whether something could not be written so far."""
        return bool(self._changes)

    def _flush_soon(self, seconds: float = 0.0) -> None:
        if self._soon is None or self._soon.cancelled:
            self._soon = self._loop.later(seconds, self.flush)

    def flush(self, change: Change | None = None) -> None:
        """Write what was gathered, and in the same transaction what ``change`` does to the TrainJob.

        While the database cannot be written (a full disk) everything is kept and tried again: that is no reason to
        end a training. Only one whose folder is gone is lost.

        Raises:
            Unreachable: the folder is gone.
        """
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if change is not None:
            self._changes.append(change)
        try:
            self._write(self._status())
        except Unreachable:
            if not os.path.isdir(self._store.folder(self.uid)):
                raise
            self._flush_soon(RETRY_SECONDS)
            return
        self._pods, self._events, self._processes, self._changes = {}, [], [], []
        self._store.touch(self.uid)

    def _write(self, status: list[Raw]) -> None:
        with self._store.write() as connection:
            for pod in self._pods.values():
                records.put_pod(connection, self.uid, pod)
            for pid, start in self._processes:
                records.add_process(connection, self.uid, pid, start)
            for kind, name, reason, message, warning, at in self._events:
                records.add_event(connection, self.uid, kind, name, reason, message, now=at, warning=warning)
            if self._changes or status != self._last_status:
                records.change_job(connection, self.uid, lambda job: self._change(connection, job, status))
        self._last_status = status

    def _change(self, connection: sqlite3.Connection, job: Raw, status: list[Raw]) -> None:
        if status:
            job.setdefault("status", {})["jobsStatus"] = status
        for change in self._changes:
            change(connection, job)
