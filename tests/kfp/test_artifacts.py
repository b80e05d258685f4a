"""Outcome -> artifacts: where the model ends up, and that no artifact ever fails the task."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer_ops.kfp.artifacts import fill
from trainer_ops.kfp.task import Artifact
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.phase import Phase

pytestmark = pytest.mark.kfp


def artifact(uri: str, path: str = "") -> Artifact:
    return Artifact.from_json({"name": "1", "uri": uri, "customPath": path})


def filled(end: Outcome, model: Artifact) -> Artifact:
    metrics = artifact("s3://bucket/v2/metrics")
    fill({"model": model, "metrics": metrics}, end, "xgboost")
    return metrics


def outcome(model_uri: str | None) -> Outcome:
    return Outcome(
        name="digits-1",
        namespace="default",
        uid="u1",
        target="local:///x",
        phase=Phase.SUCCEEDED,
        metrics={"accuracy": 0.95, "note": "fine"},
        model_uri=model_uri,
    )


@pytest.mark.parametrize(
    ("model_uri", "expected"),
    [
        pytest.param("s3://bucket/v2/other/model.json", "s3://bucket/v2/other/model.json", id="own bucket: pointed at"),
        pytest.param("s3://foreign/model.json", "s3://bucket/v2/model", id="foreign bucket: would fail the task"),
        pytest.param("gs://bucket/model.json", "s3://bucket/v2/model", id="other store of the same name"),
        pytest.param("hf://org/model", "hf://org/model", id="a scheme KFP only registers"),
        pytest.param(None, "s3://bucket/v2/model", id="none reported"),
    ],
)
def test_uri(tmp_path: Path, model_uri: str | None, expected: str) -> None:
    model = artifact("s3://bucket/v2/model", str(tmp_path / "model"))
    filled(outcome(model_uri), model)
    assert model.uri == expected
    assert model.metadata["model_uri"] == (model_uri or "")


def test_a_local_file_is_copied(tmp_path: Path) -> None:
    made = tmp_path / "made model.json"
    made.write_text("{}")
    model = artifact("local", str(tmp_path / "out" / "model"))
    filled(outcome(made.as_uri()), model)
    assert Path(model.path).read_text() == "{}"


def test_a_local_folder_is_copied(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "weights").write_text("w")
    model = artifact("local", str(tmp_path / "out"))
    filled(outcome(str(tmp_path / "made")), model)
    assert (tmp_path / "out" / "weights").read_text() == "w"


def test_a_file_on_another_machine_is_metadata_only(tmp_path: Path) -> None:
    model = artifact("s3://bucket/v2/model", str(tmp_path / "model"))
    filled(outcome("file:///no/such/place"), model)
    assert not Path(model.path).exists()
    assert model.uri == "s3://bucket/v2/model"


def test_metrics_and_provenance() -> None:
    model = artifact("m", "/nowhere")
    metrics = filled(outcome(None), model)
    assert metrics.metadata == {"accuracy": 0.95, "note": "fine"}
    assert model.metadata["trainjob"] == "default/digits-1"
    assert model.metadata["metric_accuracy"] == 0.95
    assert model.metadata["framework"] == "xgboost"
