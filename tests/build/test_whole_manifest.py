"""A request that is a whole TrainJob keeps every field of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubeflow_trainer_api import models
from pydantic import BaseModel

from trainer_ops.build.manifest import BuiltJob
from trainer_ops.model import keys
from trainer_ops.model.identity import RunKey
from trainer_ops.model.names import job_name

Built = Callable[..., BuiltJob]

ENV: list[dict[str, Any]] = [
    {"name": "PLAIN", "value": "1"},
    {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
]
SOURCE: dict[str, Any] = {"storageUri": "hf://org/digits", "env": ENV, "secretRef": {"name": "hf-token"}}
CONTAINER: dict[str, Any] = {
    "name": "side",
    "env": ENV,
    "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "a", "readOnly": True}],
    "securityContext": {"runAsUser": 1000},
}
POD: dict[str, Any] = {
    "serviceAccountName": "trainer",
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "datasets", "readOnly": True}}],
    "initContainers": [CONTAINER],
    "containers": [CONTAINER],
    "imagePullSecrets": [{"name": "pull"}],
    "securityContext": {"fsGroup": 1000},
    "nodeSelector": {"gpu": "a100"},
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "schedulingGates": [{"name": "example.com/gate"}],
    "terminationGracePeriodSeconds": 120,
}
META: dict[str, Any] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
TEMPLATE: dict[str, Any] = {
    "metadata": META,
    "spec": {
        "replicatedJobs": [
            {"name": "node", "template": {"metadata": META, "spec": {"template": {"metadata": META, "spec": POD}}}}
        ]
    },
}
EVERYTHING: dict[str, Any] = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "digits", "namespace": "ml", "finalizers": ["example.com/f"], **META},
    "spec": {
        "runtimeRef": {
            "name": "torch-distributed",
            "apiGroup": "trainer.kubeflow.org",
            "kind": "ClusterTrainingRuntime",
        },
        "initializer": {"dataset": SOURCE, "model": SOURCE},
        "trainer": {
            "image": "registry/img@sha256:0",
            "command": ["torchrun", "train.py"],
            "args": ["--lr", "0.1"],
            "env": ENV,
            "numNodes": 2,
            "resourcesPerNode": {
                "limits": {"nvidia.com/gpu": 2},
                "requests": {"cpu": "500m"},
                "claims": [{"name": "gpu", "request": "one"}],
            },
            "numProcPerNode": 2,
        },
        "runtimePatches": [
            {
                "manager": "example.com/me",
                "time": "2026-11-29T12:00:00Z",
                "trainingRuntimeSpec": {"template": TEMPLATE},
            }
        ],
        "suspend": True,
        "activeDeadlineSeconds": 3600,
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
    },
}


def without_ours(made: BuiltJob) -> dict[str, Any]:
    """What is left when everything that we add is taken away."""
    manifest = copy.deepcopy(made.manifest)
    for part in ("labels", "annotations"):
        manifest["metadata"][part] = {
            name: value
            for name, value in manifest["metadata"][part].items()
            if not name.startswith("trainer-ops/") and name != keys.LABEL_MANAGED_BY
        }
    trainer = manifest["spec"]["trainer"]
    trainer["env"] = [row for row in trainer["env"] if not row["name"].startswith("TRAINER_OPS_")]
    return manifest


def test_every_field_is_kept(built: Built) -> None:
    given = copy.deepcopy(EVERYTHING)
    assert without_ours(built({"manifest": given, "checkpoint_dir": "/ckpt"})) == EVERYTHING
    assert given == EVERYTHING, "the user's own object was changed"


def fields_of(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel] | None]]:
    for name, field in model.model_fields.items():
        inner = [a for a in _types(field.annotation) if isinstance(a, type) and issubclass(a, BaseModel)]
        yield f"{path}.{field.alias or name}", (inner[0] if inner else None)


def _types(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _types(part)


def walk(model: type[BaseModel], value: Any, path: str) -> Iterator[tuple[str, bool]]:
    """Every field that Trainer itself declares from here on, and whether ``value`` uses it."""
    rows = value if isinstance(value, list) else [value]
    for field, inner in fields_of(model, path):
        name = field.rpartition(".")[2]
        found = next((row[name] for row in rows if isinstance(row, dict) and name in row), None)
        yield field, found is not None
        if inner is not None and inner.__name__.startswith("TrainerV1alpha1") and found is not None:
            yield from walk(inner, found, field)


def test_everything_is_every_field_of_the_api() -> None:
    used = dict(walk(models.TrainerV1alpha1TrainJobSpec, EVERYTHING["spec"], "spec"))
    assert len(used) > 40
    assert [path for path, is_used in used.items() if not is_used] == []


MADE: dict[str, tuple[dict[str, Any], int, str]] = {
    "its own name": ({"name": "digits"}, 1, "digits"),
    "its own name, numbered": ({"name": "digits"}, 2, "digits-2"),
    "generateName becomes a fixed name": ({"generateName": "digits-"}, 1, ""),
    "no name at all": ({}, 1, ""),
}


@pytest.mark.parametrize(("meta", "attempt", "name"), MADE.values(), ids=MADE.keys())
def test_name(built: Built, key: RunKey, meta: dict[str, Any], attempt: int, name: str) -> None:
    made = built({"manifest": {"metadata": meta, "spec": {}}}, attempt=attempt)
    assert made.name == made.manifest["metadata"]["name"]
    assert made.name == (name or job_name(key, 1, meta.get("generateName", "train")))


BARE: dict[str, dict[str, Any]] = {
    "no trainer": {"spec": {"runtimeRef": {"name": "x"}}},
    "a null trainer": {"spec": {"trainer": None}},
    "no spec": {},
}


@pytest.mark.parametrize("manifest", BARE.values(), ids=BARE.keys())
def test_nothing_is_injected_where_there_is_no_trainer(built: Built, manifest: dict[str, Any]) -> None:
    made = built({"manifest": manifest}).manifest
    assert {k: v for k, v in made.items() if k == "spec"} == manifest
    assert (made["apiVersion"], made["kind"]) == (keys.API_VERSION, keys.KIND)


def test_an_empty_trainer_gets_the_environment(built: Built) -> None:
    made = built({"manifest": {"spec": {"trainer": {}}}}).manifest
    assert [row["name"] for row in made["spec"]["trainer"]["env"]] == ["TRAINER_OPS_RUN_KEY", "TRAINER_OPS_ATTEMPT"]
