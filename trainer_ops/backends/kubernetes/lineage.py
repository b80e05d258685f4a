"""What belongs to which TrainJob, when several of the same name follow each other. Pure.

Pods carry their JobSet's uid and events their subject's, but neither says for which TrainJob that was made. A JobSet's
owner reference does; it is remembered here, because it is gone with the JobSet while its pods still end.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Any

from trainer_ops.backends.kubernetes.kinds import RawObject, subject_of
from trainer_ops.model import keys
from trainer_ops.model.observed import ObservedEvent
from trainer_ops.model.times import parse_time

__all__ = ["MAX_EVENTS", "Lineage", "events_of", "finished", "newest", "owner_uid", "pods_of", "telling", "uid_of"]

MAX_EVENTS = 200


def uid_of(obj: RawObject) -> str:
    """``metadata.uid``."""
    return str(obj["metadata"].get("uid") or "")


def owner_uid(obj: RawObject) -> str:
    """The uid of the TrainJob that owns it, "" when none does."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((str(o.get("uid") or "") for o in owners if o.get("kind") == keys.KIND), "")


class Lineage:
    """JobSet uid -> TrainJob uid. Bounded; safe for threads."""

    def __init__(self, limit: int = 20_000) -> None:
        self._limit = limit
        self._owner: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def learn(self, jobset: RawObject | None) -> None:
        """Remember whose it is."""
        owner = owner_uid(jobset) if jobset is not None else ""
        if jobset is None or not owner:
            return
        with self._lock:
            self._owner[uid_of(jobset)] = owner
            self._owner.move_to_end(uid_of(jobset))
            while len(self._owner) > self._limit:
                self._owner.popitem(last=False)

    def of_pod(self, pod: RawObject) -> str | None:
        """The TrainJob that a pod was made for; None when that is not known."""
        labels = pod["metadata"].get("labels") or {}
        with self._lock:
            return self._owner.get(labels.get(keys.LABEL_JOBSET_UID) or "")


def pods_of(
    uid: str, pods: Iterable[RawObject], lineage: Lineage, *, standing: RawObject | None
) -> tuple[list[RawObject], list[RawObject]]:
    """(pods of one TrainJob, those of others of the same name).

    Args:
        uid: which TrainJob.
        pods: all pods whose JobSet has its name.
        lineage: what is known of their JobSets.
        standing: the TrainJob of that name that exists now; it may be another.
    """
    mine: list[RawObject] = []
    others: list[RawObject] = []
    for pod in pods:
        owner = lineage.of_pod(pod)
        belongs = owner == uid if owner is not None else _likely(uid, pod, standing)
        (mine if belongs else others).append(pod)
    return mine, others


def _likely(uid: str, pod: RawObject, standing: RawObject | None) -> bool:
    """A guess by time for a pod whose JobSet nobody here has seen."""
    if standing is None:
        return True
    pod_made, job_made = (parse_time(obj["metadata"].get("creationTimestamp")) or 0.0 for obj in (pod, standing))
    if uid_of(standing) == uid:
        return pod_made >= job_made
    return pod_made < job_made


def events_of(job: RawObject, events: Iterable[RawObject], foreign: Collection[str] = ()) -> list[RawObject]:
    """The newest events about a TrainJob and what it owns, oldest first, at most ``MAX_EVENTS``.

    Args:
        job: the TrainJob.
        events: candidates.
        foreign: uids of pods of another TrainJob of the same name.
    """
    rows = (job.get("status") or {}).get("jobsStatus") or ()
    steps = frozenset(str(row["name"]) for row in rows) or None
    made = parse_time(job["metadata"].get("creationTimestamp")) or 0.0
    name, uid = str(job["metadata"]["name"]), uid_of(job)
    found: list[tuple[float, int, RawObject]] = []
    for event in events:
        about = event.get("involvedObject") or {}
        # Its time only now: it costs more than all the rest.
        if not _about(about, name, uid, foreign) or not subject_of(event, name, steps):
            continue
        at = ObservedEvent.from_raw(event).at or 0.0
        if at >= made or about.get("uid") == uid:
            found.append((at, len(found), event))
    return [event for _, _, event in sorted(found, key=lambda f: f[:2])[-MAX_EVENTS:]]


def _about(about: RawObject, name: str, uid: str, foreign: Collection[str]) -> bool:
    if about.get("kind") == keys.KIND:
        return about.get("uid") == uid
    return about.get("uid") not in foreign


def newest(objects: Iterable[RawObject]) -> RawObject | None:
    """The one made last, None of none."""
    return max(objects, key=lambda o: o["metadata"].get("creationTimestamp") or "", default=None)


def telling(jobset: RawObject | None, uid: str) -> RawObject | None:
    """The JobSet of a TrainJob when it says more than the TrainJob's own status: that it restarts, or has restarted."""
    if jobset is None or owner_uid(jobset) not in (uid, ""):
        return None
    status = jobset.get("status") or {}
    if status.get("restarts"):
        return jobset
    conditions: list[Any] = status.get("conditions") or []
    restarting = any(c.get("type") == "RestartingJobSet" and c.get("status") == "True" for c in conditions)
    return jobset if restarting else None


def finished(job: RawObject) -> bool:
    """Whether a TrainJob has ended."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)
