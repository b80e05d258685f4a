"""From an outcome to the error that a front end raises; its text is the Diagnosis, nobody has to add to it."""

from __future__ import annotations

from trainer_ops import errors
from trainer_ops.model.outcome import Category, Outcome
from trainer_ops.model.phase import Phase

__all__ = ["error_for"]

_FAILED: dict[Category, type[errors.TrainJobFailed]] = {
    Category.OUT_OF_MEMORY: errors.TrainJobOutOfMemory,
    Category.DEADLINE: errors.TrainJobDeadlineExceeded,
    Category.RESTARTS_EXHAUSTED: errors.TrainJobRestartsExhausted,
}


def error_for(outcome: Outcome) -> errors.TrainingEnded | None:
    """The error for an outcome, None for a success. Its text is summary, evidence and remedy."""
    if outcome.succeeded:
        return None
    text = str(outcome.diagnosis) if outcome.diagnosis else f"{outcome.name}: {outcome.phase}"
    return _kind(outcome)(outcome, text)


def _kind(outcome: Outcome) -> type[errors.TrainingEnded]:
    category = outcome.diagnosis.category if outcome.diagnosis else Category.UNKNOWN
    if category is Category.UNREACHABLE:
        return errors.TargetUnreachable
    if outcome.phase in (Phase.DELETED, Phase.REPLACED):
        return errors.TrainJobDeleted
    if outcome.phase is Phase.FAILED:
        return _FAILED.get(category, errors.TrainJobFailed)
    # Not over: a limit of the wait ran out. Of these only wait_timeout is called a deadline.
    return errors.TrainJobWaitTimeout if category is Category.DEADLINE else errors.TrainJobNotStarted
