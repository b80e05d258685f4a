"""The runtime's replicatedJobs with a TrainJob's patches, counts and resources applied: what JobSet would be given."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer_ops.errors import InvalidRequest
from trainer_ops.local.plan_text import gpus
from trainer_ops.model import keys
from trainer_ops.model.runtime import ReplicatedJob, TrainingRuntime

__all__ = ["TRAINER", "Raw", "Template", "has_policy", "proc_resources", "refuse", "slots_per_node", "templates"]

Raw = Mapping[str, Any]
TRAINER = "trainer"

_WHAT = "this machine cannot run the TrainJob"


def refuse(field: str, reason: str, remedy: str) -> InvalidRequest:
    """The error for what the engine cannot do; to be raised."""
    return InvalidRequest(field, reason, remedy, what=_WHAT)


@dataclass(frozen=True, slots=True)
class Template:
    """One replicatedJob, patched.

    Attributes:
        job: what the shared parser made of the unpatched job.
        count: its pods.
        spec: the pod template's spec, patched; a private copy.
        labels: of the pod template.
        annotations: of the pod template.
        path: how an error names this job.
        group: JobSet's ``groupName``.
    """

    job: ReplicatedJob
    count: int
    spec: Raw
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    path: str
    group: str = "default"

    @property
    def name(self) -> str:
        """The replicatedJob's name."""
        return self.job.name

    @property
    def grace_seconds(self) -> int:
        """Patched ``terminationGracePeriodSeconds``."""
        grace = self.spec.get("terminationGracePeriodSeconds")
        return self.job.grace_seconds if grace is None else int(grace)

    @property
    def containers(self) -> Sequence[Raw]:
        """The containers that run together."""
        return self.spec.get("containers") or ()

    @property
    def init_containers(self) -> Sequence[Raw]:
        """The containers that run before those."""
        return self.spec.get("initContainers") or ()

    @property
    def main(self) -> Raw | None:
        """The container the pod is about: named ``node`` or like its step, else the first."""
        named = [c for c in self.containers if c.get("name") in (keys.STEP_NODE, self.name, self.job.ancestor)]
        return next(iter(named or self.containers), None)


def templates(trainjob: Raw, runtime: TrainingRuntime) -> tuple[tuple[Template, ...], tuple[str, ...]]:
    """The jobs of the runtime in its order, patched; and what of the patches has no meaning here.

    Raises:
        InvalidRequest: more than one replica, or a patch for a job or a container that the runtime does not have.
    """
    raws = ((runtime.raw.get("spec") or {}).get("template") or {}).get("spec", {}).get("replicatedJobs") or ()
    pods = {raw["name"]: copy.deepcopy(_pod(raw)) for raw in raws}
    groups = {raw["name"]: str(raw.get("groupName") or "default") for raw in raws}
    ignored = _patch(trainjob, pods)
    made = (_template(job, pods[job.name], groups[job.name], trainjob, runtime) for job in runtime.jobs)
    return tuple(made), ignored


def _pod(raw: Raw) -> dict[str, Any]:
    return dict(((raw.get("template") or {}).get("spec") or {}).get("template") or {})


def _template(job: ReplicatedJob, pod: Raw, group: str, trainjob: Raw, runtime: TrainingRuntime) -> Template:
    path = f'runtime "{runtime.name}", job {job.name}'
    if job.replicas != 1 and job.ancestor == "":
        raise refuse(f"{path}: replicas", f"{job.replicas} copies of a job are not supported here", "Use parallelism.")
    meta = pod.get("metadata") or {}
    return Template(
        job,
        _count(job, trainjob, runtime),
        pod.get("spec") or {},
        meta.get("labels") or {},
        meta.get("annotations") or {},
        path,
        group,
    )


def _count(job: ReplicatedJob, trainjob: Raw, runtime: TrainingRuntime) -> int:
    """Pods of a job; the rules of Trainer's policy plugins (v2.3.0)."""
    nodes = _trainer(trainjob).get("numNodes")
    count = runtime.num_nodes if job.ancestor == TRAINER and has_policy(runtime) else job.parallelism
    if runtime.policy == "mpi":
        if job.name == keys.STEP_NODE and nodes is not None:
            # One of the nodes is the launcher; but a job of one node still gets one beside it (trainer #3954).
            count = max(int(nodes) - 1, 1) if runtime.run_launcher_as_node else int(nodes)
    elif job.ancestor == TRAINER and nodes is not None:
        count = int(nodes)
    if count < 1:
        raise refuse("spec.trainer.numNodes", f"{count} is not at least 1", "Give 1 or more.")
    return count


def has_policy(runtime: TrainingRuntime) -> bool:
    """Whether the runtime has an ``mlPolicy``, be it empty: numNodes and resources follow it."""
    return (runtime.raw.get("spec") or {}).get("mlPolicy") is not None


def _trainer(trainjob: Raw) -> Raw:
    return (trainjob.get("spec") or {}).get("trainer") or {}


def proc_resources(trainjob: Raw, all_templates: Sequence[Template]) -> Raw:
    """The resources that Trainer derives the processes of a node from: the TrainJob's alone, else the runtime's."""
    own = _trainer(trainjob).get("resourcesPerNode")
    if own is not None:
        return dict(own)
    for template in all_templates:
        if template.name == keys.STEP_NODE or template.job.ancestor == TRAINER:
            for container in template.containers:
                if container.get("name") == keys.STEP_NODE and container.get("resources"):
                    return dict(container["resources"])
    return {}


def slots_per_node(trainjob: Raw, runtime: TrainingRuntime, resources: Raw) -> int:
    """MPI: ranks of a node. The TrainJob's, else the runtime's; where that is 1, the GPUs of a node."""
    own = _trainer(trainjob).get("numProcPerNode")
    if own is not None:
        return int(own)
    given = int(runtime.mpi.get("numProcPerNode") or 1)
    return max(gpus(resources), 1) if given == 1 else given


# ---------------------------------------------------------------------------------------------------- runtimePatches

# Parts of a PodSpecPatch that say where and as whom a pod runs: nothing here can follow them.
_UNUSED = (
    "serviceAccountName",
    "imagePullSecrets",
    "securityContext",
    "nodeSelector",
    "affinity",
    "tolerations",
    "schedulingGates",
)


def _patch(trainjob: Raw, pods: Mapping[str, dict[str, Any]]) -> tuple[str, ...]:
    ignored: dict[str, None] = {}
    for i, patch in enumerate((trainjob.get("spec") or {}).get("runtimePatches") or ()):
        jobset = ((patch.get("trainingRuntimeSpec") or {}).get("template") or {}).get("spec") or {}
        for j, job in enumerate(jobset.get("replicatedJobs") or ()):
            base = f"spec.runtimePatches[{i}].trainingRuntimeSpec.template.spec.replicatedJobs[{j}]"
            if job.get("name") not in pods:
                known = ", ".join(pods)
                raise refuse(f"{base}.name", f'the runtime has no job "{job.get("name")}"', f"Its jobs: {known}.")
            path = f"{base}.template.spec.template.spec"
            ignored.update(dict.fromkeys(_patch_pod(pods[job["name"]], _pod(job), path)))
    return tuple(ignored)


def _patch_pod(pod: dict[str, Any], patch: Raw, path: str) -> list[str]:
    meta, new_meta = pod.setdefault("metadata", {}), patch.get("metadata") or {}
    for part in ("labels", "annotations"):
        meta[part] = {**(meta.get(part) or {}), **(new_meta.get(part) or {})}
    spec, new = pod.setdefault("spec", {}), patch.get("spec") or {}
    if new.get("terminationGracePeriodSeconds") is not None:
        spec["terminationGracePeriodSeconds"] = new["terminationGracePeriodSeconds"]
    spec["volumes"] = _merged(spec.get("volumes"), new.get("volumes"), "name")
    for part in ("initContainers", "containers"):
        for k, container in enumerate(new.get(part) or ()):
            _patch_container(spec.get(part) or (), container, f"{path}.{part}[{k}]")
        if new.get(part):
            spec[part] = _merged(spec[part], [{"name": container["name"]} for container in new[part]], "name")
    return [name for name in _UNUSED if new.get(name)]


def _patch_container(containers: Sequence[Any], patch: Raw, path: str) -> None:
    container = next((c for c in containers if c.get("name") == patch.get("name")), None)
    if container is None:
        known = ", ".join(str(c.get("name")) for c in containers) or "none"
        raise refuse(f"{path}.name", f'the runtime has no container "{patch.get("name")}"', f"Known here: {known}.")
    container["env"] = _merged(container.get("env"), patch.get("env"), "name")
    container["volumeMounts"] = _merged(container.get("volumeMounts"), patch.get("volumeMounts"), "mountPath")


def _merged(old: Sequence[Raw] | None, new: Sequence[Raw] | None, key: str) -> list[Raw]:
    """Strategic merge of two lists of objects.

    The patch's items keep the patch's order, and an old item goes before the next of them only if it did so before:
    what the patch adds comes before the old items that are left, so that its ``$(NAME)`` sees none of them.
    """
    old = list(old or ())
    place = {item.get(key): i for i, item in enumerate(old)}
    patched = {item.get(key) for item in new or ()}
    left = [item for item in old if item.get(key) not in patched]
    merged: list[Raw] = []
    for item in new or ():
        at = place.get(item.get(key), -1)
        while left and place[left[0].get(key)] < at:
            merged.append(left.pop(0))
        merged.append({**(old[at] if at >= 0 else {}), **item})
    return merged + left
