"""What a command works with: an open target, and time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainer_ops.backends.base import Backend
from trainer_ops.lifecycle.clock import Clock, RealClock
from trainer_ops.lifecycle.target import open_backend

__all__ = ["clock", "opened"]


@contextmanager
def opened(target: str | None) -> Iterator[Backend]:
    """The target of this URL; None: $TRAINER_OPS_TARGET, else this machine. Closed at the end.

    Raises:
        InvalidRequest: it cannot be opened.
    """
    backend = open_backend(target)
    try:
        yield backend
    finally:
        backend.close()


def clock() -> Clock:
    """The clock that commands sleep by."""
    return RealClock()
