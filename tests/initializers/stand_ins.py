"""A source and listeners for tests of the core: files in memory, and whatever should go wrong."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainer_ops.initializers.provider import Listing, RemoteFile

Wrote = Callable[[int], None]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class MemoryProvider:
    """A source whose files are here. Goes on from what a part holds, in blocks.

    Attributes:
        files: content by path; changed by tests.
        revision: None for a digest over the content.
        digests: which digests the listing knows.
        sizes: whether it knows sizes.
        before: called before each file is fetched.
        spoil: makes other bytes of a file's content on the way.
        fetched: paths, in the order in which they began.
        transferred: bytes by path.
    """

    files: dict[str, bytes]
    uri: str = "s3://bucket/data"
    revision: str | None = None
    digests: tuple[str, ...] = ("sha256",)
    sizes: bool = True
    versions: bool = True
    block: int = 1 << 16
    before: Callable[[RemoteFile], None] = lambda file: None
    after_block: Callable[[RemoteFile, int], None] = lambda file, there: None
    spoil: Callable[[str, bytes], bytes] = lambda path, data: data
    fetched: list[str] = field(default_factory=list)
    transferred: dict[str, int] = field(default_factory=dict)
    resolved: int = 0
    closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def resolve(self) -> Listing:
        self.resolved += 1
        said = "".join(f"{path} {sha256(data)}\n" for path, data in sorted(self.files.items()))
        revision = sha256(said.encode())[:40] if self.revision is None else self.revision
        return Listing(self.uri, revision, tuple(self.listed(path, data) for path, data in self.files.items()))

    def listed(self, path: str, data: bytes) -> RemoteFile:
        known: dict[str, str] = {}
        if "sha256" in self.digests:
            known["sha256"] = sha256(data)
        if "md5" in self.digests:
            known["md5"] = hashlib.md5(data).hexdigest()
        if "blob_sha1" in self.digests:
            known["blob_sha1"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        version = sha256(data)[:8] if self.versions else ""
        return RemoteFile(path, size=len(data) if self.sizes else None, version=version, **known)

    def fetch(self, file: RemoteFile, part: Path, wrote: Wrote) -> None:
        with self._lock:
            self.fetched.append(file.path)
        self.before(file)
        data = self.spoil(file.path, self.files[file.path])
        with part.open("ab", buffering=0) as out:
            if out.tell() > len(data):
                wrote(-out.tell())
                out.truncate(0)
            there = out.tell()
            while there < len(data):
                block = data[there : there + self.block]
                out.write(block)
                there += len(block)
                with self._lock:
                    self.transferred[file.path] = self.transferred.get(file.path, 0) + len(block)
                wrote(len(block))
                self.after_block(file, there)

    def close(self) -> None:
        self.closed = True


class Recorder:
    """A listener that keeps what it was told."""

    def __init__(self) -> None:
        self.starts: list[tuple[int, int, int]] = []
        self.progress: list[tuple[int, int]] = []
        self.notes: list[str] = []

    def on_start(self, files: int, size: int, done: int) -> None:
        self.starts.append((files, size, done))

    def on_progress(self, size: int, files: int) -> None:
        self.progress.append((size, files))

    def on_note(self, text: str) -> None:
        self.notes.append(text)


def tree(folder: Path) -> Mapping[str, bytes]:
    """Every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
