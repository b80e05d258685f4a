"""Digests of files, in one reading and little memory."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["FOLLOWED", "Follower", "digests_of", "sha256_of"]

_CHUNK: Final = 1 << 20
# A file of at least so many bytes is worth a thread of its own.
FOLLOWED: Final = 16 << 20


def sha256_of(path: Path) -> str:
    """Hex."""
    return digests_of(path, ("sha256",))["sha256"]


def digests_of(path: Path, names: Sequence[str]) -> dict[str, str]:
    """Several digests in hex; ``blob_sha1`` is git's id of a blob.

    Args:
        path: a file; nobody writes to it.
        names: of ``sha256``, ``md5``, ``blob_sha1``.
    """
    hashes = {name: _new(name, path.stat().st_size) for name in names}
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            for one in hashes.values():
                one.update(view[:count])
    return {name: one.hexdigest() for name, one in hashes.items()}


def _new(name: str, size: int) -> Any:
    if name == "blob_sha1":
        return hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    return hashlib.md5(usedforsecurity=False) if name == "md5" else hashlib.sha256()


class Follower:
    """Takes the digests of a file while another thread writes it, from its beginning to its end.

    Reading two gigabytes once more costs seconds; while they come over a line it costs nothing.

    Args:
        path: the file; what is in it already counts.
        names: see ``digests_of``.
        size: bytes that it will have.
    """

    def __init__(self, path: Path, names: Sequence[str], size: int) -> None:
        self._path, self._names, self._size = path, names, size
        self._there = path.stat().st_size if path.exists() else 0
        self._thrown_away = False
        self._over = False
        self._changed = threading.Condition()
        self._found: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name="snapshot-digest", daemon=True)

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._thrown_away = True
        self._end()

    def wrote(self, count: int) -> None:
        """So many further bytes are in the file; negative: bytes were thrown away, and this gives up."""
        with self._changed:
            self._there += count
            self._thrown_away = self._thrown_away or count < 0
            self._changed.notify()

    def digests(self) -> dict[str, str]:
        """Wait for the last byte; {} when they must be taken anew."""
        self._end()
        return self._found

    def _end(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        hashes = {name: _new(name, self._size) for name in self._names}
        buffer = bytearray(_CHUNK)
        view = memoryview(buffer)
        done = 0
        file = None
        try:
            while done < self._size and self._wait(done):
                file = file or self._path.open("rb", buffering=0)
                count = file.readinto(view[: min(_CHUNK, self._size - done)])
                if not count:
                    return
                for one in hashes.values():
                    one.update(view[:count])
                done += count
        except OSError:
            return
        finally:
            if file is not None:
                file.close()
        if done == self._size and not self._thrown_away and self._path.stat().st_size == done:
            self._found = {name: one.hexdigest() for name, one in hashes.items()}

    def _wait(self, done: int) -> bool:
        """Until there is more to read, or there never will be."""
        with self._changed:
            self._changed.wait_for(lambda: self._there > done or self._over or self._thrown_away)
            return self._there > done and not self._thrown_away
