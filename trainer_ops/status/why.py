"""Why a training is not running: every source that can know, in the order in which one rules out the next.

The controller (it could not make the JobSet), the queue, JobSet, Job (it could not make pods), the pods. A line for a
person, a word to branch on, and the cluster's own text for the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from trainer_ops.model.observed import Observation, ObservedEvent
from trainer_ops.status.nodes import current_pods
from trainer_ops.status.podwhy import Cause, pod_cause
from trainer_ops.status.queueing import is_admitted, queue_cause
from trainer_ops.status.wording import clip

__all__ = ["Cause", "blocked", "causes", "clues", "why"]

_CLUE = 1000  # characters of one line of evidence
_CREATION_FAILED = "TrainJobResourcesCreationFailed"
# At every eviction by Kueue 0.17 under Trainer 2.3 this passes by and does no harm (seen on Kubernetes 1.36).
_PASSING = re.compile(r"template\.metadata: Invalid value: \"?null")


def why(obs: Observation) -> Cause | None:
    """The first cause, the one to show; None when nothing speaks against running."""
    return next(causes(obs), None)


def causes(obs: Observation) -> Iterator[Cause]:
    """All causes, the most telling first."""
    for source in (blocked, _queued, _jobset, _jobs):
        found = source(obs)
        if found is not None:
            yield found
    yield from _pods(obs)
    claim = _claim(obs)
    if claim is not None:
        yield claim


def clues(obs: Observation, limit: int = 6) -> tuple[str, ...]:
    """The cluster's own texts, for the evidence: of the causes, then of the newest warnings; none twice."""
    lines = [c.original or c.detail for c in causes(obs)]
    lines += [f"{e.reason}: {e.message}" for e in reversed(obs.events) if e.warning and _is_mine(e, obs)]
    unique = dict.fromkeys(line for line in lines if line and not _PASSING.search(line))
    return tuple(clip(line, _CLUE) for line in list(unique)[:limit])


def _is_mine(event: ObservedEvent, obs: Observation) -> bool:
    """BackOff only says that something is tried again; what, is in the containers' states."""
    name = obs.job.name if obs.job else ""
    known = {name, *(f"{name}-{row.name}-0" for row in (obs.job.jobs if obs.job else ())), *(p.name for p in obs.pods)}
    return event.reason != "BackOff" and event.name in known


def blocked(obs: Observation) -> Cause | None:
    """The controller could not make the JobSet: an event, and a status that stays empty (trainer #2351, #3671).

    An event older than the TrainJob is about an earlier one of the same name; a status with jobs in it means that a
    later attempt of the controller worked.
    """
    job = obs.job
    if job is None or job.jobs:
        return None
    since = job.created_at or 0.0
    for event in reversed(obs.events):
        fresh = event.at is None or event.at >= since
        if event.reason == _CREATION_FAILED and event.name == job.name and fresh and not _PASSING.search(event.message):
            text = event.message.removeprefix("TrainJob resources reconciliation failed: ")
            return Cause(_CREATION_FAILED, clip(f"the controller cannot create it: {text}"), event.message, 0)
    return None


def _queued(obs: Observation) -> Cause | None:
    if obs.workload is None or is_admitted(obs.workload) or any(not p.deleting for p in obs.pods):
        return None
    finished = obs.workload.condition("Finished")
    return None if finished is not None and finished.holds else queue_cause(obs)


def _last(obs: Observation, kind: str, suffix: str, names: Collection[str]) -> ObservedEvent | None:
    """The newest warning about one of these objects, made since the TrainJob was.

    Names are compared whole: what is listed for a TrainJob may hold events of another whose name begins alike.
    """
    since = (obs.job.created_at if obs.job else None) or 0.0
    for event in reversed(obs.events):
        mine = event.kind == kind and event.name in names and (event.at is None or event.at >= since)
        if mine and event.warning and event.reason.endswith(suffix):
            return event
    return None


def _jobset(obs: Observation) -> Cause | None:
    if obs.job is None or obs.pods:
        return None
    event = _last(obs, "JobSet", "CreationFailed", (obs.job.name,))
    return None if event is None else Cause(event.reason, clip(f"JobSet: {event.message}"), event.message, 0)


_FORBIDDEN = re.compile(r'^Error creating: (?:pods "[^"]*" is forbidden: )?')


def _jobs(obs: Observation) -> Cause | None:
    """Quota, PodSecurity or a missing ServiceAccount refuse the pods of a Job; it retries without an end."""
    names = {f"{obs.job.name}-{row.name}-0" for row in obs.job.jobs} if obs.job else set()
    event = _last(obs, "Job", "FailedCreate", names)
    if event is None or any(p.name.startswith(f"{event.name}-") and not p.deleting for p in obs.pods):
        return None
    text = _FORBIDDEN.sub("", event.message)
    return Cause(event.reason, clip(f"pods cannot be created: {text}"), event.message, 0)


def _pods(obs: Observation) -> list[Cause]:
    live = [p for p in current_pods(obs.pods) if not p.deleting]
    found = [cause for cause in (pod_cause(p, obs.events) for p in live) if cause is not None]
    return sorted(found, key=lambda cause: cause.rank)


def _claim(obs: Observation) -> Cause | None:
    """JobSet names a volume claim after its template and the job: ``initializer-NAME``."""
    name = obs.job.name if obs.job else ""
    claims = {e.name for e in obs.events if e.kind == "PersistentVolumeClaim" and e.name.endswith(f"-{name}")}
    event = _last(obs, "PersistentVolumeClaim", "ProvisioningFailed", claims)
    if event is None:
        return None
    return Cause(event.reason, clip(f"volume {event.name}: {event.message}"), event.message, 1)
