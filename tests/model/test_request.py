"""A request says what is wrong with it in the user's own words: the field, the reason, the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.limits import Limits
from trainer_ops.model.request import FunctionCode, Initializer, ScriptCode, TrainRequest

R: dict[str, Any] = {"runtime": "torch-distributed"}
SCRIPT = {"kind": "script", "filename": "train.py", "source": "print(1)"}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": (
        {},
        'invalid request: runtime: is missing. Name a runtime such as "torch-distributed"; all: trainer-ops runtimes',
    ),
    "no nodes": ({**R, "num_nodes": 0}, "invalid request: num_nodes: 0 is not at least 1. Give 1 or more"),
    "nodes as text": (
        {**R, "num_nodes": "2"},
        "invalid request: num_nodes: '2' is not a whole number. Give a whole number, not text",
    ),
    "half a node": (
        {**R, "num_nodes": 1.5},
        "invalid request: num_nodes: 1.5 is not a whole number. Give a whole number, not text",
    ),
    "a typo": (
        {**R, "nmu_nodes": 2},
        "invalid request: nmu_nodes: is no field of a training request. Did you mean num_nodes?",
    ),
    "a typo in what counts": (
        {**R, "nodez": 2},
        "invalid request: nodez: is no field of a training request. Did you mean num_nodes?",
    ),
    "a list for a manifest": (
        {"manifest": [1]},
        "invalid request: manifest: [1] is not a mapping. Give a mapping of names to values",
    ),
    "a typo inside": (
        {**R, "dataset": {"storage_url": "hf://a/b"}},
        "invalid request: dataset.storage_uri: is missing. Give it",
    ),
    "no time": ({**R, "wait_timeout": 0}, "invalid request: wait_timeout: 0 is not more than 0. Give more than 0"),
    "negative restarts": (
        {**R, "max_restarts": -1},
        "invalid request: max_restarts: -1 is not at least 0. Give 0 or more",
    ),
    "a long image": (
        {**R, "image": "i" * 501},
        "invalid request: image: has 501 characters. At most 500 are allowed",
    ),
    "an empty runtime": ({"runtime": ""}, "invalid request: runtime: is empty. Give a value, or leave it out"),
    "many arguments": ({**R, "args": ["a"] * 129}, "invalid request: args: has 129 items. At most 128 are allowed"),
    "an unknown runner": (
        {**R, "runner": "slurm"},
        (
            "invalid request: runner: 'slurm' is none of 'auto', 'python', 'torchrun' or 'mpirun'. "
            "Give 'auto', 'python', 'torchrun' or 'mpirun'"
        ),
    ),
    "no truth": (
        {**R, "suspend": "perhaps"},
        "invalid request: suspend: 'perhaps' is neither true nor false. Give true or false",
    ),
    "an environment of lists": (
        {**R, "env": {"A": [1]}},
        "invalid request: env: A is a list; give text, a number or a valueFrom mapping",
    ),
    "two ways to run": (
        {**R, "command": ["a"], "script": "b.py"},
        "invalid request: script: script and command exclude each other. Give one of script, code, command",
    ),
    "packages for a command": (
        {**R, "command": ["a"], "packages": ["p"]},
        (
            "invalid request: packages: are installed only before shipped code. "
            "Give script or code, or put them into the image"
        ),
    ),
    "beside a manifest": (
        {"manifest": {"spec": {}}, "num_nodes": 2},
        (
            "invalid request: num_nodes: manifest already describes the whole TrainJob. "
            "Write it into the manifest, or leave num_nodes out"
        ),
    ),
    "a manifest of lists": (
        {"manifest": {"spec": []}},
        "invalid TrainJob: spec: [] is not a mapping. Write its fields",
    ),
    "a runtimeRef that is a name": (
        {"manifest": {"spec": {"runtimeRef": "torch-distributed"}}},
        "invalid TrainJob: spec.runtimeRef: 'torch-distributed' is not a mapping. Write its fields",
    ),
    "labels of lists": (
        {"manifest": {"metadata": {"labels": ["a"]}}},
        "invalid TrainJob: metadata.labels: ['a'] is not a mapping. Write its fields",
    ),
}


@pytest.mark.parametrize(("given", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        TrainRequest(**given)
    assert str(caught.value) == text
    assert caught.value.field in text


ACCEPTED: dict[str, tuple[dict[str, Any], str, object]] = {
    "whole floats are ints, as KFP sends them": ({**R, "num_nodes": 2.0}, "num_nodes", 2),
    "and restarts": ({**R, "max_restarts": 0.0}, "max_restarts", 0),
    "code by its kind": ({**R, "code": SCRIPT}, "code", ScriptCode(filename="train.py", source="print(1)")),
    "defaults beside a manifest": ({"manifest": {"spec": {}}, "num_nodes": None, "env": {}}, "num_nodes", None),
    "limits beside a manifest": ({"manifest": {"spec": {}}, "wait_timeout": 5}, "wait_timeout", 5.0),
    "absent parts of a manifest": ({"manifest": {"metadata": None, "spec": {"trainer": None}}}, "runtime", None),
}


@pytest.mark.parametrize(("given", "field", "value"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(given: dict[str, Any], field: str, value: object) -> None:
    assert getattr(TrainRequest(**given), field) == value


def test_a_uri_alone_is_an_initializer() -> None:
    assert TrainRequest(**R, dataset="hf://org/digits").dataset == Initializer(storage_uri="hf://org/digits")


TITLES: dict[str, tuple[dict[str, Any], str]] = {
    "the runtime's": (R, "torch-distributed"),
    "the script's": ({**R, "script": "/home/me/train_digits.py"}, "train_digits"),
    "the shipped script's": ({**R, "code": SCRIPT}, "train"),
    "the function's": ({**R, "code": FunctionCode(name="fit", source="def fit(): pass")}, "fit"),
    "the given name": ({**R, "name": "nightly", "script": "a.py"}, "nightly"),
    "the manifest's": ({"manifest": {"metadata": {"name": "m"}}}, "m"),
    "the manifest's prefix": ({"manifest": {"metadata": {"generateName": "g-"}}}, "g-"),
    "a manifest without a name": ({"manifest": {"metadata": None}}, "train"),
}


@pytest.mark.parametrize(("given", "title"), TITLES.values(), ids=TITLES.keys())
def test_title(given: dict[str, Any], title: str) -> None:
    assert TrainRequest(**given).title == title


REFS: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "by field": (R, ("ClusterTrainingRuntime", "torch-distributed")),
    "of the namespace": ({**R, "runtime_kind": "TrainingRuntime"}, ("TrainingRuntime", "torch-distributed")),
    "of a manifest": ({"manifest": {"spec": {"runtimeRef": {"name": "x"}}}}, ("ClusterTrainingRuntime", "x")),
    "of a manifest, namespaced": (
        {"manifest": {"spec": {"runtimeRef": {"name": "x", "kind": "TrainingRuntime"}}}},
        ("TrainingRuntime", "x"),
    ),
    "of an empty manifest": ({"manifest": {"spec": None}}, ("ClusterTrainingRuntime", "")),
}


@pytest.mark.parametrize(("given", "ref"), REFS.values(), ids=REFS.keys())
def test_runtime_ref(given: dict[str, Any], ref: tuple[str, str]) -> None:
    assert TrainRequest(**given).runtime_ref == ref


def test_limits_cross_processes_and_versions() -> None:
    limits = TrainRequest(**R, queue_timeout=5, max_restarts=2).limits
    assert limits == Limits(queue_timeout=5.0, max_restarts=2)
    assert Limits.from_json({**limits.to_json(), "of_a_newer_version": 1}) == limits


def test_a_request_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        TrainRequest(**R).runtime = "other"
