"""The body of ``apply_runtime``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.body import opened, say
from trainer_ops.kfp.inputs import plain
from trainer_ops.kfp.task import Task
from trainer_ops.lifecycle.fetch import fetch_text
from trainer_ops.lifecycle.runtimes import apply_runtime as applied

__all__ = ["apply_runtime"]


def apply_runtime(task: Task) -> Mapping[str, Any]:
    """The component ``apply_runtime``."""
    manifest, uri = task.inputs.get("runtime"), str(task.inputs.get("runtime_uri") or "")
    if bool(manifest) == bool(uri):
        raise InvalidRequest("runtime", "one of runtime and runtime_uri says what to apply", "Give one of them")
    wanted = plain(manifest) if manifest else fetch_text(uri, field="runtime_uri")
    with opened(task.inputs) as backend:
        made = applied(backend, wanted)
        target = backend.target
    for warning in made.warnings:
        say(f"{made.name}  {warning}")
    say(f"{made.kind} {made.name} is {made.how} on {target}")
    return {"name": made.name, "kind": made.kind, "how": made.how}
