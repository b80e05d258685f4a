"""The bodies of the components that train: submit or adopt, wait, fill the artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer_ops.errors import Unreachable
from trainer_ops.kfp.artifacts import fill
from trainer_ops.kfp.body import opened, say
from trainer_ops.kfp.cancel import cancelled_by_sigterm
from trainer_ops.kfp.inputs import request_from, run_key, spoiled_numbers
from trainer_ops.kfp.owner import workflow_of
from trainer_ops.kfp.printer import Printer
from trainer_ops.kfp.task import Task
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.drive import drive
from trainer_ops.lifecycle.fetch import fetch_script
from trainer_ops.lifecycle.submit import submit
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.request import TrainRequest
from trainer_ops.status.verdict import error_for
from trainer_ops.status.wait import Wait

__all__ = ["train_job"]

# Inputs that are not of the request.
_APART = frozenset({"target", "task_config", "retries"})


def train_job(task: Task) -> Mapping[str, Any]:
    """The component ``train_job``."""
    given = {name: value for name, value in task.inputs.items() if name not in _APART}
    request = request_from(given, spoiled=spoiled_numbers(task.channels))
    return _trained(task, fetch_script(request))


def _trained(task: Task, request: TrainRequest) -> Mapping[str, Any]:
    outcome = _run(task, request)
    error = error_for(outcome)
    if error is not None:
        raise error
    fill(task.artifacts, outcome)
    return {"outcome": outcome.to_json(), "model_uri": outcome.model_uri or ""}


def _run(task: Task, request: TrainRequest) -> Outcome:
    key = run_key(task.identity("model"), title=request.title)
    clock = RealClock()
    with opened(task.inputs) as backend, cancelled_by_sigterm(backend, key) as handle:
        owner = workflow_of(backend, say)
        submitted = submit(handle.backend, request, key, clock=clock, owner=owner, away=say_away)
        handle.started(submitted.ref)
        listener = Printer(submitted.ref.name, clock.now())
        listener.on_note(f"{submitted.how} on {submitted.ref.target}, attempt {submitted.attempt}")
        wait = Wait.begin(submitted.ref, request.limits, now=clock.now(), attempt=submitted.attempt)
        return drive(backend, wait, clock=clock, listener=listener)


def say_away(error: Unreachable) -> None:
    """The target gives no answer yet."""
    say(f"no answer from the target: {error.message}; trying again")
