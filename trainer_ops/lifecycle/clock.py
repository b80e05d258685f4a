"""Time as an argument: everything that waits is given a clock, so that no test has to."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    # Whatever waits imports this module, each DAG file too; the port brings along all that is observed of a training.
    from trainer_ops.backends.base import Watch

__all__ = ["Clock", "RealClock"]


class Clock(Protocol):
    """Now, and sleeping until something happens. ``testing.VirtualClock`` is the other implementation."""

    def now(self) -> float:
        """Seconds since the epoch. Wall time on purpose: deadlines cross processes and machines."""

    def sleep(self, seconds: float, watch: Watch | None = None) -> None:
        """Block for that long, or until ``watch`` wakes."""

    async def asleep(self, seconds: float, watch: Watch | None = None) -> None:
        """The same without blocking the event loop."""


class RealClock:
    """The computer's clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float, watch: Watch | None = None) -> None:
        """Block for that long, or until ``watch`` wakes."""
        if watch is None:
            time.sleep(max(0.0, seconds))
        else:
            watch.wait(max(0.0, seconds))

    async def asleep(self, seconds: float, watch: Watch | None = None) -> None:
        """The same without blocking the event loop."""
        if watch is None:
            await asyncio.sleep(max(0.0, seconds))
        else:
            await watch.wait_async(max(0.0, seconds))
