"""A snapshot on its way into object storage."""

from __future__ import annotations

import json
import secrets
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from trainer_ops.initializers.bucket import Bucket
from trainer_ops.initializers.folder_draft import FolderDraft, identity
from trainer_ops.initializers.manifest import FileEntry, Manifest
from trainer_ops.initializers.provider import RemoteFile, SnapshotError
from trainer_ops.initializers.source import Source

__all__ = ["ObjectDraft"]

# What has gone up is written down after so many files or bytes: that much is fetched again after a kill.
_NOTE_FILES: Final = 200
_NOTE_BYTES: Final = 256 << 20


class ObjectDraft:
    """Parts lie in a local folder until they are whole; see ``object_store``."""

    def __init__(self, bucket: Bucket, key: str, scratch: Path) -> None:
        self._bucket, self._key = bucket, key
        self._scratch = scratch
        self._local = FolderDraft(scratch, scratch / "unused")
        self._done: dict[str, FileEntry] = {}
        self._new: list[dict[str, Any]] = []
        self._new_bytes = 0
        self._lock = threading.Lock()

    @property
    def place(self) -> str:
        """Where parts lie, which is what runs full."""
        return f"{self._bucket.url} by way of {self._scratch}"

    def start(self, files: Sequence[RemoteFile], source: Source) -> int:
        """See what has gone up already; remove what does not belong."""
        there = self._local.start(files, source)
        wanted = {file.path: identity(file) for file in files}
        noted = {
            entry["path"]: FileEntry(entry["path"], entry["size"], entry["sha256"])
            for entry in self._notes()
            if entry["of"] and wanted.get(entry["path"]) == entry["of"]
        }
        for path, (size, _) in self._bucket.sizes(f"{self._key}/data").items():
            if path in noted and noted[path].size == size:
                self._done[path] = noted[path]
            elif path not in wanted:
                self._bucket.remove(f"{self._key}/data/{path}")
        self._check_room(files)
        return there + sum(entry.size for entry in self._done.values())

    def _check_room(self, files: Sequence[RemoteFile]) -> None:
        largest = max((file.size or 0 for file in files if file.path not in self._done), default=0)
        free = self._local.room()
        if largest > free:
            raise SnapshotError(
                f"a file of {largest} bytes comes by way of {self._scratch}, where {free} are free",
                remedy="Make room there, or name a larger disk with XDG_CACHE_HOME.",
            )

    def _notes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for name in sorted(self._bucket.sizes(f".partial/{self._key}")):
            try:
                found.extend(json.loads(self._bucket.read(f".partial/{self._key}/{name}")))
            except (FileNotFoundError, ValueError):
                continue
        return found

    def room(self) -> int | None:
        """Nobody can tell how much a bucket takes, nor how many files will be on their way at once."""
        return None

    def kept(self, file: RemoteFile, wrote: Callable[[int], None]) -> FileEntry | None:
        """An object is whole once it is there: its size was compared."""
        return self._done.get(file.path)

    def part(self, file: RemoteFile) -> Path:
        """A local file."""
        return self._local.part(file)

    def keep(self, file: RemoteFile, entry: FileEntry) -> None:
        """Up with it; then it is no more here."""
        part = self.part(file)
        self._bucket.upload(f"{self._key}/data/{entry.path}", part)
        part.unlink()
        with self._lock:
            said = {"path": entry.path, "size": entry.size, "sha256": entry.sha256, "of": identity(file)}
            self._new.append(said)
            self._new_bytes += entry.size
            if len(self._new) < _NOTE_FILES and self._new_bytes < _NOTE_BYTES:
                return
            new, self._new, self._new_bytes = self._new, [], 0
        self._note(new)

    def commit(self, manifest: Manifest) -> None:
        """Every object is there and as long as it should be: the manifest makes it a snapshot."""
        there = {path: size for path, (size, _) in self._bucket.sizes(f"{self._key}/data").items()}
        wrong = next((entry.path for entry in manifest.files if there.get(entry.path) != entry.size), None)
        if wrong is not None:
            raise SnapshotError(
                f"{self._bucket.url} has not kept {wrong} as it was uploaded",
                remedy="Check that nobody else writes below that folder, and run it again.",
                transient=True,
            )
        self._bucket.write(f"{self._key}/manifest.json", manifest.dump().encode())
        self._bucket.remove_below(f".partial/{self._key}")
        shutil.rmtree(self._scratch, ignore_errors=True)

    def leave(self) -> None:
        """The last few notes."""
        with self._lock:
            new, self._new = self._new, []
        if new:
            self._note(new)

    def _note(self, new: Sequence[dict[str, Any]]) -> None:
        self._bucket.write(f".partial/{self._key}/{secrets.token_hex(8)}.json", json.dumps(new).encode())
