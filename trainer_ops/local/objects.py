"""The objects that the engine shows, in the cluster's shape: TrainJob, Pod, Event, Workload, JobSet. Builders.

Field by field as Kubernetes 1.36, JobSet 0.12, Trainer 2.3 and Kueue 0.17 write them; only what ``model.observed`` and
people read is there. Times of containers and events have microseconds, which a cluster's have not: on one machine the
first of two failures in a second can be told.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from typing import Any

from trainer_ops.local.plan_values import PodPlan, StepPlan
from trainer_ops.model import keys
from trainer_ops.model.times import rfc3339

__all__ = [
    "COMPLETED",
    "FAILED_JOBS",
    "LOST",
    "new_event",
    "new_jobset",
    "new_pod",
    "new_trainjob",
    "new_uid",
    "pod_condition",
    "queued_workload",
    "set_condition",
    "set_suspend",
    "settle_pod",
]

Raw = dict[str, Any]

COMPLETED = ("Complete", "AllJobsCompleted", "jobset completed successfully")
FAILED_JOBS = "jobset failed due to one or more job failures (first failed job: {job}-{step}-0)"
LOST = "SupervisorLost"


def new_uid() -> str:
    """A random UUID; the module uuid costs a start more than it gives."""
    digits = bytearray(os.urandom(16))
    digits[6], digits[8] = digits[6] & 0x0F | 0x40, digits[8] & 0x3F | 0x80
    text = digits.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def new_trainjob(manifest: Mapping[str, Any], *, uid: str, now: float, namespace: str) -> Raw:
    """The TrainJob as it is stored: with the defaults that the API server and Trainer's webhook would give it."""
    job: Raw = copy.deepcopy(dict(manifest))
    job["apiVersion"], job["kind"] = keys.API_VERSION, keys.KIND
    meta = job.setdefault("metadata", {})
    meta.update(namespace=namespace, uid=uid, creationTimestamp=rfc3339(now), generation=1, resourceVersion="0")
    spec = job.setdefault("spec", {})
    ref = spec.setdefault("runtimeRef", {})
    ref.setdefault("apiGroup", keys.GROUP)
    ref.setdefault("kind", keys.CLUSTER_RUNTIME)
    spec.setdefault("suspend", False)
    spec.setdefault("managedBy", f"{keys.GROUP}/trainjob-controller")
    job.pop("status", None)
    return job


def set_condition(owner: Raw, type_: str, holds: bool, reason: str, message: str, now: float) -> None:
    """Add or change a condition of ``status.conditions``; its time moves only with its truth."""
    conditions: list[Raw] = owner.setdefault("status", {}).setdefault("conditions", [])
    status = "True" if holds else "False"
    old = next((c for c in conditions if c["type"] == type_), None)
    since = old["lastTransitionTime"] if old and old["status"] == status else rfc3339(now)
    new = {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
    if old is None:
        conditions.append(new)
    else:
        conditions[conditions.index(old)] = new


def set_suspend(job: Raw, suspended: bool, now: float) -> None:
    """Write ``spec.suspend`` and the condition that Trainer writes with it."""
    if job["spec"].get("suspend") != suspended:
        job["spec"]["suspend"] = suspended
        job["metadata"]["generation"] += 1
    known = any(c["type"] == "Suspended" for c in (job.get("status") or {}).get("conditions") or ())
    if suspended:
        set_condition(job, "Suspended", True, "Suspended", "TrainJob is suspended", now)
    elif known:
        set_condition(job, "Suspended", False, "Resumed", "TrainJob is resumed", now)


def new_pod(plan: PodPlan, step: StepPlan, *, uid: str, job_uid: str, now: float, host: str, namespace: str) -> Raw:
    """A pod that was just scheduled; none of its containers has started."""
    job_name = plan.hostname.rpartition("-")[0]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": plan.name,
            "generateName": f"{plan.hostname}-",
            "namespace": namespace,
            "uid": uid,
            "creationTimestamp": rfc3339(now),
            "labels": {**plan.labels, keys.LABEL_JOBSET_UID: job_uid},
            "annotations": dict(plan.annotations),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job_name, "controller": True}],
        },
        "spec": {
            "initContainers": [_container(c) for c in plan.containers if c.init],
            "containers": [_container(c) for c in plan.containers if not c.init],
            "restartPolicy": step.restart_policy,
            "terminationGracePeriodSeconds": step.grace_seconds,
            "nodeName": host,
            "hostname": plan.hostname,
        },
        "status": {
            "phase": "Pending",
            "startTime": rfc3339(now),
            "conditions": [pod_condition(t, t == "PodScheduled", now) for t in _POD_CONDITIONS],
            "initContainerStatuses": [_waiting(c, "PodInitializing") for c in plan.containers if c.init],
            "containerStatuses": [_waiting(c, "ContainerCreating") for c in plan.containers if not c.init],
        },
    }


_POD_CONDITIONS = ("PodScheduled", "Initialized", "Ready", "ContainersReady")


def _container(container: Any) -> Raw:
    return {"name": container.name, "command": list(container.argv)}


def _waiting(container: Any, reason: str) -> Raw:
    waiting = {"waiting": {"reason": reason}}
    return {"name": container.name, "state": waiting, "lastState": {}, "ready": False, "restartCount": 0}


def pod_condition(type_: str, holds: bool, now: float, reason: str = "", message: str = "") -> Raw:
    """One entry of a pod's ``status.conditions``."""
    condition = {"type": type_, "status": "True" if holds else "False", "lastTransitionTime": rfc3339(now)}
    condition.update({k: v for k, v in (("reason", reason), ("message", message)) if v})
    return condition


def settle_pod(pod: Raw, now: float) -> None:
    """Derive the pod's conditions from its phase and its containers; the times of those that stay are kept."""
    status = pod["status"]
    phase = status["phase"]
    statuses = status["containerStatuses"]
    initialized = phase != "Pending" or any("waiting" not in s["state"] for s in statuses)
    ready = phase == "Running" and all(s["ready"] for s in statuses)
    unready = [s["name"] for s in statuses if not s["ready"]]
    reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "" if ready else "ContainersNotReady")
    message = f"containers with unready status: [{' '.join(unready)}]" if reason == "ContainersNotReady" else ""
    fresh = [
        pod_condition("PodScheduled", True, now),
        pod_condition("Initialized", initialized, now),
        pod_condition("Ready", ready, now, reason, message),
        pod_condition("ContainersReady", ready, now, reason, message),
    ]
    old = {c["type"]: c for c in status["conditions"]}
    for condition in fresh:
        before = old.get(condition["type"])
        if before and before["status"] == condition["status"]:
            condition["lastTransitionTime"] = before["lastTransitionTime"]
    status["conditions"] = fresh


def new_event(
    kind: str, name: str, reason: str, message: str, *, warning: bool = False, now: float, namespace: str
) -> Raw:
    """One event in the newer of Kubernetes' two forms (``eventTime`` set, the other times null)."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "creationTimestamp": rfc3339(now)},
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": message[:1024],
        "eventTime": rfc3339(now, micro=True),
        "reportingComponent": "trainer-ops",
        "involvedObject": {"kind": kind, "name": name, "namespace": namespace},
    }


def queued_workload(job: Mapping[str, Any], message: str | None, now: float) -> Raw:
    """Kueue's Workload of a TrainJob that waits for a place on this machine; ``message`` None: it has one."""
    meta = job["metadata"]
    workload: Raw = {
        "kind": "Workload",
        "metadata": {"name": f"trainjob-{meta['name']}-{meta['uid'][:5]}", "namespace": meta["namespace"]},
        "spec": {"active": True},
        "status": {},
    }
    if message is not None:
        set_condition(workload, "QuotaReserved", False, "Pending", message, now)
        return workload
    set_condition(workload, "QuotaReserved", True, "QuotaReserved", "a place on this machine is free", now)
    set_condition(workload, "Admitted", True, "Admitted", "The workload is admitted", now)
    return workload


def new_jobset(name: str, restarts: int, max_restarts: int) -> Raw:
    """What of the JobSet is read: how often everything was started anew."""
    return {
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"failurePolicy": {"maxRestarts": max_restarts}},
        "status": {"restarts": restarts},
    }


def jobs_status(rows: Iterable[tuple[str, Mapping[str, int]]]) -> list[Raw]:
    """``status.jobsStatus``: each row has all five counters."""
    zero = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
    return [{"name": name, **zero, **counts} for name, counts in rows]
