"""What a v1 job says by saying nothing, and amounts that are filled in later."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.checked import checked, codes, fates, pytorch
from trainer_ops.migrate.convert import convert
from trainer_ops.migrate.files import migrate, read_source
from trainer_ops.migrate.options import Options

CONTAINER = {"command": ["torchrun", "train.py"], "resources": {"limits": {"nvidia.com/gpu": 1}}}
# Where a field may stand, below each role for the latter ones: fields that Kubernetes takes null for.
OBJECT: dict[str, tuple[str, ...]] = {
    "metadata": ("namespace", "creationTimestamp", "labels", "annotations"),
    "spec": ("runPolicy", "nprocPerNode", "elasticPolicy", "a_field_that_no_rule_knows"),
}
ROLE: dict[tuple[str | int, ...], tuple[str, ...]] = {
    (): ("restartPolicy",),
    ("template",): ("metadata",),
    ("template", "spec"): ("volumes", "affinity", "hostNetwork", "initContainers", "restartPolicy"),
    ("template", "spec", "containers", 0): ("env", "envFrom", "args", "ports", "tty", "livenessProbe"),
    ("template", "spec", "containers", 0, "resources"): ("requests", "claims"),
}
NULLS = [
    *(((part,), field) for part, names in OBJECT.items() for field in names),
    *((path, field) for path, names in ROLE.items() for field in names),
]


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


@pytest.mark.parametrize(("path", "field"), NULLS, ids=[".".join(map(str, (*path, name))) for path, name in NULLS])
def test_null_says_nothing(path: tuple[str | int, ...], field: str) -> None:
    raw = pytorch(CONTAINER, workers=2)
    plain = checked(raw)
    holders = [raw] if path[:1] in (("metadata",), ("spec",)) else [*raw["spec"]["pytorchReplicaSpecs"].values()]
    for holder in holders:
        at(holder, path)[field] = None
    done = checked(raw)
    assert plain.trainjob is not None
    assert (done.trainjob, done.runtime) == (plain.trainjob, plain.runtime)
    assert {fate for where, fate in fates(done).items() if where.endswith(f".{field}")} == {"dropped"}


def test_replicas_that_are_null_are_the_default() -> None:
    done = checked(pytorch(CONTAINER, role={"replicas": None}))
    assert done.trainjob is not None
    assert done.trainjob["spec"]["trainer"]["numNodes"] == 2


@pytest.mark.parametrize("amount", ["$GPUS", "${GPUS}", "{{gpus}}"])
def test_an_amount_that_is_not_known_yet(amount: str) -> None:
    """How many processes a node has hangs on its GPUs, so such a job is carried and not played."""
    raw = pytorch({**CONTAINER, "resources": {"limits": {"nvidia.com/gpu": amount}}}, master=False, workers=2)
    refused = checked(raw)
    assert codes(refused, "refused") == ["PLACEHOLDER"]
    (told,) = (one for one in refused.findings if one.severity == "refused")
    assert told.v1_path.endswith('.containers[0].resources.limits["nvidia.com/gpu"]')
    done = convert(raw, Options(allow_placeholders=True))
    assert done.trainjob is not None
    assert done.trainjob["spec"]["trainer"]["resourcesPerNode"] == {"limits": {"nvidia.com/gpu": amount}}
    assert "NOT-PLAYED" in codes(done)


NOT_SERVED = {
    "a version of the beginnings": ("v1alpha2", "MPIJob", "kubeflow.org/v1 or kubeflow.org/v2beta1"),
    "a beta": ("v1beta2", "TFJob", "kubeflow.org/v1 first"),
    "a version of another kind": ("v2beta1", "PyTorchJob", "kubeflow.org/v1 first"),
    "a kind that is gone": ("v1", "MXJob", "another framework"),
}


@pytest.mark.parametrize(("version", "kind", "remedy"), NOT_SERVED.values(), ids=NOT_SERVED.keys())
def test_what_no_operator_serves_is_refused_and_not_passed_over(version: str, kind: str, remedy: str) -> None:
    text = f"apiVersion: kubeflow.org/{version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{x: 1}}\n"
    made = migrate([read_source("job.yaml", text.encode())], Options())[0]
    (told,) = made.result.jobs[0].converted.findings
    assert (told.code, told.severity) == ("NOT-V1", "refused")
    assert remedy in told.remedy
    assert made.text == text


@pytest.mark.parametrize("kind", ["Notebook", "Experiment", "MPIJobs"])
def test_other_kinds_of_the_group_are_no_jobs(kind: str) -> None:
    text = f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{x: 1}}\n"
    assert migrate([read_source("job.yaml", text.encode())], Options())[0].result.jobs == ()
