"""A terminated KFP run deletes the Job that makes its snapshot; see ``cancel`` for why it is done in this way.

What the Job has fetched is kept, and the next one goes on from there. A Job that another step has started is left to
that one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from trainer_ops.backends.base import Backend
from trainer_ops.build.snapshot_job import ANNOTATION_ASKED_BY
from trainer_ops.kfp.cancel import CREATE_SECONDS, EXIT_CODE, on_sigterm
from trainer_ops.lifecycle.snapshots import SnapshotWait
from trainer_ops.model import keys

__all__ = ["JobHandle", "job_deleted_by_sigterm"]


class JobHandle:
    """Which Job to delete when SIGTERM comes."""

    def __init__(self, urgent: Any, asker: str) -> None:
        self._urgent = urgent
        self._asker = asker
        self._uid = ""
        self._delete: Callable[[], bool] | None = None

    def moved(self, wait: SnapshotWait) -> None:
        """This is the Job that is waited for now."""
        if wait.uid != self._uid:
            self._delete = None if wait.joined else self._urgent.prepare(wait.name, uid=wait.uid)
            self._uid = wait.uid

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        """SIGTERM has come."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self._delete is not None:
            self._delete()
        elif not self._uid:
            # It is not known yet which Job it is: one that is just being created is found by who asks.
            ours = {keys.LABEL_MANAGED_BY: keys.MANAGED_BY}
            self._urgent.sweep(ours, annotations={ANNOTATION_ASKED_BY: self._asker}, seconds=CREATE_SECONDS)
        os._exit(EXIT_CODE)


@contextmanager
def job_deleted_by_sigterm(backend: Backend, asker: str) -> Iterator[JobHandle]:
    """While this holds, SIGTERM deletes the snapshot's Job that the handle was told of and ends the process with 143.

    Args:
        backend: a cluster.
        asker: who asks for the snapshot; see ``begin_snapshot``.
    """
    urgent = backend.urgent("jobs")  # type: ignore[attr-defined]  # a cluster's, see ``backends.kubernetes``
    urgent.warm()
    handle = JobHandle(urgent, asker)
    try:
        with on_sigterm(handle):
            yield handle
    finally:
        urgent.close()
