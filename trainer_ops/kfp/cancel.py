"""A terminated KFP run cancels its training.

Between SIGTERM and the kill there is less than a second, and stdout is a broken pipe by then (seen on KFP 2.17.0), so
the handler prints nothing. Its first act is one delete call that lies ready, on a connection that is open; then the
process leaves with 143, never with 0. A training that is just being created is found by its run key.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

from trainer_ops.backends.base import Backend
from trainer_ops.lifecycle.attempts import attempts_of
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.model import keys
from trainer_ops.model.identity import JobRef, RunKey

__all__ = ["CREATE_SECONDS", "EXIT_CODE", "Handle", "cancelled_by_sigterm", "left_by_sigterm", "on_sigterm"]

EXIT_CODE = 128 + signal.SIGTERM
# A create that is under way when the signal comes is waited for so long.
CREATE_SECONDS = 0.55


class _Terminated(BaseException):
    """SIGTERM, for a target that has no urgent delete: raised where the process is, so that locks are let go."""


class Handle:
    """What to delete when SIGTERM comes."""

    def __init__(self, backend: Backend, key: RunKey | None) -> None:
        self._backend = backend
        self._labels = {} if key is None else {keys.LABEL_RUN_KEY: key.digest}
        self._ref: JobRef | None = None
        self._delete: Callable[[], bool] | None = None
        self._creating = False
        make = getattr(backend, "urgent", None)
        self._urgent: Any = None if make is None else make()
        if self._urgent is not None:
            self._urgent.warm()

    @property
    def backend(self) -> Backend:
        """The backend to submit with: it tells this handle when a create is under way."""
        return cast("Backend", _Creating(self._backend, self))

    def started(self, ref: JobRef) -> None:
        """This training is the one to cancel."""
        self._delete = None if self._urgent is None else self._urgent.prepare(ref.name, uid=ref.uid)
        self._ref = ref

    def ended(self) -> None:
        """That training is over; the next one of the same run is to be submitted."""
        self._ref = self._delete = None

    @contextmanager
    def creating(self) -> Iterator[None]:
        """A create is under way."""
        self._creating = True
        try:
            yield
        finally:
            self._creating = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        """SIGTERM has come."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self._urgent is not None and self._strike():
            os._exit(EXIT_CODE)
        raise _Terminated

    def _strike(self) -> bool:
        if self._delete is not None:
            return self._delete()
        if self._labels:
            self._urgent.sweep(self._labels, seconds=CREATE_SECONDS if self._creating else 0.0)
        return True

    def finish(self) -> None:
        """The same by ordinary calls; ends the process."""
        try:
            if self._ref is not None:
                self._backend.delete(self._ref.name, uid=self._ref.uid)
            elif self._labels:
                for attempt in attempts_of(self._backend, self._labels, now=RealClock().now()):
                    if attempt.active:
                        self._backend.delete(attempt.name, uid=attempt.uid)
        finally:
            os._exit(EXIT_CODE)

    def close(self) -> None:
        """Let go of the connection."""
        if self._urgent is not None:
            self._urgent.close()


class _Creating:
    """A backend that tells a handle of its creates."""

    def __init__(self, backend: Backend, handle: Handle) -> None:
        self._backend, self._handle = backend, handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def create(self, manifest: Mapping[str, Any]) -> Any:
        with self._handle.creating():
            return self._backend.create(manifest)


@contextmanager
def cancelled_by_sigterm(backend: Backend, key: RunKey | None = None) -> Iterator[Handle]:
    """While this holds, SIGTERM deletes the training that the handle was told of and ends the process.

    Outside the main thread, where no handler can be set, it does nothing.

    Args:
        backend: where it runs.
        key: who asks for it: until the handle knows the training, what this run has going is deleted.
    """
    handle = Handle(backend, key)
    try:
        with on_sigterm(handle):
            yield handle
    except _Terminated:
        handle.finish()
    finally:
        handle.close()


@contextmanager
def left_by_sigterm() -> Iterator[None]:
    """While this holds, SIGTERM ends the process with 143 and leaves the training alone."""
    with on_sigterm(lambda _signal, _frame: os._exit(EXIT_CODE)):
        yield


@contextmanager
def on_sigterm(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """While this holds, SIGTERM is this handler's; outside the main thread, where none can be set, nothing is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
