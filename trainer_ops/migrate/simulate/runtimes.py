"""The stock runtimes of Trainer 2.3, as far as pods are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainer_ops.model import keys

__all__ = ["STOCK"]

_TRAINS: Final = {"labels": {keys.LABEL_ANCESTOR: "trainer"}}


def _plain(framework: str, policy: str, image: str) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": keys.STEP_NODE, "image": image}]}}
    jobs = [{"name": keys.STEP_NODE, "template": {"metadata": _TRAINS, "spec": {"template": pod}}}]
    return _runtime(framework, {"numNodes": 1, policy: {}}, {"replicatedJobs": jobs})


def _runtime(framework: str, policy: Mapping[str, Any], jobset: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.CLUSTER_RUNTIME,
        "metadata": {"name": f"{framework}-distributed", "labels": {keys.LABEL_FRAMEWORK: framework}},
        "spec": {"mlPolicy": policy, "template": {"spec": jobset}},
    }


def _mpi(framework: str, image: str) -> dict[str, Any]:
    def pod(**more: Any) -> dict[str, Any]:
        container = {"name": keys.STEP_NODE, "image": image, "securityContext": {"runAsUser": 1000}, **more}
        return {"spec": {"securityContext": {"fsGroup": 1000}, "containers": [container]}}

    sshd = pod(
        command=["/usr/sbin/sshd"],
        args=["-De", "-f", "/home/mpiuser/.sshd_config"],
        readinessProbe={"tcpSocket": {"port": 2222}, "initialDelaySeconds": 5},
    )
    launcher = {
        "name": keys.STEP_LAUNCHER,
        "dependsOn": [{"name": keys.STEP_NODE, "status": "Ready"}],
        "template": {"metadata": _TRAINS, "spec": {"template": pod()}},
    }
    policy = {
        "numProcPerNode": 1,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": "/home/mpiuser/.ssh",
        "runLauncherAsNode": True,
    }
    jobset = {
        "network": {"publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": [keys.STEP_LAUNCHER]},
        "replicatedJobs": [{"name": keys.STEP_NODE, "template": {"spec": {"template": sshd}}}, launcher],
    }
    return _runtime(framework, {"numNodes": 1, "mpi": policy}, jobset)


STOCK: Final[Mapping[str, Mapping[str, Any]]] = {
    runtime["metadata"]["name"]: runtime
    for runtime in (
        _plain("torch", "torch", "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"),
        _plain("jax", "jax", "nvcr.io/nvidia/jax:25.10-py3"),
        _plain("xgboost", "xgboost", "ghcr.io/kubeflow/trainer/xgboost-runtime"),
        _mpi("deepspeed", "ghcr.io/kubeflow/trainer/deepspeed-runtime"),
    )
}
