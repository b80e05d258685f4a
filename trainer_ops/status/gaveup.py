"""Why a wait was given up. The training was left alone each time, and each sentence says so."""

from __future__ import annotations

from trainer_ops.model.outcome import Category, Diagnosis
from trainer_ops.model.phase import Phase
from trainer_ops.model.times import duration
from trainer_ops.status.clocks import QUEUE, UNREACHABLE, WAIT
from trainer_ops.status.facts import Facts
from trainer_ops.status.podwhy import CONFIG_REASONS, IMAGE_REASONS, MOUNT_REASONS
from trainer_ops.status.queueing import NEVER_ADMITTED, STOPPED_FOR_GOOD

__all__ = ["given_up"]

_ALONE = "the training was left alone"
_AGAIN = "wait for it again, or cancel it if it is no longer wanted"


def given_up(facts: Facts) -> Diagnosis:
    """By which limit, and why the training had not got further."""
    if facts.limit == UNREACHABLE:
        return _unreachable(facts)
    if facts.limit == WAIT:
        return _too_long(facts)
    return _queued(facts) if facts.limit == QUEUE else _not_started(facts)


def _proof(facts: Facts) -> tuple[str, ...]:
    detail = (facts.state.detail,) if facts.state.detail else ()
    return tuple(dict.fromkeys((*detail, *facts.clues)))


def _unreachable(facts: Facts) -> Diagnosis:
    summary = f"the target gave no answer for {duration(facts.silent)}; {_ALONE} and may well go on"
    evidence = (facts.error, f"last seen: {_seen(facts)}") if facts.error else (f"last seen: {_seen(facts)}",)
    command = f"trainer-ops wait {facts.name}" + (f" --target {facts.target}" if facts.target else "")
    remedy = f"When the target answers again, {_AGAIN}: {command}"
    return Diagnosis(Category.UNREACHABLE, summary, evidence, remedy)


def _seen(facts: Facts) -> str:
    detail = f" ({facts.state.detail})" if facts.state.detail else ""
    return f"{facts.state.phase}{detail}"


def _too_long(facts: Facts) -> Diagnosis:
    summary = f"{facts.name} had not ended after {facts.bound}; it was {facts.state.phase}, and {_ALONE}"
    return Diagnosis(Category.DEADLINE, summary, _proof(facts), f"Raise wait_timeout, or {_AGAIN}.")


def _queued(facts: Facts) -> Diagnosis:
    state = facts.state
    if state.phase is Phase.SUSPENDED:
        summary = f"{facts.name} was suspended for longer than {facts.bound}; {_ALONE}"
        return Diagnosis(Category.QUEUED_TOO_LONG, summary, _proof(facts), "Resume it, then wait for it again.")
    detail = f" ({state.detail})" if state.detail else ""
    if state.reason == NEVER_ADMITTED:
        summary = f"{facts.name} asks for more than its queue can ever give{detail}; {_ALONE}"
        remedy = "Ask for less in resources_per_node or num_nodes, or have the ClusterQueue's quota raised."
        if "has no quota for" in state.detail:
            remedy = "Leave that resource out of resources_per_node, or have it added to the ClusterQueue."
        return Diagnosis(Category.QUOTA, summary, _proof(facts), remedy)
    if state.reason == STOPPED_FOR_GOOD:
        summary = f"{facts.name} will not run by itself{detail}; {facts.bound} is over and {_ALONE}"
        remedy = (
            "Raise the limit that its queue or its labels set and start it again; or set spec.active of its Workload."
        )
        return Diagnosis(Category.QUEUED_TOO_LONG, summary, _proof(facts), remedy)
    summary = f"{facts.name} waited in its queue for longer than {facts.bound}{detail}; {_ALONE}"
    remedy = _QUEUE_REMEDIES.get(state.reason, f"Raise queue_timeout, use a higher priority_class, or {_AGAIN}.")
    return Diagnosis(Category.QUEUED_TOO_LONG, summary, _proof(facts), remedy)


_QUEUE_REMEDIES = {
    "Inadmissible": "Name a LocalQueue that exists in this namespace and is active, or have this one made or opened.",
    "ClusterQueueStopped": "Have its ClusterQueue opened again (spec.stopPolicy), or name another queue.",
    "LocalQueueStopped": "Have its LocalQueue opened again (spec.stopPolicy), or name another queue.",
    "Deactivated": "Set spec.active of its Workload to true, then wait for it again.",
    "Admitted": "Kueue admitted it but does not resume it: look at its log; does its version fit Trainer's?",
}

_BY_REASON = (
    (
        IMAGE_REASONS,
        Category.IMAGE,
        "Correct image, or let the cluster pull it (imagePullSecrets), then cancel this training and start it again.",
    ),
    (
        CONFIG_REASONS | MOUNT_REASONS | {"ProvisioningFailed"},
        Category.CONFIG,
        "Make what is missing, then it starts by itself; or correct the request, cancel this training and start again.",
    ),
    (
        frozenset({"Unschedulable"}),
        Category.UNSCHEDULABLE,
        "Ask for less in resources_per_node or num_nodes, or add machines; it starts by itself when there is room.",
    ),
)

_CLAIM = (
    "Make the PersistentVolumeClaim, or see to it that it is bound (its StorageClass, room); then it starts by itself."
)
_GATE = "Whatever set the scheduling gate on its pods has to take it away: look at that controller; then it starts."


def _not_started(facts: Facts) -> Diagnosis:
    state = facts.state
    category, remedy = _startup_cause(facts)
    detail = f": {state.detail}" if state.detail else ""
    summary = f"{facts.name} did not start within {facts.bound}{detail}; {_ALONE}"
    return Diagnosis(category, summary, _proof(facts), remedy)


def _startup_cause(facts: Facts) -> tuple[Category, str]:
    state = facts.state
    if state.reason == "SchedulingGated":
        return Category.UNSCHEDULABLE, _GATE
    if state.reason == "Unschedulable" and "persistentvolumeclaim" in state.detail.lower():
        return Category.CONFIG, _CLAIM
    for reasons, category, remedy in _BY_REASON:
        if state.reason in reasons:
            return category, remedy
    if state.reason == "FailedCreate":
        return _refused_pods(" ".join((state.detail, *facts.clues)))
    if state.reason.endswith("CreationFailed"):
        return _refused_jobset(" ".join((state.detail, *facts.clues)))
    return _by_phase(facts)


def _refused_pods(text: str) -> tuple[Category, str]:
    if "exceeded quota" in text:
        return Category.QUOTA, "Ask for less, wait until others have ended, or have the namespace's quota raised."
    if "violates PodSecurity" in text:
        return Category.ADMISSION, "Give a securityContext that the namespace's PodSecurity level allows."
    if "serviceaccount" in text.lower():
        return Category.CONFIG, "Make the ServiceAccount, or name one that exists."
    return Category.ADMISSION, "The cluster's admission refuses the pods: correct what its message names."


def _refused_jobset(text: str) -> tuple[Category, str]:
    if "failed calling webhook" in text:
        remedy = "JobSet's webhook does not answer: check that the JobSet controller runs; it starts by itself then."
        return Category.NOT_RECONCILED, remedy
    if "exceeded quota" in text:
        return Category.QUOTA, "Wait until others have ended, or have the namespace's object quota raised."
    if " is forbidden: User " in text or "cannot create resource" in text:
        return Category.PERMISSION, "The Trainer controller may not create what it needs: repair its ClusterRole."
    return Category.ADMISSION, "Correct what the message names (a shorter name, a field), cancel this and start again."


def _by_phase(facts: Facts) -> tuple[Category, str]:
    phase = facts.state.phase
    if phase is Phase.INITIALIZING:
        return Category.INITIALIZER, "Raise startup_timeout if the download is merely long; read the initializer's log."
    if phase in (Phase.NOT_OBSERVED, Phase.SUBMITTED, Phase.BLOCKED, Phase.RESUMING):
        return (
            Category.NOT_RECONCILED,
            "Check that Trainer's and JobSet's controllers run (kubectl get pods -A), and what they log.",
        )
    return Category.UNKNOWN, "Look at the events of its pods; raise startup_timeout if it is merely slow."
