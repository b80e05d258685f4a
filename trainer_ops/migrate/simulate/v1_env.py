"""The variables that training-operator 1.9.3 gives to the containers of each kind, in its order.

Sources: training-operator v1.9.3 ``pkg/controller.v1/{pytorch,tensorflow,xgboost,paddlepaddle,jax}``. They are
appended to the container's own, so that of two with one name the operator's wins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainer_ops.migrate.normalise import Role, V1Job

__all__ = ["environment", "port_of"]

Env = list[dict[str, Any]]
_POD_IP: Final = {"name": "POD_IP_DUMMY", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


@dataclass(frozen=True, slots=True)
class _Pod:
    job: V1Job
    role: Role
    index: int
    name: str
    namespace: str

    @property
    def total(self) -> int:
        return sum(int(role.replicas) for role in self.job.roles)

    def port(self, role: str) -> int:
        return port_of(self.job, role)

    def count(self, role: str) -> int:
        return next((int(one.replicas) for one in self.job.roles if one.name == role), 0)

    def has(self, role: str) -> bool:
        # An entry with no replicas counts as none: v1's webhook refuses most of them.
        return self.count(role) > 0


def environment(job: V1Job, role: Role, index: int, name: str, namespace: str, *, main: bool) -> Env:
    """What a container of that pod gets.

    Args:
        job: of which the pod is.
        role: of the pod.
        index: within the role.
        name: of the job.
        namespace: of the job.
        main: it is the container with the code; the others get the variables too, but for TFJobs.
    """
    if job.kind.name == "TFJob" and not main:
        return []
    return _KINDS[job.kind.name](_Pod(job, role, index, name, namespace))


def port_of(job: V1Job, role: str) -> int:
    """The number of the operator's port in the main container of a role, its default when the job names none."""
    name, number = job.kind.port
    for one in job.roles:
        if one.name == role:
            given = (port.get("containerPort") for port in one.container.get("ports") or () if port.get("name") == name)
            found = next(given, number)
            # What is no number is refused by the API server: there is nothing to play.
            return found if isinstance(found, int) else number
    return number


def _made(**values: object) -> Env:
    return [{"name": name, "value": str(value)} for name, value in values.items()]


def _torch(pod: _Pod) -> Env:
    env = _made(PYTHONUNBUFFERED=1)
    elastic = pod.job.spec.get("elasticPolicy")
    elastic = elastic if isinstance(elastic, Mapping) else None
    processes = pod.job.spec.get("nprocPerNode")
    if processes is None and (elastic is None or elastic.get("nProcPerNode") is None):
        processes = "auto"
    if pod.has("Master"):
        host, port = f"{pod.name}-master-0", pod.port("Master")
        text = str(processes)
        world = pod.total * (int(text) if text.isascii() and text.lstrip("+-").isdigit() else 1)
        rank = pod.index + (1 if pod.role.name == "Worker" else 0)
        env += _made(MASTER_PORT=port, PET_MASTER_PORT=port, MASTER_ADDR=host, PET_MASTER_ADDR=host)
        env += _made(WORLD_SIZE=world, RANK=rank, PET_NODE_RANK=rank)
    if processes is not None:
        env += _made(PET_NPROC_PER_NODE=processes)
    return env + (_made(PET_NNODES=pod.total) if elastic is None else _elastic(pod, elastic))


def _elastic(pod: _Pod, elastic: Mapping[str, Any]) -> Env:
    host = elastic.get("rdzvHost") or f"{pod.name}-worker-0"
    least, most = elastic.get("minReplicas"), elastic.get("maxReplicas")
    workers = pod.count("Worker")
    least, most = (most if least is None else least), (least if most is None else most)
    least, most = (workers, workers) if least is None else (least, most)
    env = _made(
        PET_RDZV_ENDPOINT=f"{host}:{elastic.get('rdzvPort') or pod.port('Worker')}",
        PET_RDZV_BACKEND=elastic.get("rdzvBackend") or "c10d",
        PET_NNODES=f"{least}:{most}",
    )
    for field, name in (
        ("maxRestarts", "PET_MAX_RESTARTS"),
        ("nProcPerNode", "PET_NPROC_PER_NODE"),
        ("rdzvId", "PET_RDZV_ID"),
    ):
        if elastic.get(field) is not None:
            env += _made(**{name: elastic[field]})
    if elastic.get("rdzvConf"):
        env += _made(PET_RDZV_CONF=",".join(f"{one.get('key')}={one.get('value')}" for one in elastic["rdzvConf"]))
    return env + (_made(PET_STANDALONE="") if elastic.get("standalone") else [])


def _tensorflow(pod: _Pod) -> Env:
    if pod.total == 1:
        return []
    cluster = {
        role.name.lower(): [
            f"{pod.name}-{role.name.lower()}-{i}.{pod.namespace}.svc:{pod.port(role.name)}"
            for i in range(int(role.replicas))
        ]
        for role in sorted(pod.job.roles, key=lambda role: role.name.lower())
    }
    task = {"type": pod.role.name.lower(), "index": pod.index}
    held: dict[str, Any] = {"cluster": cluster, "task": task, "environment": "cloud"}
    if pod.job.spec.get("enableDynamicWorker"):
        held = {"cluster": _sparse(cluster, pod), "task": task}
    return _made(TF_CONFIG=json.dumps(held, separators=(",", ":")))


def _sparse(cluster: Mapping[str, list[str]], pod: _Pod) -> dict[str, Any]:
    role = pod.role.name.lower()
    if role == "ps":
        return {"worker": {}, "ps": [cluster["ps"][pod.index]]}
    worker = {str(pod.index): cluster["worker"][pod.index]} if role == "worker" else {}
    return {"worker": worker, "ps": cluster.get("ps") if role == "worker" else []}


def _xgboost(pod: _Pod) -> Env:
    offset = pod.count("Master") if pod.role.name == "Worker" else 0
    env = _made(
        MASTER_PORT=pod.port("Master"),
        MASTER_ADDR=f"{pod.name}-master-0",
        WORLD_SIZE=pod.total,
        RANK=pod.index + offset,
        PYTHONUNBUFFERED=1,
    )
    if pod.total > 1:
        workers = [f"{pod.name}-worker-{i}" for i in range(pod.total - 1)]
        env += _made(WORKER_PORT=pod.port("Worker"), WORKER_ADDRS=",".join(workers))
    return env


def _paddle(pod: _Pod) -> Env:
    env = _made(PYTHONUNBUFFERED=1, PADDLE_JOB_ID=pod.name, PADDLE_NNODES=pod.total)
    server = pod.has("Master")
    first = "Master" if server else "Worker"
    if pod.index == 0 and pod.role.name == first:
        env += [dict(_POD_IP), *_made(PADDLE_MASTER=f"$(POD_IP_DUMMY):{pod.port(first)}")]
    else:
        env += _made(PADDLE_MASTER=f"{pod.name}-{first.lower()}-0:{pod.port(first)}")
    if server:
        env += _made(PADDLE_SERVER_NUM=1) if pod.role.name == "Master" else _made(PADDLE_TRAINER_NUM=1)
    return env


def _jax(pod: _Pod) -> Env:
    return _made(
        PYTHONUNBUFFERED=1,
        COORDINATOR_PORT=pod.port("Worker"),
        COORDINATOR_ADDRESS=f"{pod.name}-worker-0",
        NUM_PROCESSES=pod.total,
        PROCESS_ID=pod.index,
    )


_KINDS: Final[Mapping[str, Callable[[_Pod], Env]]] = {
    "PyTorchJob": _torch,
    "TFJob": _tensorflow,
    "XGBoostJob": _xgboost,
    "PaddleJob": _paddle,
    "JAXJob": _jax,
}
