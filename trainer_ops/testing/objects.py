"""Raw objects in the shape of the cluster: what ``MemoryBackend`` stores and a test may build by hand."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.times import rfc3339

__all__ = ["condition", "event", "pod", "runtime", "set_condition", "stored", "uid", "with_labels", "workload"]

Raw = dict[str, Any]


def uid(number: int) -> str:
    """A uid that is the same in every run of a test."""
    return str(uuid.UUID(int=number, version=4))


def stored(manifest: Mapping[str, Any], *, uid: str, namespace: str, now: float, version: int) -> Raw:
    """A TrainJob as the API server stores it: no status yet."""
    job: Raw = copy.deepcopy(dict(manifest))
    job.setdefault("apiVersion", keys.API_VERSION)
    job.setdefault("kind", keys.KIND)
    job["metadata"] = {
        **job["metadata"],
        "namespace": namespace,
        "uid": uid,
        "creationTimestamp": rfc3339(now),
        "generation": 1,
        "resourceVersion": str(version),
    }
    job.pop("status", None)
    spec = job.setdefault("spec", {})
    spec.setdefault("suspend", False)
    spec.setdefault("managedBy", "trainer.kubeflow.org/trainjob-controller")
    reference = spec.setdefault("runtimeRef", {})
    reference.setdefault("apiGroup", keys.GROUP)
    reference.setdefault("kind", keys.CLUSTER_RUNTIME)
    return job


def condition(type_: str, reason: str, message: str, now: float, *, holds: bool = True) -> Raw:
    """A metav1.Condition."""
    return {
        "type": type_,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(now),
    }


def set_condition(status: Raw, new: Raw) -> None:
    """Put a condition in the place of the one of its type, else last."""
    conditions = status.setdefault("conditions", [])
    for index, old in enumerate(conditions):
        if old["type"] == new["type"]:
            conditions[index] = new
            return
    conditions.append(new)


def pod(job: Raw, step: str, index: int, *, uid: str, suffix: str, now: float, attempt: int = 0) -> Raw:
    """A pod of that TrainJob, just created: Pending, without container statuses."""
    meta, container = job["metadata"], step if step in keys.INITIALIZERS else keys.STEP_NODE
    name = f"{meta['name']}-{step}-0-{index}-{suffix}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "uid": uid,
            "creationTimestamp": rfc3339(now),
            "labels": {
                keys.LABEL_JOBSET_NAME: meta["name"],
                keys.LABEL_JOBSET_UID: meta["uid"],
                keys.LABEL_REPLICATED_JOB: step,
                keys.LABEL_RESTART_ATTEMPT: str(attempt),
                keys.LABEL_JOB_NAME: f"{meta['name']}-{step}-0",
                keys.COMPLETION_INDEX: str(index),
            },
            "annotations": {keys.COMPLETION_INDEX: str(index)},
        },
        "spec": {"containers": [{"name": container}], "restartPolicy": "OnFailure", "nodeName": ""},
        "status": {"phase": "Pending"},
    }


def event(job: Raw, kind: str, name: str, reason: str, message: str, *, now: float, warning: bool = False) -> Raw:
    """A core/v1 Event about something of that TrainJob, as ``events.k8s.io`` leaves it: only ``eventTime`` is set."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{int(now * 1e6):x}", "namespace": job["metadata"]["namespace"]},
        "involvedObject": {"kind": kind, "name": name, "namespace": job["metadata"]["namespace"]},
        "reason": reason,
        "message": message,
        "type": "Warning" if warning else "Normal",
        "eventTime": rfc3339(now, micro=True),
        "firstTimestamp": None,
        "lastTimestamp": None,
    }


def workload(job: Raw, message: str, *, now: float, admitted: bool) -> Raw:
    """Kueue's Workload for that TrainJob, waiting for quota or admitted."""
    meta = job["metadata"]
    quota = condition("QuotaReserved", "QuotaReserved" if admitted else "Pending", message, now, holds=admitted)
    conditions = [quota]
    if admitted:
        conditions.append(condition("Admitted", "Admitted", "The workload is admitted", now))
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": f"trainjob-{meta['name']}-{meta['uid'][-5:]}", "namespace": meta["namespace"]},
        "spec": {"active": True, "queueName": (meta.get("labels") or {}).get(keys.LABEL_QUEUE, "")},
        "status": {"conditions": conditions},
    }


def runtime(name: str, framework: str, policy: Mapping[str, Any] | None = None, *, initializers: bool = False) -> Raw:
    """A ClusterTrainingRuntime with the replicatedJobs that the shipped one of that framework has."""
    ml: Raw = {"numNodes": 1, **copy.deepcopy(dict(policy or {}))}
    jobs = [_replicated(keys.STEP_NODE, "" if "mpi" in ml else "trainer")]
    if "mpi" in ml:
        jobs.insert(0, _replicated(keys.STEP_LAUNCHER, "trainer"))
        jobs[0]["dependsOn"] = [{"name": keys.STEP_NODE, "status": "Ready"}]
    if initializers:
        jobs = [*(_replicated(step) for step in keys.INITIALIZERS), *jobs]
        jobs[-1]["dependsOn"] = [{"name": step, "status": "Complete"} for step in keys.INITIALIZERS]
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.CLUSTER_RUNTIME,
        "metadata": {"name": name, "labels": {keys.LABEL_FRAMEWORK: framework}},
        "spec": {
            "mlPolicy": ml,
            "template": {"spec": {"replicatedJobs": jobs, "network": {"publishNotReadyAddresses": True}}},
        },
    }


def _replicated(step: str, ancestor: str | None = None) -> Raw:
    ancestor = step if ancestor is None else ancestor
    container: Raw = {"name": step if step in keys.INITIALIZERS else keys.STEP_NODE, "image": "example.com/train:1"}
    if step in keys.INITIALIZERS:
        container["volumeMounts"] = [{"name": "initializer", "mountPath": "/workspace"}]
    return {
        "name": step,
        "template": {
            "metadata": {"labels": {keys.LABEL_ANCESTOR: ancestor} if ancestor else {}},
            "spec": {"template": {"spec": {"containers": [container]}}},
        },
    }


def with_labels(jobs: Iterable[Raw], labels: Mapping[str, str] | None) -> list[Raw]:
    """Copies of those with all these labels."""
    wanted = (labels or {}).items()
    return [copy.deepcopy(job) for job in jobs if wanted <= (job["metadata"].get("labels") or {}).items()]
