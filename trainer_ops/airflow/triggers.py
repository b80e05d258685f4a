"""Waiting for a training in the triggerer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from trainer_ops.airflow.base_trigger import WaitingTrigger

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend
    from trainer_ops.status.wait import Wait

__all__ = ["TrainJobTrigger"]


class TrainJobTrigger(WaitingTrigger):
    """Waits for one training, writes its log lines to the task's log, and fires one event.

    The event is plain JSON with a ``status``: ``ended`` (with the ``outcome``), ``timeout`` (``deadline`` has come)
    or ``error`` (something else than the training broke: the ``error`` in words). Every event carries what is needed
    to go on: ``wait``, ``cursor``, ``redefers``.

    A triggerer that stops, or hands the trigger to another one, leaves the training alone. A user who marks or clears
    the deferred task stops it, by ``on_kill``: Airflow calls that from 3.3 on; older versions leave it running.

    Args:
        wait: the ``Wait`` as JSON: which training, its limits, as absolute times.
        conn_id: the connection of a cluster; not needed for the engine on this machine.
        namespace: as the operator's.
        cursor: how far the logs were read; None is from their start.
        follow_logs: write log lines.
        kill_policy: what ``on_kill`` does: ``delete``, ``suspend`` or ``keep``.
        deadline: when the task's execution_timeout is over, in seconds since the epoch.
        redefers: how often the task has been deferred again after an ``error``.
    """

    _required = ("wait",)
    _optional: ClassVar[Mapping[str, Any]] = {"cursor": None, "follow_logs": True, "kill_policy": "delete"}
    _unharmed = "the training is not affected"

    def __init__(
        self,
        wait: Mapping[str, Any],
        *,
        conn_id: str | None = None,
        namespace: str | None = None,
        cursor: Mapping[str, Any] | None = None,
        follow_logs: bool = True,
        kill_policy: Literal["delete", "suspend", "keep"] = "delete",
        deadline: float | None = None,
        redefers: int = 0,
    ) -> None:
        super().__init__(conn_id=conn_id, namespace=namespace, deadline=deadline, redefers=redefers)
        self.wait = dict(wait)
        self.cursor = None if cursor is None else dict(cursor)
        self.follow_logs = follow_logs
        self.kill_policy: Literal["delete", "suspend", "keep"] = kill_policy

    def _stands(self) -> dict[str, Any]:
        return {"wait": self.wait, "cursor": self.cursor}

    async def on_kill(self) -> None:
        """A user marked or cleared the deferred task: apply the policy."""
        from trainer_ops.lifecycle.cancel import cancel
        from trainer_ops.lifecycle.threads import in_thread

        ref = self._the_wait().ref
        if self.kill_policy == "keep":
            self.log.info("TrainJob %s goes on, as on_kill says", ref)
            return
        backend = await self._open()
        try:
            done = await in_thread(lambda: cancel(backend, ref, policy=self.kill_policy, clock=self.clock()))
        finally:
            await in_thread(backend.close)
        self.log.info("TrainJob %s: %s", ref, done.how.replace("_", " "))

    async def _wait(self) -> dict[str, Any]:
        from trainer_ops.airflow.run import Limited, TimeUp
        from trainer_ops.airflow.tasklog import TaskLog
        from trainer_ops.lifecycle.cursor import LogCursor
        from trainer_ops.lifecycle.drive import adrive
        from trainer_ops.lifecycle.threads import in_thread

        wait = self._the_wait()
        cursor = LogCursor() if self.cursor is None else LogCursor.from_json(self.cursor)
        backend = await self._open()
        try:
            outcome = await adrive(
                backend,
                wait,
                clock=Limited(self.clock(), deadline=self.deadline),
                listener=TaskLog(self.log, wait.ref.name),
                cursor=cursor,
                follow_logs=self.follow_logs,
            )
        except TimeUp:
            return {"status": "timeout"}
        finally:
            self.cursor = cursor.to_json()
            await in_thread(backend.close)
        return {"status": "ended", "outcome": outcome.to_json()}

    async def _open(self) -> Backend:
        from trainer_ops.airflow.hook import TrainerHook

        return await TrainerHook(self.conn_id, self.namespace).aget_conn(self._the_wait().ref)

    def _the_wait(self) -> Wait:
        from trainer_ops.status.wait import Wait

        return Wait.from_json(self.wait)
