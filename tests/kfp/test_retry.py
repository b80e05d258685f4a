"""Which failures are tried again, and how often: also when the step's own pod came in between."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.retry import retries_from, tries_left, worth_a_retry
from trainer_ops.model.outcome import Category, Diagnosis, Outcome
from trainer_ops.model.phase import Phase

pytestmark = pytest.mark.kfp


@pytest.mark.parametrize(
    ("attempt", "retries", "left"),
    [
        pytest.param(1, 0, 0, id="none"),
        pytest.param(1, 2, 2, id="the first of three"),
        pytest.param(2, 2, 1, id="the second"),
        pytest.param(3, 2, 0, id="the last"),
        pytest.param(4, 2, 2, id="the task was started once more after its last"),
        pytest.param(7, 0, 0, id="each start has one"),
    ],
)
def test_left(attempt: int, retries: int, left: int) -> None:
    assert tries_left(attempt, retries) == left


AGAIN = {
    *(Category.EXIT_CODE, Category.OUT_OF_MEMORY, Category.IMAGE, Category.EVICTED, Category.NODE_LOST),
    *(Category.RESTARTS_EXHAUSTED, Category.INITIALIZER, Category.UNKNOWN, Category.QUOTA, Category.UNSCHEDULABLE),
    *(Category.QUEUED_TOO_LONG, Category.NOT_RECONCILED),
}


@pytest.mark.parametrize("category", [one for one in Category if one is not Category.UNREACHABLE])
def test_failed(category: Category) -> None:
    assert worth_a_retry(outcome(Phase.FAILED, category)) is (category in AGAIN)


@pytest.mark.parametrize(
    ("phase", "category"),
    [
        pytest.param(Phase.QUEUED, Category.QUEUED_TOO_LONG, id="given up, and left alone"),
        pytest.param(Phase.RUNNING, Category.UNREACHABLE, id="nobody knows"),
        pytest.param(Phase.DELETED, Category.DELETED, id="kill means kill"),
        pytest.param(Phase.SUCCEEDED, None, id="trained"),
    ],
)
def test_not_failed(phase: Phase, category: Category | None) -> None:
    assert not worth_a_retry(outcome(phase, category))


def outcome(phase: Phase, category: Category | None) -> Outcome:
    diagnosis = None if category is None else Diagnosis(category, "x")
    return Outcome("n", "ns", "u", "t", phase, diagnosis=diagnosis)


@pytest.mark.parametrize(("given", "number"), [(2, 2), (2.0, 2), ("2", 2), ("2.0", 2), ("", 0), (None, 0), (-1, 0)])
def test_number(given: Any, number: int) -> None:
    assert retries_from(given) == number


@pytest.mark.parametrize("given", [-2, 1.5, "many", 101, [], "nan"])
def test_no_number(given: Any) -> None:
    with pytest.raises(InvalidRequest, match="retries"):
        retries_from(given)
