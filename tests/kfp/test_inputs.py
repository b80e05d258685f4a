"""KFP's values -> a request: one named case each."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.inputs import fields_from, run_key, spoiled_numbers
from trainer_ops.model.request import Initializer, TrainRequest

pytestmark = pytest.mark.kfp


def request_from(given: dict[str, Any], spoiled: frozenset[str] = frozenset()) -> TrainRequest:
    return TrainRequest(**fields_from(given, spoiled=spoiled))


BASE: dict[str, Any] = {"runtime": "torch-distributed", "command": ["true"]}


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        pytest.param({"num_nodes": 2}, "num_nodes", 2, id="int"),
        pytest.param({"num_nodes": 2.0}, "num_nodes", 2, id="whole float"),
        pytest.param({"num_nodes": "2"}, "num_nodes", 2, id="number in text"),
        pytest.param({"num_nodes": -1}, "num_nodes", None, id="-1 nodes is not given"),
        pytest.param({"max_restarts": 0}, "max_restarts", 0, id="0 restarts is a limit"),
        pytest.param({"max_restarts": -1}, "max_restarts", None, id="-1 restarts is not given"),
        pytest.param({"missing_grace": -1}, "missing_grace", 30.0, id="-1 grace is the default"),
        pytest.param({"env": None}, "env", {}, id="None is not given"),
        pytest.param({"env": {"ROUNDS": 20.0}}, "env", {"ROUNDS": 20}, id="floats inside a dict"),
        pytest.param({"env": {"LR": 0.5}}, "env", {"LR": 0.5}, id="a real float stays"),
        pytest.param({"resources_per_node": {"cpu": 2.0}}, "resources_per_node", {"cpu": 2}, id="cpu as a float"),
        pytest.param({"args": ["--rounds", 20.0]}, "args", ["--rounds", "20"], id="args become text"),
        pytest.param({"queue_timeout": 600.0}, "queue_timeout", 600.0, id="seconds"),
        pytest.param({"unreachable_timeout": -1.0}, "unreachable_timeout", 1800.0, id="-1 seconds is not given"),
        pytest.param({"image": ""}, "image", None, id="empty text is not given"),
    ],
)
def test_value(given: dict[str, Any], field: str, expected: object) -> None:
    assert getattr(request_from({**BASE, **given}), field) == expected


def test_uris_become_initializers() -> None:
    request = request_from({**BASE, "dataset_uri": "hf://datasets/a/b", "base_model_uri": "hf://a/c"})
    assert isinstance(request.dataset, Initializer)
    assert isinstance(request.model, Initializer)
    assert (request.dataset.storage_uri, request.model.storage_uri) == ("hf://datasets/a/b", "hf://a/c")


def test_a_manifest_keeps_whole_numbers_whole() -> None:
    manifest = {"spec": {"runtimeRef": {"name": "x"}, "trainer": {"numNodes": 2.0}}}
    assert request_from({"manifest": manifest}).manifest == {
        "spec": {"runtimeRef": {"name": "x"}, "trainer": {"numNodes": 2}}
    }


def test_a_number_of_the_pipeline_inside_a_list_is_whole_again() -> None:
    told = {"pipelinechannel--rounds": 8.0, "pipelinechannel--lr": 0.5, "pipelinechannel--tag": "3.0"}
    spoiled = spoiled_numbers(told)
    given = {"args": ["--rounds", "8.0", "--lr", "0.5", "9.0"], "env": {"ROUNDS": "8.0", "TAG": "3.0"}}
    request = request_from({**BASE, **given}, spoiled=spoiled)
    assert request.args == ["--rounds", "8", "--lr", "0.5", "9.0"]
    assert request.env == {"ROUNDS": "8", "TAG": "3.0"}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        pytest.param({"num_nodes": "two"}, "num_nodes", id="no number"),
        pytest.param({"num_nodes": 1.5}, "num_nodes", id="half a node"),
        pytest.param({"num_nodes": -2}, "num_nodes", id="negative"),
        pytest.param({"num_nodes": 0}, "num_nodes", id="no nodes"),
        pytest.param({"wait_timeout": 0}, "wait_timeout", id="no time"),
        pytest.param({"nodes": 2}, "nodes", id="unknown"),
        pytest.param({"env": ["A"]}, "env", id="a list of variables"),
        pytest.param({"args": "--rounds 2"}, "args", id="a command line, not its words"),
        pytest.param({"command": "python"}, "command", id="text is a sequence of letters"),
        pytest.param({"manifest": {"spec": {}}}, "runtime", id="manifest and runtime"),
        pytest.param({"runtime": ""}, "runtime", id="nothing"),
    ],
)
def test_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        request_from({**BASE, **given})
    assert caught.value.field == field


def test_the_key_is_the_output_uri() -> None:
    uri = "minio://mlpipeline/v2/artifacts/p/run/train-job/6f1c/model"
    assert run_key(uri, title="a").digest == run_key(uri, title="b").digest
    assert run_key(uri, title="a").digest != run_key(uri.replace("6f1c", "6f1d"), title="a").digest
