"""Waiting for a snapshot's Job in the triggerer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trainer_ops.airflow.base_trigger import WaitingTrigger
from trainer_ops.lifecycle.clock import Clock

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend
    from trainer_ops.lifecycle.snapshot_wait import SnapshotWait

__all__ = ["SnapshotTrigger"]


class SnapshotTrigger(WaitingTrigger):
    """Waits for one snapshot's Job, writes what it says to the task's log, and fires one event.

    The event is plain JSON with a ``status``: ``ended`` (with the ``snapshot``), ``failed`` (with the ``error``, see
    ``error_from_json``), ``timeout`` (``deadline`` has come) or ``error`` (something else than the Job broke: the
    ``error`` in words). Every event carries what is needed to go on: ``wait``, ``redefers``.

    A triggerer that stops, or hands the trigger to another one, leaves the Job alone. A user who marks or clears the
    deferred task deletes it: Airflow calls ``on_kill`` from 3.3 on; older versions leave it running.

    Args:
        wait: the ``SnapshotWait`` as JSON: which Job, until when; it holds no secret.
        conn_id: the connection of the cluster.
        namespace: as the operator's.
        deadline: when the task's execution_timeout is over, in seconds since the epoch.
        redefers: how often the task has been deferred again after an ``error``.
    """

    _required = ("wait",)
    _unharmed = "the Job is not affected"

    def __init__(
        self,
        wait: Mapping[str, Any],
        *,
        conn_id: str | None = None,
        namespace: str | None = None,
        deadline: float | None = None,
        redefers: int = 0,
    ) -> None:
        super().__init__(conn_id=conn_id, namespace=namespace, deadline=deadline, redefers=redefers)
        self.wait = dict(wait)

    def _stands(self) -> dict[str, Any]:
        return {"wait": self.wait}

    async def on_kill(self) -> None:
        """A user marked or cleared the deferred task: delete the Job."""
        from trainer_ops.lifecycle.snapshots import cancel_snapshot
        from trainer_ops.lifecycle.threads import in_thread

        wait = self._the_wait()
        backend = await self._open(wait)
        try:
            deleted = await in_thread(lambda: cancel_snapshot(backend, wait))
        finally:
            await in_thread(backend.close)
        self.log.info("Job %s %s", wait.name, "was deleted" if deleted else "is another step's, or gone")

    async def _wait(self) -> dict[str, Any]:
        from trainer_ops.airflow.run import Limited, TimeUp
        from trainer_ops.errors import InvalidRequest
        from trainer_ops.initializers.provider import SnapshotError, error_to_json
        from trainer_ops.lifecycle.snapshots import aawait_snapshot
        from trainer_ops.lifecycle.threads import in_thread

        wait, clock = self._the_wait(), self.clock()
        heard = _Later(self._listener(wait, clock))
        backend = await self._open(wait)

        def moved(now: SnapshotWait) -> None:
            self.wait = now.to_json()
            heard.tell()

        try:
            snapshot = await aawait_snapshot(
                backend, wait, clock=Limited(clock, deadline=self.deadline), listener=heard, moved=moved
            )
        except TimeUp:
            return {"status": "timeout"}
        except (InvalidRequest, SnapshotError) as exc:
            return {"status": "failed", "error": error_to_json(exc)}
        finally:
            heard.tell()
            await in_thread(backend.close)
        return {"status": "ended", "snapshot": snapshot.to_json()}

    def _listener(self, wait: SnapshotWait, clock: Clock) -> Any:
        from trainer_ops.airflow.snapshots import SnapshotLog

        return SnapshotLog(self.log, wait.ask.uri, clock)

    async def _open(self, wait: SnapshotWait) -> Backend:
        from trainer_ops.airflow.hook import TrainerHook
        from trainer_ops.model.identity import JobRef

        ref = JobRef(wait.target, wait.namespace, wait.name, wait.uid)
        return await TrainerHook(self.conn_id, self.namespace).aget_conn(ref)

    def _the_wait(self) -> SnapshotWait:
        from trainer_ops.lifecycle.snapshot_wait import SnapshotWait

        return SnapshotWait.from_json(self.wait)


class _Later:
    """Keeps what it hears in a pool's thread until the event loop asks for it.

    Airflow finds a trigger's own log by the context of its task, which a pool's thread does not have.
    """

    def __init__(self, listener: Any) -> None:
        self._listener = listener
        self._heard: list[Callable[[], None]] = []

    def on_start(self, files: int, size: int, done: int) -> None:
        """Keep it."""
        self._heard.append(lambda: self._listener.on_start(files, size, done))

    def on_progress(self, size: int, files: int) -> None:
        """Keep it."""
        self._heard.append(lambda: self._listener.on_progress(size, files))

    def on_note(self, text: str) -> None:
        """Keep it."""
        self._heard.append(lambda: self._listener.on_note(text))

    def tell(self) -> None:
        """Pass it on."""
        heard, self._heard = self._heard, []
        for one in heard:
            one()
