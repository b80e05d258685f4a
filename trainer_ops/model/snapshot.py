"""What a snapshot is: which data, of which revision, kept where.

A snapshot is one verified copy of a dataset or a model that many trainings read. What it is called follows from what
is in it, so making it twice is making it once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["FORMAT", "Snapshot", "SnapshotKind", "snapshot_key"]

SnapshotKind = Literal["dataset", "model"]

# Part of every key: a change of how snapshots are laid out makes new ones and leaves the old ones alone.
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A finished snapshot. Plain data: it crosses XCom, KFP artifacts and terminals.

    Attributes:
        kind: ``dataset`` or ``model``.
        uri: where its content comes from, canonical, without credentials.
        revision: what the source called this content when it was read: a commit, an ETag, a version.
        key: 32 hex digits, see ``snapshot_key``; the name of its folder in a store.
        location: the folder with the files: ``file:///store/<key>/data``, ``pvc://claim/store/<key>/data`` or
            ``s3://bucket/store/<key>/data``.
        digest: ``sha256:…`` over its manifest's files.
        files: how many.
        size: bytes of all files together.
        hit: whether it was there already.
    """

    kind: SnapshotKind
    uri: str
    revision: str
    key: str
    location: str
    digest: str = ""
    files: int = 0
    size: int = 0
    hit: bool = False

    def to_json(self) -> dict[str, Any]:
        """The documented form."""
        return {
            "kind": self.kind,
            "uri": self.uri,
            "revision": self.revision,
            "key": self.key,
            "location": self.location,
            "digest": self.digest,
            "files": self.files,
            "bytes": self.size,
            "hit": self.hit,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Snapshot:
        """The inverse of ``to_json``; whole floats (KFP's numbers) are taken.

        Raises:
            KeyError: it is not a snapshot's JSON.
        """
        return cls(
            kind=data["kind"],
            uri=data["uri"],
            revision=data["revision"],
            key=data["key"],
            location=data["location"],
            digest=data.get("digest") or "",
            files=int(data.get("files") or 0),
            size=int(data.get("bytes") or 0),
            hit=bool(data.get("hit")),
        )


def snapshot_key(uri: str, revision: str, *, include: Sequence[str] = (), ignore: Sequence[str] = ()) -> str:
    """The key of what this URI holds at this revision, as far as these patterns take it.

    The order of patterns does not matter; the kind does not either: a folder of files is the same for both.
    """
    said = [FORMAT, uri, revision, sorted(set(include)), sorted(set(ignore))]
    return hashlib.sha256(json.dumps(said, separators=(",", ":")).encode()).hexdigest()[:32]
