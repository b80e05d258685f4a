"""What this package's operators have in common: a target; and, of those that wait for something there, the wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseOperator

from trainer_ops.airflow.compat import exception, no_retry
from trainer_ops.airflow.run import Stage, Stoppable
from trainer_ops.lifecycle.clock import Clock, RealClock

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend

__all__ = ["MAX_REDEFERS", "TargetOperator", "WaitingOperator"]

# How often a wait that broke in the triggerer goes back there; after that the worker waits itself.
MAX_REDEFERS: Final = 3
# The trigger reports execution_timeout itself; Airflow's own deferral timeout is for a triggerer that is away.
_BACKSTOP: Final = timedelta(seconds=60)


class TargetOperator(BaseOperator):  # type: ignore[misc]  # Airflow is Any to mypy
    """Has a target, and a clock that a test replaces.

    Args:
        conn_id: a connection of type ``trainer-local`` or ``kubernetes``; None: see ``TrainerHook``.
        namespace: instead of the connection's.
    """

    def __init__(self, *, conn_id: str | None = None, namespace: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id
        self.namespace = namespace

    def clock(self) -> Clock:
        """What sleeps."""
        return RealClock()

    def _connect(self) -> Backend:
        from trainer_ops.airflow.hook import TrainerHook

        return TrainerHook(self.conn_id, self.namespace).get_conn()

    @contextmanager
    def _target(self) -> Iterator[Backend]:
        """The target, open; a mistake in the DAG is no reason to retry."""
        with no_retry():
            backend = self._connect()
            try:
                yield backend
            finally:
                backend.close()


class WaitingOperator(TargetOperator):
    """Waits, in the worker or in the triggerer, for what it has started on the target."""

    # What is waited for, in the log.
    _awaited: ClassVar[str]
    # The run that a signal stops. Set by the subclass while it attends one.
    _run: Stoppable | None = None
    _told_to_stop = False

    def on_kill(self) -> None:
        """The task is told to stop (in a signal handler), or its execution_timeout is over. See ``Stoppable``."""
        self._told_to_stop = True
        if self._run is not None:
            self._run.kill()

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Mapping[str, Any]) -> Any:
        """Also where Airflow resumes a deferred task only to fail it.

        When its deferral timed out, execution_timeout is over and ``on_kill`` says what happens. When its trigger
        broke, what is waited for is as well as it was: the worker waits for it.
        """
        if next_method != "__fail__":
            return super().resume_execution(next_method, next_kwargs, context)
        details = next_kwargs or {}
        timed_out = str(details.get("error")) == "Trigger timeout"
        if not timed_out:
            trace = "\n".join(details.get("traceback") or ()) or details.get("error", "unknown")
            self.log.warning("The trigger failed; this worker waits for the %s instead.\n%s", self._awaited, trace)
        return self._abandoned(context, timed_out=timed_out)

    def _abandoned(self, context: Mapping[str, Any], *, timed_out: bool) -> dict[str, Any]:
        """Go on without the trigger; with ``timed_out`` only to stop."""
        raise NotImplementedError

    def _hand_over(self, context: Mapping[str, Any], run: Stoppable, trigger: Any) -> None:
        """Defer to the trigger; does not return."""
        deadline = self._deadline(context)
        left = None if deadline is None else timedelta(seconds=max(0.0, deadline - run.clock.now())) + _BACKSTOP
        run.stage = Stage.OVER
        self.defer(trigger=trigger, method_name="execute_complete", timeout=left)

    def _deadline(self, context: Mapping[str, Any]) -> float | None:
        """When execution_timeout is over: counted from this try's start, however often it was deferred since."""
        if self.execution_timeout is None:
            return None
        return float(context["ti"].start_date.timestamp() + self.execution_timeout.total_seconds())

    def _out_of_time(self, run: Stoppable) -> BaseException:
        error: BaseException = exception("AirflowTaskTimeout")(
            f"execution_timeout of {self.execution_timeout} is over; {run.stop()}"
        )
        return error
