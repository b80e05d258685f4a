"""The longest name that JobSet lets live, for every shape of runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from trainer_ops.validate.trainjob import check

JOBS = "spec.template.spec.replicatedJobs"

CASES = [
    ("one digit of nodes", "torch", {}, 10, 48),
    ("two digits", "torch", {}, 11, 47),
    ("three digits", "torch", {}, 101, 46),
    ("the runtime's own count", "torch", {"spec.mlPolicy.numNodes": 20}, None, 47),
    ("an mpi launcher", "mpi", {}, 2, 44),
    ("many workers, still the launcher", "mpi", {}, 1001, 44),
    ("eleven nodes, one in the launcher", "mpi-node", {f"{JOBS}[1].name": "l"}, 11, 48),
    ("twelve nodes, one in the launcher", "mpi-node", {f"{JOBS}[1].name": "l"}, 12, 47),
    ("a dataset initializer", "torchtune", {}, 2, 33),
    ("a model initializer", "torchtune", {f"{JOBS}[0].name": "d"}, 2, 35),
    ("a job that no field reaches", "torch", {f"{JOBS}[1]": {"name": "parameter-server", "template": {}}}, 2, 36),
    (
        "parallelism of such a job",
        "torch",
        {f"{JOBS}[1]": {"name": "parameter-server", "template": {"spec": {"parallelism": 12}}}},
        2,
        35,
    ),
    (
        "replicas of such a job",
        "torch",
        {f"{JOBS}[1]": {"name": "parameter-server", "replicas": 11, "template": {}}},
        2,
        35,
    ),
    ("no policy, so parallelism counts", "bare", {f"{JOBS}[0].template.spec.parallelism": 20}, None, 47),
]


@pytest.mark.parametrize(("name", "changes", "nodes", "limit"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_limit(
    name: str,
    changes: Mapping[str, Any],
    nodes: int | None,
    limit: int,
    make_job: Callable[..., Any],
    make_runtime: Callable[..., Any],
) -> None:
    runtime = make_runtime(name, changes)

    def rules(length: int) -> list[str]:
        trainer = {} if nodes is None else {"numNodes": nodes}
        made = make_job({"metadata.name": "a" * length, "spec.trainer": trainer})
        return [f"{f.rule} {f.reason[-16:]}" for f in check(made, runtime) if f.path == "metadata.name"]

    assert rules(limit) == []
    assert rules(limit + 1) == [f"name-too-long (limit here: {limit})"]


def test_without_the_runtime_it_is_a_warning(make_job: Callable[..., Any]) -> None:
    (found,) = check(make_job({"metadata.name": "a" * 49}), None)
    assert (found.rule, found.severity) == ("name-too-long", "warning")
    assert "(limit there: 48)" in found.reason
