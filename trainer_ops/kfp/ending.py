"""Waiting for a training in a step, and what the step gives when it is over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from trainer_ops.backends.base import Backend
from trainer_ops.errors import BackendError
from trainer_ops.kfp.artifacts import fill
from trainer_ops.kfp.body import say
from trainer_ops.kfp.printer import Printer
from trainer_ops.kfp.task import Task
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.drive import drive
from trainer_ops.model import keys
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.status.verdict import error_for
from trainer_ops.status.wait import Wait

__all__ = ["ended", "framework_of", "waited", "without_null"]


def waited(backend: Backend, wait: Wait, clock: Clock) -> Outcome:
    """Wait, with states and log lines in the step's log."""
    return drive(backend, wait, clock=clock, listener=Printer(wait.ref.name, clock.now()))


def framework_of(backend: Backend, outcome: Outcome) -> str:
    """What a training that succeeded was made with, by its runtime: ``torch``, ``xgboost``, …; "" when not known."""
    try:
        job = backend.get(outcome.name) if outcome.succeeded else None
        ref = job["spec"].get("runtimeRef") or {} if job is not None else {}
        raw = backend.runtime(ref["name"], ref.get("kind") or keys.CLUSTER_RUNTIME) if ref.get("name") else None
    except BackendError:
        return ""
    if raw is None:
        return ""
    runtime = TrainingRuntime.from_raw(raw)
    return runtime.framework or ("" if runtime.policy == "plain" else runtime.policy)


def ended(task: Task, outcome: Outcome, framework: str) -> Mapping[str, Any]:
    """The outputs of a success. The report is written of a failure too, for where its file can be reached.

    Raises:
        TrainingEnded: it is none; the error's text is the Diagnosis.
    """
    _report(task, outcome)
    error = error_for(outcome)
    if error is not None:
        raise error
    fill(task.artifacts, outcome, framework)
    return {"outcome": without_null(outcome.to_json()), "model_uri": outcome.model_uri or ""}


def _report(task: Task, outcome: Outcome) -> None:
    from trainer_ops.pages.report import render

    artifact = task.artifacts.get("report")
    if artifact is None:
        return
    try:
        artifact.write_text(render(outcome, now=time.time()))
    except OSError as exc:
        # A page that cannot be written fails no training.
        say(f"{outcome.name}  no report: {exc}")


def without_null(value: Any) -> Any:
    """What is null is left out: KFP's local runner hands no null on to another component (kfp 2.17.3)."""
    if isinstance(value, Mapping):
        return {name: without_null(item) for name, item in value.items() if item is not None}
    return [without_null(item) for item in value] if isinstance(value, list) else value
