"""One try of a task and its one snapshot: asking for it, waiting, and being told to stop at any moment of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trainer_ops.airflow.identity import cycle_of, run_key
from trainer_ops.airflow.run import Limited, Stage, Stoppable
from trainer_ops.airflow.snapshots import SnapshotLog
from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.lifecycle.clock import Clock

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend
    from trainer_ops.lifecycle.snapshot_wait import SnapshotWait
    from trainer_ops.model.snapshot import Snapshot

__all__ = ["SnapshotRun", "in_operator_terms"]

_KEPT = "what was fetched is kept, and a retry goes on from it"


class SnapshotRun(Stoppable):
    """What ``execute`` does with the target for one snapshot.

    Args:
        connect: opens the target.
        context: the task's context.
        log: the task's.
        clock: what sleeps.
    """

    def __init__(self, connect: Callable[[], Backend], context: Mapping[str, Any], *, log: Any, clock: Clock) -> None:
        super().__init__(connect, context, clock=clock)
        self._log = log
        self.waiting: SnapshotWait | None = None

    @property
    def asker(self) -> str:
        """Who asks: the same for the tries of a task instance, another one when it is cleared."""
        return f"{run_key(self._context).subject}-{cycle_of(self._context)}"

    @property
    def here(self) -> bool:
        """Whether this worker makes the snapshot itself."""
        from trainer_ops.lifecycle.snapshots import made_here

        return made_here(self.backend)

    def take(self, ask: Mapping[str, Any]) -> Snapshot:
        """Make it in this process. A signal ends the download where it stands.

        Args:
            ask: arguments of ``take_snapshot``.
        """
        from trainer_ops.lifecycle.snapshots import take_snapshot

        self.stage = Stage.WAITING
        self.check()
        snapshot = take_snapshot(self.backend, **ask, clock=self.clock, listener=self._listener(ask["uri"]))
        self.stage = Stage.OVER
        return snapshot

    def begin(self, ask: Mapping[str, Any]) -> SnapshotWait:
        """Start the Job or join it. A signal meanwhile takes effect when it is known which Job it is."""
        from trainer_ops.lifecycle.patience import persist
        from trainer_ops.lifecycle.snapshots import begin_snapshot

        clock = Limited(self.clock, check=self.check)

        def begin() -> SnapshotWait:
            return begin_snapshot(
                self.backend, **ask, key=self.asker, clock=self.clock, listener=self._listener(ask["uri"])
            )

        self.waiting = persist(begin, clock=clock, patience=_PATIENCE)
        self.stage = Stage.WAITING
        self.check()
        return self.waiting

    def wait(self, wait: SnapshotWait, *, deadline: float | None = None) -> Snapshot:
        """Wait for the Job in this thread.

        Raises:
            TimeUp: at ``deadline`` (seconds since the epoch).
        """
        from trainer_ops.lifecycle.snapshots import await_snapshot

        self.waiting, self.stage = wait, Stage.WAITING
        clock = self.clock if deadline is None else Limited(self.clock, deadline=deadline)
        snapshot = await_snapshot(
            self.backend, wait, clock=clock, listener=self._listener(wait.ask.uri), moved=self._moved
        )
        self.stage = Stage.OVER
        return snapshot

    def stop(self) -> str:
        """Delete the Job, unless it is another step's; says in words what was done."""
        from trainer_ops.lifecycle.patience import persist
        from trainer_ops.lifecycle.snapshots import cancel_snapshot

        self.stage = Stage.OVER
        wait = self.waiting
        if wait is None:
            return _KEPT
        if persist(lambda: cancel_snapshot(self.backend, wait), clock=self.clock, patience=10.0):
            return f"Job {wait.name} was deleted; {_KEPT}"
        return f"Job {wait.name} goes on: another step has started it" if wait.joined else f"Job {wait.name} was gone"

    def stopped_error(self) -> Exception:
        """What a killed task fails with; says what became of the Job."""
        from trainer_ops.initializers.provider import SnapshotError

        try:
            text = self.stop()
        except TrainerOpsError as exc:
            text = f"Job {self.waiting.name if self.waiting else ''} may go on: {exc}"
        return SnapshotError(f"the task was told to stop; {text}", transient=True)

    def _moved(self, wait: SnapshotWait) -> None:
        self.waiting = wait

    def _listener(self, uri: str) -> SnapshotLog:
        return SnapshotLog(self._log, uri, self.clock)


# How long a cluster that does not answer is asked for a Job.
_PATIENCE = 1800.0


def in_operator_terms(error: InvalidRequest, *, here: bool) -> InvalidRequest:
    """The same error, its field under the name of the operator's parameter."""
    if error.field != "credentials":
        return error
    reason = error.reason if here else f"on a cluster its secrets {error.reason}"
    return InvalidRequest("source_conn_id", reason, error.remedy)
