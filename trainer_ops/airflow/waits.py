"""Waiting in the triggerer for trainings that others started: what ``TrainJobSensor`` defers to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from trainer_ops.airflow.base_trigger import WaitingTrigger

__all__ = ["TrainJobsTrigger"]


class TrainJobsTrigger(WaitingTrigger):
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

    _required = ("selection", "until")
    _optional: ClassVar[Mapping[str, Any]] = {"of": "all"}
    _unharmed = "the trainings are not affected"

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
        super().__init__(conn_id=conn_id, namespace=namespace, deadline=deadline, redefers=redefers)
        self.selection = dict(selection)
        self.until = dict(until)
        self.of: Literal["all", "any"] = of

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
