"""How long a source is asked again before it counts as unreachable."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime

__all__ = ["Patience", "retry_after"]


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and with what pauses.

    Attributes:
        tries: questions in a row that bring nothing new, before it is given up.
        first: seconds of the first pause; each further one is twice as long.
        most: seconds of the longest pause, also where the server asks for a longer one up to ``asked``.
        asked: the longest ``Retry-After`` that is waited for, in seconds (the Hugging Face hub counts requests in
            windows of five minutes).
        sleep: how to wait; None for a wait that ``end`` cuts short.
        ended: set once nobody is asked any more.
    """

    tries: int = 6
    first: float = 0.5
    most: float = 20.0
    asked: float = 330.0
    sleep: Callable[[float], None] | None = None
    ended: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    def end(self) -> None:
        """No further question is worth it: pauses that are being made end, in whatever thread, and are the last."""
        self.ended.set()

    def pause(self, nth: int, after: float | None = None) -> bool:
        """Wait before the next question; False when it is not worth it.

        Args:
            nth: 1 after the first failure.
            after: seconds that the server asked for, if it did.
        """
        if self.ended.is_set() or nth >= self.tries or (after is not None and after > self.asked):
            return False
        # Not all at the same moment: eight files are cut by one broken line.
        usual = min(self.most, self.first * 2.0 ** (nth - 1)) * random.uniform(0.75, 1.25)
        (self.sleep or self.ended.wait)(usual if after is None else max(after, usual))
        return not self.ended.is_set()


def retry_after(headers: Message, now: Callable[[], float] = time.time) -> float | None:
    """Seconds that an answer's ``Retry-After`` asks for; None where it has none that can be read."""
    said = (headers.get("Retry-After") or "").strip()
    if not said:
        return None
    if said.isdigit():
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - now())
    except (TypeError, ValueError):
        return None
