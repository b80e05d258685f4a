"""What a training says to what somebody waits for, phase by phase."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainer_ops.errors import ConditionNotMet, InvalidRequest, TrainJobFailed
from trainer_ops.model.outcome import Category, Diagnosis, Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.status.until import Answer, Until

MET, NOT_YET, NEVER = Answer.MET, Answer.NOT_YET, Answer.NEVER


@pytest.mark.parametrize(
    ("state", "phase", "answer"),
    [
        ("success", Phase.RUNNING, NOT_YET),
        ("success", Phase.COMPLETING, NOT_YET),
        ("success", Phase.SUCCEEDED, MET),
        ("success", Phase.FAILED, NEVER),
        ("success", Phase.DELETED, NEVER),
        ("end", Phase.RUNNING, NOT_YET),
        ("end", Phase.SUCCEEDED, MET),
        ("end", Phase.FAILED, MET),
        ("end", Phase.DELETED, MET),
        ("end", Phase.REPLACED, MET),
        ("running", Phase.QUEUED, NOT_YET),
        ("running", Phase.PENDING, NOT_YET),
        ("running", Phase.RUNNING, MET),
        ("running", Phase.RESTARTING, MET),
        ("running", Phase.COMPLETING, MET),
        ("running", Phase.SUCCEEDED, MET),
        ("running", Phase.FAILED, NEVER),
        ("submitted", Phase.BLOCKED, MET),
        ("pending", Phase.SUSPENDED, NOT_YET),
        ("queued", Phase.QUEUED, MET),
        ("queued", Phase.RUNNING, NOT_YET),
        ("queued", Phase.SUCCEEDED, NEVER),
        ("suspended", Phase.SUSPENDED, MET),
        ("failed", Phase.FAILED, MET),
        ("failed", Phase.SUCCEEDED, NEVER),
        ("deleted", Phase.DELETED, MET),
    ],
)
def test_states(state: str, phase: Phase, answer: Answer) -> None:
    assert Until.of(state).judge(phase, {}) is answer


@pytest.mark.parametrize(
    ("given", "phase", "metrics", "answer"),
    [
        ({"at_least": 0.9}, Phase.SUCCEEDED, {"accuracy": 0.9}, MET),
        ({"at_least": 0.9}, Phase.SUCCEEDED, {"accuracy": 0.89}, NEVER),
        ({"at_least": 0.9}, Phase.SUCCEEDED, {}, NEVER),
        ({"at_least": 0.9}, Phase.SUCCEEDED, {"accuracy": "0.95 or so"}, NEVER),
        ({"at_least": "0.9"}, Phase.SUCCEEDED, {"accuracy": 1}, MET),
        ({"at_most": 0.1}, Phase.SUCCEEDED, {"accuracy": 0.1}, MET),
        ({"at_most": 0.1}, Phase.SUCCEEDED, {"accuracy": 0.2}, NEVER),
        ({"at_least": 0.1, "at_most": 0.2}, Phase.SUCCEEDED, {"accuracy": 0.3}, NEVER),
        ({"at_least": 0.9}, Phase.RUNNING, {"accuracy": 0.95}, NOT_YET),
        ({"at_least": 0.9, "state": "running"}, Phase.RUNNING, {"accuracy": 0.95}, MET),
        ({"at_least": 0.9, "state": "running"}, Phase.RUNNING, {"accuracy": 0.5}, NOT_YET),
        ({"at_least": 0.9, "state": "running"}, Phase.SUCCEEDED, {"accuracy": 0.5}, NEVER),
        ({"at_least": 0.9, "state": "end"}, Phase.FAILED, {"accuracy": 0.95}, MET),
        ({"at_least": 0.9, "state": "end"}, Phase.FAILED, {}, NEVER),
    ],
)
def test_metrics(given: dict[str, Any], phase: Phase, metrics: dict[str, Any], answer: Answer) -> None:
    assert Until.of(given.pop("state", None), metric="accuracy", **given).judge(phase, metrics) is answer


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"state": "done"}, "until"),
        ({"state": "not_observed"}, "until"),
        ({"metric": "accuracy"}, "metric"),
        ({"at_least": 1}, "metric"),
        ({"metric": "accuracy", "at_least": "much"}, "at_least"),
        ({"metric": "accuracy", "at_least": "0.9", "at_most": 0.1}, "at_least"),
        ({"metric": "accuracy", "at_most": float("nan")}, "at_most"),
    ],
)
def test_what_cannot_be_waited_for(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Until.of(given.pop("state", None), **given)
    assert caught.value.field == field


def outcome(phase: Phase, **metrics: float) -> Outcome:
    diagnosis = Diagnosis(Category.EXIT_CODE, "it ended with exit code 3") if phase is Phase.FAILED else None
    return Outcome("x", "default", "uid", "memory://m", phase, metrics=metrics, diagnosis=diagnosis)


def test_errors() -> None:
    good = Until.of(metric="accuracy", at_least=0.9)
    assert isinstance(good.error(outcome(Phase.FAILED)), TrainJobFailed)
    low = good.error(outcome(Phase.SUCCEEDED, accuracy=0.5))
    assert isinstance(low, ConditionNotMet)
    assert str(low) == "x succeeded, but accuracy is 0.5: waited for trained with accuracy at least 0.9"
    assert "it reported no accuracy" in str(good.error(outcome(Phase.SUCCEEDED)))
    passed = Until.of("queued").error(outcome(Phase.SUCCEEDED))
    assert str(passed) == "x succeeded, and was not seen queued"
    assert isinstance(Until.of("end", metric="a", at_most=1).error(outcome(Phase.FAILED)), ConditionNotMet)


def test_crosses_a_process() -> None:
    until = Until.of("running", metric="loss", at_most=0.1)
    assert Until.from_json(json.loads(json.dumps(until.to_json()))) == until
    assert str(until) == "running with loss at most 0.1"
