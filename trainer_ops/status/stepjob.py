"""What a look at a step's Job means: whether it waits, runs or is over, and why. Pure.

A step is one pod that is to end by itself (``build.snapshot_job``). Unlike a training it has no nodes and no
restarts in place: a pod that failed stays, and the Job makes the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from trainer_ops.model.observed import ObservedEvent, ObservedPod
from trainer_ops.model.observed_pod import Condition, Terminated, conditions_of
from trainer_ops.status.exits import ending
from trainer_ops.status.nodes import disruption
from trainer_ops.status.podwhy import CONFIG_REASONS, IMAGE_REASONS, Cause, pod_cause
from trainer_ops.status.wording import clip

__all__ = ["StepState", "step_state"]

Raw = Mapping[str, Any]

# How long something that a person must correct may be shown before it is an error: a Secret or a registry may be
# a moment late, but does not come by itself.
_CONFIG_SECONDS: Final = 60.0
_IMAGE_SECONDS: Final = 300.0
_STEP: Final = "snapshot"


@dataclass(frozen=True, slots=True)
class StepState:
    """Where a step is.

    Attributes:
        phase: ``gone``: deleted, or about to be.
        reason: one CamelCase word of the cluster's.
        detail: one line for a person.
        original: the cluster's own text, where ``detail`` does not say all.
        patience: seconds that this may last before it counts as a failure; None: as long as the caller waits.
        message: what the pod that decides wrote to its termination message.
        exit: how that pod's program ended.
        tries: pods that have failed so far.
    """

    phase: Literal["gone", "waiting", "running", "succeeded", "failed"]
    reason: str = ""
    detail: str = ""
    original: str = ""
    patience: float | None = None
    message: str = ""
    exit: Terminated | None = None
    tries: int = 0


def step_state(
    job: Raw | None, pods: Sequence[Raw] = (), events: Sequence[Raw] = (), claim: Raw | None = None
) -> StepState:
    """Judge one look.

    Args:
        job: the Job; None when there is none.
        pods: its pods, oldest first.
        events: about the Job, its pods and the claim, oldest first.
        claim: what it writes to; None when unknown.
    """
    if job is None or job["metadata"].get("deletionTimestamp"):
        return StepState("gone", "Deleted", "it was deleted")
    seen = [replace(ObservedPod.from_raw(pod), step=_STEP) for pod in pods]
    conditions = {c.type: c for c in conditions_of(job.get("status"))}
    failed = [pod for pod in seen if pod.phase == "Failed"]
    for kind in ("Complete", "Failed"):
        over = conditions.get(kind)
        if over is not None and over.holds:
            return _over(over, seen, failed)
    if (job.get("spec") or {}).get("suspend"):
        return StepState("waiting", "Suspended", "suspended (by a queue, or by hand)", tries=len(failed))
    told = sorted((ObservedEvent.from_raw(event) for event in events), key=lambda event: event.at or 0.0)
    return replace(_going(job, seen, told, claim), tries=len(failed))


def _over(over: Condition, pods: Sequence[ObservedPod], failed: Sequence[ObservedPod]) -> StepState:
    if over.type == "Complete":
        done = [pod for pod in pods if pod.phase == "Succeeded"]
        return StepState("succeeded", message=_message(done[-1]) if done else "", tries=len(failed))
    last = failed[-1] if failed else None
    # A try that was killed may say nothing; what an earlier one said is better than that.
    message = next((said for pod in reversed(failed) if (said := _message(pod))), "")
    detail = clip(over.message)
    if last is not None and over.reason != "DeadlineExceeded":
        outside, end = disruption(last), _end(last)
        detail = f"{outside[0]}: {outside[1]}" if outside else ending(end) if end else detail
    return StepState(
        "failed",
        over.reason,
        clip(detail),
        over.message,
        message=message,
        exit=_end(last) if last else None,
        tries=len(failed),
    )


def _end(pod: ObservedPod) -> Terminated | None:
    return pod.main.terminated if pod.main is not None else None


def _message(pod: ObservedPod) -> str:
    end = _end(pod)
    return end.message if end is not None else ""


def _going(job: Raw, pods: Sequence[ObservedPod], events: Sequence[ObservedEvent], claim: Raw | None) -> StepState:
    current = pods[-1] if pods else None
    cause: Cause | None = None
    if current is None:
        cause = _uncreated(events) or Cause("Pending", "its pod is being made")
    elif current.phase == "Pending":
        cause = _claimed(claim, events) or pod_cause(current, events)
    elif current.phase == "Failed":
        end = _end(current)
        # A pod that was taken away is made again, whatever it ended with.
        if end is not None and not disruption(current) and _is_last(job, end):
            return StepState("running", detail="ending")
        cause = Cause("Retrying", f"{ending(end) if end else 'its pod failed'}; it is tried again", _message(current))
    elif current.phase == "Succeeded" or current.main is None or current.main.state == "terminated":
        return StepState("running", detail="ending")
    if cause is None:
        return StepState("running")
    # What a person sees names no node: there is only one.
    detail = cause.detail.removeprefix(f"{_STEP}: ")
    return StepState("waiting", cause.reason, detail, cause.original, _patience(cause.reason))


def _is_last(job: Raw, end: Terminated) -> bool:
    """Whether the Job's policy ends it with this exit code; it says so itself a moment later."""
    rules = ((job.get("spec") or {}).get("podFailurePolicy") or {}).get("rules") or ()
    finals = [rule.get("onExitCodes") or {} for rule in rules if rule.get("action") == "FailJob"]
    return any(codes.get("operator") == "In" and end.exit_code in (codes.get("values") or ()) for codes in finals)


def _patience(reason: str) -> float | None:
    if reason in CONFIG_REASONS or reason in ("InvalidImageName", "Lost"):
        return _CONFIG_SECONDS
    return _IMAGE_SECONDS if reason in IMAGE_REASONS else None


def _uncreated(events: Sequence[ObservedEvent]) -> Cause | None:
    """Quota, PodSecurity or a missing ServiceAccount: the Job tries again without an end."""
    for event in reversed(events):
        if event.kind == "Job" and event.reason == "FailedCreate":
            return Cause(event.reason, clip(f"its pod cannot be created: {event.message}"), event.message, 0)
    return None


def _claimed(claim: Raw | None, events: Sequence[ObservedEvent]) -> Cause | None:
    """What is the matter with the claim; None when it is bound, or only waits for its first pod."""
    phase = ((claim or {}).get("status") or {}).get("phase")
    if claim is None or phase == "Bound":
        return None
    name = claim["metadata"]["name"]
    if phase == "Lost":
        return Cause("Lost", f"claim {name} has lost its volume", rank=0)
    told = [e for e in events if e.kind == "PersistentVolumeClaim" and e.name == name]
    for event in reversed(told):
        if event.reason in ("ProvisioningFailed", "FailedBinding"):
            return Cause(event.reason, clip(f"claim {name} is not bound: {event.message}"), event.message, 1)
    return None
