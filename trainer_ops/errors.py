"""Every error this package raises on purpose.

* TrainerOpsError                  message, remedy
  + InvalidRequest                 field, reason, remedy: found before anything was created
    - RuntimeNotFound              name, known
  + BackendError                   status, retryable
    - AlreadyExists                the name is taken
    - NotFound                     the object is not there
    - PreconditionFailed           an object of that name exists, but it is not the one meant (uid)
    - Forbidden                    the target refuses this user (RBAC)
    - Rejected                     the target's admission refuses this object
    - Unreachable                  no answer within ``unreachable_timeout``
  + RunConflict                    the TrainJob's name belongs to another run, or to other code of this one
  + TrainingEnded                  outcome: the run is over and is not a success
    - TrainJobFailed               the training failed
      . TrainJobOutOfMemory
      . TrainJobDeadlineExceeded
      . TrainJobRestartsExhausted
    - TrainJobDeleted              cancelled, deleted by somebody, or replaced
    - TrainJobNotStarted           queue_timeout or startup_timeout; the training was left alone
    - TrainJobWaitTimeout          wait_timeout; the training was left alone
    - TargetUnreachable            unreachable_timeout; the training was left alone
    - ConditionNotMet              the training is over, also well, and what was waited for did not come
  + Detached                       the wait was interrupted on purpose; the training goes on

Foreign errors (kubernetes, sqlite3, OS) stop at the adapter and are chained as the cause. One more TrainerOpsError
is ``initializers.provider.SnapshotError``, of snapshots that cannot be made now. May import: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainer_ops.model.identity import JobRef
    from trainer_ops.model.outcome import Diagnosis, Outcome

__all__ = [
    "AlreadyExists",
    "BackendError",
    "ConditionNotMet",
    "Detached",
    "Forbidden",
    "InvalidRequest",
    "NotFound",
    "PreconditionFailed",
    "Rejected",
    "RunConflict",
    "RuntimeNotFound",
    "TargetUnreachable",
    "TrainJobDeadlineExceeded",
    "TrainJobDeleted",
    "TrainJobFailed",
    "TrainJobNotStarted",
    "TrainJobOutOfMemory",
    "TrainJobRestartsExhausted",
    "TrainJobWaitTimeout",
    "TrainerOpsError",
    "TrainingEnded",
    "Unreachable",
]


class TrainerOpsError(Exception):
    """Base of all: one sentence that says what and why, one (``remedy``) that says what to do."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}" if self.remedy else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only arguments do not survive Exception's own pickling; Airflow and multiprocessing pickle errors.
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(cls: type[TrainerOpsError], args: tuple[Any, ...], state: dict[str, Any]) -> TrainerOpsError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidRequest(TrainerOpsError):
    """The input cannot become a training.

    Attributes:
        field: the path in the user's own terms (``num_nodes``, ``spec.trainer.numNodes``, ``--nodes``).
        reason: what is wrong with it.
        remedy: what to write instead.
    """

    def __init__(self, field: str, reason: str, remedy: str = "", *, what: str = "invalid request") -> None:
        super().__init__(f"{what}: {field}: {reason}", remedy=remedy)
        self.field = field
        self.reason = reason


class RuntimeNotFound(InvalidRequest):
    """No (Cluster)TrainingRuntime of that name; ``known`` lists the names that exist."""

    def __init__(self, name: str, *, target: str, known: Iterable[str] = (), close: str | None = None) -> None:
        self.name = name
        self.known = tuple(known)
        hint = f"Did you mean {close}? " if close else ""
        super().__init__(
            "runtime", f'"{name}" does not exist on {target}', f"{hint}Known: {', '.join(self.known) or 'none'}"
        )
        self.args = (f'runtime not found: "{name}" on {target}',)
        self.message = self.args[0]


class BackendError(TrainerOpsError):
    """The target answered with an error; ``retryable`` says whether asking again may help."""

    retryable = False

    def __init__(self, message: str, *, status: int | None = None, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status


class AlreadyExists(BackendError):
    """A TrainJob of that name exists (HTTP 409)."""


class NotFound(BackendError):
    """The object is not there (HTTP 404)."""


class PreconditionFailed(BackendError):
    """An object of that name exists, but its uid is not the one meant (HTTP 409 on delete)."""


class Forbidden(BackendError):
    """The target refuses this user (HTTP 401, 403 by RBAC).

    Attributes:
        user: whom, where the target says it.
        namespace: where, "" for the whole cluster.
    """

    def __init__(
        self, message: str, *, status: int | None = None, remedy: str = "", user: str = "", namespace: str = ""
    ) -> None:
        super().__init__(message, status=status, remedy=remedy)
        self.user = user
        self.namespace = namespace


class Rejected(BackendError):
    """The target's admission refuses this object (HTTP 400, 422, 403 by a webhook or quota)."""


class Unreachable(BackendError):
    """The target gave no usable answer (connection, time-out, 429, 5xx). The training may well be fine."""

    retryable = True


class RunConflict(TrainerOpsError):
    """The TrainJob's name is taken by something that is not this run; the message names both."""


class TrainingEnded(TrainerOpsError):
    """A run is over and is not a success. ``str()`` is the Diagnosis."""

    def __init__(self, outcome: Outcome, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome

    @property
    def diagnosis(self) -> Diagnosis | None:
        """Why; the same as ``outcome.diagnosis``."""
        return self.outcome.diagnosis


class TrainJobFailed(TrainingEnded):
    """The training failed."""


class TrainJobOutOfMemory(TrainJobFailed):
    """A node was killed for memory: a retry needs more of it, or a smaller batch."""


class TrainJobDeadlineExceeded(TrainJobFailed):
    """``active_deadline_seconds`` of the TrainJob ran out."""


class TrainJobRestartsExhausted(TrainJobFailed):
    """A node failed again after ``max_restarts`` restarts."""


class TrainJobDeleted(TrainingEnded):
    """The TrainJob was cancelled, deleted by somebody, or replaced by another of the same name."""


class TrainJobNotStarted(TrainingEnded):
    """It did not start within ``queue_timeout`` or ``startup_timeout``; it was left alone."""


class TrainJobWaitTimeout(TrainingEnded):
    """It did not end within ``wait_timeout``; it was left alone."""


class TargetUnreachable(TrainingEnded):
    """The target gave no answer for ``unreachable_timeout``; the training was left alone."""


class ConditionNotMet(TrainingEnded):
    """The training is over and what was waited for cannot come any more: a metric too low, a phase that was passed."""


class Detached(TrainerOpsError):
    """The wait was interrupted; the training goes on. ``ref`` says which."""

    def __init__(self, ref: JobRef, message: str, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.ref = ref
