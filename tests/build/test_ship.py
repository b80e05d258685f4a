"""Code in a command: what is in it, what starts it, how much of it fits."""

from __future__ import annotations

import base64
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.build.manifest import BuiltJob
from trainer_ops.build.ship import PAYLOAD_LIMIT
from trainer_ops.errors import InvalidRequest
from trainer_ops.model.runtime import TrainingRuntime

Built = Callable[..., BuiltJob]
RuntimeOf = Callable[..., TrainingRuntime]
SCRIPT = {"kind": "script", "filename": "train.py", "source": "print('Grüße')\n"}
FUNCTION = {"kind": "function", "name": "fit", "source": "def fit(lr):\n    pass\n", "kwargs": {"lr": 0.1}}


def command_of(made: BuiltJob) -> list[str]:
    command: list[str] = made.manifest["spec"]["trainer"]["command"]
    return command


def payload_of(made: BuiltJob) -> dict[str, Any]:
    first, *more = command_of(made)[4:]
    count, _, head = first.partition(":")
    assert int(count) == 1 + len(more)
    data: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode("".join([head, *more]))))
    return data


def noise(characters: int) -> str:
    """Text that does not compress well."""
    return "# " + random.Random(1).randbytes(characters // 2).hex()


def test_the_command(built: Built) -> None:
    command = command_of(built({"code": SCRIPT}))
    assert command[:3] == ["python3", "-u", "-c"]
    assert len(command) == 5


def test_the_launcher_says_nothing_that_kubernetes_expands(built: Built) -> None:
    assert "$" not in "".join(command_of(built({"code": SCRIPT}))).replace("$TRAINER_OPS_RESULT_PATH", "")


def test_a_script(built: Built) -> None:
    data = payload_of(
        built(
            {
                "code": SCRIPT,
                "args": ["--lr", "1"],
                "packages": ["a==1"],
                "pip_index_url": "https://i",
                "env": {"B": 1, "A": 2},
            }
        )
    )
    assert "def report(" in data.pop("reporting")
    assert data == {
        "kind": "script",
        "filename": "train.py",
        "source": SCRIPT["source"],
        "runner": "auto",
        "packages": ["a==1"],
        "index_url": "https://i",
        "argc": 2,
        "exports": ["A", "B"],
    }


def test_a_function(built: Built) -> None:
    data = payload_of(built({"code": FUNCTION}))
    assert {name: data[name] for name in FUNCTION} == FUNCTION


def test_arguments_stay_readable(built: Built) -> None:
    assert built({"code": SCRIPT, "args": ["--lr", "1"]}).manifest["spec"]["trainer"]["args"] == ["--lr", "1"]


FILENAMES = {
    "plain": ("train.py", "train.py"),
    "a folder": ("src/train.py", "train.py"),
    "of Windows": ("src\\train.py", "train.py"),
    "out of the folder": ("../../etc/train.py", "train.py"),
    "none": ("", "script.py"),
}


@pytest.mark.parametrize(("given", "expected"), FILENAMES.values(), ids=FILENAMES.keys())
def test_filename(built: Built, given: str, expected: str) -> None:
    assert payload_of(built({"code": {**SCRIPT, "filename": given}}))["filename"] == expected


RUNNERS = {
    "torch": ("auto", "torch", "torchrun"),
    "mpi": ("auto", "mpi", "mpirun"),
    "jax": ("auto", "jax", "python"),
    "xgboost": ("auto", "xgboost", "python"),
    "plain": ("auto", "plain", "python"),
    "left to the launcher": ("auto", None, "auto"),
    "the user's": ("python", "torch", "python"),
    "the user's, runtime unknown": ("mpirun", None, "mpirun"),
}


@pytest.mark.parametrize(("given", "policy", "expected"), RUNNERS.values(), ids=RUNNERS.keys())
def test_runner(built: Built, runtime_of: RuntimeOf, given: str, policy: str | None, expected: str) -> None:
    runtime = runtime_of(policy) if policy else None
    assert payload_of(built({"code": SCRIPT, "runner": given}, runtime=runtime))["runner"] == expected


def test_no_argument_is_more_than_linux_takes(built: Built) -> None:
    source = noise(600_000)
    made = built({"code": {**SCRIPT, "source": source}})
    assert len(command_of(made)) > 6
    assert max(len(item.encode()) for item in command_of(made)) < 128 * 1024
    assert payload_of(made)["source"] == source


TOO_BIG = {
    "script": ({**SCRIPT, "source": noise(2 * PAYLOAD_LIMIT)}, "script"),
    "function": ({**FUNCTION, "kwargs": {"data": noise(2 * PAYLOAD_LIMIT)}}, "python_callable"),
}


@pytest.mark.parametrize(("code", "field"), TOO_BIG.values(), ids=TOO_BIG.keys())
def test_too_big(built: Built, code: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest, match="at most 1,000,000 can travel in a TrainJob") as caught:
        built({"code": code})
    assert caught.value.field == field
    assert "Put the code into the image" in caught.value.remedy
