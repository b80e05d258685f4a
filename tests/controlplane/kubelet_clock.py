"""Time as the test kubelet has it: its long waits (back-off, syncs, mount retries) divided by a factor."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone

__all__ = ["Clock", "back_off", "rfc3339", "rfc3339_nano"]


def rfc3339(seconds: float) -> str:
    """``2026-11-30T12:00:00Z``, as ``metav1.Time`` is written."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_nano(nanoseconds: int) -> str:
    """With nine digits of a second, as a kubelet stamps a line of log."""
    whole, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{rfc3339(whole)[:-1]}.{rest:09d}Z"


def back_off(restart: int) -> float:
    """Seconds that a kubelet waits before the ``restart``-th restart: 0, 10, 20, 40 … 300."""
    return 0.0 if restart <= 1 else min(10.0 * 2 ** (restart - 2), 300.0)


@dataclass(frozen=True)
class Clock:
    """A wall clock with shortened waits.

    Attributes:
        speed: what waits of the kubelet are divided by.
        least_grace: grace periods are divided too, but not below this many seconds (or what was asked for).
    """

    speed: float = 1.0
    least_grace: float = 3.0

    def now(self) -> float:
        """Seconds since the epoch, never divided."""
        return time.time()

    def short(self, seconds: float) -> float:
        """How long a wait of so many seconds lasts here."""
        return seconds / self.speed

    def grace(self, seconds: float) -> float:
        """How long a grace period of so many seconds lasts here."""
        return max(seconds / self.speed, min(seconds, self.least_grace))
