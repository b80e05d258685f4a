"""Waiting for a training in a step, and what the step gives when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer_ops.backends.base import Backend
from trainer_ops.kfp.artifacts import fill
from trainer_ops.kfp.printer import Printer
from trainer_ops.kfp.task import Task
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.drive import drive
from trainer_ops.model.outcome import Outcome
from trainer_ops.status.verdict import error_for
from trainer_ops.status.wait import Wait

__all__ = ["ended", "waited"]


def waited(backend: Backend, wait: Wait, clock: Clock) -> Outcome:
    """Wait, with states and log lines in the step's log."""
    return drive(backend, wait, clock=clock, listener=Printer(wait.ref.name, clock.now()))


def ended(task: Task, outcome: Outcome) -> Mapping[str, Any]:
    """The outputs of a success.

    Raises:
        TrainingEnded: it is none; the error's text is the Diagnosis.
    """
    error = error_for(outcome)
    if error is not None:
        raise error
    fill(task.artifacts, outcome)
    return {"outcome": outcome.to_json(), "model_uri": outcome.model_uri or ""}
