"""Folders and files of this machine as a source: ``file://``, and ``pvc://`` where the claim is mounted."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.manifest import taken
from trainer_ops.initializers.provider import Listing, RemoteFile, SnapshotError, SourceChanged
from trainer_ops.initializers.source import Source

__all__ = ["FileProvider"]

_CHUNK: Final = 1 << 20
# How long after a file's time of change a further change might leave that time as it is: the kernel's clock ticks
# every few milliseconds, and some file systems count in (two) seconds.
_FINE_TICK: Final = 0.02
_COARSE_TICK: Final = 2.0


class FileProvider:
    """A folder, or one file. Its revision is a digest over paths, sizes and times of change: asking reads no content.

    The time of the last change of the inode counts too: copying with times kept, or a tool that sets all times to
    one value, must not make new content look like old.

    Args:
        source: for the URI and messages.
        path: where it is on this machine.
    """

    def __init__(self, source: Source, path: Path) -> None:
        self._source, self._path = source, path

    def resolve(self) -> Listing:
        """Links to files and folders are followed, unless they lead back to a folder above.

        Raises:
            InvalidRequest: field ``uri``: nothing is there, or nothing that can be read.
        """
        found = self._list()
        young = [wait for file_stat in found.values() if (wait := _still_moving(file_stat)) > 0]
        if young:
            time.sleep(max(young))
            found = self._list()
        files = tuple(
            RemoteFile(path=path, size=one.st_size, version=_version(one)) for path, one in sorted(found.items())
        )
        said = json.dumps([[file.path, file.version] for file in files])
        return Listing(self._source.uri, hashlib.sha256(said.encode()).hexdigest()[:40], files)

    def _list(self) -> dict[str, os.stat_result]:
        try:
            if not self._path.is_dir():
                return {self._path.name: _regular(self._path, self._source)}
            return dict(self._found())
        except OSError as problem:
            raise InvalidRequest(
                "uri", f"{self._source.uri}: {problem.strerror or problem} ({problem.filename})", "Check the path."
            ) from problem

    def _found(self) -> Iterator[tuple[str, os.stat_result]]:
        """What cannot be copied is no reason to refuse a folder where the patterns leave it out."""
        for path in _walk(self._path):
            name = path.relative_to(self._path).as_posix()
            try:
                yield name, _regular(path, self._source)
            except SnapshotError:
                if taken(name, self._source):
                    raise

    def fetch(self, file: RemoteFile, part: Path, wrote: Callable[[int], None]) -> None:
        """Copy it; the bytes that are there already are not copied again."""
        path = self._path / file.path if self._path.is_dir() else self._path
        try:
            origin = path.open("rb", buffering=0)
        except PermissionError as problem:
            raise SnapshotError(
                f"{path} cannot be read: {problem.strerror}",
                remedy="Let this user read it, or leave it out with an ignore pattern.",
            ) from problem
        except OSError as problem:
            raise SourceChanged(f"{path} cannot be read any more ({problem.strerror or problem})") from problem
        with origin, part.open("ab", buffering=0) as copy:
            self._check(path, file, os.fstat(origin.fileno()))
            there = copy.tell()
            if there > (file.size or 0):
                wrote(-there)
                copy.truncate(0)
                there = 0
            origin.seek(there)
            _copy(origin.fileno(), copy.fileno(), path, wrote)
            self._check(path, file, os.fstat(origin.fileno()))

    def _check(self, path: Path, file: RemoteFile, now: os.stat_result) -> None:
        if _version(now) != file.version:
            raise SourceChanged(f"{path} was changed")

    def close(self) -> None:
        """Nothing is open."""


def _walk(folder: Path, above: tuple[tuple[int, int], ...] = ()) -> Iterator[Path]:
    """All files below it, through links; a link back to a folder above is not gone into again."""
    here = (*above, _identity(folder.stat()))
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = Path(entry.path)
            if not entry.is_dir():
                yield path
            elif not entry.is_symlink() or _identity(path.stat()) not in here:
                yield from _walk(path, here)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _regular(path: Path, source: Source) -> os.stat_result:
    try:
        found = path.stat()
    except FileNotFoundError as problem:
        if not path.is_symlink():
            raise
        raise SnapshotError(
            f"{source.uri} holds {str(path)!a}, a link to what is not there",
            remedy="Mend the link, or leave it out with an ignore pattern.",
        ) from problem
    if not stat.S_ISREG(found.st_mode):
        raise SnapshotError(
            f"{source.uri} holds {str(path)!a}, which is no regular file",
            remedy="Take pipes, sockets and devices out of the folder, or leave them out with an ignore pattern.",
        )
    return found


def _version(found: os.stat_result) -> str:
    return f"{found.st_size}-{found.st_mtime_ns}-{found.st_ctime_ns}"


def _still_moving(found: os.stat_result) -> float:
    """Seconds until a change of it cannot hide behind the time that it has now."""
    newest = max(found.st_mtime_ns, found.st_ctime_ns)
    tick = _COARSE_TICK if newest % 1_000_000_000 == 0 else _FINE_TICK
    age = time.time() - newest / 1e9
    return tick - age if -_COARSE_TICK < age < tick else 0.0


def _copy(origin: int, copy: int, path: Path, wrote: Callable[[int], None]) -> None:
    while block := _read(origin, path):
        view = memoryview(block)
        while view:
            view = view[os.write(copy, view) :]
        wrote(len(block))


def _read(origin: int, path: Path) -> bytes:
    try:
        return os.read(origin, _CHUNK)
    except OSError as problem:
        # Not an OSError: those are the store's.
        raise SnapshotError(
            f"{path} cannot be read: {problem.strerror or problem}", remedy="Check its disk or mount.", transient=True
        ) from problem
