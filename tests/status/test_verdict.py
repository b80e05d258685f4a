"""Each ending has its error, and the error's text is the Diagnosis."""

from __future__ import annotations

import pickle

import pytest

from trainer_ops import errors
from trainer_ops.model.outcome import Category, Diagnosis, Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.status.verdict import error_for


def outcome(phase: Phase, category: Category | None) -> Outcome:
    diagnosis = Diagnosis(category, "it went wrong", ("line 1", "line 2"), "Do this.") if category else None
    return Outcome("train", "default", "u", "memory://t", phase, diagnosis=diagnosis)


CASES: dict[str, tuple[Phase, Category | None, type[errors.TrainingEnded]]] = {
    "failed": (Phase.FAILED, Category.EXIT_CODE, errors.TrainJobFailed),
    "failed, no diagnosis": (Phase.FAILED, None, errors.TrainJobFailed),
    "initializer": (Phase.FAILED, Category.INITIALIZER, errors.TrainJobFailed),
    "memory": (Phase.FAILED, Category.OUT_OF_MEMORY, errors.TrainJobOutOfMemory),
    "deadline": (Phase.FAILED, Category.DEADLINE, errors.TrainJobDeadlineExceeded),
    "restarts": (Phase.FAILED, Category.RESTARTS_EXHAUSTED, errors.TrainJobRestartsExhausted),
    "deleted": (Phase.DELETED, Category.DELETED, errors.TrainJobDeleted),
    "superseded": (Phase.DELETED, Category.SUPERSEDED, errors.TrainJobDeleted),
    "replaced": (Phase.REPLACED, Category.SUPERSEDED, errors.TrainJobDeleted),
    "queued": (Phase.QUEUED, Category.QUEUED_TOO_LONG, errors.TrainJobNotStarted),
    "not started": (Phase.PENDING, Category.IMAGE, errors.TrainJobNotStarted),
    "wait_timeout": (Phase.RUNNING, Category.DEADLINE, errors.TrainJobWaitTimeout),
    "unreachable": (Phase.RUNNING, Category.UNREACHABLE, errors.TargetUnreachable),
}


@pytest.mark.parametrize(("phase", "category", "kind"), CASES.values(), ids=CASES.keys())
def test_error(phase: Phase, category: Category | None, kind: type[errors.TrainingEnded]) -> None:
    found = error_for(outcome(phase, category))
    assert type(found) is kind


def test_a_success_is_no_error() -> None:
    assert error_for(outcome(Phase.SUCCEEDED, None)) is None


def test_the_text_is_summary_evidence_and_remedy() -> None:
    error = error_for(outcome(Phase.FAILED, Category.EXIT_CODE))
    assert str(error) == "it went wrong (exit_code)\n  line 1\n  line 2\nDo this."
    assert pickle.loads(pickle.dumps(error)).outcome.name == "train"
