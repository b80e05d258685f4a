"""A terminated KFP run cancels its training.

Between SIGTERM and the kill there is less than a second, and stdout is a broken pipe by then (seen on KFP 2.17.0), so
the handler prints nothing: it deletes, and leaves with 143, never with 0.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from trainer_ops.backends.base import Backend
from trainer_ops.model.identity import JobRef

__all__ = ["EXIT_CODE", "cancelled_by_sigterm"]

EXIT_CODE = 128 + signal.SIGTERM


class _Handle:
    """What to delete. SIGTERM before there is a training is kept, and acts the moment that there is one."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._ref: JobRef | None = None
        self._asked = False

    def started(self, ref: JobRef) -> None:
        """This training is the one to cancel."""
        self._ref = ref
        if self._asked:
            self._cancel()

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked = True
        if self._ref is not None:
            self._cancel()

    def _cancel(self) -> None:
        try:
            if self._ref is not None:
                self._backend.delete(self._ref.name, uid=self._ref.uid)
        finally:
            os._exit(EXIT_CODE)


@contextmanager
def cancelled_by_sigterm(backend: Backend) -> Iterator[_Handle]:
    """While this holds, SIGTERM deletes the training that the handle was told of and ends the process.

    Outside the main thread, where no handler can be set, it does nothing.
    """
    handle = _Handle(backend)
    if threading.current_thread() is not threading.main_thread():
        yield handle
        return
    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield handle
    finally:
        signal.signal(signal.SIGTERM, before)
