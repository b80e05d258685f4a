"""Runtimes, and requests that become TrainJobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.build.manifest import BuiltJob, build
from trainer_ops.model import keys
from trainer_ops.model.identity import RunKey
from trainer_ops.model.request import TrainRequest
from trainer_ops.model.runtime import TrainingRuntime


@pytest.fixture
def key() -> RunKey:
    return RunKey.of("airflow", {"dag_id": "digits", "run_id": "manual__1", "task_id": "train"})


@pytest.fixture
def runtime_of() -> Callable[..., TrainingRuntime]:
    """``runtime_of("mpi", "launcher", "node")``: a runtime of that policy with these replicatedJobs."""

    def make(policy: str, *jobs: str, num_nodes: int = 1) -> TrainingRuntime:
        rows = []
        for name in jobs or ("node",):
            trains = name == "launcher" or (name == "node" and "launcher" not in jobs)
            ancestor = name if name in keys.INITIALIZERS else "trainer" if trains else ""
            rows.append({"name": name, "template": {"metadata": {"labels": {keys.LABEL_ANCESTOR: ancestor}}}})
        ml_policy: dict[str, Any] = {"numNodes": num_nodes, **({} if policy == "plain" else {policy: {}})}
        spec = {"mlPolicy": ml_policy, "template": {"spec": {"replicatedJobs": rows}}}
        return TrainingRuntime.from_raw({"metadata": {"name": policy}, "spec": spec})

    return make


@pytest.fixture
def built(key: RunKey) -> Callable[..., BuiltJob]:
    """``built({"num_nodes": 2}, attempt=2)``: the TrainJob of a request with these fields."""

    def make(
        fields: dict[str, Any],
        *,
        attempt: int = 1,
        runtime: TrainingRuntime | None = None,
        of: RunKey = key,
        link: str = "",
        version: str = "0.1.0",
        target: str = "",
    ) -> BuiltJob:
        request = TrainRequest(**fields) if "manifest" in fields else TrainRequest(**{"runtime": "torch", **fields})
        return build(request, of, attempt, runtime=runtime, version=version, source_link=link, target=target)

    return make
