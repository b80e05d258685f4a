"""What is set on a KFP task becomes fields of the training, or is refused by name."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from trainer_ops.build.manifest import build
from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.taskconfig import PATCH_MANAGER, applied, parse
from trainer_ops.local.catalogue import builtin
from trainer_ops.model.identity import RunKey
from trainer_ops.model.request import TrainRequest
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.validate.trainjob import check

pytestmark = pytest.mark.kfp

CAMEL: dict[str, Any] = {
    "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}, "requests": {}},
    "env": [
        {"name": "ROUNDS", "value": "8"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "TRAINER_OPS_TARGET", "value": "in-cluster"},
    ],
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300.0}],
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1.0, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
            ]
        }
    },
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
SNAKE = {{"nodeSelector": "node_selector", "volumeMounts": "volume_mounts"}.get(k, k): v for k, v in CAMEL.items()}
JOBS = [("launcher", "node"), ("node", "node")]
FIELDS: dict[str, Any] = {"runtime": "torch-distributed", "command": ["true"]}


def pods(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    (patch,) = made["runtime_patches"]
    assert patch["manager"] == PATCH_MANAGER
    rows = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    return {row["name"]: row["template"]["spec"]["template"]["spec"] for row in rows}


@pytest.mark.parametrize("nothing", [None, "", " ", "null", {}, "{}", {"resources": {}, "volumes": None, "env": []}])
def test_nothing_set_changes_nothing(nothing: Any) -> None:
    assert parse(nothing) == {}
    assert applied(FIELDS, parse(nothing), JOBS) == FIELDS


@pytest.mark.parametrize("given", [CAMEL, SNAKE, json.dumps(CAMEL)], ids=["camelCase", "snake_case", "text"])
def test_all_six(given: Any) -> None:
    made = applied(FIELDS, parse(given), JOBS)
    assert made["resources_per_node"] == {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}}
    assert made["env"] == {"ROUNDS": "8", "TOKEN": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}}
    for spec in pods(made).values():
        assert spec["nodeSelector"] == {"pool": "gpu"}
        assert repr(spec["tolerations"][0]["tolerationSeconds"]) == "300"
        assert spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["weight"] == 1
        assert spec["volumes"] == CAMEL["volumes"]
        assert spec["containers"] == [{"name": "node", "volumeMounts": CAMEL["volumeMounts"]}]
    assert set(pods(made)) == {"launcher", "node"}


def test_what_comes_of_it_is_a_trainjob_that_trainer_admits() -> None:
    runtime = TrainingRuntime.from_raw(builtin()["ClusterTrainingRuntime", "torch-distributed"])
    made = applied(FIELDS, parse(CAMEL), [("node", "node")])
    built = build(TrainRequest(**made), RunKey.of("kfp", {"output": "x"}), 1, runtime=runtime, version="0")
    assert [finding for finding in check(built.manifest, runtime) if finding.severity == "error"] == []
    trainer = built.manifest["spec"]["trainer"]
    assert trainer["resourcesPerNode"] == {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}}
    assert {"name": "ROUNDS", "value": "8"} in trainer["env"]


def test_each_alone() -> None:
    for name in CAMEL:
        if name != "volumeMounts":
            made = applied(FIELDS, parse({name: CAMEL[name]}), JOBS)
            assert made != FIELDS


def test_a_manifest_gets_them_too() -> None:
    manifest: dict[str, Any] = {
        "spec": {
            "runtimeRef": {"name": "x"},
            "trainer": {"env": [{"name": "A", "value": "1"}]},
            "runtimePatches": [{"manager": "a.b/c"}],
        }
    }
    before = copy.deepcopy(manifest)
    spec = applied({"manifest": manifest}, parse(CAMEL), JOBS)["manifest"]["spec"]
    assert manifest == before
    assert spec["trainer"]["resourcesPerNode"] == {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}}
    assert [entry["name"] for entry in spec["trainer"]["env"]] == ["A", "ROUNDS", "TOKEN"]
    assert [patch["manager"] for patch in spec["runtimePatches"]] == ["a.b/c", PATCH_MANAGER]


def test_a_bare_manifest_gets_no_empty_trainer() -> None:
    made = applied({"manifest": {"spec": {}}}, parse({"nodeSelector": {"a": "b"}}), JOBS)
    assert list(made["manifest"]["spec"]) == ["runtimePatches"]


def test_the_same_said_twice_is_no_contradiction() -> None:
    fields = {**FIELDS, "env": {"ROUNDS": 8}, "resources_per_node": {"limits": {"cpu": "2"}}}
    config = parse({"env": CAMEL["env"][:1], "resources": {"limits": {"cpu": "2"}}})
    assert applied(fields, config, JOBS)["env"] == {"ROUNDS": "8"}


@pytest.mark.parametrize(
    ("fields", "config", "field"),
    [
        pytest.param({}, {"hostNetwork": True}, "task_config.hostNetwork", id="unknown"),
        pytest.param({}, {"tolerations": {"key": "a"}}, "task_config.tolerations", id="no list"),
        pytest.param({}, {"nodeSelector": ["a"]}, "task_config.nodeSelector", id="no mapping"),
        pytest.param({}, "[1]", "task_config", id="no configuration"),
        pytest.param({}, "{", "task_config", id="no JSON"),
        pytest.param({}, {"env": [{"value": "1"}]}, "task_config.env", id="a variable without a name"),
        pytest.param(
            {"resources_per_node": {"cpu": 4}}, CAMEL, "resources_per_node", id="resources on both the task and here"
        ),
        pytest.param({"env": {"ROUNDS": 9}}, CAMEL, "env.ROUNDS", id="a variable with two values"),
        pytest.param(
            {"manifest": {"spec": {"trainer": {"resourcesPerNode": {"limits": {"cpu": "1"}}}}}},
            CAMEL,
            "manifest.spec.trainer.resourcesPerNode",
            id="resources on the task and in the manifest",
        ),
        pytest.param(
            {}, {"volumeMounts": CAMEL["volumeMounts"]}, "task_config.volumeMounts", id="a mount of no volume"
        ),
        pytest.param(
            {},
            {**CAMEL, "volumeMounts": [*CAMEL["volumeMounts"], {"name": "data", "mountPath": "/more"}]},
            "task_config.volumeMounts",
            id="a volume mounted twice",
        ),
    ],
)
def test_refused_by_name(fields: dict[str, Any], config: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        applied({**FIELDS, **fields}, parse(config), JOBS)
    assert caught.value.field == field
