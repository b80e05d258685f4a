"""Asking again while the target is away. For idempotent calls only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from trainer_ops.errors import Unreachable
from trainer_ops.lifecycle.clock import Clock

__all__ = ["pauses", "persist"]

T = TypeVar("T")


def pauses(first: float = 1.0, most: float = 30.0) -> Iterator[float]:
    """Seconds between tries: doubling from ``first`` to ``most``, without end.

    Without jitter: an adapter that many waiters share a server through spreads its own retries.
    """
    seconds = first
    while True:
        yield seconds
        seconds = min(seconds * 2, most)


def persist(
    call: Callable[[], T],
    *,
    clock: Clock,
    patience: float,
    away: Callable[[Unreachable], None] = lambda error: None,
) -> T:
    """The answer of ``call``, asked again after each ``Unreachable`` for at most ``patience`` seconds.

    ``away`` is told of the first one, before the first pause.

    Raises:
        Unreachable: the last one, when patience ends.
    """
    deadline = clock.now() + patience
    told = False
    for pause in pauses():
        try:
            return call()
        except Unreachable as error:
            if not told:
                told = True
                away(error)
            left = deadline - clock.now()
            if left <= 0:
                raise
            clock.sleep(min(pause, left))
    raise AssertionError("pauses never end")
