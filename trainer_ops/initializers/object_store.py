"""Snapshots in object storage: files first, the manifest last.

A file comes to a local folder, is verified there, and goes up under its own name; so as much local disk is needed as
the files have that are on their way at once. What went up already is written down in small objects beside it, so that
another try, also on another machine, goes on from there.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from trainer_ops.initializers.bucket import Bucket, ObjectClaim
from trainer_ops.initializers.locks import holding
from trainer_ops.initializers.manifest import FileEntry, Manifest
from trainer_ops.initializers.object_draft import ObjectDraft
from trainer_ops.initializers.provider import Credentials, SnapshotError
from trainer_ops.initializers.store import Clock, Held

__all__ = ["ObjectStore"]

_KEY = re.compile(r"[0-9a-f]{32}")
_THREADS: Final = 8
_BLOCK: Final = 4 << 20
# Enough for a manifest's first line, patterns and all.
_HEAD: Final = 64 << 10


class ObjectStore:
    """See the module.

    Args:
        url: canonical, ``s3://bucket/folder``.
        credentials: for the driver.
        scratch: the local folder for files on their way; None for one in the user's cache.

    Raises:
        InvalidRequest: the driver is not installed.
    """

    def __init__(self, url: str, credentials: Credentials, scratch: Path | None = None) -> None:
        self._bucket = Bucket(url, credentials)
        self._scratch = scratch or _cache() / hashlib.sha256(url.encode()).hexdigest()[:16]

    @property
    def url(self) -> str:
        """As given."""
        return self._bucket.url

    def location(self, key: str) -> str:
        """The URL of a snapshot's files."""
        return f"{self._bucket.url}/{key}/data"

    def find(self, key: str) -> Manifest | None:
        """One request; when it was last used nobody writes down."""
        try:
            text = self._bucket.read(f"{key}/manifest.json", _HEAD)
            if b"\n" not in text:
                text = self._bucket.read(f"{key}/manifest.json")
            head = Manifest.head(text.partition(b"\n")[0].decode())
        except (FileNotFoundError, ValueError):
            return None
        return head if head.key == key else None

    def look(self, key: str) -> Manifest | None:
        """The same."""
        return self.find(key)

    def read(self, key: str) -> Manifest | None:
        """With all files."""
        try:
            return Manifest.load(self._bucket.read(f"{key}/manifest.json").decode())
        except (FileNotFoundError, ValueError):
            return None

    def list(self) -> tuple[Manifest, ...]:
        """Oldest first."""
        keys = [name for name in self._bucket.names("") if _KEY.fullmatch(name)]
        with ThreadPoolExecutor(_THREADS) as pool:
            found = [head for head in pool.map(self.find, keys) if head]
        return tuple(sorted(found, key=lambda head: (head.created, head.key)))

    def broken(self) -> tuple[str, ...]:
        """None that could be told from a draft: the manifest is written last."""
        return ()

    def verify(self, key: str) -> tuple[str, ...]:
        """Every byte is read again."""
        manifest = self.read(key) if _KEY.fullmatch(key) else None
        if manifest is None or manifest.key != key:
            return ("there is no manifest that can be read: the snapshot is not whole",)
        with ThreadPoolExecutor(_THREADS) as pool:
            problems = [said for said in pool.map(lambda entry: self._problem(key, entry), manifest.files) if said]
        expected = {entry.path for entry in manifest.files}
        extra = sorted(path for path in self._bucket.sizes(f"{key}/data") if path not in expected)
        return (*problems, *(f"{path}: does not belong to it" for path in extra))

    def _problem(self, key: str, entry: FileEntry) -> str:
        digest, size = hashlib.sha256(), 0
        try:
            for block in self._bucket.download_blocks(f"{key}/data/{entry.path}", _BLOCK):
                digest.update(block)
                size += len(block)
        except FileNotFoundError:
            return f"{entry.path}: is missing"
        except SnapshotError as problem:
            return f"{entry.path}: cannot be read ({problem.message})"
        if size != entry.size:
            return f"{entry.path}: has {size} bytes instead of {entry.size}"
        return "" if digest.hexdigest() == entry.sha256 else f"{entry.path}: its content has changed"

    @contextmanager
    def lock(self, key: str, *, clock: Clock, timeout: float, note: Callable[[str], None]) -> Iterator[Held]:
        """By an object that only one can create."""
        claim = ObjectClaim(self._bucket, f".locks/{key}")
        with holding(claim, None, what=f"snapshot {key}", clock=clock, timeout=timeout, note=note) as held:
            yield held

    def draft(self, key: str) -> ObjectDraft:
        """What an earlier try left is gone on with."""
        return ObjectDraft(self._bucket, key, self._scratch / key)

    def hand_over(self, outdated: str, key: str) -> None:
        """Objects have no renames: what the outdated draft has is fetched again."""

    def discard(self, key: str) -> None:
        """The manifest goes first: from then on it is none. Without one, what lies there is a draft's."""
        if self.find(key) is None:
            self._bucket.remove(f"{key}/manifest.json")
            return
        self._bucket.remove(f"{key}/manifest.json")
        self._bucket.remove_below(key)

    # What gc needs besides.

    def partials(self) -> tuple[tuple[str, float, int], ...]:
        """Key, time of the last change and bytes of each broken or running upload."""
        found = []
        started = {name for name in [*self._bucket.names(".partial"), *self._local()] if _KEY.fullmatch(name)}
        for key in sorted(started | {name for name in self._bucket.names("") if _KEY.fullmatch(name)}):
            notes = self._bucket.sizes(f".partial/{key}")
            files = {} if self.find(key) else self._bucket.sizes(key)
            there = [*notes.values(), *files.values(), *self._local_files(key)]
            if there:
                found.append((key, max(changed for _, changed in there), sum(size for size, _ in there)))
        return tuple(found)

    def drop_partial(self, key: str) -> None:
        """Its lock is held."""
        if self.find(key) is None:
            self._bucket.remove_below(key)
        self._bucket.remove_below(f".partial/{key}")
        shutil.rmtree(self._scratch / key, ignore_errors=True)

    def _local(self) -> Sequence[str]:
        return os.listdir(self._scratch) if self._scratch.is_dir() else ()

    def _local_files(self, key: str) -> Iterator[tuple[int, float]]:
        for path in (self._scratch / key).rglob("*"):
            if path.is_file():
                yield path.stat().st_size, path.stat().st_mtime

    def sweep(self, before: float) -> tuple[str, ...]:
        """Claims of the dead on other hosts."""
        claims = self._bucket.sizes(".locks")
        for key, (_, changed) in claims.items():
            if changed <= before:
                self._bucket.remove(f".locks/{key}")
        return tuple(key for key in claims if _KEY.fullmatch(key))


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = Path(home, "trainer-ops", "uploads")
    try:
        place.mkdir(parents=True, exist_ok=True)
        if os.access(place, os.W_OK):
            return place
    except OSError:
        pass  # A container whose user has no home.
    return Path(tempfile.gettempdir(), f"trainer-ops-{os.getuid()}")
