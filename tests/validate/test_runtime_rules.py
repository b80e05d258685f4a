"""Every rule about runtimes, by one that is right but for one thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.validate.runtime_cases import CASES, GONE, JS, POD, Case
from trainer_ops.validate.runtime import check_runtime


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case.rule}" for i, case in enumerate(CASES)])
def test_rule(case: Case, make_raw_runtime: Callable[..., Any]) -> None:
    found = check_runtime(make_raw_runtime(case.runtime, case.changes))
    told = [(f.rule, ("!" if f.is_error else "") + f.path) for f in found]
    assert (case.rule, case.where) in told
    assert len(told) <= 3, told
    assert all(f.subject == "ClusterTrainingRuntime" and f.reason and f.remedy for f in found)


def test_right_ones_are_silent(make_raw_runtime: Callable[..., Any], runtime_names: tuple[str, ...]) -> None:
    for name in set(runtime_names) - {"loose"}:
        assert check_runtime(make_raw_runtime(name)) == (), name


def test_the_namespaced_kind_is_checked_as_itself(make_raw_runtime: Callable[..., Any]) -> None:
    assert check_runtime(make_raw_runtime("torch", {"kind": "TrainingRuntime"})) == ()
    (found,) = check_runtime(make_raw_runtime("torch", {"kind": "TrainingRuntime", "spec.mlPolicy.torch.x": 1}))
    assert str(found).startswith("invalid TrainingRuntime: spec.mlPolicy.torch.x: is no field of spec.mlPolicy.torch.")


def test_a_volume_of_a_claim_template_may_be_mounted(make_raw_runtime: Callable[..., Any]) -> None:
    changes = {
        f"{JS}.volumeClaimPolicies": [{"templates": [{"metadata": {"name": "work"}, "spec": {}}]}],
        f"{POD}.containers[0].volumeMounts": [{"name": "work", "mountPath": "/work"}],
    }
    assert check_runtime(make_raw_runtime("torch", changes)) == ()


def test_a_runtime_for_this_machine_needs_no_images(make_raw_runtime: Callable[..., Any]) -> None:
    assert check_runtime(make_raw_runtime("torch", {f"{POD}.containers[0].image": GONE})) == ()
