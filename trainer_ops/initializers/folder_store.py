"""Snapshots in a folder: of this machine, of a mounted claim, of a network file system."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from trainer_ops.initializers.claims import FileClaim, KernelLock
from trainer_ops.initializers.folder_draft import FolderDraft, sync_folder
from trainer_ops.initializers.hashing import sha256_of
from trainer_ops.initializers.locks import holding
from trainer_ops.initializers.manifest import FileEntry, Manifest
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.initializers.store import Clock, Held

__all__ = ["FolderStore"]

_KEY = re.compile(r"[0-9a-f]{32}")
_VERIFY_THREADS: Final = 4
_GONE: Final = "-gone-"


class FolderStore:
    """See the package for what lies where.

    Args:
        root: made when something is written.
        location: the URL that others reach the root by, where that is not ``file://``: ``pvc://claim/folder``.
    """

    def __init__(self, root: str | Path, location: str = "") -> None:
        self._root = Path(root).absolute()
        self._url = (location or f"file://{quote(str(self._root), safe='/-._~@+=,')}").rstrip("/")

    @property
    def url(self) -> str:
        """``file:///root``, or what was given for it."""
        return self._url

    def location(self, key: str) -> str:
        """The URL of a snapshot's files."""
        return f"{self._url}/{key}/data"

    def find(self, key: str) -> Manifest | None:
        """One line is read, however many files there are."""
        found = self.look(key)
        if found is not None:
            try:
                os.utime(self._root / key / "manifest.json")
            except OSError:
                pass  # Mounted read-only: then it only looks older to gc than it is.
        return found

    def look(self, key: str) -> Manifest | None:
        """The same, without counting as a use."""
        path = self._root / key / "manifest.json"
        try:
            with path.open(encoding="utf-8") as file:
                head = Manifest.head(file.readline().rstrip("\n"))
                used = os.fstat(file.fileno()).st_mtime
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as problem:
            raise _unreadable(path, problem) from problem
        if head.key != path.parent.name or not (path.parent / "data").is_dir():
            return None
        return replace(head, used=max(head.created, used))

    def read(self, key: str) -> Manifest | None:
        """With all files."""
        try:
            return Manifest.load((self._root / key / "manifest.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def list(self) -> tuple[Manifest, ...]:
        """Oldest first."""
        found = (self.look(key) for key in _keys(self._root))
        return tuple(sorted((head for head in found if head), key=lambda head: (head.created, head.key)))

    def broken(self) -> tuple[str, ...]:
        """What was whole once: a folder gets its name with the rename that makes it visible."""
        return tuple(key for key in _keys(self._root) if self.look(key) is None)

    def verify(self, key: str) -> tuple[str, ...]:
        """Every byte is read again."""
        if not _KEY.fullmatch(key) or not (self._root / key / "manifest.json").exists():
            return ("there is no manifest: the snapshot is not whole",)
        manifest = self.read(key)
        if manifest is None or manifest.key != key:
            return ("its manifest cannot be read, or belongs to another snapshot",)
        data = self._root / key / "data"
        with ThreadPoolExecutor(_VERIFY_THREADS) as pool:
            problems = [said for said in pool.map(lambda entry: _problem(data, entry), manifest.files) if said]
        expected = {entry.path for entry in manifest.files}
        there = (Path(where, name) for where, _, names in os.walk(data) for name in names)
        extra = sorted(path.relative_to(data).as_posix() for path in there)
        return (*problems, *(f"{path}: does not belong to it" for path in extra if path not in expected))

    @contextmanager
    def lock(self, key: str, *, clock: Clock, timeout: float, note: Callable[[str], None]) -> Iterator[Held]:
        """By the kernel, and by a file that other hosts see."""
        locks = self._made(".locks")
        claim, kernel = FileClaim(locks / f"{key}.json"), KernelLock(locks / key)
        with holding(claim, kernel, what=f"snapshot {key}", clock=clock, timeout=timeout, note=note) as held:
            yield held

    def _made(self, name: str) -> Path:
        folder = self._root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise SnapshotError(
                f"{self._root} cannot hold snapshots: {problem.strerror or problem}",
                remedy="Give a folder that this user may write.",
            ) from problem
        return folder

    def draft(self, key: str) -> FolderDraft:
        """What an earlier try left is gone on with."""
        return FolderDraft(self._made(".partial") / key, self._root / key)

    def hand_over(self, outdated: str, key: str) -> None:
        """A rename, unless the newer one has begun already."""
        partials = self._made(".partial")
        if (partials / outdated).is_dir() and not (partials / key).exists():
            (partials / outdated).rename(partials / key)

    def discard(self, key: str) -> None:
        """One rename takes it away; then its files go."""
        self._throw_away(self._root / key)

    # What gc needs besides.

    def partials(self) -> tuple[tuple[str, float, int], ...]:
        """Key, time of the last change and bytes of each broken or running download."""
        found = []
        for key in _keys(self._root / ".partial"):
            size, changed = _measure(self._root / ".partial" / key)
            found.append((key, changed, size))
        return tuple(found)

    def drop_partial(self, key: str) -> None:
        """Its lock is held."""
        self._throw_away(self._root / ".partial" / key)

    def sweep(self, before: float) -> tuple[str, ...]:
        """Removals that were killed, claims of the dead on other hosts, claims that were never finished."""
        for gone in (self._root / ".partial").glob(f"*{_GONE}*"):
            shutil.rmtree(gone, ignore_errors=True)
        for claim in (self._root / ".locks").glob("*.json*"):
            try:
                if claim.stat().st_mtime <= before:
                    claim.unlink()
            except FileNotFoundError:
                continue
        return tuple(_keys(self._root / ".locks"))

    def _throw_away(self, folder: Path) -> None:
        if not folder.exists():
            return
        # Into a folder that is there already: a full disk has no room for a new one.
        gone = self._made(".partial") / f"{folder.name}{_GONE}{secrets.token_hex(4)}"
        folder.rename(gone)
        sync_folder(folder.parent)
        shutil.rmtree(gone, ignore_errors=True)


def _keys(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if _KEY.fullmatch(name))
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise _unreadable(folder, problem) from problem


def _unreadable(path: Path, problem: OSError) -> SnapshotError:
    return SnapshotError(
        f"{path} cannot be read: {problem.strerror or problem}",
        remedy="Check that it is a folder of snapshots, and that this user may read it.",
    )


def _problem(data: Path, entry: FileEntry) -> str:
    path = data / entry.path
    try:
        size = path.stat().st_size
        if size != entry.size:
            return f"{entry.path}: has {size} bytes instead of {entry.size}"
        return "" if sha256_of(path) == entry.sha256 else f"{entry.path}: its content has changed"
    except (FileNotFoundError, NotADirectoryError):
        return f"{entry.path}: is missing"
    except OSError as problem:
        return f"{entry.path}: cannot be read ({problem.strerror or problem})"


def _measure(folder: Path) -> tuple[int, float]:
    size, changed = 0, 0.0
    for where, _, names in os.walk(folder):
        for path in (where, *(os.path.join(where, name) for name in names)):
            try:
                found = os.stat(path)
            except FileNotFoundError:
                continue
            changed = max(changed, found.st_mtime)
            size += found.st_size if path != where else 0
    return size, changed
