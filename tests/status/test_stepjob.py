"""What a look at a step's Job means."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.status.stepjob import StepState, step_state

Raw = dict[str, Any]


def job(condition: str = "", reason: str = "", message: str = "", **more: Any) -> Raw:
    conditions = [{"type": condition, "status": "True", "reason": reason, "message": message}] if condition else []
    return {
        "metadata": {"name": "s-1", "uid": "u", **more.pop("meta", {})},
        "spec": more,
        "status": {"conditions": conditions},
    }


def pod(phase: str = "Pending", name: str = "s-1-a", *, conditions: Any = (), reason: str = "", **state: Any) -> Raw:
    status: Raw = {"phase": phase, "conditions": list(conditions), "reason": reason}
    if state:
        status["containerStatuses"] = [{"name": "snapshot", "state": state}]
    meta = {"name": name, "uid": name, "labels": {}}
    return {"metadata": meta, "spec": {"containers": [{"name": "snapshot"}], "nodeName": "n"}, "status": status}


def ended(code: int, message: str = "", reason: str = "Error", **more: Any) -> Raw:
    return pod(
        "Failed" if code else "Succeeded", terminated={"exitCode": code, "reason": reason, "message": message}, **more
    )


def event(kind: str, name: str, reason: str, message: str) -> Raw:
    about = {"kind": kind, "name": name}
    return {"metadata": {"name": "e"}, "type": "Warning", "reason": reason, "message": message, "involvedObject": about}


UNSCHEDULED = [
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes: 2 x. preemption: y"}
]
GONE = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"}]
CLAIM = {"metadata": {"name": "data"}, "status": {"phase": "Pending"}}
UNPROVISIONED = event("PersistentVolumeClaim", "data", "ProvisioningFailed", 'storageclass "x" not found')
# As ``build.snapshot_job`` writes it.
POLICY = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "snapshot", "operator": "In", "values": [1, 2]}},
    ]
}

# (job, pods, events, claim) and (phase, reason, detail, patience)
STATES: dict[str, tuple[tuple[Any, ...], tuple[str, str, str, float | None]]] = {
    "none": ((None,), ("gone", "Deleted", "it was deleted", None)),
    "being deleted": (
        (job(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),),
        ("gone", "Deleted", "it was deleted", None),
    ),
    "no pod yet": ((job(),), ("waiting", "Pending", "its pod is being made", None)),
    "suspended": ((job(suspend=True),), ("waiting", "Suspended", "suspended (by a queue, or by hand)", None)),
    "no pod allowed": (
        (job(), [], [event("Job", "s-1", "FailedCreate", "Error creating: exceeded quota: q")]),
        ("waiting", "FailedCreate", "its pod cannot be created: Error creating: exceeded quota: q", None),
    ),
    "no room": (
        (job(), [pod(conditions=UNSCHEDULED)]),
        ("waiting", "Unschedulable", "0/2 nodes: 2 x", None),
    ),
    "no volume": (
        (job(), [pod(conditions=UNSCHEDULED)], [UNPROVISIONED], CLAIM),
        ("waiting", "ProvisioningFailed", 'claim data is not bound: storageclass "x" not found', None),
    ),
    "a claim that waits for its first pod": (
        (job(), [pod(conditions=UNSCHEDULED)], [], CLAIM),
        ("waiting", "Unschedulable", "0/2 nodes: 2 x", None),
    ),
    "a volume that was lost": (
        (job(), [pod()], [], {**CLAIM, "status": {"phase": "Lost"}}),
        ("waiting", "Lost", "claim data has lost its volume", 60.0),
    ),
    "a missing Secret": (
        (job(), [pod(waiting={"reason": "CreateContainerConfigError", "message": 'secret "x" not found'})]),
        ("waiting", "CreateContainerConfigError", 'secret "x" not found', 60.0),
    ),
    "a missing image": (
        (job(), [pod(waiting={"reason": "ErrImagePull", "message": 'Failed to pull image "i": not found'})]),
        ("waiting", "ErrImagePull", 'image "i" cannot be pulled: not found', 300.0),
    ),
    "running": ((job(), [pod("Running", running={})]), ("running", "", "", None)),
    "ended, and the Job does not know it yet": ((job(), [ended(0)]), ("running", "", "ending", None)),
    "failed, and tried again": (
        (job(), [ended(75)]),
        ("waiting", "Retrying", "exit code 75; it is tried again", None),
    ),
    "failed for good, and the Job does not know it yet": (
        (job(podFailurePolicy=POLICY), [ended(1)]),
        ("running", "", "ending", None),
    ),
    "failed otherwise under the same policy": (
        (job(podFailurePolicy=POLICY), [ended(75)]),
        ("waiting", "Retrying", "exit code 75; it is tried again", None),
    ),
    "failed for good while it was drained": (
        (job(podFailurePolicy=POLICY), [ended(1, conditions=GONE)]),
        ("waiting", "Retrying", "exit code 1; it is tried again", None),
    ),
    "out of memory, and tried again": (
        (job(), [ended(137, reason="OOMKilled")]),
        ("waiting", "Retrying", "out of memory (OOMKilled, exit code 137); it is tried again", None),
    ),
    "the second try": ((job(), [ended(75), pod("Running", "s-1-b", running={})]), ("running", "", "", None)),
    "complete": ((job("Complete"), [ended(0, "{}")]), ("succeeded", "", "", None)),
    "failed": (
        (job("Failed", "PodFailurePolicy", "Container failed"), [ended(1, '{"error": {}}')]),
        ("failed", "PodFailurePolicy", "exit code 1", None),
    ),
    "out of time": (
        (job("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"), [ended(143)]),
        ("failed", "DeadlineExceeded", "Job was active longer than specified deadline", None),
    ),
    "evicted at last": (
        (job("Failed", "BackoffLimitExceeded", "limit"), [pod("Failed", conditions=GONE)]),
        ("failed", "BackoffLimitExceeded", "EvictionByEvictionAPI: drained", None),
    ),
    "failed without a pod": (
        (job("Failed", "BackoffLimitExceeded", "Job has reached the limit"),),
        ("failed", "BackoffLimitExceeded", "Job has reached the limit", None),
    ),
}


@pytest.mark.parametrize(("seen", "expected"), STATES.values(), ids=STATES.keys())
def test_state(seen: tuple[Any, ...], expected: tuple[str, str, str, float | None]) -> None:
    state = step_state(*seen)
    assert (state.phase, state.reason, state.detail, state.patience) == expected


def test_the_message_is_of_the_pod_that_decides() -> None:
    assert step_state(job("Complete"), [ended(75, "no"), ended(0, "yes", name="s-1-b")]) == StepState(
        "succeeded", message="yes", tries=1
    )
    # A last try that was killed says nothing: what the one before it said is known.
    killed = ended(137, reason="OOMKilled", name="s-1-b")
    state = step_state(job("Failed", "BackoffLimitExceeded", "m"), [ended(75, "why"), killed])
    assert (state.message, state.tries) == ("why", 2)
    assert state.exit is not None
    assert state.exit.reason == "OOMKilled"
