"""``trainer-ops migrate`` on a cluster that runs both generations: it reads, it asks, it changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.fixtures import Cluster
from tests.controlplane.v1ops import V1Operators
from trainer_ops.cli import main
from trainer_ops.lifecycle.migration_cluster import cluster_of
from trainer_ops.lifecycle.target import open_backend

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

Raw = dict[str, Any]


def job(name: str, *, suspend: bool, image: str = "a/b:v1") -> Raw:
    container = {"name": "pytorch", "image": image, "command": ["torchrun", "train.py"]}
    roles = {"Worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}}}
    spec = {"nprocPerNode": "1", "runPolicy": {"suspend": suspend}, "pytorchReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec}


def mpi(name: str) -> Raw:
    launcher = {"name": "l", "image": "a/mpi:v1", "command": ["mpirun", "-np", "2", "hostname"]}
    worker = {"name": "w", "image": "a/mpi:v1", "securityContext": {"runAsUser": 1000}}
    roles = {
        "Launcher": {"template": {"spec": {"containers": [{**launcher, "securityContext": {"runAsUser": 1000}}]}}},
        "Worker": {"replicas": 2, "template": {"spec": {"containers": [worker]}}},
    }
    spec = {"sshAuthMountPath": "/home/mpiuser/.ssh", "runPolicy": {"suspend": True}, "mpiReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name}, "spec": spec}


def held(cluster: Cluster, namespace: str) -> list[tuple[str, str]]:
    kinds = ("PyTorchJob", "MPIJob", "TrainJob", "TrainingRuntime")
    return [
        (kind, one["metadata"]["resourceVersion"] if kind.endswith("Runtime") else one["metadata"]["uid"])
        for kind in kinds
        for one in cluster.api.list(kind, namespace=namespace)
    ]


def test_live_jobs(
    control_plane: Cluster,
    v1_operators: V1Operators,
    cluster_namespace: str,
    cluster_target: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for raw in (job("sleeps", suspend=True), job("waits", suspend=False), mpi("rings")):
        control_plane.api.create(raw, namespace=cluster_namespace)
    control_plane.wait(
        "PyTorchJob", "sleeps", cluster_namespace, lambda one: bool((one.get("status") or {}).get("conditions"))
    )
    before = held(control_plane, cluster_namespace)
    code = main(["migrate", "--live", "--target", cluster_target, "--apply-check", "-o", str(tmp_path / "out")])
    said = capfd.readouterr()
    assert code == 0, said.out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "mpijob-rings.yaml",
        "pytorchjob-sleeps.yaml",
        "pytorchjob-waits.yaml",
    ]
    assert said.out.count("LIVE-RUNNING") == 1
    sleeps = yaml.safe_load((tmp_path / "out/pytorchjob-sleeps.yaml").read_text())
    assert sleeps["spec"]["suspend"] is True
    assert sleeps["metadata"] == {"name": "sleeps", "namespace": cluster_namespace}
    runtime, rings = yaml.safe_load_all((tmp_path / "out/mpijob-rings.yaml").read_text())
    assert held(control_plane, cluster_namespace) == before
    # What came out is what a cluster takes.
    for made in (sleeps, runtime, rings):
        made["metadata"]["name"] = f"{made['metadata']['name']}-v2"
    rings["spec"]["runtimeRef"]["name"] = runtime["metadata"]["name"]
    with_backend = open_backend(cluster_target)
    try:
        cluster = cluster_of(with_backend, "--live")
        assert cluster.would_take(sleeps)
        assert cluster.would_take(runtime)
        with_backend.apply_runtime(runtime)
        assert cluster.would_take(rings)
    finally:
        with_backend.close()


def test_the_cluster_s_own_no(
    control_plane: Cluster,
    cluster_namespace: str,
    cluster_target: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    policy = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/trainjobs.trainer.kubeflow.org": "0"}},
    }
    control_plane.api.create(policy, namespace=cluster_namespace)
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job("digits", suspend=False)))
    control_plane.wait(
        "ResourceQuota", "none", cluster_namespace, lambda one: bool((one.get("status") or {}).get("hard"))
    )
    code = main(["migrate", str(path), "--apply-check", "--target", cluster_target])
    said = capfd.readouterr()
    assert code == 2, said.err
    assert "the cluster refuses it" in said.err
    assert "exceeded quota" in " ".join(said.err.split())
    assert "kind: PyTorchJob" in said.out
