"""The data that a request names, looked at before anything is created."""

from __future__ import annotations

import shlex
from pathlib import Path

from trainer_ops.build.mounts import place_of
from trainer_ops.errors import InvalidRequest
from trainer_ops.model.request import TrainRequest
from trainer_ops.model.snapshot import Snapshot

__all__ = ["check_data"]


def check_data(request: TrainRequest, target: str) -> None:
    """Refuse a snapshot that is not where it says, where this process can see that: on the engine.

    Args:
        request: what to train.
        target: the URL of where it shall run.

    Raises:
        InvalidRequest: field ``dataset`` or ``model``.
    """
    if not target.startswith("local:"):
        return
    for step, snapshot in request.snapshots.items():
        place = place_of(snapshot.location, step)
        if place.scheme == "file" and not Path(place.path).is_dir():
            reason = f'the snapshot "{snapshot.location}" is not there (any more)'
            raise InvalidRequest(step, reason, _again(step, snapshot))


def _again(step: str, snapshot: Snapshot) -> str:
    if snapshot.uri == snapshot.location:  # given by where it lay: nobody knows what it was of
        return "Those that are there: trainer-ops snapshots list"
    pinned = f" --revision {shlex.quote(snapshot.revision)}" if snapshot.uri.startswith("hf:") else ""
    return f"Make it again: trainer-ops init {step} {shlex.quote(snapshot.uri)}{pinned}"
