"""The error tree: what its docstring draws is what the classes are, and errors cross processes whole."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from trainer_ops import errors
from trainer_ops.model.identity import JobRef
from trainer_ops.model.outcome import Category, Diagnosis, Outcome
from trainer_ops.model.phase import Phase

REF = JobRef("local:///tmp/t", "default", "digits-1", "u-1")
OUTCOME = Outcome(
    "digits-1", "default", "u-1", "local:///tmp/t", Phase.FAILED, diagnosis=Diagnosis(Category.EXIT_CODE, "it failed")
)


def drawn() -> dict[str, str]:
    """Class to parent, read from the tree in the module's docstring."""
    found: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"( *)([*+.-]) (\w+)", line)
        if match is None:
            continue
        depth, name = len(match[1]), match[3]
        stack = [entry for entry in stack if entry[0] < depth]
        found[name] = stack[-1][1] if stack else "Exception"
        stack.append((depth, name))
    return found


def test_the_tree_in_the_docstring_is_the_real_one() -> None:
    real = {
        name: cls.__bases__[0].__name__
        for name, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, Exception)
    }
    assert drawn() == real


def test_all_lists_every_error() -> None:
    assert sorted(drawn()) == errors.__all__


ONE_OF_EACH: dict[str, errors.TrainerOpsError] = {
    "plain": errors.TrainerOpsError("it broke", remedy="Mend it"),
    "invalid": errors.InvalidRequest("num_nodes", "0 is not at least 1", "Give 1 or more"),
    "runtime": errors.RuntimeNotFound("torhc", target="local:///t", known=["torch"], close="torch"),
    "backend": errors.Unreachable("no answer", status=503, remedy="Wait"),
    "exists": errors.AlreadyExists("taken", status=409),
    "conflict": errors.RunConflict("a and b"),
    "ended": errors.TrainJobOutOfMemory(OUTCOME, "node-0 ran out of memory"),
    "detached": errors.Detached(REF, "detached", remedy="trainer-ops wait digits-1"),
}


@pytest.mark.parametrize("error", ONE_OF_EACH.values(), ids=ONE_OF_EACH.keys())
def test_pickling_keeps_everything(error: errors.TrainerOpsError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__


TEXTS = {
    "what and do": ("plain", "it broke. Mend it"),
    "field, why, do": ("invalid", "invalid request: num_nodes: 0 is not at least 1. Give 1 or more"),
    "close match": (
        "runtime",
        'runtime not found: "torhc" on local:///t. Did you mean torch? Known: torch',
    ),
    "the diagnosis": ("ended", "node-0 ran out of memory"),
}


@pytest.mark.parametrize(("which", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_text(which: str, text: str) -> None:
    assert str(ONE_OF_EACH[which]) == text


def test_an_ending_carries_its_diagnosis() -> None:
    error = errors.TrainJobFailed(OUTCOME, "text")
    assert error.diagnosis is OUTCOME.diagnosis
