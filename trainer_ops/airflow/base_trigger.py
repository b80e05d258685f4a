"""What the triggers that wait for one thing have in common: they cross processes as JSON, and fire exactly once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from trainer_ops.lifecycle.clock import Clock, RealClock

__all__ = ["WaitingTrigger"]

_SHARED: dict[str, Any] = {"conn_id": None, "namespace": None, "deadline": None, "redefers": 0}


class WaitingTrigger(BaseTrigger):  # type: ignore[misc]  # Airflow is Any to mypy
    """Waits on a target; whatever breaks is an event too, because an escaped error would fail the task.

    Args:
        conn_id: the connection of the target; not needed for the engine on this machine.
        namespace: as the operator's.
        deadline: when the task's execution_timeout is over, in seconds since the epoch.
        redefers: how often the task has been deferred again after an ``error``.
    """

    # Names of parameters that have no default, and the defaults of those that the subclass adds.
    _required: ClassVar[tuple[str, ...]]
    _optional: ClassVar[Mapping[str, Any]] = {}
    # What the log says when the wait broke: what of it is not affected.
    _unharmed: ClassVar[str]

    def __init__(
        self,
        *,
        conn_id: str | None = None,
        namespace: str | None = None,
        deadline: float | None = None,
        redefers: int = 0,
    ) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.namespace = namespace
        self.deadline = deadline
        self.redefers = redefers

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Plain JSON, free of secrets; defaults are left out, so that an older triggerer can read it."""
        defaults = {**_SHARED, **self._optional}
        given = {name: getattr(self, name) for name in defaults if getattr(self, name) != defaults[name]}
        required = {name: getattr(self, name) for name in self._required}
        return f"{type(self).__module__}.{type(self).__qualname__}", required | given

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; fires exactly one event, whatever happens."""
        try:
            event = await self._wait()
        except Exception as exc:  # the worker decides whether to go on
            self.log.exception("The wait broke; %s", self._unharmed)
            event = {"status": "error", "error": f"{type(exc).__name__}: {exc}"}
        yield TriggerEvent(event | self._stands() | {"redefers": self.redefers})

    def clock(self) -> Clock:
        """What sleeps."""
        return RealClock()

    @abstractmethod
    async def _wait(self) -> dict[str, Any]:
        """To the end or the deadline; the event's ``status`` and what came of it."""

    def _stands(self) -> dict[str, Any]:
        """What the worker needs to go on from here."""
        return {}
