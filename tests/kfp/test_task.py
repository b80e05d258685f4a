"""KFP's executor input, and the outputs that are written for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer_ops.errors import Forbidden, InvalidRequest, TrainerOpsError
from trainer_ops.kfp.body import perform
from trainer_ops.kfp.task import Artifact, Task

pytestmark = pytest.mark.kfp


def executor_input(folder: Path, **values: Any) -> str:
    uri = "minio://mlpipeline/v2/artifacts/p/run/train-job/6f1c"
    outputs = {
        "artifacts": {
            "model": {"artifacts": [{"name": "7", "uri": f"{uri}/model", "type": {"schemaTitle": "system.Model"}}]}
        },
        "outputFile": str(folder / "out" / "executor_output.json"),
    }
    return json.dumps({"inputs": {"parameterValues": values}, "outputs": outputs})


def test_what_it_says(tmp_path: Path) -> None:
    task = Task.parse("train_job", executor_input(tmp_path, runtime="x", **{"pipelinechannel--rounds": 8.0}))
    assert task.inputs == {"runtime": "x"}
    assert task.channels == {"pipelinechannel--rounds": 8.0}
    assert task.identity("model").endswith("/6f1c/model")
    with pytest.raises(InvalidRequest, match="no URI"):
        task.identity("metrics")


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"outputs": {"artifacts": {"model": {}}}}'])
def test_what_is_no_executor_input(text: str) -> None:
    with pytest.raises(InvalidRequest, match="ExecutorInput"):
        Task.parse("train_job", text)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("minio://b/v2/model", "/minio/b/v2/model"),
        ("s3://b/v2/model", "/s3/b/v2/model"),
        ("gs://b/v2/model", "/gcs/b/v2/model"),
        ("/tmp/local/model", "/tmp/local/model"),
    ],
)
def test_where_an_artifact_lies(uri: str, path: str) -> None:
    artifact = Artifact.from_json({"name": "1", "uri": uri})
    assert artifact.path == path
    artifact.uri = "hf://elsewhere"
    assert artifact.path == path
    assert Artifact.from_json({"uri": uri, "customPath": "/mnt/x"}).path == "/mnt/x"


def test_outputs(tmp_path: Path) -> None:
    task = Task.parse("train_job", executor_input(tmp_path))
    task.artifacts["model"].metadata["accuracy"] = 0.5
    task.write({"outcome": {"phase": "succeeded"}, "model_uri": "s3://b/m"})
    made = json.loads((tmp_path / "out" / "executor_output.json").read_text())
    assert made["parameterValues"] == {"outcome": {"phase": "succeeded"}, "model_uri": "s3://b/m"}
    (model,) = made["artifacts"]["model"]["artifacts"]
    assert model["metadata"] == {"accuracy": 0.5}
    assert model["type"] == {"schemaTitle": "system.Model"}
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["executor_output.json"]


def test_outputs_left_half_written_are_replaced(tmp_path: Path) -> None:
    task = Task.parse("train_job", executor_input(tmp_path))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "executor_output.json").write_text('{"parameterVal')
    task.write({"outcome": {}, "model_uri": ""})
    assert json.loads((tmp_path / "out" / "executor_output.json").read_text())["parameterValues"]["model_uri"] == ""


def test_an_error_is_the_end_of_stderr_and_nothing_is_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def body(task: Task) -> dict[str, Any]:
        print("log")
        raise TrainerOpsError("it failed", remedy="Mend it")

    assert perform(body, Task.parse("x", executor_input(tmp_path))) == 1
    assert capfd.readouterr() == ("log\n", "it failed. Mend it\n")
    assert list(tmp_path.iterdir()) == []


def test_a_bug_keeps_its_traceback(tmp_path: Path) -> None:
    def body(task: Task) -> dict[str, Any]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        perform(body, Task.parse("x", executor_input(tmp_path)))


def test_a_403_prints_the_role_and_ends_with_what_is_missing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def body(task: Task) -> dict[str, Any]:
        user = "system:serviceaccount:kubeflow:pipeline-runner"
        raise Forbidden("not allowed: creating trainjobs", status=403, remedy="Mend", user=user, namespace="team-a")

    assert perform(body, Task.parse("x", executor_input(tmp_path))) == 1
    said = capfd.readouterr().err
    assert said.endswith("\nnot allowed: creating trainjobs. Mend\n")
    role, binding, *_ = yaml.safe_load_all(said.partition("\n\n")[2].rpartition("\n\n")[0])
    assert role["metadata"]["namespace"] == "team-a"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "pipeline-runner", "namespace": "kubeflow"}]
