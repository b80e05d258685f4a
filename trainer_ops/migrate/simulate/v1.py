"""The pods of a v1 job, as training-operator 1.9.3 makes them; an MPIJob's are in ``v1_mpi``.

Source: training-operator v1.9.3 ``pkg/controller.v1/common/{job,pod,service}.go`` and the controller of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainer_ops.migrate.normalise import Role, V1Job
from trainer_ops.migrate.simulate.fleet import Behaviour, Fleet, SimPod
from trainer_ops.migrate.simulate.kubelet import pod
from trainer_ops.migrate.simulate.v1_env import environment
from trainer_ops.migrate.simulate.v1_mpi import simulate_mpi
from trainer_ops.migrate.simulate.v1_template import pruned
from trainer_ops.model import keys

__all__ = ["simulate_v1"]

Raw = dict[str, Any]

_LABEL: Final = "training.kubeflow.org/"
_INIT_IMAGE: Final = "alpine:3.10"
_GANGS: Final = {"volcano": "volcano", "scheduler-plugins-scheduler": "coscheduling"}


def simulate_v1(job: V1Job) -> Fleet:
    """Play a job with the operator's own settings: no gang scheduler, the default init container.

    Args:
        job: all of its numbers are numbers (``normalise`` without placeholders).
    """
    if job.kind.name == "MPIJob":
        return simulate_mpi(job, suspended=suspended(job))
    name, namespace = job.name or f"{job.generate_name}xxxxx", job.namespace or "default"
    pods = tuple(_pods(job, name, namespace))
    return Fleet(
        name,
        namespace,
        "v1",
        pods,
        nodes=len(pods),
        processes=_processes(job),
        services=tuple(one.name for one in pods),
        behaviour=_behaviour(job, pods),
    )


def _pods(job: V1Job, name: str, namespace: str) -> Iterator[SimPod]:
    alone = sum(int(role.replicas) for role in job.roles) == 1
    # Paddle's Masters are servers and no ranks where there are Workers.
    servers = job.kind.name == "PaddleJob" and sum(role.replicas != 0 for role in job.roles) > 1
    before = 0
    for role in job.roles:
        for index in range(int(role.replicas)):
            raw = _raw(job, role, index, name, namespace)
            seat = f"rank {before + index}"
            if job.kind.name == "TFJob" and not alone:
                seat = f"{role.name.lower()} {index}"
            elif servers:
                seat = f"master {index}" if role.name == "Master" else f"rank {index}"
            host = f"{name}-{role.name.lower()}-{index}"
            yield pod(
                raw,
                role=role.name,
                index=index,
                seat=seat,
                host=host,
                main=str(role.container.get("name") or ""),
                namespace=namespace,
            )
        before += int(role.replicas)


def _raw(job: V1Job, role: Role, index: int, name: str, namespace: str) -> Raw:
    template: Raw = pruned(role.template)
    held = template.get("metadata") or {}
    labels = {key: value for key, value in (held.get("labels") or {}).items() if value is not None}
    labels[f"{_LABEL}operator-name"] = f"{_CONTROLLERS[job.kind.name]}-controller"
    labels[f"{_LABEL}job-name"] = name
    labels[f"{_LABEL}replica-type"] = role.name.lower()
    labels[f"{_LABEL}replica-index"] = str(index)
    if _is_master(job, role, index):
        labels[f"{_LABEL}job-role"] = "master"
    metadata: Raw = {"name": f"{name}-{role.name.lower()}-{index}", "labels": labels}
    if held.get("annotations"):
        metadata["annotations"] = dict(held["annotations"])
    spec: Raw = template.get("spec") or {}
    _port(spec["containers"][role.main], job)
    for container in spec["containers"]:
        made = environment(job, role, index, name, namespace, main=container is spec["containers"][role.main])
        if made:
            container["env"] = [*(container.get("env") or ()), *made]
    if job.kind.name == "PyTorchJob" and role.name == "Worker" and _has(job, "Master"):
        spec["initContainers"] = [*(spec.get("initContainers") or ()), _wait_for(f"{name}-master-0")]
    spec["restartPolicy"] = "Never" if role.restart_policy == "ExitCode" else role.restart_policy
    return {"metadata": metadata, "spec": spec}


_CONTROLLERS: Final = {
    "PyTorchJob": "pytorchjob",
    "TFJob": "tfjob",
    "XGBoostJob": "xgboostjob",
    "PaddleJob": "paddlejob",
    "JAXJob": "jaxjob",
}


def _has(job: V1Job, name: str) -> bool:
    """The job has pods of that role."""
    return job.role(name) is not None


def _is_master(job: V1Job, role: Role, index: int) -> bool:
    if job.kind.name == "TFJob" and (_has(job, "Chief") or _has(job, "Master")):
        return role.name in ("Chief", "Master")
    if job.kind.name == "JAXJob":
        return index == 0
    if job.kind.name == "XGBoostJob" or job.kind.name == "PaddleJob" or _has(job, "Master"):
        return role.name == "Master"
    return role.name == "Worker" and index == 0


def _port(container: Raw, job: V1Job) -> None:
    name, number = job.kind.port
    ports = list(container.get("ports") or ())
    if not any(port.get("name") == name for port in ports):
        ports.append({"name": name, "containerPort": number})
    container["ports"] = ports


def _wait_for(master: str) -> Raw:
    script = (
        f"err=1;for i in $(seq 100); do if nslookup {master}; then err=0 && break; fi;"
        "echo waiting for master; sleep 2; done; exit $err"
    )
    return {
        "name": "init-pytorch",
        "image": _INIT_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "limits": {"cpu": "100m", "memory": "20Mi"},
            "requests": {"cpu": "50m", "memory": "10Mi"},
        },
        "command": ["sh", "-c", script],
    }


def _processes(job: V1Job) -> str:
    if job.kind.name != "PyTorchJob":
        return "1"
    elastic = job.spec.get("elasticPolicy")
    old = elastic.get("nProcPerNode") if isinstance(elastic, Mapping) else None
    return str(old or job.spec.get("nprocPerNode") or "auto")


def _behaviour(job: V1Job, pods: tuple[SimPod, ...]) -> Behaviour:
    policy = job.run_policy
    by_role = {role.name: role for role in job.roles}
    limit = policy.get("backoffLimit")
    restart = {one.seat: _RESTART.get(by_role[one.role].restart_policy, "in-place") for one in pods}
    retries = {seat: 0 if how == "never" else limit for seat, how in restart.items()}
    clean = policy.get("cleanPodPolicy") or "None"
    return Behaviour(
        restart,
        retries,
        shared_retries=limit is not None,
        success=success(job, pods),
        outlive="left" if clean == "None" else "ended",
        cleanup="deleted" if clean == "All" else "kept",
        deadline=policy.get("activeDeadlineSeconds"),
        ttl=policy.get("ttlSecondsAfterFinished"),
        suspended=suspended(job),
        gang=next((_GANGS[name] for one in pods if (name := one.spec.get("schedulerName")) in _GANGS), ""),
    )


_RESTART: Final = {"OnFailure": "in-place", "Always": "always", "ExitCode": "exit-code", "Never": "never"}


def suspended(job: V1Job) -> bool:
    """It is made suspended: by itself, or by Kueue, which does so to all jobs of its queues."""
    labels = job.metadata.get("labels")
    return bool(job.run_policy.get("suspend") or (isinstance(labels, Mapping) and labels.get(keys.LABEL_QUEUE)))


def success(job: V1Job, pods: tuple[SimPod, ...]) -> tuple[str, ...]:
    """Of which pods the good end is the job's."""
    leaders = tuple(one.seat for one in pods if one.role in ("Master", "Chief"))
    workers = tuple(one.seat for one in pods if one.role == "Worker")
    if leaders:
        return leaders
    if job.kind.name == "TFJob":
        return workers if job.spec.get("successPolicy") == "AllWorkers" else workers[:1]
    elastic = job.kind.name == "PyTorchJob" and isinstance(job.spec.get("elasticPolicy"), Mapping)
    return ("any", *workers) if elastic and len(workers) > 1 else workers
