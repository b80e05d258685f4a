"""Every rule about TrainJobs, by a manifest that is right but for one thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.validate.job_cases import CASES, GONE, RICH, RJOBS, Case, I, T
from trainer_ops.validate.trainjob import check


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case.rule}" for i, case in enumerate(CASES)])
def test_rule(case: Case, make_job: Callable[..., Any], make_runtime: Callable[..., Any]) -> None:
    runtime = make_runtime(case.runtime, case.runtime_changes) if case.runtime else None
    found = check(make_job(case.changes), runtime)
    told = [(f.rule, ("!" if f.is_error else "") + f.path) for f in found]
    assert (case.rule, case.where) in told
    # One mistake is told once; an error may bring a second that follows from it, but never a heap of them.
    assert len(told) <= 2, told
    for one in found:
        assert one.reason
        assert one.remedy
        assert not one.reason.endswith(".")
        assert not one.remedy.endswith(".")


def test_right_ones_are_silent(
    make_job: Callable[..., Any], make_runtime: Callable[..., Any], runtime_names: tuple[str, ...]
) -> None:
    assert check(make_job({}), None) == ()
    for name in set(runtime_names) - {"loose"}:
        assert check(make_job({}), make_runtime(name)) == (), name


def test_a_rich_one_is_silent(make_job: Callable[..., Any], make_runtime: Callable[..., Any]) -> None:
    assert check(make_job(RICH), make_runtime("torchtune")) == ()
    assert check(make_job(RICH), None) == ()


def test_the_engines_runtimes_are_not_judged_as_a_clusters(
    make_job: Callable[..., Any], make_runtime: Callable[..., Any]
) -> None:
    """They have no images and a job for each initializer, and the engine reads other URIs than Trainer."""
    imageless = {f"{RJOBS}[{i}].template.spec.template.spec.containers[0].image": GONE for i in range(3)}
    runtime = make_runtime("torchtune", {**imageless, "spec.mlPolicy": GONE})
    changes = {
        "metadata.name": "a" * 48,
        f"{I}.dataset.storageUri": "file:///data",
        f"{T}.resourcesPerNode.limits": {"cpu": 1},
    }
    assert check(make_job(changes), runtime) == ()
    (found,) = check(make_job({"metadata.name": "a" * 49}), runtime)
    assert found.rule == "name-too-long"
