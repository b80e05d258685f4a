"""The bodies of ``initialize_dataset`` and ``initialize_model``: one snapshot, made or found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from trainer_ops.backends.base import Backend
from trainer_ops.errors import InvalidRequest, Unreachable
from trainer_ops.kfp.artifacts import KFP_SCHEMES
from trainer_ops.kfp.body import opened, say
from trainer_ops.kfp.cancel import left_by_sigterm
from trainer_ops.kfp.cancel_snapshot import job_deleted_by_sigterm
from trainer_ops.kfp.inputs import fields_from, run_key
from trainer_ops.kfp.task import Artifact, Task
from trainer_ops.kfp.taskconfig import applied_to_pod, parse
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.patience import persist
from trainer_ops.lifecycle.snapshot_lines import SnapshotLines
from trainer_ops.lifecycle.snapshots import SnapshotWait, await_snapshot, begin_snapshot, made_here, take_snapshot
from trainer_ops.model import keys
from trainer_ops.model.snapshot import Snapshot, SnapshotKind

__all__ = ["initialize_dataset", "initialize_model"]

# Inputs that are no arguments of ``take_snapshot``.
_APART: Final = frozenset({"target", "task_config", "queue"})
_UNREACHABLE_SECONDS: Final = 1800.0


def initialize_dataset(task: Task) -> Mapping[str, Any]:
    """The component ``initialize_dataset``."""
    return _initialized(task, "dataset")


def initialize_model(task: Task) -> Mapping[str, Any]:
    """The component ``initialize_model``."""
    return _initialized(task, "model")


def _initialized(task: Task, kind: SnapshotKind) -> Mapping[str, Any]:
    ask = _asked(task)
    # The same for a retry and for a pod that is made again: the Job that the first one started is its own.
    asker = run_key(task.identity(kind), title=kind).digest
    with opened(task.inputs) as backend:
        snapshot = _taken(backend, {**ask, "kind": kind}, asker)
    say(f"{snapshot.uri} at {snapshot.revision or 'its only revision'}: {_made(snapshot)} in {snapshot.location}")
    _place(snapshot, task.artifacts[kind])
    return {"snapshot": snapshot.to_json()}


def _asked(task: Task) -> dict[str, Any]:
    """The arguments of ``take_snapshot`` that the inputs and the task's own configuration give."""
    ask = fields_from({name: value for name, value in task.inputs.items() if name not in _APART})
    if "uri" not in ask:
        raise InvalidRequest(
            "uri", "is missing", "Say where the data are: hf://, s3://, gs://, az://, https://, pvc://"
        )
    for name, value in ask.items():
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            raise InvalidRequest(name, f"{value} is not at least 1", "Give more, or leave it out")
    for name in ("include", "ignore"):
        if name in ask:
            ask[name] = [str(pattern) for pattern in ask[name]]
    queue = task.inputs.get("queue")
    if queue:
        ask["labels"] = {keys.LABEL_QUEUE: str(queue)}
    return applied_to_pod(ask, parse(task.inputs.get("task_config")))


def _taken(backend: Backend, ask: Mapping[str, Any], asker: str) -> Snapshot:
    clock = RealClock()
    listener = SnapshotLines(say, str(ask["uri"]), clock)
    if made_here(backend):
        here = {name: value for name, value in ask.items() if name != "unreachable_timeout"}
        # Whatever is killed leaves nothing half made, and no Job behind.
        with left_by_sigterm():
            return take_snapshot(backend, **here, clock=clock, listener=listener)
    patience = float(ask.get("unreachable_timeout") or _UNREACHABLE_SECONDS)

    def begun() -> SnapshotWait:
        return begin_snapshot(backend, **ask, key=asker, clock=clock, listener=listener)

    with job_deleted_by_sigterm(backend, asker) as handle:
        wait = persist(begun, clock=clock, patience=patience, away=_say_away)
        handle.moved(wait)
        return await_snapshot(backend, wait, clock=clock, listener=listener, moved=handle.moved)


def _say_away(error: Unreachable) -> None:
    say(f"no answer from the target: {error.message}; trying again")


def _made(snapshot: Snapshot) -> str:
    how = "was there already" if snapshot.hit else "was made"
    return f"a snapshot of {snapshot.files} files, {snapshot.size:,} bytes {how}"


def _place(snapshot: Snapshot, artifact: Artifact) -> None:
    """Point the artifact at the snapshot, where KFP bears that.

    A URI of one of its schemes in another bucket than the pipeline root's would fail the task: there the artifact
    stays where it was given, and holds the snapshot's description.
    """
    artifact.metadata.update(snapshot.to_json())
    there, own = urlsplit(snapshot.location), urlsplit(artifact.given)
    if not own.scheme:
        # KFP's local runner, for which an artifact is a path.
        folder = Path(unquote(there.path)) if there.scheme == "file" else None
        artifact.uri = str(folder) if folder is not None else snapshot.location
    elif there.scheme not in KFP_SCHEMES | {"file"} or (there.scheme, there.netloc) == (own.scheme, own.netloc):
        artifact.uri = snapshot.location
    else:
        artifact.write_text(json.dumps(snapshot.to_json(), indent=2) + "\n")
