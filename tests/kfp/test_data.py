"""Data as artifact, as snapshot or by URI; and what of a snapshot becomes an artifact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.data import data_fields
from trainer_ops.kfp.initialize import _asked, _place
from trainer_ops.kfp.task import Artifact, Task
from trainer_ops.model.request import Initializer, TrainRequest
from trainer_ops.model.snapshot import Snapshot

pytestmark = pytest.mark.kfp

SNAPSHOT = Snapshot(
    "dataset", "hf://datasets/org/digits", "c0ffee", "0" * 32, f"pvc://store/{'0' * 32}/data", "sha256:ab", 2, 70, True
)
# As they come back from KFP: numbers are floats, and the store of metadata knows no bool.
METADATA = {**SNAPSHOT.to_json(), "files": 2.0, "bytes": 70.0, "hit": 1.0, "display_name": "dataset"}


def task(artifacts: dict[str, dict[str, Any]] | None = None, **inputs: Any) -> Task:
    listed = {name: {"artifacts": [one]} for name, one in (artifacts or {}).items()}
    return Task.parse("train_job", json.dumps({"inputs": {"parameterValues": inputs, "artifacts": listed}}))


def request(task: Task) -> TrainRequest:
    return TrainRequest(runtime="plain", **data_fields(task))


def test_an_artifact_of_ours_is_the_snapshot() -> None:
    made = request(task({"dataset": {"uri": SNAPSHOT.location, "metadata": METADATA}}))
    assert made.dataset == SNAPSHOT
    assert made.model is None


def test_it_is_the_metadata_that_tell_wherever_the_artifact_lies() -> None:
    uri = "minio://mlpipeline/v2/artifacts/p/r/t/s/dataset"
    assert request(task({"dataset": {"uri": uri, "metadata": METADATA}})).dataset == SNAPSHOT


def test_a_parameter_is_the_snapshot() -> None:
    made = request(task(base_model_snapshot={**SNAPSHOT.to_json(), "files": 2.0}))
    assert made.model == SNAPSHOT


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        pytest.param("hf://org/model", "hf://org/model", id="a scheme that Trainer fetches"),
        pytest.param("s3://bucket/model", "s3://bucket/model", id="object storage"),
        pytest.param("/tmp/root/my model", "file:///tmp/root/my%20model", id="a step of the local runner made it"),
    ],
)
def test_an_artifact_of_others_is_fetched_by_its_uri(uri: str, expected: str) -> None:
    made = request(task({"base_model": {"uri": uri, "metadata": {"framework": "torch"}}}))
    assert isinstance(made.model, Initializer)
    assert made.model.storage_uri == expected


def test_a_model_that_a_training_made_is_fetched_from_where_it_was_left() -> None:
    uri, there = "minio://mlpipeline/v2/artifacts/p/r/t/s/model", "s3://models/digits"
    made = request(task({"base_model": {"uri": uri, "metadata": {"model_uri": there, "trainjob": "team-a/x"}}}))
    assert isinstance(made.model, Initializer)
    assert made.model.storage_uri == there


def test_an_optional_artifact_that_was_left_out() -> None:
    given: dict[str, Any] = {"inputs": {"artifacts": {"dataset": {"artifacts": []}}}}
    assert data_fields(Task.parse("train_job", json.dumps(given))) == {}


@pytest.mark.parametrize(
    ("artifacts", "inputs", "says"),
    [
        pytest.param(
            {"dataset": {"uri": "hf://a"}},
            {"dataset_uri": "hf://b"},
            "dataset and dataset_uri exclude",
            id="artifact and URI",
        ),
        pytest.param(
            {},
            {"base_model_snapshot": SNAPSHOT.to_json(), "base_model_uri": "hf://b"},
            "base_model_snapshot and base_model_uri exclude",
            id="snapshot and URI",
        ),
        pytest.param({}, {"dataset_snapshot": {"uri": "hf://b"}}, "is no snapshot", id="no snapshot"),
        pytest.param({"dataset": {"uri": ""}}, {}, "the artifact has no URI", id="no URI"),
        pytest.param({"dataset": {"uri": "minio://b/k"}}, {}, "snapshot of s3://b/k", id="KFP's own storage"),
    ],
)
def test_refused(artifacts: dict[str, dict[str, Any]], inputs: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        data_fields(task(artifacts, **inputs))


@pytest.mark.parametrize(
    ("location", "given", "uri"),
    [
        pytest.param("pvc://store/k/data", "minio://b/v2/dataset", "pvc://store/k/data", id="a claim: registered only"),
        pytest.param("s3://b/k/data", "s3://b/v2/dataset", "s3://b/k/data", id="the pipeline root's own bucket"),
        pytest.param("s3://c/k/data", "s3://b/v2/dataset", "s3://b/v2/dataset", id="another bucket fails the task"),
        pytest.param("s3://b/k/data", "minio://b/v2/dataset", "minio://b/v2/dataset", id="another store to KFP"),
        pytest.param("file:///a%20b/data", "/root/dataset", "/a b/data", id="the local runner"),
        pytest.param("s3://b/k/data", "root/dataset", "s3://b/k/data", id="the local runner, object storage"),
        pytest.param("file:///s/k/data", "minio://b/v2/dataset", "minio://b/v2/dataset", id="a pod's own disk"),
    ],
)
def test_where_the_artifact_is(location: str, given: str, uri: str, tmp_path: Path) -> None:
    snapshot = Snapshot("dataset", "hf://datasets/a/b", "c0", "k", location, "sha256:ab", 2, 70)
    custom = str(tmp_path / "dataset")
    artifact = Artifact.from_json({"name": "1", "uri": given, "customPath": custom})
    _place(snapshot, artifact)
    assert artifact.uri == uri
    assert {"uri", "revision", "digest", "bytes", "files", "key", "hit"} < artifact.metadata.keys()
    # What stays where KFP gave it is a file that describes the snapshot, and costs nothing to download.
    written = json.loads(Path(custom).read_text()) if uri == given else None
    assert written == (snapshot.to_json() if uri == given else None)


def test_what_is_asked_for() -> None:
    config = {
        "resources": {"limits": {"memory": "4Gi"}},
        "nodeSelector": {"pool": "io"},
        "tolerations": [{"key": "io"}],
        "env": [
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
            {"name": "TRAINER_OPS_TARGET", "value": "in-cluster"},
        ],
    }
    asked = _asked(
        task(
            uri="hf://datasets/a/b",
            include=["*.csv"],
            ignore=[],
            secret_ref="hub-token",
            queue="team-a",
            wait_timeout=60.0,
            startup_timeout=-1,
            refresh=False,
            target="local:///x",
            task_config=config,
        )
    )
    assert asked == {
        "uri": "hf://datasets/a/b",
        "include": ["*.csv"],
        "secret_ref": "hub-token",
        "wait_timeout": 60,
        "refresh": False,
        "labels": {"kueue.x-k8s.io/queue-name": "team-a"},
        "resources": {"limits": {"memory": "4Gi"}},
        "env": {"HF_TOKEN": {"valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}},
        "pod": {"nodeSelector": {"pool": "io"}, "tolerations": [{"key": "io"}]},
    }


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        pytest.param({}, "uri: is missing", id="nothing"),
        pytest.param({"uri": "hf://a/b", "wait_timeout": 0}, "wait_timeout: 0 is not at least 1", id="no time"),
        pytest.param(
            {"uri": "hf://a/b", "task_config": {"volumes": [{"name": "v"}]}},
            "Name the claim",
            id="a volume on the task",
        ),
        pytest.param(
            {"uri": "hf://a/b", "env": {"A": "1"}, "task_config": {"env": [{"name": "A", "value": "2"}]}},
            "env.A: is given, and the task sets another value",
            id="a variable twice",
        ),
    ],
)
def test_what_cannot_be_asked_for(inputs: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        _asked(task(**inputs))
