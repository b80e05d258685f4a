"""The body of ``wait_train_job``: another step, or somebody else, has submitted the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from trainer_ops.backends.base import Backend
from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.body import opened, say
from trainer_ops.kfp.cancel import cancelled_by_sigterm, left_by_sigterm
from trainer_ops.kfp.ending import ended, framework_of, waited
from trainer_ops.kfp.inputs import fields_from
from trainer_ops.kfp.task import Task
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.find import begin, find
from trainer_ops.lifecycle.patience import persist
from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.status.wait import Wait

__all__ = ["wait_train_job"]

# Limit -> the least that may be given.
_LIMITS: Final = {
    "queue_timeout": 1,
    "startup_timeout": 1,
    "wait_timeout": 1,
    "unreachable_timeout": 1,
    "missing_grace": 0,
    "max_restarts": 0,
}


def wait_train_job(task: Task) -> Mapping[str, Any]:
    """The component ``wait_train_job``."""
    given, name = _given_ref(task.inputs.get("ref")), str(task.inputs.get("name") or "")
    if (given is None) == (not name):
        raise InvalidRequest("ref", "one of ref and name says which training is meant", "Give ref, or name")
    policy = task.inputs.get("on_terminate") or ("keep" if given is None else "delete")
    if policy not in ("delete", "keep"):
        raise InvalidRequest("on_terminate", f'"{policy}" is neither delete nor keep', "Give delete or keep")
    limits = _limits(task.inputs)
    clock = RealClock()
    with opened({"target": task.inputs.get("target") or (given.target if given else "")}) as backend:

        def first() -> Wait:
            wait = begin(backend, given or find(backend, name), now=clock.now())
            return replace(wait, limits=replace(wait.limits, **limits))

        with _at_sigterm(policy, backend, given) as started:
            patience = limits.get("unreachable_timeout", Limits().unreachable_timeout)
            wait = persist(first, clock=clock, patience=patience)
            started(wait.ref)
            say(f"{wait.ref.name}  waiting for it on {wait.ref.target}")
            outcome = waited(backend, wait, clock)
        framework = framework_of(backend, outcome)
    return ended(task, outcome, framework)


def _given_ref(value: Any) -> JobRef | None:
    if not value:
        return None
    try:
        return JobRef.from_json(value)
    except (KeyError, TypeError) as exc:
        raise InvalidRequest("ref", f"{value!r} names no TrainJob", "Give the output ref of submit_train_job") from exc


def _limits(inputs: Mapping[str, Any]) -> dict[str, Any]:
    found = fields_from({name: inputs[name] for name in _LIMITS if name in inputs})
    for name, value in found.items():
        if value < _LIMITS[name]:
            raise InvalidRequest(name, f"{value} is not at least {_LIMITS[name]}", "Give more, or leave it out")
    return found


@contextmanager
def _at_sigterm(policy: str, backend: Backend, given: JobRef | None) -> Iterator[Any]:
    """Delete the training when this step is terminated, or leave it alone."""
    if policy == "keep":
        with left_by_sigterm():
            yield lambda ref: None
        return
    with cancelled_by_sigterm(backend) as handle:
        if given is not None:
            handle.started(given)
        yield handle.started
