"""Waiting in the triggerer for trainings that others started: what ``TrainJobSensor`` defers to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

from airflow.triggers.base import BaseTrigger, TriggerEvent

from trainer_ops.lifecycle.clock import Clock, RealClock

__all__ = ["TrainJobsTrigger"]


class TrainJobsTrigger(BaseTrigger):  # type: ignore[misc]  # Airflow is Any to mypy
    """Waits for a selection of trainings and fires one event.

    The event is plain JSON with a ``status``: ``ended`` (with the ``verdict``), ``timeout`` (``deadline`` has come) or
    ``error`` (something else than a training broke: the ``error`` in words). It only looks: whatever happens to the
    task or the triggerer, the trainings go on.

    Args:
        selection: a ``Selection`` as JSON.
        until: an ``Until`` as JSON.
        of: ``all`` or ``any``.
        conn_id: as the sensor's.
        namespace: as the sensor's.
        deadline: seconds since the epoch.
        redefers: how often the task has been deferred again after an ``error``.
    """

    def __init__(
        self,
        selection: Mapping[str, Any],
        until: Mapping[str, Any],
        *,
        of: Literal["all", "any"] = "all",
        conn_id: str | None = None,
        namespace: str | None = None,
        deadline: float | None = None,
        redefers: int = 0,
    ) -> None:
        super().__init__()
        self.selection = dict(selection)
        self.until = dict(until)
        self.of: Literal["all", "any"] = of
        self.conn_id = conn_id
        self.namespace = namespace
        self.deadline = deadline
        self.redefers = redefers

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Plain JSON, free of secrets; defaults are left out, so that an older triggerer can read it."""
        optional = {name: getattr(self, name) for name in _DEFAULTS}
        return (
            "trainer_ops.airflow.waits.TrainJobsTrigger",
            {"selection": self.selection, "until": self.until}
            | {name: value for name, value in optional.items() if value != _DEFAULTS[name]},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; fires exactly one event, whatever happens."""
        try:
            event = await self._wait()
        except Exception as exc:  # the worker decides whether to go on; an escaped error would fail the task
            self.log.exception("Waiting for trainings broke; they are not affected")
            event = {"status": "error", "error": f"{type(exc).__name__}: {exc}"}
        yield TriggerEvent(event | {"redefers": self.redefers})

    def clock(self) -> Clock:
        """What sleeps."""
        return RealClock()

    async def _wait(self) -> dict[str, Any]:
        from trainer_ops.airflow.leases import leased
        from trainer_ops.airflow.tasklog import TaskLog
        from trainer_ops.lifecycle.group import Rule
        from trainer_ops.lifecycle.select import await_for
        from trainer_ops.lifecycle.selection import Selection
        from trainer_ops.status.until import Until

        rule = Rule(Until.from_json(self.until), of=self.of, deadline=self.deadline)
        async with leased(self.conn_id, self.namespace) as backend:
            verdict = await await_for(
                backend,
                Selection.from_json(self.selection),
                rule,
                clock=self.clock(),
                listener_for=lambda ref: TaskLog(self.log, ref.name),
            )
        if verdict.timed_out:
            return {"status": "timeout"}
        return {"status": "ended", "verdict": verdict.to_json()}


_DEFAULTS: dict[str, Any] = {"of": "all", "conn_id": None, "namespace": None, "deadline": None, "redefers": 0}
