"""What a Kueue Workload says about a training that waits (the engine's own queue has the same shape)."""

from __future__ import annotations

from trainer_ops.model.observed import Observation, ObservedWorkload
from trainer_ops.status.podwhy import Cause
from trainer_ops.status.wording import clip, quota_trouble

__all__ = ["NEVER_ADMITTED", "is_admitted", "queue_cause"]

# Not Kueue's word: it says Pending also for what no free quota can ever satisfy.
NEVER_ADMITTED = "NeverAdmitted"


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
    if is_admitted(workload):
        return Cause("Admitted", f"admitted by {workload.cluster_queue or 'the queue'}, about to be resumed{where}")
    if not workload.active:
        return Cause("Deactivated", f"paused: its workload is deactivated{where}", rank=1)
    quota = workload.condition("QuotaReserved")
    if quota is not None and quota.holds:
        return Cause("QuotaReserved", f"quota reserved, waiting for admission checks{where}", quota.message)
    evicted = workload.condition("Evicted")
    if evicted is not None and not evicted.holds:
        evicted = None
    message = quota.message if quota else ""
    text = quota_trouble(message) or "waiting to be looked at"
    reason = (quota.reason if quota else "") or "Pending"
    if text.startswith("can never be admitted"):
        reason = NEVER_ADMITTED
    elif evicted is not None:
        reason, text = evicted.reason, f"{evicted.reason.lower()}; {text}"
    original = "; ".join(dict.fromkeys(c.message for c in (evicted, quota) if c is not None and c.message))
    return Cause(reason, clip(f"{text}{where}"), original, 1)
