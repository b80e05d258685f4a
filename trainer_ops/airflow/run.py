"""One try of a task and its one training: submitting, waiting, and being told to stop at any moment of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Literal

from trainer_ops.airflow.compat import exception
from trainer_ops.airflow.identity import cycle_of, newest_ref, run_key, settle, source_link
from trainer_ops.errors import Detached, InvalidRequest, RunConflict, TrainerOpsError, TrainJobDeleted
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.model.identity import JobRef, RunKey

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend, Watch
    from trainer_ops.lifecycle.submit import Submitted
    from trainer_ops.model.outcome import Outcome
    from trainer_ops.model.request import TrainRequest
    from trainer_ops.status.wait import Wait

__all__ = ["KillPolicy", "Killed", "Limited", "Stage", "Stoppable", "TaskRun", "TimeUp", "attended"]

KillPolicy = Literal["delete", "suspend", "keep"]


class Killed(BaseException):
    """The task was told to stop. Not an Exception: nothing on the way out may take it for a failed call."""


class TimeUp(Exception):
    """The task's execution_timeout ran out while it was deferred."""


class Stage(Enum):
    """What a signal that arrives now has to do."""

    SUBMITTING = auto()  # noted; acted on as soon as it is known what was created
    WAITING = auto()  # the wait is broken off where it stands
    TIMED_OUT = auto()  # execute() is left already; the policy is applied at once
    OVER = auto()  # nothing: the training ended, or somebody else waits for it


class Stoppable(ABC):
    """The state that ``on_kill`` needs to undo what ``execute`` is doing with the target.

    ``on_kill`` runs in a signal handler, in the middle of any line of ``execute`` in the same thread. Calling the
    target from there could wait for a lock that the interrupted line holds. So it raises ``Killed``, and the target
    is called where that is caught: by ``attended``.

    Args:
        connect: opens the target.
        context: the task's context.
        clock: what sleeps.
    """

    def __init__(self, connect: Callable[[], Backend], context: Mapping[str, Any], *, clock: Clock) -> None:
        self._connect = connect
        self._context = context
        self._backend: Backend | None = None
        self._killed = False
        self.clock = clock
        self.stage = Stage.SUBMITTING

    @property
    def backend(self) -> Backend:
        """The target; opened at the first use, and again after ``close``."""
        if self._backend is None:
            self._backend = self._connect()
        return self._backend

    def close(self) -> None:
        """Let go of the target."""
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.close()

    def check(self) -> None:
        """Raise ``Killed`` when the task was told to stop."""
        if self._killed:
            raise Killed

    def kill(self) -> None:
        """``on_kill``: see ``Stage``. A second signal changes nothing."""
        first, self._killed = not self._killed, True
        if first and self.stage is Stage.WAITING:
            raise Killed
        if self.stage is Stage.TIMED_OUT:
            self.stop()

    @abstractmethod
    def stop(self) -> str:
        """Undo it; says in words what was done."""

    @abstractmethod
    def stopped_error(self) -> Exception:
        """Undo it; what the killed task fails with."""


@contextmanager
def attended(run: Stoppable, *, told: bool) -> Iterator[None]:
    """Inside, a signal ends the wait, is answered by ``run.stop``, and the task fails: never a success.

    Args:
        run: what the operator's ``on_kill`` kills.
        told: the task was told to stop before this.
    """
    try:
        if told:
            run.kill()
            run.check()
        yield
    except Killed:
        raise run.stopped_error() from None
    except exception("AirflowTaskTimeout"):
        # Airflow calls on_kill next, outside of here.
        run.stage = Stage.OVER if run.stage is Stage.OVER else Stage.TIMED_OUT
        raise
    except (InvalidRequest, RunConflict) as exc:
        raise exception("AirflowFailException")(str(exc)) from exc
    finally:
        if run.stage is not Stage.TIMED_OUT:
            run.stage = Stage.OVER
        run.close()


class TaskRun(Stoppable):
    """What ``execute`` does with the target for one training.

    Args:
        connect: opens the target.
        context: the task's context.
        policy: what ``stop`` does.
        clock: what sleeps.
    """

    def __init__(
        self, connect: Callable[[], Backend], context: Mapping[str, Any], *, policy: KillPolicy, clock: Clock
    ) -> None:
        super().__init__(connect, context, clock=clock)
        self._key: RunKey | None = None
        self.policy: KillPolicy = policy
        self.ref: JobRef | None = None
        self.stopped = ""

    @property
    def cycle(self) -> str:
        """See ``identity.cycle_of``."""
        return cycle_of(self._context)

    def find(self) -> JobRef | None:
        """The training of this task instance, whichever process submitted it; None when there is none."""
        if self.ref is None:
            self.ref = newest_ref(self.backend, self._settled(patience=10.0))
        return self.ref

    def submit(self, request: TrainRequest) -> Submitted:
        """Create or adopt. A signal meanwhile takes effect when it is done, or as soon as it has to sleep."""
        from trainer_ops.lifecycle.submit import submit

        key = self._settled(patience=request.unreachable_timeout)
        submitted = submit(
            self.backend, request, key, clock=self._interruptible(), source_link=source_link(self._context)
        )
        self.ref = submitted.ref
        if submitted.how == "adopted" and self.policy == "suspend" and not (request.suspend or request.queue):
            self._resume(submitted.ref)
        self.stage = Stage.WAITING
        self.check()
        return submitted

    def wait(self, wait: Wait, *, log: Any, follow_logs: bool, deadline: float | None = None) -> Outcome:
        """Drive to the end in this thread.

        Raises:
            TimeUp: at ``deadline`` (seconds since the epoch).
        """
        from trainer_ops.airflow.tasklog import TaskLog
        from trainer_ops.lifecycle.drive import drive

        self.ref, self.stage = wait.ref, Stage.WAITING
        listener = TaskLog(log, wait.ref.name, self.check)
        clock = self.clock if deadline is None else Limited(self.clock, deadline=deadline)
        outcome = drive(self.backend, wait, clock=clock, listener=listener, follow_logs=follow_logs)
        self.check()
        self.stage = Stage.OVER
        return outcome

    def stop(self) -> str:
        """Apply the policy to the training, if there is one; says in words what was done."""
        from trainer_ops.lifecycle.cancel import cancel

        self.stage = Stage.OVER
        ref = self.find()
        if ref is None:
            return "nothing had been created"
        self.stopped = cancel(self.backend, ref, policy=self.policy, clock=self.clock).how
        return _DONE[self.stopped].format(ref)

    def stopped_error(self) -> Exception:
        """What a killed task fails with; says what became of the training."""
        try:
            text = self.stop()
        except TrainerOpsError as exc:
            text = f"the training may go on: {exc}"
        message = f"the task was told to stop; {text}"
        if self.ref is None or self.stopped == "already_finished":
            return TrainerOpsError(message)
        if self.policy == "delete":
            return TrainJobDeleted(_deleted(self.ref, message), message)
        return Detached(self.ref, message, remedy="A retry goes on with it; clearing the task trains anew")

    def _resume(self, ref: JobRef) -> None:
        """Undo what ``stop`` of an earlier try did; under Kueue that is Kueue's to decide."""
        raw = self.backend.get(ref.name)
        if raw is not None and raw["metadata"]["uid"] == ref.uid and raw["spec"].get("suspend"):
            self.backend.set_suspended(ref.name, False, uid=ref.uid)

    def _settled(self, *, patience: float) -> RunKey:
        from trainer_ops.lifecycle.patience import persist

        if self._key is None:
            base, cycle = run_key(self._context), self.cycle
            self._key = persist(
                lambda: settle(self.backend, base, cycle), clock=self._interruptible(), patience=patience
            )
        return self._key

    def _interruptible(self) -> Clock:
        submitting = self.stage is Stage.SUBMITTING
        return Limited(self.clock, check=self.check) if submitting else self.clock


_DONE = {
    "deleted": "TrainJob {} was deleted",
    "suspended": "TrainJob {} was suspended",
    "kept": "TrainJob {} goes on, as on_kill says",
    "already_finished": "TrainJob {} had already ended",
    "gone": "TrainJob {} was gone already",
}


def _deleted(ref: JobRef, message: str) -> Outcome:
    from trainer_ops.model.outcome import Category, Diagnosis, Outcome
    from trainer_ops.model.phase import Phase

    diagnosis = Diagnosis(Category.DELETED, message)
    return Outcome(ref.name, ref.namespace, ref.uid, ref.target, Phase.DELETED, diagnosis=diagnosis)


class Limited:
    """A clock whose sleeps end early: at a deadline (``TimeUp``), or with whatever ``check`` raises."""

    def __init__(self, clock: Clock, *, deadline: float | None = None, check: Callable[[], None] | None = None) -> None:
        self._clock = clock
        self._deadline = deadline
        self._check = check

    def now(self) -> float:
        """The clock's."""
        return self._clock.now()

    def sleep(self, seconds: float, watch: Watch | None = None) -> None:
        """Not beyond the deadline."""
        self._clock.sleep(self._allowed(seconds), watch)
        self._allowed(0.0)

    async def asleep(self, seconds: float, watch: Watch | None = None) -> None:
        """Not beyond the deadline."""
        await self._clock.asleep(self._allowed(seconds), watch)
        self._allowed(0.0)

    def _allowed(self, seconds: float) -> float:
        if self._check is not None:
            self._check()
        if self._deadline is None:
            return seconds
        left = self._deadline - self._clock.now()
        if left <= 0:
            raise TimeUp
        return min(seconds, left)
