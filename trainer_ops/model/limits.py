"""How long to wait for what. A light value: the triggerer and the launchers carry it without pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Each limit ends a wait with a category and a remedy of its own. Seconds, except ``max_restarts``; None is off.

    Attributes:
        queue_timeout: queued by Kueue or by the engine, or suspended.
        startup_timeout: admitted, but not training: pending, pulling, unschedulable, blocked, initializing.
        wait_timeout: from the start of the wait to its end, whatever the phase.
        unreachable_timeout: no answer from the target.
        missing_grace: a TrainJob just made may not be there yet for this long (replica lag).
        max_restarts: a node that fails again after this many restarts ends the training: it is cancelled.
    """

    queue_timeout: float | None = None
    startup_timeout: float | None = None
    wait_timeout: float | None = None
    unreachable_timeout: float = 1800.0
    missing_grace: float = 30.0
    max_restarts: int | None = None

    def to_json(self) -> dict[str, float | int | None]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Limits:
        """The inverse of ``to_json``; names it does not know are left out, so that versions may differ."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})
