"""The bodies of the components that submit: adopt or create, wait, train again."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from trainer_ops.backends.base import Backend
from trainer_ops.build.mounts import training_container
from trainer_ops.build.patches import training_jobs
from trainer_ops.errors import Forbidden, InvalidRequest, Unreachable
from trainer_ops.kfp.arguments import joined
from trainer_ops.kfp.body import opened, say
from trainer_ops.kfp.cancel import Handle, cancelled_by_sigterm
from trainer_ops.kfp.data import DATA_INPUTS, data_fields
from trainer_ops.kfp.ending import ended, framework_of, waited
from trainer_ops.kfp.inputs import fields_from, run_key, spoiled_numbers
from trainer_ops.kfp.owner import workflow_of
from trainer_ops.kfp.pipelinerun import labelled
from trainer_ops.kfp.retry import retries_from, tries_left, worth_a_retry
from trainer_ops.kfp.task import Task
from trainer_ops.kfp.taskconfig import applied, parse
from trainer_ops.lifecycle.clock import Clock, RealClock
from trainer_ops.lifecycle.fetch import fetch_script
from trainer_ops.lifecycle.patience import pauses, persist
from trainer_ops.lifecycle.submit import Submitted, submit
from trainer_ops.model.identity import RunKey
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.request import FunctionCode, TrainRequest
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.status.wait import Wait

__all__ = ["submit_train_job", "train_from_function", "train_job"]

# Inputs that are not of the request.
_APART = frozenset(
    {
        *("target", "task_config", "retries"),
        *DATA_INPUTS,
        *("function_source", "function_name", "function_kwargs", "function_arguments"),
    }
)
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 60.0


def train_job(task: Task) -> Mapping[str, Any]:
    """The component ``train_job``."""
    return _trained(task, {})


def train_from_function(task: Task) -> Mapping[str, Any]:
    """The component ``train_from_function``."""
    source, name = (str(task.inputs.get(f"function_{part}") or "") for part in ("source", "name"))
    if not source or not name:
        raise InvalidRequest("function_source", "is missing", "Use trainer_ops.kfp.train_from_function(function, …)")
    notes = str(task.inputs.get("function_arguments") or "")
    kwargs = joined(task.inputs.get("function_kwargs"), notes, task.channels)
    return _trained(task, {"code": FunctionCode(name=name, source=source, kwargs=kwargs)})


def submit_train_job(task: Task) -> Mapping[str, Any]:
    """The component ``submit_train_job``."""
    clock = RealClock()
    with opened(task.inputs) as backend:
        request = _request_of(task, backend, clock)
        key = run_key(task.identity("trainjob"), title=request.title)
        with cancelled_by_sigterm(backend, key) as handle:
            made = _submitted(backend, request, key, handle, clock)
    ref = made.ref.to_json()
    task.artifacts["trainjob"].metadata.update(ref, attempt=made.attempt)
    return {"ref": ref}


def _trained(task: Task, code: Mapping[str, Any]) -> Mapping[str, Any]:
    retries = retries_from(task.inputs.get("retries"))
    clock = RealClock()
    with opened(task.inputs) as backend:
        request = _request_of(task, backend, clock, code)
        key = run_key(task.identity("model"), title=request.title)
        with cancelled_by_sigterm(backend, key) as handle:
            outcome = _train(backend, request, key, handle, clock, retries)
        framework = framework_of(backend, outcome)
    return ended(task, outcome, framework)


def _request_of(
    task: Task, backend: Backend, clock: Clock, code: Mapping[str, Any] = MappingProxyType({})
) -> TrainRequest:
    """What a task's inputs and its own configuration ask for, a script behind a URI read.

    Args:
        task: the task.
        backend: where its runtime is.
        clock: what sleeps while the target is away.
        code: the field ``code`` of the request, when the task brings its code itself.
    """
    given = {name: value for name, value in task.inputs.items() if name not in _APART}
    fields = {**fields_from(given, spoiled=spoiled_numbers(task.channels)), **data_fields(task), **code}
    fields = labelled(fields, task.run)
    config = parse(task.inputs.get("task_config"))
    if config:
        asked = TrainRequest(**fields)
        runtime = persist(
            lambda: _runtime(backend, asked), clock=clock, patience=asked.unreachable_timeout, away=_say_away
        )
        fields = applied(fields, config, [(job, training_container(runtime, job)) for job in training_jobs(runtime)])
    return fetch_script(TrainRequest(**fields))


def _runtime(backend: Backend, request: TrainRequest) -> TrainingRuntime | None:
    """The runtime whose pods are to be patched; None where it is not known, which ``submit`` will say better."""
    kind, name = request.runtime_ref
    try:
        raw = backend.runtime(name, kind)
    except Forbidden:
        return None
    return None if raw is None else TrainingRuntime.from_raw(raw)


def _train(backend: Backend, request: TrainRequest, key: RunKey, handle: Handle, clock: Clock, retries: int) -> Outcome:
    """Train, and again as often as ``retries`` allows."""
    for pause in pauses(_FIRST_PAUSE, _LONGEST_PAUSE):
        made = _submitted(backend, request, key, handle, clock)
        wait = Wait.begin(made.ref, request.limits, now=clock.now(), attempt=made.attempt)
        outcome = waited(backend, wait, clock)
        left = tries_left(made.attempt, retries)
        if not left or not worth_a_retry(outcome):
            return outcome
        handle.ended()
        assert outcome.diagnosis is not None
        say(f"{made.ref.name}  {outcome.diagnosis}")
        say(f"{made.ref.name}  trying again in {pause:g} s, {left} of {retries} retries left")
        clock.sleep(pause)
    raise AssertionError("pauses never end")


def _submitted(backend: Backend, request: TrainRequest, key: RunKey, handle: Handle, clock: Clock) -> Submitted:
    """Make sure that the training is there, and let a signal cancel that one."""
    owner = workflow_of(backend, say)
    made = submit(handle.backend, request, key, clock=clock, owner=owner, away=_say_away)
    handle.started(made.ref)
    say(f"{made.ref.name}  {made.how} on {made.ref.target}, attempt {made.attempt}")
    for warning in made.warnings:
        say(f"{made.ref.name}  {warning}")
    return made


def _say_away(error: Unreachable) -> None:
    say(f"no answer from the target: {error.message}; trying again")
