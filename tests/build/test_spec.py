"""Fields of a request, each in its place of the TrainJob's spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.build.manifest import BuiltJob
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.runtime import TrainingRuntime

Built = Callable[..., BuiltJob]
RuntimeOf = Callable[..., TrainingRuntime]
SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
PATCH = {"manager": "example.com/me", "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "b"}}}}}

# (fields, path in spec, what is there)
PLACED: dict[str, tuple[dict[str, Any], str, object]] = {
    "runtime": (
        {"runtime": "x"},
        "runtimeRef",
        {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "x"},
    ),
    "runtime of the namespace": (
        {"runtime": "x", "runtime_kind": "TrainingRuntime"},
        "runtimeRef",
        {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "x"},
    ),
    "image": ({"image": "img"}, "trainer.image", "img"),
    "command": ({"command": ["a", "b"]}, "trainer.command", ["a", "b"]),
    "args": ({"args": ["--lr", "1"]}, "trainer.args", ["--lr", "1"]),
    "no args are not the runtime's": ({"args": []}, "trainer.args", []),
    "nodes": ({"num_nodes": 2}, "trainer.numNodes", 2),
    "processes": ({"num_proc_per_node": 4}, "trainer.numProcPerNode", 4),
    "short resources": (
        {"resources_per_node": {"cpu": 2, "memory": "4Gi"}},
        "trainer.resourcesPerNode",
        {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}},
    ),
    "resources from JSON": (
        {"resources_per_node": {"cpu": 2.0, "memory": 0.5}},
        "trainer.resourcesPerNode.limits",
        {"cpu": "2", "memory": "0.5"},
    ),
    "Kubernetes' own resources": (
        {"resources_per_node": {"limits": {"nvidia.com/gpu": 2}, "claims": [{"name": "c"}]}},
        "trainer.resourcesPerNode",
        {"limits": {"nvidia.com/gpu": "2"}, "claims": [{"name": "c"}]},
    ),
    "dataset": (
        {"dataset": {"storage_uri": "s3://b", "env": {"REGION": "eu"}, "secret_ref": "aws"}},
        "initializer",
        {
            "dataset": {
                "storageUri": "s3://b",
                "env": [{"name": "REGION", "value": "eu"}],
                "secretRef": {"name": "aws"},
            }
        },
    ),
    "model": ({"model": "hf://a/b"}, "initializer", {"model": {"storageUri": "hf://a/b"}}),
    "patches": ({"runtime_patches": [PATCH]}, "runtimePatches", [PATCH]),
    "suspended": ({"suspend": True}, "suspend", True),
    "not suspended": ({"suspend": False}, "suspend", None),
    "deadline": ({"active_deadline_seconds": 60}, "activeDeadlineSeconds", 60),
    "managed by": ({"managed_by": keys.MULTIKUEUE}, "managedBy", "kueue.x-k8s.io/multikueue"),
    "nothing of it": ({}, "initializer", None),
    "no patches": ({}, "runtimePatches", None),
    "never what 2.2 removed": ({"termination_grace_period_seconds": 60}, "podTemplateOverrides", None),
}


def at(spec: Any, path: str) -> Any:
    for name in path.split("."):
        spec = (spec or {}).get(name)
    return spec


@pytest.mark.parametrize(("fields", "path", "expected"), PLACED.values(), ids=PLACED.keys())
def test_placed(built: Built, fields: dict[str, Any], path: str, expected: object) -> None:
    assert at(built(fields).manifest["spec"], path) == expected


VALUES: dict[str, tuple[Any, dict[str, Any]]] = {
    "text": ("a b", {"value": "a b"}),
    "empty text": ("", {"value": ""}),
    "a whole number": (20, {"value": "20"}),
    "a whole float, as KFP sends it": (20.0, {"value": "20"}),
    "a fraction": (0.001, {"value": "0.001"}),
    "a float too large to be exact": (1e300, {"value": "1e+300"}),
    "true": (True, {"value": "true"}),
    "false": (False, {"value": "false"}),
    "a source": (SECRET, {"valueFrom": SECRET}),
    "a source in full": ({"valueFrom": SECRET}, {"valueFrom": SECRET}),
    "a field": ({"fieldRef": {"fieldPath": "f"}}, {"valueFrom": {"fieldRef": {"fieldPath": "f"}}}),
}


@pytest.mark.parametrize(("value", "expected"), VALUES.values(), ids=VALUES.keys())
def test_environment_value(built: Built, value: Any, expected: dict[str, Any]) -> None:
    env = built({"env": {"NAME": value}}).manifest["spec"]["trainer"]["env"]
    assert env[0] == {"name": "NAME", **expected}


def test_the_environment_keeps_its_order(built: Built) -> None:
    # Kubernetes expands $(NAME) only of variables that come earlier.
    env = built({"env": {"B": "1", "A": "$(B)"}}).manifest["spec"]["trainer"]["env"]
    assert [row["name"] for row in env][:2] == ["B", "A"]


NODES: dict[str, tuple[dict[str, Any], int | None, int | None]] = {
    "given": ({"num_nodes": 3}, 2, 3),
    "the runtime's": ({}, 2, 2),
    "unknown": ({}, None, None),
}


@pytest.mark.parametrize(("fields", "runtimes", "expected"), NODES.values(), ids=NODES.keys())
def test_nodes_are_sent_when_known(
    built: Built, runtime_of: RuntimeOf, fields: dict[str, Any], runtimes: int | None, expected: int | None
) -> None:
    runtime = None if runtimes is None else runtime_of("torch", num_nodes=runtimes)
    # ``trainer`` is there in any case: without it Trainer injects no environment.
    assert built(fields, runtime=runtime).manifest["spec"]["trainer"].get("numNodes") == expected


GRACE: dict[str, tuple[tuple[str, ...] | None, list[str]]] = {
    "node": (("torch", "node"), ["node"]),
    "launcher and nodes": (("mpi", "launcher", "node"), ["launcher", "node"]),
    "not the initializers": (("torch", "dataset-initializer", "model-initializer", "node"), ["node"]),
    "unknown runtime": (None, ["node"]),
}


@pytest.mark.parametrize(("shape", "jobs"), GRACE.values(), ids=GRACE.keys())
def test_grace_is_a_patch_of_the_jobs_that_train(
    built: Built, runtime_of: RuntimeOf, shape: tuple[str, ...] | None, jobs: list[str]
) -> None:
    fields = {"termination_grace_period_seconds": 90, "runtime_patches": [PATCH]}
    patches = built(fields, runtime=runtime_of(*shape) if shape else None).manifest["spec"]["runtimePatches"]
    pod = {"spec": {"terminationGracePeriodSeconds": 90}}
    rows = [{"name": job, "template": {"spec": {"template": pod}}} for job in jobs]
    ours = {
        "manager": "trainer-ops.kubeflow.org/request",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": rows}}},
    }
    assert patches == [PATCH, ours]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no source": (
        {"env": {"A": {"secret": "s"}}},
        (
            "env.A: {'secret': 's'} is no source of a value. Give one of configMapKeyRef, fieldRef, fileKeyRef, "
            'resourceFieldRef, secretKeyRef, such as {"secretKeyRef": {"name": "s", "key": "k"}}'
        ),
    ),
    "a list for the initializer": (
        {"model": {"storage_uri": "hf://a/b", "env": {"A": [1]}}},
        "model.env.A: is a list. Give text or a number",
    ),
    "amounts beside parts": (
        {"resources_per_node": {"limits": {"cpu": 1}, "memory": "1Gi"}},
        (
            "resources_per_node.memory: stands beside limits. "
            'Give amounts alone ({"cpu": 2}), or requests and limits alone'
        ),
    ),
    "no amount": (
        {"resources_per_node": {"cpu": True}},
        'resources_per_node.cpu: True is no amount. Give a number or text such as "4Gi"',
    ),
    "an amount that is a list": (
        {"resources_per_node": {"limits": {"cpu": [1]}}},
        "resources_per_node.limits.cpu: is a list. Give text or a number",
    ),
    "limits that are text": (
        {"resources_per_node": {"limits": "2"}},
        'resources_per_node.limits: is a str. Give amounts by name, such as {"cpu": 2}',
    ),
    "our manager": (
        {"runtime_patches": [PATCH, {"manager": keys.PATCH_MANAGER}]},
        (
            'runtime_patches[1].manager: "trainer-ops.kubeflow.org/request" marks the patches made from this request. '
            "Give another, such as your-domain.example/name"
        ),
    ),
    "no room for ours": (
        {"runtime_patches": [PATCH] * 16, "termination_grace_period_seconds": 5},
        (
            "termination_grace_period_seconds: needs one more entry in runtime_patches, which already has 16 of the 16 "
            "that are allowed. Write terminationGracePeriodSeconds into one of them"
        ),
    ),
}


@pytest.mark.parametrize(("fields", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(built: Built, fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        built(fields)
    assert str(caught.value) == f"invalid request: {text}"
