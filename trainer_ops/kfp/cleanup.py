"""The body of ``cleanup_train_jobs``, for exit handlers.

It looks at the trainings themselves. What KFP tells an exit handler of the run is not to be trusted: after a terminate
it is RUNNING, with no error (seen on KFP 2.17.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.body import opened, say
from trainer_ops.kfp.inputs import fields_from
from trainer_ops.kfp.pipelinerun import label_value
from trainer_ops.kfp.task import Task
from trainer_ops.lifecycle.cleanup import Cleaned, cleanup
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.selection import wanted_labels
from trainer_ops.model import keys

__all__ = ["cleanup_train_jobs"]

_ANY_RUN: Final = "any"
# What is left to be cleaned up costs money: a target that is away is asked for longer than by a person's command.
_PATIENCE_SECONDS: Final = 300.0


def cleanup_train_jobs(task: Task) -> Mapping[str, Any]:
    """The component ``cleanup_train_jobs``."""
    given = fields_from(task.inputs)
    policy = str(given.get("policy") or "delete")
    if policy not in ("delete", "suspend"):
        raise InvalidRequest("policy", f'"{policy}" is neither delete nor suspend', "Give delete or suspend")
    older = _seconds(given, "older_than")
    labels, names = _selected(task, given)
    meant = ", ".join([*(f"{name}={value}" for name, value in labels.items()), *names])
    with opened(task.inputs) as backend:
        done = cleanup(
            backend,
            labels=labels,
            names=names,
            only=str(given.get("only") or "active"),  # type: ignore[arg-type]  # it is checked there
            policy="suspend" if policy == "suspend" else "delete",
            older_than=older,
            clock=RealClock(),
            patience=_seconds(given, "unreachable_timeout") or _PATIENCE_SECONDS,
        )
    for one in done:
        say(f"{one.ref.name}  was {one.phase.value}, is {one.how}")
    say(f"trainings cleaned up: {len(done)}" if done else f"nothing to clean up of {meant}")
    if "report" in task.artifacts:
        task.artifacts["report"].write_text(_markdown(done, meant))
    return {"cleaned": [{**one.ref.to_json(), "phase": one.phase.value, "how": one.how} for one in done]}


def _selected(task: Task, given: Mapping[str, Any]) -> tuple[dict[str, str], Sequence[str]]:
    """Labels and names; of other runs than this task's only when that is said."""
    labels = wanted_labels(given.get("labels"))
    names = [str(name) for name in given.get("names") or ()]
    run = str(given.get("run") or "") or task.run
    if not run:
        raise InvalidRequest(
            "run", "is not told by this step's outputs", f'Give the run\'s id, or "{_ANY_RUN}" with labels or names'
        )
    if run == _ANY_RUN:
        if not labels and not names:
            raise InvalidRequest("labels", "neither labels nor names are given", "Say which trainings are meant")
        return labels, names
    return {**labels, keys.LABEL_PIPELINE_RUN: label_value(run)}, names


def _seconds(given: Mapping[str, Any], name: str) -> float | None:
    value: int | None = given.get(name)
    if value is not None and value < 0:
        raise InvalidRequest(name, f"{value} is not at least 0", "Give more, or leave it out")
    return value


def _markdown(done: Sequence[Cleaned], meant: str) -> str:
    """What KFP shows a person beside the task."""
    if not done:
        return f"Nothing to clean up of `{meant}`.\n"
    rows = [f"| {one.ref.namespace}/{one.ref.name} | {one.phase.value} | {one.how} |" for one in done]
    return "\n".join(["| training | was | is |", "|---|---|---|", *rows, ""])
