"""The pods of a TrainJob: what Trainer 2.3 and JobSet 0.12 make of it and its runtime.

Sources: trainer v2.3.0 ``pkg/runtime/core/trainingruntime.go`` and ``plugins/jobset``, jobset v0.12.0
``pkg/controllers/jobset_controller.go`` and ``pkg/webhooks``, batch/v1 for Indexed Jobs.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainer_ops.migrate.simulate.fleet import Behaviour, Fleet, SimPod
from trainer_ops.migrate.simulate.kubelet import pod
from trainer_ops.migrate.simulate.runtimes import STOCK
from trainer_ops.migrate.simulate.v2_merge import merge
from trainer_ops.migrate.simulate.v2_policy import Step, apply_policy, enforce_pod_group
from trainer_ops.model import keys

__all__ = ["simulate_v2"]

Raw = Mapping[str, Any]

_UNLIMITED: Final = 2147483647
_JOB_BACKOFF: Final = 6


def simulate_v2(trainjob: Raw, runtime: Raw | None = None) -> Fleet:
    """Play a TrainJob.

    Args:
        trainjob: with numbers where numbers belong.
        runtime: the one that it names; None: the stock one of that name.

    Raises:
        LookupError: no runtime is given and there is no stock one of that name.
    """
    spec = trainjob.get("spec") or {}
    if runtime is None:
        runtime = STOCK[str((spec.get("runtimeRef") or {}).get("name"))]
    metadata = trainjob.get("metadata") or {}
    name = str(metadata.get("name") or f"{metadata.get('generateName')}xxxxx")
    namespace = str(metadata.get("namespace") or "default")
    held: Raw = runtime.get("spec") or {}
    trainer = spec.get("trainer")
    jobset = _patched(held.get("template") or {}, spec.get("runtimePatches") or ())
    policy = held.get("mlPolicy") or {}
    steps = _steps(jobset["spec"], held.get("mlPolicy"), trainer)
    processes = apply_policy(name, policy, steps, trainer)
    _trainer_fields(steps, trainer)
    gang = enforce_pod_group(name, held.get("podGroupPolicy") or {}, steps)
    subdomain = str((jobset["spec"].get("network") or {}).get("subdomain") or name)
    pods = tuple(one for step in steps for one in _pods(step, name, namespace, subdomain, "mpi" in policy))
    mpi = policy.get("mpi")
    hostfile = () if mpi is None else tuple(f"{host} slots={processes}" for host in _hosts(pods, mpi or {}))
    return Fleet(
        name,
        namespace,
        "v2",
        pods,
        nodes=len(pods) if mpi is None else len(hostfile),
        processes=processes,
        hostfile=hostfile,
        services=(subdomain,),
        config_maps={}
        if mpi is None
        else {f"{name}-mpi-hostfile": {"hostfile": "".join(f"{line}\n" for line in hostfile)}},
        secrets=() if mpi is None else (f"{name}-mpi-ssh-auth",),
        behaviour=_behaviour(spec, jobset["spec"], steps, pods, gang),
    )


def _patched(template: Raw, patches: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"metadata": {}, "spec": {}, **copy.deepcopy(dict(template))}
    for patch in patches:
        laid = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        made = {
            **made,
            **{part: merge(made.get(part), laid[part], part) for part in ("metadata", "spec") if part in laid},
        }
    return made


def _steps(jobset: Raw, policy: Raw | None, trainer: Raw | None) -> list[Step]:
    steps = []
    for job in jobset.get("replicatedJobs") or ():
        template = job.setdefault("template", {})
        template.setdefault("spec", {}).setdefault("template", {}).setdefault("spec", {})
        ancestor = ((template.get("metadata") or {}).get("labels") or {}).get(keys.LABEL_ANCESTOR, "")
        count = template["spec"].get("parallelism") or 1
        if ancestor == "trainer" and policy is not None:
            count = policy.get("numNodes") or 1
        step = Step(str(job.get("name")), ancestor, count, job)
        if step.name not in keys.INITIALIZERS:
            steps.append(step)
    given = (trainer or {}).get("resourcesPerNode")
    joins = bool(((policy or {}).get("mpi") or {}).get("runLauncherAsNode"))
    for step in steps:
        takes = policy is not None and (step.ancestor == "trainer" or (joins and step.name == keys.STEP_NODE))
        if given is not None and takes and step.node is not None:
            step.node["resources"] = merge(step.node.get("resources") or {}, given)
    return steps


def _trainer_fields(steps: list[Step], trainer: Raw | None) -> None:
    for step in steps:
        if step.ancestor == "trainer" and step.node is not None:
            for field in ("image", "command", "args"):
                # An empty list is left out on the way to Trainer.
                if (trainer or {}).get(field):
                    step.node[field] = copy.deepcopy((trainer or {})[field])


def _pods(step: Step, name: str, namespace: str, subdomain: str, mpi: bool) -> Iterator[SimPod]:
    job = f"{name}-{step.name}-0"
    for index in range(step.count):
        raw = copy.deepcopy(step.pod)
        metadata = raw.setdefault("metadata", {})
        known = {
            keys.LABEL_JOBSET_NAME: name,
            keys.LABEL_REPLICATED_JOB: step.name,
            keys.LABEL_RESTART_ATTEMPT: "0",
            "jobset.sigs.k8s.io/job-index": "0",
        }
        batch = {keys.LABEL_JOB_NAME: job, "job-name": job, keys.COMPLETION_INDEX: str(index)}
        metadata["name"] = f"{job}-{index}"
        metadata["labels"] = {**(metadata.get("labels") or {}), **known, **batch}
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            **known,
            keys.COMPLETION_INDEX: str(index),
        }
        spec = raw["spec"]
        spec.setdefault("restartPolicy", "OnFailure")
        spec["hostname"], spec["subdomain"] = f"{job}-{index}", subdomain
        made = pod(
            raw,
            role=step.name,
            index=index,
            seat="",
            host=f"{job}-{index}.{subdomain}",
            main=keys.STEP_NODE,
            namespace=namespace,
        )
        yield _seated(made, step, mpi)


def _seated(made: SimPod, step: Step, mpi: bool) -> SimPod:
    if mpi:
        seat = f"host {made.index}"
        if step.name == keys.STEP_LAUNCHER:
            seat = "launcher" if made.index == 0 else f"launcher {made.index}"
    else:
        seat = _task(made) or (f"rank {made.index}" if step.ancestor == "trainer" else f"{step.name} {made.index}")
    return SimPod(made.role, made.index, seat, made.name, made.host, made.main, made.raw, made.init, made.containers)


def _task(made: SimPod) -> str:
    """What the pod's TF_CONFIG says that it is."""
    try:
        task = json.loads(made.code.env.get("TF_CONFIG", "")).get("task")
        return f"{task['type']} {task['index']}"
    except (ValueError, TypeError, KeyError, AttributeError):
        return ""


def _hosts(pods: tuple[SimPod, ...], policy: Raw) -> list[str]:
    takes = {keys.STEP_NODE, *([keys.STEP_LAUNCHER] if policy.get("runLauncherAsNode") else [])}
    return [one.host for one in pods if one.role in takes]


def _behaviour(spec: Raw, jobset: Raw, steps: list[Step], pods: tuple[SimPod, ...], gang: str) -> Behaviour:
    by_name = {step.name: step for step in steps}
    jobs = {step.name: step.job["template"]["spec"] for step in steps}
    retries = {one.seat: _limit(jobs[one.role]) for one in pods}
    kinds = {one.role: one.seat.split()[0] for one in reversed(pods)}
    return Behaviour(
        {one.seat: _restart(jobs[one.role]) for one in pods},
        retries,
        success=_success(jobset, jobs, pods),
        deadline=spec.get("activeDeadlineSeconds"),
        ttl=jobset.get("ttlSecondsAfterFinished"),
        suspended=bool(spec.get("suspend")),
        gang=gang,
        start={
            kinds[name]: tuple(kinds[one["name"]] for one in step.job["dependsOn"] if one.get("name") in kinds)
            for name, step in by_name.items()
            if step.job.get("dependsOn") and name in kinds
        },
    )


def _limit(job: Raw) -> int | None:
    given = job.get("backoffLimit")
    if given is None:
        return _JOB_BACKOFF
    return None if given >= _UNLIMITED else int(given)


def _restart(job: Raw) -> str:
    if (job["template"]["spec"].get("restartPolicy") or "OnFailure") != "Never":
        return "in-place"
    for rule in (job.get("podFailurePolicy") or {}).get("rules") or ():
        codes = rule.get("onExitCodes") or {}
        if rule.get("action") == "FailJob" and codes.get("operator") == "In" and 1 in (codes.get("values") or ()):
            return "exit-code"
    return "never" if _limit(job) == 0 else "new-pod"


def _success(jobset: Raw, jobs: Mapping[str, Raw], pods: tuple[SimPod, ...]) -> tuple[str, ...]:
    policy = jobset.get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or list(jobs)
    found: list[str] = []
    some = policy.get("operator") == "Any" and len(targets) > 1
    for name in targets:
        rules = ((jobs.get(name) or {}).get("successPolicy") or {}).get("rules") or ()
        mine = [one for one in pods if one.role == name]
        indexes = {str(rule.get("succeededIndexes")) for rule in rules if rule.get("succeededIndexes") is not None}
        if indexes:
            mine = [one for one in mine if str(one.index) in indexes]
        some = some or (len(mine) > 1 and any(rule.get("succeededCount") == 1 for rule in rules))
        found += [one.seat for one in mine]
    return ("any", *found) if some else tuple(found)
