"""The data that a request names, looked at before anything is created."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path

from trainer_ops.build.mounts import place_of
from trainer_ops.errors import InvalidRequest
from trainer_ops.model.request import TrainRequest
from trainer_ops.model.snapshot import Snapshot

__all__ = ["check_data"]


def check_data(request: TrainRequest, target: str) -> None:
    """Refuse a snapshot that is not where it says, where this process can see that: on the engine.

    One that is there has been used now, for ``snapshots gc --older-than``, and for a gc that is about to remove it.

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
        if place.scheme != "file":
            continue
        folder = Path(place.path)
        if not folder.is_dir():
            reason = f'the snapshot "{snapshot.location}" is not there (any more)'
            raise InvalidRequest(step, reason, _again(step, snapshot))
        if folder.parent.name == snapshot.key:
            with suppress(OSError):  # one that may only be read looks older to gc than it is
                os.utime(folder.with_name("manifest.json"))


def _again(step: str, snapshot: Snapshot) -> str:
    if snapshot.uri == snapshot.location:  # given by where it lay: nobody knows what it was of
        return "Those that are there: trainer-ops snapshots list"
    pinned = f" --revision {shlex.quote(snapshot.revision)}" if snapshot.uri.startswith("hf:") else ""
    return f"Make it again: trainer-ops init {step} {shlex.quote(snapshot.uri)}{pinned}"
