"""What keeps snapshots must be able to do, and which kind of it a URL names."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.manifest import FileEntry, Manifest
from trainer_ops.initializers.provider import Credentials, RemoteFile
from trainer_ops.initializers.source import Source, folder_of, parse

__all__ = ["Clock", "Draft", "Freed", "Held", "Store", "WallClock", "open_store"]


class Clock(Protocol):
    """The part of ``lifecycle.clock.Clock`` that is used here."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Block for that long."""


class WallClock:
    """The machine's own, for who is given none."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Block for that long."""
        time.sleep(seconds)


class Held(Protocol):
    """A lock that is held."""

    def check(self, *, ask: bool = False) -> None:
        """Is it still ours?

        Args:
            ask: look now; else what was seen within the last seconds counts.

        Raises:
            SnapshotError: this process stood still for so long that another one took it over.
        """


class Draft(Protocol):
    """A snapshot in the making, by the holder of its lock. ``kept``, ``part`` and ``keep`` are safe for threads."""

    @property
    def place(self) -> str:
        """Where what is half done lies, for people."""

    def start(self, files: Sequence[RemoteFile], source: Source) -> int:
        """Make room for exactly these files; what an earlier try left of others is thrown away.

        Returns:
            Bytes of these files that are there already, whole or in part.

        Raises:
            SnapshotError: two of them cannot both be there.
        """

    def room(self) -> int | None:
        """Bytes that are free; None where nobody can tell."""

    def kept(self, file: RemoteFile, wrote: Callable[[int], None]) -> FileEntry | None:
        """The file as an earlier try left it, whole and read again; None: it must be fetched.

        Args:
            file: one of ``start``'s.
            wrote: told (a negative number) of bytes that ``start`` counted and that were thrown away.
        """

    def part(self, file: RemoteFile) -> Path:
        """Where to fetch it to; may hold its first bytes."""

    def keep(self, file: RemoteFile, entry: FileEntry) -> None:
        """Its part is whole: give it its place."""

    def commit(self, manifest: Manifest) -> None:
        """All files are kept: make the snapshot visible, safe from a loss of power."""

    def leave(self) -> None:
        """It broke off: write down what the next try needs to go on."""


@dataclass(frozen=True, slots=True)
class Freed:
    """What ``collect`` removed, or would.

    Attributes:
        snapshots: as they were.
        partials: keys of downloads that nobody went on with.
        size: bytes.
        busy: keys that were to go but are being made or removed by another process.
    """

    snapshots: tuple[Manifest, ...] = ()
    partials: tuple[str, ...] = ()
    size: int = 0
    busy: tuple[str, ...] = ()


class Store(Protocol):
    """Keeps snapshots by key. Every method may be called by several processes at once."""

    @property
    def url(self) -> str:
        """What ``open_store`` opens it by."""

    def location(self, key: str) -> str:
        """The URL of a snapshot's files."""

    def find(self, key: str) -> Manifest | None:
        """The snapshot's description without its files, if it is whole; it counts as used now."""

    def read(self, key: str) -> Manifest | None:
        """The same with all files; nothing counts as used."""

    def list(self) -> tuple[Manifest, ...]:
        """All whole snapshots, oldest first, without their files."""

    def broken(self) -> tuple[str, ...]:
        """Keys under which something lies that is no snapshot and no draft: it is damaged, so that it is not listed."""

    def verify(self, key: str) -> tuple[str, ...]:
        """Read everything again; what is wrong, a line each. () for a sound snapshot."""

    def look(self, key: str) -> Manifest | None:
        """What ``find`` gives, without counting as a use."""

    def partials(self) -> tuple[tuple[str, float, int], ...]:
        """Key, time of the last change and bytes of each broken or running download."""

    def drop_partial(self, key: str) -> None:
        """Remove one; its lock is held."""

    def sweep(self, before: float) -> tuple[str, ...]:
        """Remove what a killed removal left, and claims that nobody has touched since ``before``.

        Returns:
            Keys with a lock that may be one of a dead process.
        """

    def lock(
        self, key: str, *, clock: Clock, timeout: float, note: Callable[[str], None]
    ) -> AbstractContextManager[Held]:
        """Hold this key against all other processes.

        Raises:
            SnapshotError: another process held it for all of ``timeout`` seconds; the message says which.
        """

    def draft(self, key: str) -> Draft:
        """The draft of this key; its lock is held."""

    def hand_over(self, outdated: str, key: str) -> None:
        """Let the draft of ``key`` begin with what that of ``outdated`` has; both locks are held."""

    def discard(self, key: str) -> None:
        """Remove a snapshot; its lock is held. It is whole or gone at every moment."""


def open_store(url: str, credentials: Credentials | None = None, *, location: str = "") -> Store:
    """The store of a folder (``file:///dir`` or a plain path) or of object storage (``s3://``, ``gs://``, ``az://``).

    Args:
        url: where it is, from this process.
        credentials: for object storage; None for what the driver finds by itself.
        location: the URL that others reach a folder by, where that is not ``file://``: ``pvc://claim/folder``.

    Raises:
        InvalidRequest: field ``to``: nothing can be kept there, or a driver is not installed.
    """
    from trainer_ops.initializers.folder_store import FolderStore

    if "://" not in url:
        if not url.strip():
            raise InvalidRequest("to", "it is empty", "Give file:///folder or s3://bucket/folder.")
        return FolderStore(url.strip(), location)
    place = parse(url, field="to")
    if place.scheme == "file":
        return FolderStore(folder_of(place.uri), location)
    if place.scheme in ("s3", "gs", "az"):
        from trainer_ops.initializers.object_store import ObjectStore

        return ObjectStore(place.uri, credentials or Credentials())
    if place.scheme == "pvc":
        raise InvalidRequest(
            "to", f"{place.uri} can be written on its cluster only", "Give file:///folder or s3://bucket/folder."
        )
    raise InvalidRequest("to", f"{place.scheme}:// cannot keep snapshots", "Give file:///folder or s3://bucket/folder.")
