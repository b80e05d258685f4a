"""What Trainer 2.3's plugins do to the pods: counts, variables, MPI's hostfile and keys.

Source: trainer v2.3.0 ``pkg/runtime/framework/plugins/{torch,mpi,jax,xgboost,plainml,coscheduling,volcano}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainer_ops.migrate.simulate.amounts import whole
from trainer_ops.migrate.simulate.v2_merge import upsert
from trainer_ops.model import keys

__all__ = ["INDEX", "Step", "apply_policy", "enforce_pod_group", "slots_of"]

Raw = dict[str, Any]

PORT: Final = 29500
INDEX: Final = {"fieldRef": {"fieldPath": f"metadata.annotations['{keys.COMPLETION_INDEX}']"}}
_SSH_MODES: Final = ((0o640, "ssh-privatekey", "id_rsa"), (0o644, "ssh-publickey", "id_rsa.pub"))


@dataclass(slots=True)
class Step:
    """One replicatedJob while its pods are made.

    Attributes:
        name: of the replicatedJob.
        ancestor: of its label, "" without one.
        count: how many pods.
        job: the replicatedJob, changed in place.
    """

    name: str
    ancestor: str
    count: int
    job: Raw

    @property
    def pod(self) -> Raw:
        """The pod template."""
        found: Raw = self.job["template"]["spec"]["template"]
        return found

    @property
    def spec(self) -> Raw:
        """The pod spec."""
        found: Raw = self.pod.setdefault("spec", {})
        return found

    @property
    def node(self) -> Raw | None:
        """The container that spec.trainer speaks of."""
        return next((one for one in self.spec.get("containers") or () if one.get("name") == keys.STEP_NODE), None)


def apply_policy(name: str, policy: Mapping[str, Any], steps: list[Step], trainer: Mapping[str, Any] | None) -> str:
    """Set counts and variables; gives the number of processes of a node as Trainer counts them.

    Args:
        name: of the TrainJob.
        policy: the runtime's ``mlPolicy``.
        steps: all of them, changed in place.
        trainer: ``spec.trainer``; None sets nothing.
    """
    if "mpi" in policy:
        return _mpi(name, policy["mpi"] or {}, steps, trainer)
    step = next((one for one in steps if one.ancestor == "trainer"), None)
    if step is not None and trainer is not None and trainer.get("numNodes") is not None:
        step.count = trainer["numNodes"]
    resources = _per_node(steps, trainer)
    processes = _processes(resources, trainer) if "torch" in policy else "1"
    main = step.node if step is not None and trainer is not None else None
    if step is None or main is None or trainer is None:
        return processes
    env: list[Raw] = main.setdefault("env", [])
    first = f"{name}-{keys.STEP_NODE}-0-0.{name}"
    # torch puts its own after those of the TrainJob, jax and xgboost before.
    if "jax" in policy:
        _set(env, JAX_NUM_PROCESSES=step.count, JAX_PROCESS_ID=INDEX, JAX_COORDINATOR_ADDRESS=f"{first}:{PORT}")
    elif "xgboost" in policy:
        workers = step.count * max(_gpus(resources), 1)
        _set(env, DMLC_TRACKER_URI=first, DMLC_TRACKER_PORT=PORT, DMLC_TASK_ID=INDEX, DMLC_NUM_WORKER=workers)
    for item in trainer.get("env") or ():
        upsert(env, item)
    if "torch" in policy:
        for held in (env, *_injected(policy["torch"] or {}, steps)):
            _set(held, PET_NNODES=step.count, PET_NPROC_PER_NODE=processes, PET_NODE_RANK=INDEX)
            _set(held, PET_MASTER_ADDR=first, PET_MASTER_PORT=PORT)
    if {"torch", "jax", "xgboost"} & policy.keys():
        upsert(main.setdefault("ports", []), {"containerPort": PORT}, "containerPort")
    return processes


def _injected(policy: Mapping[str, Any], steps: list[Step]) -> list[list[Raw]]:
    """The variables of other containers that are to have torch's too."""
    found: list[list[Raw]] = []
    for target in (policy.get("envInjection") or {}).get("targets") or ():
        for step in steps:
            held = [*(step.spec.get("containers") or ()), *(step.spec.get("initContainers") or ())]
            for name in target.get("containerNames") or () if step.name == target.get("jobName") else ():
                found += [one.setdefault("env", []) for one in held if one.get("name") == name][:1]
    return found


def enforce_pod_group(name: str, policy: Mapping[str, Any], steps: list[Step]) -> str:
    """Mark the pods for the gang scheduler; gives its name, "" without one."""
    for gang, kind, key in (
        ("coscheduling", "labels", "scheduling.x-k8s.io/pod-group"),
        ("volcano", "annotations", "scheduling.k8s.io/group-name"),
    ):
        if policy.get(gang) is not None:
            for step in steps:
                step.pod.setdefault("metadata", {}).setdefault(kind, {})[key] = name
            return gang
    return ""


def slots_of(policy: Mapping[str, Any], steps: list[Step], trainer: Mapping[str, Any] | None) -> int:
    """MPI's slots of one host."""
    given = (trainer or {}).get("numProcPerNode")
    if given is not None:
        return int(given)
    own = int(policy.get("numProcPerNode") or 1)
    gpus = _gpus(_per_node(steps, trainer)) if own == 1 else 0
    return gpus if gpus > 1 else own


def _set(env: list[Raw], **values: object) -> None:
    for name, value in values.items():
        upsert(env, {"name": name, **({"valueFrom": value} if isinstance(value, dict) else {"value": str(value)})})


def _per_node(steps: list[Step], trainer: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Of the TrainJob alone where it says any, else of the first container that has some."""
    given = (trainer or {}).get("resourcesPerNode")
    if given is not None:
        return dict(given)
    for step in steps:
        if (step.name == keys.STEP_NODE or step.ancestor == "trainer") and step.node and step.node.get("resources"):
            return dict(step.node["resources"])
    return {}


def _gpus(resources: Mapping[str, Any]) -> int:
    for kind in ("requests", "limits"):
        found = [whole(value) for name, value in (resources.get(kind) or {}).items() if "gpu" in str(name).lower()]
        if found and found[0]:
            return found[0]
    return 0


def _processes(resources: Mapping[str, Any], trainer: Mapping[str, Any] | None) -> str:
    given = (trainer or {}).get("numProcPerNode")
    if given is not None:
        return str(given)
    if _gpus(resources):
        return "auto"
    cpus = whole((resources.get("requests") or {}).get("cpu", 0)) or whole(
        (resources.get("limits") or {}).get("cpu", 0)
    )
    return str(max(1, cpus))


def _mpi(name: str, policy: Mapping[str, Any], steps: list[Step], trainer: Mapping[str, Any] | None) -> str:
    node = next((step for step in steps if step.name == keys.STEP_NODE), None)
    number = (trainer or {}).get("numNodes")
    if node is not None and number is not None:
        node.count = max(number - 1, 1) if policy.get("runLauncherAsNode") else number
    slots = slots_of(policy, steps, trainer)
    for step in steps:
        if step.name in (keys.STEP_NODE, keys.STEP_LAUNCHER):
            _keys(name, step, str(policy.get("sshAuthMountPath") or "/root/.ssh"))
        if step.name == keys.STEP_LAUNCHER:
            _hostfile(name, step, slots)
        # Those of the TrainJob come last here, in the launcher and in nodes that it is one of.
        joins = bool(policy.get("runLauncherAsNode")) and step.name == keys.STEP_NODE
        if step.node is not None and (step.ancestor == "trainer" or joins):
            for item in (trainer or {}).get("env") or ():
                upsert(step.node.setdefault("env", []), item)
    return str(slots)


def _keys(name: str, step: Step, path: str) -> None:
    items = [{"key": key, "path": file, "mode": mode} for mode, key, file in _SSH_MODES]
    items.append({"key": "ssh-publickey", "path": "authorized_keys", "mode": 0o644})
    secret = {"secretName": f"{name}-mpi-ssh-auth", "defaultMode": 0o400, "items": items}
    upsert(step.spec.setdefault("volumes", []), {"name": "mpi-ssh-auth", "secret": secret})
    if step.node is not None:
        mounts = step.node.setdefault("volumeMounts", [])
        upsert(mounts, {"name": "mpi-ssh-auth", "mountPath": path}, "mountPath")


def _hostfile(name: str, step: Step, slots: int) -> None:
    items = [{"key": "hostfile", "path": "hostfile", "mode": 0o444}]
    source = {"name": f"{name}-mpi-hostfile", "items": items}
    upsert(step.spec.setdefault("volumes", []), {"name": "mpi-hostfile", "configMap": source})
    if step.node is None:
        return
    upsert(step.node.setdefault("volumeMounts", []), {"name": "mpi-hostfile", "mountPath": "/etc/mpi"}, "mountPath")
    _set(
        step.node.setdefault("env", []),
        OMPI_MCA_orte_default_hostfile=keys.HOSTFILE_PATH,
        OMPI_MCA_orte_keep_fqdn_hostnames="true",
        OMPI_MCA_orte_set_default_slots=slots,
        OMPI_MCA_plm_rsh_args="-o ConnectionAttempts=10",
    )
