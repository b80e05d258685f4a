"""Manifests that are right, and a way to make them wrong in one place."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from trainer_ops.model.runtime import TrainingRuntime

Raw = dict[str, Any]

GONE = "<gone>"
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"


def job(name: str, step: str = "", container: str = "node", **more: Any) -> Raw:
    """One replicatedJob; initializers mount what Trainer asks for."""
    init = step.endswith("initializer")
    pod: Raw = {"containers": [{"name": container, "image": "repo/image:1"}]}
    if init:
        pod["containers"][0] |= {"volumeMounts": [{"name": "initializer", "mountPath": "/workspace"}]}
        pod["volumes"] = [{"name": "initializer", "emptyDir": {}}]
    template: Raw = {"spec": {"template": {"spec": pod}}}
    if step:
        template["metadata"] = {"labels": {ANCESTOR: step}}
    return {"name": name, "template": template, **more}


def runtime(name: str, policy: Raw | None, *jobs: Raw, **jobset: Any) -> Raw:
    spec: Raw = {"template": {"spec": {"replicatedJobs": list(jobs), **jobset}}}
    if policy is not None:
        spec["mlPolicy"] = policy
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "any"}},
        "spec": spec,
    }


def _mpi(as_node: bool) -> Raw:
    return runtime(
        "mpi",
        {"numNodes": 1, "mpi": {"runLauncherAsNode": as_node}},
        job("node"),
        job("launcher", "trainer", dependsOn=[{"name": "node", "status": "Ready"}]),
        successPolicy={"operator": "All", "targetReplicatedJobs": ["launcher"]},
    )


RUNTIMES: Mapping[str, Raw] = {
    "torch": runtime("torch-distributed", {"numNodes": 1, "torch": {}}, job("node", "trainer")),
    "jax": runtime("jax", {"jax": {}}, job("node", "trainer")),
    "xgboost": runtime("xgboost", {"xgboost": {}}, job("node", "trainer")),
    "flux": runtime("flux", {"flux": {"numProcPerNode": 1}}, job("node", "trainer")),
    "plain": runtime("plain", {"numNodes": 1}, job("node", "trainer")),
    "bare": runtime("bare", None, job("node", "trainer")),
    "loose": runtime("loose", {"numNodes": 1}, job("node")),
    "mpi": _mpi(False),
    "mpi-node": _mpi(True),
    "torchtune": runtime(
        "torchtune-llama3.2-1b",
        {"torch": {}},
        job("dataset-initializer", "dataset-initializer", "dataset-initializer"),
        job("model-initializer", "model-initializer", "model-initializer"),
        job("node", "trainer", dependsOn=[{"name": "dataset-initializer", "status": "Complete"}]),
    ),
}

TRAINJOB: Raw = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "digits"},
    "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}},
}


def put(target: Any, path: str, value: Any) -> None:
    """Set ``spec.trainer.env[0].name``, making what is missing on the way; GONE removes."""
    steps: list[Any] = [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", path)]
    for step, following in itertools.pairwise(steps):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(step, int):
            if step == len(target):
                target.append(empty)
        elif not isinstance(target.get(step), dict | list):
            target[step] = empty
        target = target[step]
    if value == GONE:
        del target[steps[-1]]
    elif isinstance(steps[-1], int) and steps[-1] == len(target):
        target.append(value)
    else:
        target[steps[-1]] = value


@pytest.fixture
def make_job() -> Callable[[Mapping[str, Any]], Raw]:
    """A TrainJob that is right but for the given changes."""

    def make(changes: Mapping[str, Any]) -> Raw:
        made = copy.deepcopy(TRAINJOB)
        for path, value in changes.items():
            put(made, path, value)
        return made

    return make


@pytest.fixture
def make_raw_runtime() -> Callable[..., Raw]:
    """A runtime by its short name, right but for the given changes."""

    def make(name: str, changes: Mapping[str, Any] | None = None) -> Raw:
        made = copy.deepcopy(RUNTIMES[name])
        for path, value in (changes or {}).items():
            put(made, path, value)
        return made

    return make


@pytest.fixture
def make_runtime(make_raw_runtime: Callable[..., Raw]) -> Callable[..., TrainingRuntime]:
    """The same, parsed."""

    def make(name: str, changes: Mapping[str, Any] | None = None) -> TrainingRuntime:
        return TrainingRuntime.from_raw(make_raw_runtime(name, changes))

    return make


@pytest.fixture
def runtime_names() -> tuple[str, ...]:
    """The short names of all runtimes here."""
    return tuple(RUNTIMES)
