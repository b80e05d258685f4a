"""What a Kueue Workload says about a training that waits (the engine's own queue has the same shape)."""

from __future__ import annotations

import re

from trainer_ops.model.observed import Condition, Observation, ObservedWorkload
from trainer_ops.status.podwhy import Cause
from trainer_ops.status.wording import clip, quota_trouble

__all__ = ["NEVER_ADMITTED", "STOPPED_FOR_GOOD", "is_admitted", "queue_cause"]

# Not Kueue's word: it says Pending also for what no free quota can ever satisfy.
NEVER_ADMITTED = "NeverAdmitted"
# Nor this: a workload is deactivated both when a person pauses it and when it has used up one of Kueue's limits.
STOPPED_FOR_GOOD = "DeactivatedByKueue"
_DEACTIVATED = "Deactivated"
# Kueue 0.17: "The workload is deactivated due to exceeding the maximum execution time".
_DUE_TO = re.compile(r"^The workload is deactivated due to ")

# Kueue's reasons of an eviction.
_EVICTED = {
    "Preempted": "preempted",
    "PodsReadyTimeout": "stopped because its pods were not ready in time",
    "AdmissionCheck": "stopped by an admission check",
    "ClusterQueueStopped": "stopped with its ClusterQueue",
    "LocalQueueStopped": "stopped with its LocalQueue",
    "NodeFailures": "stopped because a machine failed",
}


def is_admitted(workload: ObservedWorkload) -> bool:
    """Whether it may run: ``Admitted``, or ``QuotaReserved`` where no such condition exists."""
    admitted = workload.condition("Admitted")
    if admitted is None:
        admitted = workload.condition("QuotaReserved")
    return admitted is not None and admitted.holds


def queue_cause(obs: Observation) -> Cause | None:
    """Why a workload waits in its queue; None without a workload."""
    workload = obs.workload
    if workload is None:
        return None
    queue = obs.job.queue if obs.job else ""
    where = f" (Kueue, queue {queue})" if queue else ""
    evicted = workload.condition("Evicted")
    if evicted is not None and not evicted.holds:
        evicted = None
    if not workload.active:
        reason, text = _inactive(evicted)
        return Cause(reason, clip(f"{text}{where}"), evicted.message if evicted else "", 1)
    if is_admitted(workload):
        return _admitted(obs, workload, evicted, where)
    quota = workload.condition("QuotaReserved")
    if quota is not None and quota.holds and evicted is None:
        return Cause("QuotaReserved", f"quota reserved, waiting for admission checks{where}", quota.message)
    return _pending(quota, evicted, where)


def _inactive(evicted: Condition | None) -> tuple[str, str]:
    """A person has paused it; or Kueue has stopped it, and says what for."""
    if evicted is None or not evicted.reason.startswith(f"{_DEACTIVATED}DueTo"):
        return _DEACTIVATED, "paused: its workload is deactivated"
    return STOPPED_FOR_GOOD, f"stopped by Kueue for good: {_DUE_TO.sub('', evicted.message)}"


def _admitted(obs: Observation, workload: ObservedWorkload, evicted: Condition | None, where: str) -> Cause:
    """Admitted, and yet suspended: for a moment at the begin and at the end of its turn."""
    if evicted is not None:
        return Cause(evicted.reason, f"{_eviction(evicted)}; its nodes are being stopped{where}", evicted.message, 1)
    if obs.pods:
        # By Kueue, whose Workload has not arrived here yet; or by hand, which Kueue undoes.
        return Cause("Suspended", f"suspended, its nodes are being stopped{where}")
    return Cause("Admitted", f"admitted by {workload.cluster_queue or 'the queue'}, about to be resumed{where}")


def _pending(quota: Condition | None, evicted: Condition | None, where: str) -> Cause:
    message = quota.message if quota else ""
    reason = (quota.reason if quota else "") or "Pending"
    # Right after an eviction its text stands in both conditions.
    stale = evicted is not None and message == evicted.message
    text = quota_trouble("" if stale else message) or "waiting to be looked at"
    if text.startswith("can never be admitted"):
        reason = NEVER_ADMITTED
    # One that was deactivated is active again here; Kueue has yet to notice.
    elif evicted is not None and not evicted.reason.startswith(_DEACTIVATED):
        reason, text = evicted.reason, f"{_eviction(evicted)}; {text}"
    original = "; ".join(dict.fromkeys(c.message for c in (evicted, quota) if c is not None and c.message))
    return Cause(reason, clip(f"{text}{where}"), original, 1)


def _eviction(evicted: Condition) -> str:
    return _EVICTED.get(evicted.reason) or f"stopped ({evicted.reason})"
