"""Gang scheduling: in v1 a flag of the operator, with hints in the job; in v2 a policy of the runtime."""

from __future__ import annotations

from typing import Any, Final, Literal

from trainer_ops.migrate.draft import Draft
from trainer_ops.migrate.paths import Path

__all__ = ["QUEUE", "gang_of", "scheduling"]

QUEUE: Final = "scheduling.volcano.sh/queue-name"
_SCHEDULERS: Final = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}
_NO_GANG = "for gang scheduling, which this conversion leaves off"


def gang_of(draft: Draft) -> Literal["none", "coscheduling", "volcano"]:
    """The gang scheduler: as asked, else as the pods' schedulerName shows."""
    if draft.options.gang != "none":
        return draft.options.gang
    named = {part.spec.get("schedulerName") for part in draft.parts}
    if _SCHEDULERS["volcano"] in named:
        return "volcano"
    return "coscheduling" if _SCHEDULERS["coscheduling"] in named else "none"


def scheduling(draft: Draft) -> None:
    """``schedulingPolicy`` and what gang scheduling asks of runtime and pods."""
    held = draft.job.run_policy.get("schedulingPolicy")
    path = draft.job.run_policy_paths.get("schedulingPolicy", ())
    gang = gang_of(draft)
    given: dict[str, Any] = {name: value for name, value in (held or {}).items() if value is not None}
    if held is not None and not held:
        draft.drop(path, "empty")
    if gang == "none":
        _without(draft, given, path)
        return
    draft.runtime["podGroupPolicy"] = {gang: {}}
    _pods(draft, gang)
    _members(draft, given.get("minAvailable"), (*path, "minAvailable"))
    _queue(draft, gang, given.get("queue"), (*path, "queue"))
    if gang == "volcano":
        _priority(draft, given.get("priorityClass"), (*path, "priorityClass"))
    else:
        # v1.9.3, common/job.go: of the policy their pod group had minMember, minResources and the timeout.
        draft.drop((*path, "priorityClass"), "of no effect with the scheduler plugins, in v1 too")
    if "minResources" in given:
        draft.drop((*path, "minResources"), "computed from the pods' requests")
    _timeout(draft, gang, given.get("scheduleTimeoutSeconds"), (*path, "scheduleTimeoutSeconds"))


def _without(draft: Draft, given: dict[str, Any], path: Path) -> None:
    if not given:
        return
    draft.say("GANG-FLAG", path, "gang scheduling was a flag of v1's operator: this job may have relied on it")
    _priority(draft, given.get("priorityClass"), (*path, "priorityClass"))
    for name in ("minAvailable", "queue", "minResources", "scheduleTimeoutSeconds"):
        draft.drop((*path, name), _NO_GANG)


def _pods(draft: Draft, gang: str) -> None:
    for part in draft.parts:
        if not part.spec.get("schedulerName"):
            part.spec["schedulerName"] = _SCHEDULERS[gang]
            draft.say(
                "SCHEDULER-NAME", ("spec",), f"pods are given schedulerName {_SCHEDULERS[gang]}: v1's operator did"
            )
        if part.depends_on:
            part.depends_on = []
            draft.say(
                "GANG-DEPENDS", ("spec",), "no dependsOn: the pod group waits for all pods, so all are made at once"
            )


def _members(draft: Draft, value: Any, path: Path) -> None:
    if value is None:
        return
    total = draft.pods
    if total is not None and value < total:
        draft.refuse("GANG-MIN", path, f"a group of {value} of {total} pods cannot be said: Trainer's is all pods")
    else:
        draft.drop(path, "a group is all pods of the training")


def _queue(draft: Draft, gang: str, value: Any, path: Path) -> None:
    if not value:
        draft.drop(path, "empty")
    elif gang == "volcano":
        held = draft.jobset["metadata"].setdefault("annotations", {})
        if held.get(QUEUE, value) != value:
            message = f"the queue was {held[QUEUE]} here and {value} in schedulingPolicy, which wins"
            draft.say("GANG-FLAG", ("metadata", "annotations", QUEUE), message, remedy="Keep one of them")
            draft.rewrote(("jobset", "metadata", "annotations", QUEUE), "schedulingPolicy.queue wins")
        held[QUEUE] = value
        draft.link(path, ("jobset", "metadata", "annotations", QUEUE))
    else:
        draft.drop(path, "of no effect with the scheduler plugins, in v1 too")


def _priority(draft: Draft, value: Any, path: Path) -> None:
    if not value:
        draft.drop(path, "empty")
        return
    for part in draft.parts:
        own = part.spec.get("priorityClassName")
        if own:
            if own != value and gang_of(draft) == "volcano":
                message = f"the group has priority class {own} now, as its pods; in v1 it had {value}"
                draft.say("GANG-PRIORITY", path, message)
            draft.drop(path, "the pods name their own priority class")
        else:
            message = f"the pods have priority class {value} now; v1 gave it to their group alone"
            draft.say("GANG-PRIORITY", path, message)
            part.spec["priorityClassName"] = value
            draft.link(path, part.place("spec", "priorityClassName"))


def _timeout(draft: Draft, gang: str, value: Any, path: Path) -> None:
    if value is None:
        return
    if gang == "volcano":
        draft.say("GANG-FLAG", path, "Volcano has no timeout for a group", remedy="")
        draft.drop(path, "Volcano has no such field")
        return
    draft.runtime["podGroupPolicy"]["coscheduling"]["scheduleTimeoutSeconds"] = value or 60
    place = ("runtime", "podGroupPolicy", "coscheduling", "scheduleTimeoutSeconds")
    draft.link(path, place, "" if value else "0 is 60, the default", exact=bool(value))
