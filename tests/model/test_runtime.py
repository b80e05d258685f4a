"""A runtime's silence means what the APIs' defaults mean."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.model import keys
from trainer_ops.model.runtime import ReplicatedJob, TrainingRuntime

TRAINER = {"metadata": {"labels": {keys.LABEL_ANCESTOR: "trainer"}}}


def runtime(ml_policy: dict[str, Any] | None, *jobs: dict[str, Any], **jobset: Any) -> TrainingRuntime:
    spec: dict[str, Any] = {"template": {"spec": {"replicatedJobs": list(jobs), **jobset}}}
    if ml_policy is not None:
        spec["mlPolicy"] = ml_policy
    labels = {keys.LABEL_FRAMEWORK: "torch"}
    return TrainingRuntime.from_raw({"metadata": {"name": "r", "labels": labels}, "spec": spec})


POLICIES: dict[str, tuple[dict[str, Any] | None, str, int]] = {
    "torch, empty": ({"numNodes": 2, "torch": {}}, "torch", 2),
    "mpi": ({"mpi": {"numProcPerNode": 1}}, "mpi", 1),
    "jax": ({"jax": {}}, "jax", 1),
    "xgboost": ({"xgboost": {}}, "xgboost", 1),
    "flux": ({"flux": {}}, "flux", 1),
    "plain, with nodes": ({"numNodes": 3}, "plain", 3),
    "no policy": (None, "plain", 1),
}


@pytest.mark.parametrize(("policy", "name", "nodes"), POLICIES.values(), ids=POLICIES.keys())
def test_policy(policy: dict[str, Any] | None, name: str, nodes: int) -> None:
    parsed = runtime(policy)
    assert (parsed.policy, parsed.num_nodes) == (name, nodes)


def test_defaults_of_a_silent_template() -> None:
    job = ReplicatedJob.from_raw({"name": "node"})
    assert (job.replicas, job.parallelism, job.backoff_limit, job.restart_policy, job.grace_seconds) == (
        1,
        1,
        6,
        "OnFailure",
        30,
    )


def test_zero_is_not_silence() -> None:
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    job = ReplicatedJob.from_raw({"name": "node", "template": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}})
    assert (job.backoff_limit, job.restart_policy, job.grace_seconds) == (0, "Never", 0)


def test_the_whole_of_an_mpi_runtime() -> None:
    container = {
        "name": "node",
        "image": "i",
        "command": ["mpirun"],
        "env": [{"name": "A", "value": "1"}],
        "volumeMounts": [{"name": "work"}],
    }
    pod = {"containers": [container], "initContainers": [{"name": "prepare"}], "volumes": [{"name": "work"}]}
    parsed = runtime(
        {"mpi": {"runLauncherAsNode": True}},
        {
            "name": "launcher",
            "dependsOn": [{"name": "node", "status": "Ready"}, {"name": "model-initializer", "status": "Complete"}],
            "template": {**TRAINER, "spec": {"template": {"spec": pod}}},
        },
        {"name": "node"},
        successPolicy={"operator": "All", "targetReplicatedJobs": ["launcher"]},
        failurePolicy={"maxRestarts": 3},
        ttlSecondsAfterFinished=60,
    )
    launcher = parsed.trainer_job
    assert launcher is parsed.job("launcher")
    assert launcher is not None
    assert launcher.depends_on == (("node", "Ready"), ("model-initializer", "Complete"))
    main = launcher.container("node")
    assert main is not None
    assert (main.image, main.command, main.mounts) == ("i", ("mpirun",), ("work",))
    assert launcher.container("other") is None
    assert [c.name for c in launcher.init_containers] == ["prepare"]
    assert (parsed.success_targets, parsed.success_operator) == (("launcher",), "All")
    assert (parsed.max_restarts, parsed.ttl_after_finished, parsed.framework) == (3, 60, "torch")
    assert parsed.run_launcher_as_node
    assert parsed.kind == "ClusterTrainingRuntime"


def test_a_runtime_that_no_trainer_field_reaches() -> None:
    assert runtime(None, {"name": "node"}).trainer_job is None
