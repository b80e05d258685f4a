"""One TrainJob per attempt: what identifies it, what is hashed, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.build.manifest import BuiltJob
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.identity import RunKey
from trainer_ops.model.limits import Limits
from trainer_ops.model.names import job_name
from trainer_ops.model.runtime import TrainingRuntime

Built = Callable[..., BuiltJob]
SCRIPT = {"kind": "script", "filename": "train.py", "source": "print(1)"}
RICH: dict[str, Any] = {
    "code": SCRIPT,
    "env": {"B": 1, "A": "2"},
    "labels": {"team": "a"},
    "resources_per_node": {"memory": "1Gi", "cpu": 2},
    "dataset": "hf://a/b",
    "queue": "team-a",
    "termination_grace_period_seconds": 60,
    "checkpoint_dir": "/ckpt",
}


def test_equal_arguments_give_equal_bytes(built: Built) -> None:
    assert json.dumps(built(RICH).manifest) == json.dumps(built(RICH).manifest)


def test_metadata(built: Built, key: RunKey) -> None:
    made = built(
        {"labels": {"team": "a"}, "annotations": {"note": "n"}, "max_restarts": 2, "wait_timeout": 60},
        attempt=2,
        link="https://airflow/digits",
    )
    meta = made.manifest["metadata"]
    assert meta["name"] == made.name == job_name(key, 2, "torch")
    assert meta["labels"] == {
        "team": "a",
        "app.kubernetes.io/managed-by": "trainer-ops",
        "trainer-ops/run-key": key.digest,
        "trainer-ops/subject": key.subject,
        "trainer-ops/generation": "0",
        "trainer-ops/attempt": "2",
    }
    limits = json.loads(meta["annotations"].pop("trainer-ops/limits"))
    assert Limits.from_json(limits) == Limits(max_restarts=2, wait_timeout=60.0)
    assert meta["annotations"] == {
        "note": "n",
        "trainer-ops/identity": "airflow: dag_id=digits run_id=manual__1 task_id=train",
        "trainer-ops/spec-hash": made.spec_hash,
        "trainer-ops/version": "0.1.0",
        "trainer-ops/source-link": "https://airflow/digits",
    }
    assert (made.manifest["apiVersion"], made.manifest["kind"]) == ("trainer.kubeflow.org/v1alpha1", "TrainJob")


def test_without_a_link_there_is_no_annotation_for_it(built: Built) -> None:
    assert keys.ANNOTATION_SOURCE_LINK not in built({}).manifest["metadata"]["annotations"]


def test_label_values_fit_however_long_the_identity_is(built: Built) -> None:
    long = RunKey.of("airflow", {"dag_id": "d" * 200, "run_id": "r" * 200}, generation=12345)
    meta = built({}, of=long, attempt=12345).manifest["metadata"]
    assert all(len(value) <= 63 for value in meta["labels"].values())
    assert "d" * 200 in meta["annotations"][keys.ANNOTATION_IDENTITY]


def test_queue_and_priority_are_labels(built: Built) -> None:
    labels = built({"queue": "team-a", "priority_class": "high"}).manifest["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "team-a"
    assert labels["kueue.x-k8s.io/priority-class"] == "high"


SAME_HASH: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "another attempt": (RICH, RICH, {"attempt": 3}),
    "another version of this package": (RICH, RICH, {"version": "9.9"}),
    "another order of keys": ({"env": {"A": 1, "B": 2}}, {"env": {"B": 2, "A": 1}}, {}),
    "a default spelled out": ({}, {"suspend": False, "runner": "auto"}, {}),
    "other limits of the wait": ({}, {"wait_timeout": 5, "max_restarts": 1}, {}),
    "another name for people": ({}, {"name": "nightly"}, {}),
    "another link": (RICH, RICH, {"link": "https://elsewhere"}),
}


@pytest.mark.parametrize(("one", "two", "how"), SAME_HASH.values(), ids=SAME_HASH.keys())
def test_same_hash(built: Built, one: dict[str, Any], two: dict[str, Any], how: dict[str, Any]) -> None:
    assert built(one).spec_hash == built(two, **how).spec_hash


def test_a_changed_runtime_is_not_another_request(built: Built, runtime_of: Callable[..., TrainingRuntime]) -> None:
    assert built(RICH, runtime=runtime_of("torch", num_nodes=2)).spec_hash == built(RICH).spec_hash


OTHER_HASH: dict[str, dict[str, Any]] = {
    "code": {**RICH, "code": {**SCRIPT, "source": "print(2)"}},
    "environment": {**RICH, "env": {"B": 2, "A": "2"}},
    "nodes": {**RICH, "num_nodes": 2},
    "labels": {**RICH, "labels": {}},
    "checkpoints": {**RICH, "checkpoint_dir": "/other"},
    "packages": {**RICH, "packages": ["x"]},
}


@pytest.mark.parametrize("other", OTHER_HASH.values(), ids=OTHER_HASH.keys())
def test_other_hash(built: Built, other: dict[str, Any]) -> None:
    assert built(RICH).spec_hash != built(other).spec_hash


def env_of(made: BuiltJob) -> dict[str, Any]:
    return {row["name"]: row.get("value") for row in made.manifest["spec"]["trainer"]["env"]}


CHECKPOINTS = {
    "a folder": ("/mnt/ckpt", "/mnt/ckpt/{key}"),
    "a slash at the end": ("/mnt/ckpt/", "/mnt/ckpt/{key}"),
    "a URI": ("s3://bucket/ckpt", "s3://bucket/ckpt/{key}"),
}


@pytest.mark.parametrize(("given", "expected"), CHECKPOINTS.values(), ids=CHECKPOINTS.keys())
def test_environment(built: Built, key: RunKey, given: str, expected: str) -> None:
    for attempt in (1, 2):
        assert env_of(built({"checkpoint_dir": given}, attempt=attempt)) == {
            "TRAINER_OPS_RUN_KEY": key.digest,
            "TRAINER_OPS_ATTEMPT": str(attempt),
            "TRAINER_OPS_CHECKPOINT_DIR": expected.format(key=key.digest),
        }


FOLDERS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a dataset": ({"dataset": "hf://a/b"}, {"TRAINER_OPS_DATASET_DIR": "/workspace/dataset"}),
    "a model": ({"model": "hf://a/b"}, {"TRAINER_OPS_MODEL_DIR": "/workspace/model"}),
    "both": (
        {"dataset": "hf://a/b", "model": "hf://c/d"},
        {"TRAINER_OPS_DATASET_DIR": "/workspace/dataset", "TRAINER_OPS_MODEL_DIR": "/workspace/model"},
    ),
    "the user's own": (
        {"dataset": "hf://a/b", "env": {"TRAINER_OPS_DATASET_DIR": "/mine"}},
        {"TRAINER_OPS_DATASET_DIR": "/mine"},
    ),
    "in a manifest": (
        {"manifest": {"spec": {"initializer": {"dataset": {"storageUri": "hf://a/b"}}, "trainer": {"numNodes": 1}}}},
        {"TRAINER_OPS_DATASET_DIR": "/workspace/dataset"},
    ),
    "a manifest that is wrong": ({"manifest": {"spec": {"initializer": ["dataset"], "trainer": {}}}}, {}),
    "neither": ({}, {}),
}


@pytest.mark.parametrize(("fields", "expected"), FOLDERS.values(), ids=FOLDERS.keys())
def test_the_initializers_folders_have_names(built: Built, fields: dict[str, Any], expected: dict[str, str]) -> None:
    found = env_of(built(fields))
    assert {name: value for name, value in found.items() if name.endswith("_DIR")} == expected


def test_the_users_own_value_wins(built: Built, key: RunKey) -> None:
    made = built({"env": {"TRAINER_OPS_CHECKPOINT_DIR": "/mine"}, "checkpoint_dir": "/ckpt"})
    assert [row["name"] for row in made.manifest["spec"]["trainer"]["env"]] == [
        "TRAINER_OPS_CHECKPOINT_DIR",
        "TRAINER_OPS_RUN_KEY",
        "TRAINER_OPS_ATTEMPT",
    ]
    assert env_of(made)["TRAINER_OPS_CHECKPOINT_DIR"] == "/mine"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "our label": (
        {"labels": {"trainer-ops/run-key": "x"}},
        "labels.trainer-ops/run-key: 'x' is set, and this name is ours. Leave it out",
    ),
    "the manager's label": (
        {"labels": {"app.kubernetes.io/managed-by": "helm"}},
        "labels.app.kubernetes.io/managed-by: 'helm' is set, and this name is ours. Leave it out",
    ),
    "our annotation": (
        {"annotations": {"trainer-ops/spec-hash": "x"}},
        "annotations.trainer-ops/spec-hash: 'x' is set, and this name is ours. Leave it out",
    ),
    "our label in a manifest": (
        {"manifest": {"metadata": {"labels": {"trainer-ops/attempt": "7"}}}},
        "manifest.metadata.labels.trainer-ops/attempt: '7' is set, and this name is ours. Leave it out",
    ),
    "two queues": (
        {"queue": "a", "labels": {"kueue.x-k8s.io/queue-name": "b"}},
        'labels.kueue.x-k8s.io/queue-name: "b" contradicts queue "a". Give one of them',
    ),
    "a script that nobody read": (
        {"script": "train.py"},
        "script: is a path that was not read. Call lifecycle.code.resolve_code first",
    ),
}


@pytest.mark.parametrize(("fields", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(built: Built, fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        built(fields)
    assert str(caught.value) == f"invalid request: {text}"


def test_the_same_queue_twice_is_no_contradiction(built: Built) -> None:
    made = built({"queue": "a", "labels": {"kueue.x-k8s.io/queue-name": "a"}})
    assert made.manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "a"
