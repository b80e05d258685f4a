from __future__ import annotations

import pytest

import trainer_ops
from trainer_ops import errors


def test_public_names_are_exactly_these() -> None:
    assert trainer_ops.__all__ == sorted(trainer_ops.__all__)
    assert trainer_ops.__all__ == [
        *("AlreadyExists", "BackendError", "Cancelled", "Category", "ConditionNotMet", "Detached", "Diagnosis"),
        *("Ending", "Forbidden"),
        *("InvalidRequest", "JobRef", "Limits", "Listener", "NotFound", "Outcome", "Phase", "PreconditionFailed"),
        *("Rejected", "RunConflict", "RunKey", "RuntimeNotFound", "Silent", "Snapshot", "SnapshotError", "State"),
        *("Submitted", "TargetUnreachable"),
        *("TrainJobDeadlineExceeded", "TrainJobDeleted", "TrainJobFailed", "TrainJobNotStarted"),
        *("TrainJobOutOfMemory", "TrainJobRestartsExhausted", "TrainJobWaitTimeout", "TrainRequest"),
        *("TrainerOpsError", "TrainingEnded", "Unreachable", "__version__"),
        *("cancel", "logs", "report", "run", "submit", "take_snapshot", "wait"),
    ]


def test_all_errors_are_public() -> None:
    assert set(errors.__all__) <= set(trainer_ops.__all__)


@pytest.mark.parametrize("name", trainer_ops.__all__)
def test_each_is_there_and_documented(name: str) -> None:
    value = getattr(trainer_ops, name)
    assert value is getattr(trainer_ops, name)
    assert value.__doc__


def test_dir_lists_them() -> None:
    assert set(trainer_ops.__all__) <= set(dir(trainer_ops))


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'trainer_ops' has no attribute 'trian'"):
        trainer_ops.trian  # noqa: B018


def test_a_star_brings_them_all() -> None:
    names: dict[str, object] = {}
    exec("from trainer_ops import *", names)
    assert set(trainer_ops.__all__) <= set(names)


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert trainer_ops.__version__ == version("trainer-ops")
