"""The kinds that a wait looks at: where they are served, whose they are, and what of them is worth keeping. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainer_ops.model import keys

__all__ = ["EVENTS", "JOBSETS", "KINDS", "PODS", "TRAINJOBS", "WORKLOADS", "Kind", "RawObject", "subject_of"]

RawObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One watched kind.

    Attributes:
        plural: as in the URL and in RBAC.
        group: API group, "" for core.
        versions: served versions that we understand, the best first.
        owners: names of the TrainJobs that an object belongs to, or, of an event, may belong to; () for none. Works on
            trimmed objects too.
        trim: what is kept of an object.
        selector: label selector that leaves out what cannot concern us.
        optional: the cluster may not serve it (Kueue), or the user may not read it: a wait goes on without.
        page: objects a page of a list.
    """

    plural: str
    group: str
    versions: tuple[str, ...]
    owners: Callable[[RawObject], tuple[str, ...]]
    trim: Callable[[RawObject], RawObject]
    selector: str = ""
    optional: bool = True
    page: int = 500


def _name(obj: RawObject) -> tuple[str, ...]:
    return (str(obj["metadata"]["name"]),)


def _owned_by_trainjob(obj: RawObject) -> tuple[str, ...]:
    owners = obj["metadata"].get("ownerReferences") or ()
    return tuple(str(o["name"]) for o in owners if o.get("kind") == keys.KIND)


def _jobset_of_pod(obj: RawObject) -> tuple[str, ...]:
    name = (obj["metadata"].get("labels") or {}).get(keys.LABEL_JOBSET_NAME)
    return (str(name),) if name else ()


# What follows a TrainJob's name in the names of its Jobs ("-node-0") and pods ("-node-0-1-abcde").
_OWNED = re.compile(r"-(?P<step>[a-z0-9][a-z0-9-]*)-\d+(?:-\d+-[a-z0-9]{5})?")
_CLAIM = "PersistentVolumeClaim"
_SUBJECTS = frozenset({keys.KIND, "JobSet", "Job", "Pod", "PodGroup", "Service", _CLAIM})


def subject_of(event: RawObject, name: str, steps: frozenset[str] | None = None) -> bool:
    """Whether an event's subject is named like a TrainJob or what it owns: events have no labels to tell.

    Args:
        event: a core/v1 Event.
        name: the TrainJob's name.
        steps: names of its replicatedJobs; None for any.
    """
    about = event.get("involvedObject") or {}
    subject, kind = str(about.get("name") or ""), about.get("kind")
    if subject == name:
        return True
    if kind == _CLAIM:
        # A claim is named <template>-<TrainJob>, as "initializer-x".
        return subject.endswith(f"-{name}")
    match = _OWNED.fullmatch(subject, len(name)) if subject.startswith(f"{name}-") else None
    return match is not None and (steps is None or match["step"] in steps)


def _subjects(obj: RawObject) -> tuple[str, ...]:
    about = obj.get("involvedObject") or {}
    if about.get("kind") not in _SUBJECTS:
        return ()
    subject = str(about.get("name") or "")
    parts = subject.split("-")
    if about.get("kind") == _CLAIM:
        candidates = ["-".join(parts[start:]) for start in range(len(parts))]
    else:
        candidates = ["-".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return tuple(name for name in candidates if name and subject_of(obj, name))


def _light_meta(obj: RawObject) -> RawObject:
    meta = {k: v for k, v in obj["metadata"].items() if k not in ("managedFields", "selfLink", "generateName")}
    notes = meta.get("annotations")
    if notes and "kubectl.kubernetes.io/last-applied-configuration" in notes:
        meta["annotations"] = {k: v for k, v in notes.items() if not k.startswith("kubectl.")}
    return meta


def _trim_trainjob(obj: RawObject) -> RawObject:
    spec = dict(obj.get("spec") or {})
    # Shipped code lies in the command: hundreds of kilobytes of a job that nobody asks for here.
    spec["trainer"] = {k: v for k, v in (spec.get("trainer") or {}).items() if k == "numNodes"}
    spec.pop("runtimePatches", None)
    return {**obj, "metadata": _light_meta(obj), "spec": spec}


def _trim_pod(obj: RawObject) -> RawObject:
    spec = obj.get("spec") or {}
    kept = {
        "nodeName": spec.get("nodeName"),
        "schedulingGates": spec.get("schedulingGates"),
        "containers": [{"name": c["name"], **_limits(c)} for c in spec.get("containers") or ()],
    }
    return {"metadata": _light_meta(obj), "spec": kept, "status": obj.get("status") or {}}


def _limits(container: RawObject) -> RawObject:
    limits = (container.get("resources") or {}).get("limits")
    return {"resources": {"limits": limits}} if limits else {}


def _trim_jobset(obj: RawObject) -> RawObject:
    policy = (obj.get("spec") or {}).get("failurePolicy")
    return {"metadata": _light_meta(obj), "spec": {"failurePolicy": policy}, "status": obj.get("status") or {}}


def _trim_workload(obj: RawObject) -> RawObject:
    spec = {"active": (obj.get("spec") or {}).get("active")}
    return {"metadata": _light_meta(obj), "spec": spec, "status": obj.get("status") or {}}


def _trim_event(obj: RawObject) -> RawObject:
    kept = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime", "series")
    event = {k: obj[k] for k in kept if obj.get(k) is not None}
    meta = {k: obj["metadata"].get(k) for k in ("name", "uid", "resourceVersion", "creationTimestamp")}
    return {**event, "metadata": meta, "involvedObject": obj.get("involvedObject") or {}}


# A TrainJob may carry most of a megabyte of shipped code, so its pages are small.
TRAINJOBS = Kind(keys.PLURAL, keys.GROUP, (keys.VERSION,), _name, _trim_trainjob, optional=False, page=100)
PODS = Kind("pods", "", ("v1",), _jobset_of_pod, _trim_pod, selector=keys.LABEL_JOBSET_NAME)
EVENTS = Kind("events", "", ("v1",), _subjects, _trim_event)
JOBSETS = Kind("jobsets", "jobset.x-k8s.io", ("v1alpha2",), _owned_by_trainjob, _trim_jobset)
# v1beta2 since Kueue 0.14; older ones serve v1beta1 with the same conditions.
WORKLOADS = Kind("workloads", "kueue.x-k8s.io", ("v1beta2", "v1beta1"), _owned_by_trainjob, _trim_workload)
KINDS = (TRAINJOBS, PODS, EVENTS, JOBSETS, WORKLOADS)
