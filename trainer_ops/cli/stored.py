"""The snapshots that a target keeps, by the start of a key, and where they lie."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trainer_ops.cli.data import pick_key
from trainer_ops.errors import InvalidRequest
from trainer_ops.model.snapshot import Snapshot

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend
    from trainer_ops.model.snapshot import SnapshotKind

__all__ = ["location_of", "snapshot_of"]


def location_of(backend: Backend, to: str, key: str) -> str:
    """The URL of a snapshot's files, as far as the store's own goes: nobody is asked whether it is there."""
    from trainer_ops.lifecycle.snapshot_here import store_here
    from trainer_ops.lifecycle.snapshot_store import cluster_store
    from trainer_ops.lifecycle.snapshots import made_here

    return store_here(backend, to).location(key) if made_here(backend) else f"{cluster_store(to)}/{key}/data"


def snapshot_of(backend: Backend, prefix: str, kind: SnapshotKind) -> Snapshot:
    """The snapshot of which the key begins like this, in the target's own store.

    Raises:
        InvalidRequest: field ``--dataset`` or ``--model``: none does, or several do; or only a Job could tell.
    """
    from trainer_ops.cli.target import clock
    from trainer_ops.lifecycle.snapshot_store import list_snapshots
    from trainer_ops.lifecycle.snapshots import made_here

    flag = f"--{kind}"
    if made_here(backend):
        found = {one.key: one for one in list_snapshots(backend, clock=clock())}
        one = found[pick_key(prefix, list(found), flag)]
        return one.snapshot(kind, location_of(backend, "", one.key), hit=True)
    if not re.fullmatch(r"[0-9a-f]{32}", prefix):
        raise InvalidRequest(
            flag,
            f'"{prefix}" is the start of a key, and on a cluster it takes a Job to look the rest up',
            "Give the whole key, or the snapshot's location; both: trainer-ops snapshots list -o wide",
        )
    where = location_of(backend, "", prefix)
    return Snapshot(kind, where, "", prefix, where)
