"""The pods of a training as real controllers made them, of either generation, read as a fleet.

So the pods of a v1 job, those of its TrainJob and those that ``trainer_ops.migrate.simulate`` makes up can be held
against each other. What containers see is worked out by the test kubelet's own rules, not by the simulators'.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.controlplane.fixtures import Cluster
from tests.controlplane.kubelet_env import environment, expand
from tests.controlplane.migration_defaults import undefaulted
from tests.controlplane.plane import ControlPlane
from trainer_ops.migrate.simulate.fleet import Fleet, SimContainer, SimPod

__all__ = ["V1_JOB", "plain", "v1_fleet", "v2_fleet"]

Raw = dict[str, Any]
V1_JOB = "training.kubeflow.org/job-name"
_V1_ROLE = "training.kubeflow.org/replica-type"
_V1_PART = "training.kubeflow.org/job-role"
_V1_INDEX = "training.kubeflow.org/replica-index"
_STEP = "jobset.sigs.k8s.io/replicatedjob-name"
_INDEX = "batch.kubernetes.io/job-completion-index"
_JOBSET = "jobset.sigs.k8s.io/jobset-name"
_CODE = {"PyTorchJob": "pytorch", "TFJob": "tensorflow"}


def v1_fleet(cluster: Cluster | ControlPlane, namespace: str, raw: Mapping[str, Any]) -> Fleet:
    """What the v1 operator of a job has made."""
    name, kind = raw["metadata"]["name"], raw["kind"]
    pods = [_v1_pod(raw, pod) for pod in cluster.api.list("Pod", namespace=namespace, labelSelector=f"{V1_JOB}={name}")]
    config = cluster.api.get("ConfigMap", f"{name}-config", namespace=namespace) if kind == "MPIJob" else None
    return _fleet("v1", name, namespace, pods, config, _services(cluster, namespace, V1_JOB, name))


def v2_fleet(cluster: Cluster, namespace: str, trainjob: Mapping[str, Any]) -> Fleet:
    """What Trainer, JobSet and the Job controller have made of a TrainJob."""
    name = trainjob["metadata"]["name"]
    pods = [_v2_pod(pod) for pod in cluster.pods(namespace, name)]
    config = cluster.api.get("ConfigMap", f"{name}-mpi-hostfile", namespace=namespace)
    return _fleet("v2", name, namespace, pods, config, _services(cluster, namespace, _JOBSET, name))


def plain(fleet: Fleet) -> Fleet:
    """A simulated fleet without what is left out of the real ones."""

    def container(held: SimContainer) -> SimContainer:
        return _read(held.raw, held.env)

    return replace(
        fleet,
        pods=tuple(
            replace(
                pod,
                raw=undefaulted(pod.raw),
                init=tuple(map(container, pod.init)),
                containers=tuple(map(container, pod.containers)),
            )
            for pod in fleet.pods
        ),
    )


def _fleet(
    generation: str, name: str, namespace: str, pods: list[SimPod], config: Raw | None, services: tuple[str, ...]
) -> Fleet:
    hostfile = tuple((config or {}).get("data", {}).get("hostfile", "").split("\n"))
    hostfile = tuple(line for line in hostfile if line)
    seats = [pod.seat for pod in pods if pod.seat != "launcher"]
    slots = {line.partition("slots=")[2] for line in hostfile}
    counts = {pod.code.env.get("PET_NPROC_PER_NODE", "1") for pod in pods if pod.seat.startswith("rank")}
    return Fleet(
        name,
        namespace,
        generation,
        tuple(sorted(pods, key=lambda pod: (pod.role, pod.index))),
        len(hostfile) or len(seats),
        " ".join(sorted(slots or counts or {"1"})),
        hostfile,
        services,
    )


def _services(cluster: Cluster | ControlPlane, namespace: str, label: str, value: str) -> tuple[str, ...]:
    found = cluster.api.list("Service", namespace=namespace)
    return tuple(sorted(s["metadata"]["name"] for s in found if (s["spec"].get("selector") or {}).get(label) == value))


# -- pods -------------------------------------------------------------------------------------------------------------


def _v1_pod(raw: Mapping[str, Any], pod: Raw) -> SimPod:
    labels = pod["metadata"]["labels"]
    role = str(labels.get(_V1_ROLE) or labels[_V1_PART])
    # mpi-operator counts the launcher in this label where it is a worker too.
    index = int(pod["metadata"]["name"].rpartition("-")[2]) if role == "worker" else int(labels.get(_V1_INDEX) or 0)
    main = _main_of(raw, role, pod)
    return _pod(pod, role, index, main, lambda env: _v1_seat(raw, role, index, env))


def _main_of(raw: Mapping[str, Any], role: str, pod: Raw) -> str:
    names = [str(container["name"]) for container in pod["spec"]["containers"]]
    kind = raw["kind"]
    if kind == "MPIJob":
        # Where training-operator's kubexec.sh starts the ranks.
        return str(raw["spec"].get("mainContainer") or names[0]) if role == "worker" else names[0]
    wanted = _CODE.get(kind, kind.removesuffix("Job").lower())
    return wanted if wanted in names else names[0]


def _v1_seat(raw: Mapping[str, Any], role: str, index: int, env: Mapping[str, str]) -> str:
    if raw["kind"] == "MPIJob":
        return "launcher" if role == "launcher" else f"host {index}"
    if raw["kind"] == "TFJob":
        return _tf_seat(env)
    roles = next(v for k, v in raw["spec"].items() if k.endswith("ReplicaSpecs"))
    behind = role != "master" and any(key.lower() == "master" for key in roles)
    if raw["kind"] == "PaddleJob" and len(roles) > 1:
        # Masters beside Workers are servers.
        return f"master {index}" if role == "master" else f"rank {index}"
    return f"rank {index + behind}"


def _v2_pod(pod: Raw) -> SimPod:
    step = str(pod["metadata"]["labels"][_STEP])
    index = int(pod["metadata"]["annotations"][_INDEX])
    return _pod(pod, step, index, "node", lambda env: _v2_seat(pod, step, index, env))


def _v2_seat(pod: Raw, step: str, index: int, env: Mapping[str, str]) -> str:
    if "TF_CONFIG" in env:
        return _tf_seat(env)
    mounts = [m["mountPath"] for c in pod["spec"]["containers"] for m in c.get("volumeMounts") or ()]
    if step == "launcher" or "/etc/mpi" in mounts:
        return "launcher"
    if any(v.get("secret", {}).get("secretName", "").endswith("-mpi-ssh-auth") for v in pod["spec"].get("volumes", ())):
        return f"host {index}"
    return f"rank {index}" if step == "node" else f"{step} {index}"


def _tf_seat(env: Mapping[str, str]) -> str:
    task = json.loads(env["TF_CONFIG"])["task"] if "TF_CONFIG" in env else {}
    return f"{task['type']} {task['index']}" if task else "rank 0"


def _pod(pod: Raw, role: str, index: int, main: str, seat: Any) -> SimPod:
    pod = copy.deepcopy(pod)
    meta, spec = pod["metadata"], pod["spec"]
    tail = re.compile(r"-[a-z0-9]{5}$")
    meta["name"] = tail.sub("", meta["name"]) if meta.get("generateName") else meta["name"]
    meta["uid"], spec["nodeName"] = "<metadata.uid>", "<spec.nodeName>"
    containers = tuple(_container(pod, container) for container in spec["containers"])
    init = tuple(_container(pod, container) for container in spec.get("initContainers") or ())
    del spec["nodeName"]
    code = next((c for c in containers if c.name == main), containers[0])
    host = f"{spec['hostname']}.{spec['subdomain']}" if spec.get("hostname") and spec.get("subdomain") else meta["name"]
    kept = {key: dict(meta.get(key) or {}) for key in ("labels", "annotations")}
    return SimPod(
        role,
        index,
        seat(code.env),
        meta["name"],
        host,
        code.name,
        undefaulted({"metadata": kept, "spec": spec}),
        init,
        containers,
    )


def _container(pod: Raw, raw: Raw) -> SimContainer:
    env = environment(pod, {**raw, "envFrom": []}, lambda kind, name: _Keys(kind, name), ip="<status.podIP>")
    return _read(raw, env)


def _read(raw: Mapping[str, Any], env: Mapping[str, str]) -> SimContainer:
    raw = undefaulted({"spec": {"containers": [raw]}})["spec"]["containers"][0]
    return SimContainer(
        raw["name"],
        str(raw.get("image") or ""),
        tuple(expand(str(word), env) for word in raw.get("command") or ()),
        tuple(expand(str(word), env) for word in raw.get("args") or ()),
        env,
        (),
        raw.get("resources") or {},
        {str(mount["mountPath"]): mount for mount in raw.get("volumeMounts") or ()},
        raw,
    )


class _Keys(dict[str, str]):
    """The data of a Secret or ConfigMap that nobody made: each value says where it comes from."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__()
        self._of = f"{kind.lower()} {name}"

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: str) -> str:
        return f"<{self._of}/{key}>"
