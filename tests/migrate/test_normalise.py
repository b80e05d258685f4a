"""What a v1 job says by saying nothing, and amounts that are filled in later."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.checked import checked, codes, fates, pytorch
from trainer_ops.migrate.convert import convert
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
