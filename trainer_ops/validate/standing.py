"""Rules about a runtime that was accepted: what every TrainJob that names it will run into.

They are told twice: to who writes the runtime, at the place, and to who submits a TrainJob, at ``spec.runtimeRef``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainer_ops.model import keys
from trainer_ops.validate.findings import Finding, error, warning
from trainer_ops.validate.peek import at, items, mapping, named, number, show, text, texts
from trainer_ops.validate.subject import JOBS, POD, ancestor_of

__all__ = ["standing"]

_LABEL_SUPPORT = "trainer.kubeflow.org/support"
_QUEUE = "scheduling.volcano.sh/queue-name"


def standing(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    """All rules of this module, in the order of the runtime's fields."""
    yield from _support(raw)
    yield from _ancestors(raw)
    yield from _pod_group(raw)
    yield from _policy(raw)
    yield from _order(raw)
    yield from _references(raw)
    yield from _time_to_live(raw)
    yield from _pods(raw)


def _jobs(raw: Mapping[Any, Any]) -> list[tuple[int, str, Mapping[Any, Any]]]:
    return named(at(raw, JOBS))


def _support(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    if mapping(at(raw, "metadata.labels")).get(_LABEL_SUPPORT) == "deprecated":
        reason = "is deprecated: a coming release of Trainer removes it"
        yield warning("runtime-deprecated", f"metadata.labels[{_LABEL_SUPPORT}]", reason, "Move to another runtime")


def _ancestors(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    trainers = [name for _, name, job in _jobs(raw) if ancestor_of(job) == "trainer"]
    if not trainers and _jobs(raw):
        reason = f"no job has the label {keys.LABEL_ANCESTOR}: trainer, so that spec.trainer would reach none"
        yield warning("runtime-ancestors", JOBS, reason, "Label the job that trains")
    elif len(trainers) > 1:
        reason = f"{' and '.join(trainers)} both have the trainer's label: only {trainers[0]} gets numNodes"
        yield warning("runtime-ancestors", JOBS, reason, "Label one job only")


def _pod_group(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    groups = [str(name) for name, held in mapping(at(raw, "spec.podGroupPolicy")).items() if held is not None]
    if not groups:
        return
    for i, name, job in _jobs(raw):
        if items(job.get("dependsOn")):
            reason = f"keeps {name} from being made, while the pod group waits for all pods: nothing would start"
            yield error("runtime-gang", f"{JOBS}[{i}].dependsOn", reason, "Leave out dependsOn, or podGroupPolicy")
    alone = [name for _, name, job in _jobs(raw) if not text(at(job, f"{POD}.schedulerName"))]
    if alone:
        reason = f"makes a pod group that nobody looks at: {' and '.join(alone)} have no schedulerName"
        remedy = "Name the gang scheduler in their pods, unless it is the cluster's default"
        yield warning("runtime-scheduler", "spec.podGroupPolicy", reason, remedy)
    queue = mapping(at(raw, "spec.template.metadata.annotations")).get(_QUEUE)
    if "volcano" in groups and queue == "":
        reason = "is empty, which Trainer refuses for every TrainJob"
        yield error(
            "runtime-queue", f"spec.template.metadata.annotations[{_QUEUE}]", reason, "Name a queue, or remove it"
        )


def _policy(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    policy = mapping(at(raw, "spec.mlPolicy"))
    if policy.get("mpi") is not None:
        yield from _mpi(raw, policy)
    if policy.get("flux") is not None:
        for i, name, job in _jobs(raw):
            inits = {own for _, own, _ in named(at(job, f"{POD}.initContainers"))}
            if name == keys.STEP_NODE and "flux-installer" in inits:
                reason = "has flux-installer, which the Flux policy adds itself"
                yield error("flux-installer", f"{JOBS}[{i}].{POD}.initContainers", reason, "Give it another name")
    for i, raw_target in enumerate(items(at(policy, "torch.envInjection.targets"))):
        target = mapping(raw_target)
        job = next((j for _, name, j in _jobs(raw) if name == target.get("jobName")), {})
        known = {own for kind in ("containers", "initContainers") for _, own, _ in named(at(job, f"{POD}.{kind}"))}
        for name in texts(target.get("containerNames")):
            if name not in known:
                reason = f"the job {show(target.get('jobName'))} has no container {show(name)}"
                path = f"spec.mlPolicy.torch.envInjection.targets[{i}].containerNames"
                yield error("runtime-env-injection", path, reason, "Name a container of the template")


def _mpi(raw: Mapping[Any, Any], policy: Mapping[Any, Any]) -> Iterator[Finding]:
    names = [name for _, name, _ in _jobs(raw)]
    missing = [name for name in (keys.STEP_LAUNCHER, keys.STEP_NODE) if name not in names]
    if missing and names:
        reason = f"has no job named {' or '.join(missing)}: keys and hostfile are mounted only in launcher and node"
        yield warning("mpi-jobs", JOBS, reason, "Name the jobs launcher and node")
    path, targets = (
        "spec.template.spec.successPolicy",
        texts(at(raw, "spec.template.spec.successPolicy.targetReplicatedJobs")),
    )
    if keys.STEP_LAUNCHER in names and keys.STEP_NODE in names and keys.STEP_NODE in (targets or names):
        reason = "waits for the workers too, whose sshd never ends: the training would never be complete"
        yield warning("mpi-success", path, reason, "Write {operator: All, targetReplicatedJobs: [launcher]}")
    launchers = number(policy.get("numNodes"))
    if keys.STEP_LAUNCHER in names and launchers is not None and launchers > 1:
        reason = f"makes {launchers} launchers, each of which would start the training"
        yield warning("mpi-launchers", "spec.mlPolicy.numNodes", reason, "Write 1: workers are set by the TrainJob")


def _order(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    in_order = at(raw, "spec.template.spec.startupPolicy.startupPolicyOrder") == "InOrder"
    earlier: list[str] = []
    for i, name, job in _jobs(raw):
        path = f"{JOBS}[{i}].dependsOn"
        needed = [own for _, own, _ in named(job.get("dependsOn"))]
        if needed and in_order:
            reason = "excludes startupPolicy InOrder"
            yield error("runtime-depends-on", path, reason, "Keep one of them")
        for own in needed:
            if own not in earlier:
                reason = f"{show(own)} is no job that comes before {name}: JobSet would refuse every training"
                yield error("runtime-depends-on", path, reason, "Name a job that is listed earlier")
        earlier.append(name)


def _references(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    """Names of jobs in the JobSet's own policies."""
    names = {name for _, name, _ in _jobs(raw)}
    base = "spec.template.spec"
    places = [
        (f"{base}.successPolicy.targetReplicatedJobs", at(raw, f"{base}.successPolicy.targetReplicatedJobs")),
        *(
            (f"{base}.failurePolicy.rules[{i}].targetReplicatedJobs", mapping(rule).get("targetReplicatedJobs"))
            for i, rule in enumerate(items(at(raw, f"{base}.failurePolicy.rules")))
        ),
        (f"{base}.coordinator.replicatedJob", [at(raw, f"{base}.coordinator.replicatedJob")]),
    ]
    for path, held in places:
        for name in texts(held):
            if name not in names:
                reason = f"{show(name)} is no job of this runtime: JobSet would refuse every training"
                yield error("runtime-targets", path, reason, f"Known: {', '.join(sorted(names)) or 'none'}")


def _time_to_live(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    path = "spec.template.spec.ttlSecondsAfterFinished"
    if number(at(raw, path)) is not None:
        reason = (
            "deletes the JobSet after its end; up to 2.3.0 Trainer then runs a failed training again (trainer #3737)"
        )
        yield warning("runtime-ttl", path, reason, "Leave it out; kubectl delete trainjob removes one that is over")


def _pods(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    for i, _, job in _jobs(raw):
        policy = at(job, f"{POD}.restartPolicy")
        if isinstance(policy, str) and policy not in ("OnFailure", "Never"):
            reason = f"{show(policy)} is none that a Job may have"
            yield error("restart-policy", f"{JOBS}[{i}].{POD}.restartPolicy", reason, "Give OnFailure or Never")
