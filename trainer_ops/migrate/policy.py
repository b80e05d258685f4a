"""How a job restarts, ends and is cleaned up: v1's run policy and restart policies.

Sources: training-operator v1.9.3 ``pkg/core/job.go`` (PastBackoffLimit), ``pkg/controller.v1/common/pod.go``; batch/v1.
"""

from __future__ import annotations

from typing import Any, Final

from trainer_ops.migrate.draft import NODE, Draft, Part
from trainer_ops.migrate.findings import finding
from trainer_ops.migrate.gang import scheduling
from trainer_ops.migrate.ledger import Fate
from trainer_ops.migrate.normalise import FLAT, Role
from trainer_ops.migrate.paths import Path
from trainer_ops.model import keys

__all__ = ["UNLIMITED", "only_first_index", "restarts", "run_policy", "same_restarts"]

UNLIMITED: Final = 2147483647
"""The largest backoffLimit: v1 without one restarts for ever."""

_STOCK_BACKOFF: Final = 6
_V1_MANAGERS = ("kubeflow.org/training-operator", "kubeflow.org/mpi-operator")
_LIMIT: Path = ("backoffLimit",)


def run_policy(draft: Draft, *, outlive: tuple[str, ...] = ()) -> None:
    """All of the run policy but ``backoffLimit``, which belongs to the parts (``restarts``).

    Args:
        draft: with its parts.
        outlive: roles of which pods still run when the training is over, and that v1 would leave running.
    """
    held, paths = draft.job.run_policy, draft.job.run_policy_paths
    for name, value in held.items():
        if value is None:
            draft.drop(paths[name], "null says nothing")
    _clean_up(draft, held.get("cleanPodPolicy"), paths.get("cleanPodPolicy", ()), outlive)
    _time_to_live(draft, held.get("ttlSecondsAfterFinished"), paths.get("ttlSecondsAfterFinished", ()))
    _deadline(draft, held.get("activeDeadlineSeconds"), paths.get("activeDeadlineSeconds", ()))
    _suspend(draft, held.get("suspend"), paths.get("suspend", ()))
    _managed_by(draft, held.get("managedBy"), paths.get("managedBy", ()))
    scheduling(draft)
    # The same fields in the place of older operators: what is left there was overruled.
    for name in FLAT:
        if name in held and paths[name] != ("spec", name):
            draft.drop(("spec", name), "spec.runPolicy says it too, and wins")
    for name in ("runPolicy", "cleanPodPolicy"):
        if draft.job.spec.get(name) in ({}, None):
            draft.drop(("spec", name), "empty")


def restarts(draft: Draft, role: Role, part: Part, *, limit: bool = True) -> None:
    """The restartPolicy and backoffLimit of a part.

    Args:
        draft: with the part.
        role: whose policy it is.
        part: filled by ``pods.carry``.
        limit: the run policy's backoffLimit is this part's too.
    """
    path = (*role.path, "restartPolicy")
    given = draft.job.run_policy.get("backoffLimit") if limit else None
    place = part.place("spec", "restartPolicy")
    policy = role.restart_policy
    if policy == "Never":
        part.spec["restartPolicy"] = "Never"
        _backoff(draft, part, 0)
        draft.say("NEVER-BACKOFF0", path, "a failed pod fails the job: backoffLimit 0, where a Job would try 6 more")
        _drop_limit(draft, limit, "of no effect with restartPolicy Never, in v1 too")
    elif policy == "ExitCode":
        part.spec["restartPolicy"] = "Never"
        _exit_codes(part)
        _backoff(draft, part, UNLIMITED if given is None else given)
        draft.say(
            "EXITCODE",
            path,
            "exit codes 1 to 127 fail the job, others make a new pod: a podFailurePolicy does it now",
        )
        _link_limit(draft, part, limit)
    elif policy in ("OnFailure", "Always"):
        part.spec["restartPolicy"] = "OnFailure"
        draft.as_stock(place)
        if policy == "Always":
            draft.say("ALWAYS", path, "a pod that ends with 0 is not started again: Jobs have no Always")
        _on_failure(draft, part, given, path)
        _link_limit(draft, part, limit)
    else:
        draft.refuse("NOT-A-JOB", path, f"{policy!r} is no restartPolicy")
        return
    reason = "" if policy == part.spec["restartPolicy"] else f"{policy} becomes {part.spec['restartPolicy']}"
    draft.link(path, place, reason, exact=not reason, otherwise=(Fate.MAPPED, "what the runtime does anyway"))


def same_restarts(draft: Draft, role: Role, part: Part, reason: str) -> None:
    """Account for the restartPolicy of a role whose pods are another role's (``pods.same``)."""
    path, place = (*role.path, "restartPolicy"), part.place("spec", "restartPolicy")
    equal = any(other is not role and other.restart_policy == role.restart_policy for other in draft.job.roles)
    otherwise = (Fate.MAPPED, "what the runtime does anyway") if equal else (Fate.DROPPED, reason)
    draft.link(path, place, "as the other role's" if equal else "", exact=not equal, otherwise=otherwise)


def only_first_index(part: Part) -> None:
    """The part is over when its first pod is, as a v1 job when its Master is."""
    part.job["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}


def _on_failure(draft: Draft, part: Part, given: int | None, path: Path) -> None:
    _backoff(draft, part, UNLIMITED if given is None else given)
    if given is None or given == _STOCK_BACKOFF:
        draft.as_stock(("job", part.name, "backoffLimit"))
    if given is None:
        message = "v1 restarts a failing pod for ever; the stock runtime gives up after 6 restarts of all nodes"
        draft.when_stock.append(finding("BACKOFF", path, message))
    elif given:
        draft.say("BACKOFF", _limit_path(draft), "counts the restarts of this Job's pods, running or not")


def _backoff(draft: Draft, part: Part, number: int) -> None:
    part.job["backoffLimit"] = number


def _limit_path(draft: Draft) -> Path:
    return draft.job.run_policy_paths.get("backoffLimit", _LIMIT)


def _link_limit(draft: Draft, part: Part, limit: bool) -> None:
    if limit and draft.job.run_policy.get("backoffLimit") is not None:
        otherwise = (Fate.MAPPED, "what the runtime does anyway")
        draft.link(_limit_path(draft), ("job", part.name, "backoffLimit"), otherwise=otherwise)


def _drop_limit(draft: Draft, limit: bool, reason: str) -> None:
    others = {role.restart_policy for role in draft.job.roles}
    if limit and others == {"Never"}:
        draft.drop(_limit_path(draft), reason)


def _exit_codes(part: Part) -> None:
    codes = list(range(1, 128))
    rule = {"action": "FailJob", "onExitCodes": {"containerName": NODE, "operator": "In", "values": codes}}
    part.job["podFailurePolicy"] = {"rules": [rule]}


def _clean_up(draft: Draft, value: Any, path: Path, outlive: tuple[str, ...]) -> None:
    if value is None:
        value = "None"
    if value == "All":
        draft.say("CLEANUP", path, "finished pods stay until the TrainJob is deleted; v1 deleted them at the end")
    elif value == "None" and outlive:
        where = path or ("spec", "runPolicy", "cleanPodPolicy")
        draft.say("CLEANUP", where, f"pods of {' and '.join(outlive)} end with the training; v1 left them running")
    elif value not in ("None", "Running"):
        draft.refuse("NOT-A-JOB", path, f"{value!r} is no cleanPodPolicy")
        return
    if path:
        draft.drop(path, "running pods end with the training, finished ones stay: the one rule of JobSet")


def _time_to_live(draft: Draft, value: Any, path: Path) -> None:
    if value is None:
        return
    if draft.options.keep_ttl:
        draft.jobset["spec"]["ttlSecondsAfterFinished"] = value
        draft.link(path, ("jobset", "spec", "ttlSecondsAfterFinished"))
        draft.say("TTL-RERUN", path, "deletes the JobSet, not the TrainJob; up to 2.3.0 a failed training runs again")
        return
    draft.say(
        "TTL-RERUN", path, "left out: up to Trainer 2.3.0 a TTL runs a failed training again, and the TrainJob stays"
    )
    draft.drop(path, "Trainer up to 2.3.0 would run a failed training again after it (trainer #3737)")


def _deadline(draft: Draft, value: Any, path: Path) -> None:
    if value is None:
        return
    if value < 1:
        draft.refuse("DEADLINE", path, f"{value} seconds is not at least 1")
        return
    draft.trainjob["activeDeadlineSeconds"] = value
    draft.link(path, ("trainjob", "spec", "activeDeadlineSeconds"))
    draft.say(
        "DEADLINE", path, "counts from the creation, waiting in a queue included, and its end deletes pods and logs"
    )


def _suspend(draft: Draft, value: Any, path: Path) -> None:
    if value is None:
        return
    if not value:
        draft.drop(path, "the default")
        return
    draft.trainjob["suspend"] = True
    draft.link(path, ("trainjob", "spec", "suspend"))


def _managed_by(draft: Draft, value: Any, path: Path) -> None:
    if value is None:
        return
    if value in ("", *_V1_MANAGERS):
        draft.drop(path, "names v1's operator")
    elif value == keys.MULTIKUEUE:
        draft.trainjob["managedBy"] = value
        draft.link(path, ("trainjob", "spec", "managedBy"))
    else:
        draft.refuse("MANAGED-BY", path, f"a TrainJob cannot be managed by {value!r}")
