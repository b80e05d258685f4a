"""The kinds that a wait looks at: where they are served, whose they are, and what of them is worth keeping. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainer_ops.model import keys

__all__ = ["EVENTS", "JOBSETS", "KINDS", "PODS", "TRAINJOBS", "WORKLOADS", "Kind"]

RawObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One watched kind.

    Attributes:
        plural: as in the URL and in RBAC.
        group: API group, "" for core.
        version: served version.
        selector: label selector that leaves out what cannot concern us.
        field_selector: the same by fields.
        owners: names of the TrainJobs that an object belongs to, or, of an event, may belong to; () for none.
        trim: what is kept of an object.
        optional: the cluster may not serve it (Kueue), or the user may not read it: a wait goes on without.
    """

    plural: str
    group: str
    version: str
    owners: Callable[[RawObject], tuple[str, ...]]
    trim: Callable[[RawObject], RawObject]
    selector: str = ""
    field_selector: str = ""
    optional: bool = True


def _name(obj: RawObject) -> tuple[str, ...]:
    return (str(obj["metadata"]["name"]),)


def _owned_by_trainjob(obj: RawObject) -> tuple[str, ...]:
    owners = obj["metadata"].get("ownerReferences") or ()
    return tuple(str(o["name"]) for o in owners if o.get("kind") == keys.KIND)


def _jobset_of_pod(obj: RawObject) -> tuple[str, ...]:
    name = (obj["metadata"].get("labels") or {}).get(keys.LABEL_JOBSET_NAME)
    return (str(name),) if name else ()


def _prefixes_of_subject(obj: RawObject) -> tuple[str, ...]:
    # Events carry no labels: what they are about is told by name, and all that a TrainJob owns begins with its name
    # ("x", "x-node-0", "x-node-0-1-abcde"), but for the claims of its volumes ("initializer-x").
    subject = str((obj.get("involvedObject") or {}).get("name") or "")
    parts = subject.split("-")
    return tuple("-".join(parts[:end]) for end in range(1, len(parts) + 1)) if subject else ()


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
        "containers": [{"name": c["name"]} for c in spec.get("containers") or ()],
    }
    return {"metadata": _light_meta(obj), "spec": kept, "status": obj.get("status") or {}}


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


TRAINJOBS = Kind(keys.PLURAL, keys.GROUP, keys.VERSION, _name, _trim_trainjob, optional=False)
PODS = Kind("pods", "", "v1", _jobset_of_pod, _trim_pod, selector=keys.LABEL_JOBSET_NAME)
EVENTS = Kind("events", "", "v1", _prefixes_of_subject, _trim_event)
JOBSETS = Kind("jobsets", "jobset.x-k8s.io", "v1alpha2", _owned_by_trainjob, _trim_jobset)
WORKLOADS = Kind("workloads", "kueue.x-k8s.io", "v1beta2", _owned_by_trainjob, _trim_workload)
KINDS = (TRAINJOBS, PODS, EVENTS, JOBSETS, WORKLOADS)
