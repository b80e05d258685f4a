"""The component's own retries. Pure.

The KFP that is shipped never retries a failed exit: its controller's default retry policy takes only what Argo calls an
error (seen on 2.17.0). A retry here is the next attempt of the same run: it keeps the checkpoint folder.
"""

from __future__ import annotations

from typing import Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.outcome import Category, Ending, Outcome

__all__ = ["retries_from", "tries_left", "worth_a_retry"]

_MOST: Final = 100
# Of these the next attempt would fail for the same reason, or somebody meant it to end.
_FINAL: Final = frozenset(
    {
        Category.CONFIG,
        Category.ADMISSION,
        Category.RUNTIME_MISSING,
        Category.PERMISSION,
        Category.DEADLINE,
        Category.DELETED,
        Category.SUPERSEDED,
    }
)


def retries_from(value: object) -> int:
    """The input ``retries``, which KFP may bring as 2.0, "2", "" or nothing.

    Raises:
        InvalidRequest: it is no whole number from 0 to 100.
    """
    if value in (None, "", -1, -1.0, "-1"):
        return 0
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not (number.is_integer() and 0 <= number <= _MOST):
        raise InvalidRequest("retries", f"{value!r} is no whole number from 0 to {_MOST}", "Give 0 or more")
    return int(number)


def tries_left(attempt: int, retries: int) -> int:
    """How many further attempts may follow this one.

    It goes by the attempt's own number, which the cluster keeps: a pod that is made again between two attempts does not
    get them all anew, and a task that is started once more after its last attempt does.

    Args:
        attempt: 1 for the first.
        retries: further attempts of one start of the task.
    """
    return retries - (attempt - 1) % (retries + 1)


def worth_a_retry(outcome: Outcome) -> bool:
    """Whether it failed in a way that may go better next time; a wait that was given up left its training alone."""
    if outcome.ending is not Ending.FAILED or outcome.diagnosis is None:
        return False
    return outcome.diagnosis.category not in _FINAL
