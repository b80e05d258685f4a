"""elasticPolicy of a PyTorchJob: a number of nodes that could change becomes one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainer_ops.migrate.draft import Draft
from trainer_ops.migrate.normalise import Role
from trainer_ops.migrate.shape import typed

__all__ = ["elastic_policy", "pinned"]

_PATH: Final = ("spec", "elasticPolicy")
_TYPES: Final = {
    "minReplicas": "int",
    "maxReplicas": "int",
    "maxRestarts": "int",
    "nProcPerNode": "int",
    "metrics": "maps",
    "rdzvBackend": "str",
    "rdzvConf": "maps",
    "rdzvHost": "str",
    "rdzvId": "str",
    "rdzvPort": "int",
    "standalone": "bool",
}
_NO_RANGE: Final = "the number of nodes is fixed"


def elastic_policy(draft: Draft) -> Mapping[str, Any] | None:
    """The policy, without its nulls; None when the job is not elastic."""
    held = draft.job.spec.get("elasticPolicy")
    if held is None:
        draft.drop(_PATH, "null says nothing")
        return None
    if not isinstance(held, Mapping):
        draft.refuse("NOT-A-JOB", _PATH, "spec.elasticPolicy is no mapping")
        return None
    for wrong in typed(held, _PATH, _TYPES):
        draft.findings.append(wrong)
        return None
    draft.drop((*_PATH, "metrics"), "there is no autoscaler of TrainJobs")
    for name, value in held.items():
        if value is None:
            draft.drop((*_PATH, name), "null says nothing")
    if not held:
        draft.drop(_PATH, "empty: v1's defaults are the workers as they are")
    return {name: value for name, value in held.items() if value is not None}


def pinned(draft: Draft, worker: Role, elastic: Mapping[str, Any]) -> int | str | None:
    """The number of workers, None when it is a range that nobody pinned."""
    least, most = elastic.get("minReplicas"), elastic.get("maxReplicas")
    least, most = (most if least is None else least), (least if most is None else most)
    for name, value in (("minReplicas", least), ("maxReplicas", most)):
        if value is not None and value < 1:
            draft.refuse("NOT-A-JOB", (*_PATH, name), f"{value!r} is no number of workers")
            return None
    if least is None or most is None or (least == most and not elastic.get("metrics")):
        if least is not None and least != worker.replicas:
            message = f"{worker.replicas} workers, as there were pods; v1 told torchrun to wait for {least}"
            draft.say("ELASTIC-RANGE", _PATH, message, severity="warning", remedy="Set replicas to the same number")
        return _fixed(draft, worker, elastic, worker.replicas)
    pin = draft.options.pin_elastic
    if pin is None:
        scaled = " and metrics to scale it by" if elastic.get("metrics") else ""
        draft.refuse("ELASTIC-RANGE", _PATH, f"{least} to {most} workers{scaled}: a TrainJob has a fixed number")
        return None
    number = {"min": least, "max": most, "replicas": worker.replicas}.get(str(pin), pin)
    draft.say(
        "ELASTIC-RANGE", _PATH, f"{number} workers, as asked; v1 had {least} to {most}", severity="warning", remedy=""
    )
    return _fixed(draft, worker, elastic, number)


def _fixed(draft: Draft, worker: Role, elastic: Mapping[str, Any], number: Any) -> int | str:
    for name in ("minReplicas", "maxReplicas"):
        if elastic.get(name) == number:
            draft.link((*_PATH, name), ("trainer", "numNodes"), _NO_RANGE, exact=False)
        else:
            draft.drop((*_PATH, name), _NO_RANGE)
    found: int | str = number
    return found
