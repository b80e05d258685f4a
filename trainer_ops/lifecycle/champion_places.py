"""Where a registry of champions keeps its pointer and its copies: a folder of this machine, or object storage.

A place is used by ``champion.FolderRegistry`` only. It holds::

    champion.json                       the pointer; replaced as a whole
    versions/<folder>/model/…           a copy of a promoted model, never changed
    versions/<folder>/promotion.json    what was promoted; says that the copy is whole
"""

from __future__ import annotations

import fcntl
import inspect
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Protocol

from trainer_ops.lifecycle.model_files import ModelFile, remote

__all__ = ["RECORD", "LocalPlace", "ObjectPlace", "Place"]

RECORD: Final = "promotion.json"
_CHUNK: Final = 8 << 20
# How S3 says that the condition of a conditional write did not hold, or that two came at the same moment.
_REFUSED: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})


class Place(Protocol):
    """What a registry needs of storage."""

    @property
    def url(self) -> str:
        """The root, without a slash at its end."""

    def alone(self) -> AbstractContextManager[None]:
        """Nobody else promotes or removes meanwhile, where storage has locks."""

    def read(self, name: str) -> tuple[bytes, str] | None:
        """A file's content and what tells it from another version of it; None where it is not there."""

    def swap(self, name: str, data: bytes, token: str | None) -> bool:
        """Replace the version ``token`` (None: make it anew); False where another one is there."""

    def add(self, folder: str, files: Sequence[ModelFile], record: bytes) -> None:
        """Make the folder, whole or not at all; nothing to do where it is."""

    def folders(self) -> list[str]:
        """Their names, half made ones too."""

    def remove(self, folder: str) -> None:
        """Take one away; idempotent."""


class LocalPlace:
    """A folder of this machine, or one that several mount. Promoters take turns: the kernel holds their lock."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._versions = root / "versions"
        self._aside = root / ".partial"

    @property
    def url(self) -> str:
        """As ``file:///…``."""
        return self._root.as_uri()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the lock; what a killed process left half made is swept away."""
        self._versions.mkdir(parents=True, exist_ok=True)
        with (self._root / ".lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            shutil.rmtree(self._aside, ignore_errors=True)
            yield

    def read(self, name: str) -> tuple[bytes, str] | None:
        """The content is its own token."""
        try:
            data = (self._root / name).read_bytes()
        except FileNotFoundError:
            return None
        return data, data.hex()

    def swap(self, name: str, data: bytes, token: str | None) -> bool:
        """Written aside and renamed. Only the one who is alone may call it."""
        found = self.read(name)
        if (found[1] if found else None) != token:
            return False
        aside = self._root / f".{name}.new"
        with aside.open("wb") as file:
            file.write(data)
            _sync(file.fileno())
        aside.replace(self._root / name)
        _sync_folder(self._root)
        return True

    def add(self, folder: str, files: Sequence[ModelFile], record: bytes) -> None:
        """Copied aside, renamed when all of it is on the disk."""
        if (self._versions / folder).exists():
            return
        aside = self._aside / folder
        for name, pour in _contents(files, record):
            path = aside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                pour(file)
                file.flush()
                _sync(file.fileno())
        aside.rename(self._versions / folder)
        _sync_folder(self._versions)

    def folders(self) -> list[str]:
        """Of ``versions``."""
        return sorted(path.name for path in self._versions.iterdir()) if self._versions.is_dir() else []

    def remove(self, folder: str) -> None:
        """Renamed first: half a copy is never seen."""
        self._aside.mkdir(exist_ok=True)
        try:
            (self._versions / folder).rename(self._aside / folder)
        except FileNotFoundError:
            return
        shutil.rmtree(self._aside)


def _contents(files: Sequence[ModelFile], record: bytes) -> Iterator[tuple[str, Callable[[Any], object]]]:
    """Name and writer of everything in a version's folder, the record last."""
    for file in files:
        yield f"model/{file.path}", partial(_pour, file)
    yield RECORD, lambda target: target.write(record)


def _pour(file: ModelFile, target: Any) -> None:
    with file.open() as source:
        shutil.copyfileobj(source, target, _CHUNK)


def _sync(handle: int) -> None:
    os.fsync(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class ObjectPlace:
    """Object storage through fsspec. There are no locks: the pointer's conditional write decides between two promoters.

    S3 has one (If-Match). Where the driver knows none for an object that exists (gs, az), the pointer is read again
    after it was written: of two promoters in the same instant both may then think that they won, and the later one has.

    Args:
        url: ``s3://bucket/prefix``.
        options: for fsspec's driver.
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        self._url = url.rstrip("/")
        self._fs, path = remote(url, "registry", options or {})
        self._root = path.rstrip("/")

    @property
    def url(self) -> str:
        """As given."""
        return self._url

    def alone(self) -> AbstractContextManager[None]:
        """Nobody is."""
        return nullcontext()

    def read(self, name: str) -> tuple[bytes, str] | None:
        """The token is read first: where another version comes in between, it is the content's no more."""
        try:
            info = self._fresh().info(self._at(name))
            return self._fs.cat_file(self._at(name)), str(info.get("ETag") or info.get("etag") or "")
        except FileNotFoundError:
            return None

    def swap(self, name: str, data: bytes, token: str | None) -> bool:
        """With a condition where the driver takes one."""
        try:
            self._fs.pipe_file(self._at(name), data, **self._condition(token))
        except (FileExistsError, FileNotFoundError):
            return False
        except OSError as exc:
            answer = getattr(exc.__cause__, "response", None) or {}
            if str((answer.get("Error") or {}).get("Code")) in _REFUSED:
                return False
            raise
        return True

    def add(self, folder: str, files: Sequence[ModelFile], record: bytes) -> None:
        """The record is written last."""
        if self._fresh().exists(self._at(f"versions/{folder}/{RECORD}")):
            return
        for name, pour in _contents(files, record):
            with self._fs.open(self._at(f"versions/{folder}/{name}"), "wb") as target:
                pour(target)

    def folders(self) -> list[str]:
        """Prefixes below ``versions``."""
        try:
            found = self._fresh().ls(self._at("versions"), detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(name).rstrip("/").rsplit("/", 1)[-1] for name in found)

    def remove(self, folder: str) -> None:
        """The record goes first: without it, nothing takes the rest for a whole copy."""
        for name in (f"versions/{folder}/{RECORD}", f"versions/{folder}"):
            try:
                self._fs.rm(self._at(name), recursive=True)
            except FileNotFoundError:
                pass

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _condition(self, token: str | None) -> dict[str, Any]:
        if self._is_s3:
            return {"IfNoneMatch": "*"} if token is None else {"IfMatch": token}
        return {"mode": "create"} if token is None and self._creates else {}

    @cached_property
    def _is_s3(self) -> bool:
        return "s3" in ((self._fs.protocol,) if isinstance(self._fs.protocol, str) else self._fs.protocol)

    @cached_property
    def _creates(self) -> bool:
        return "mode" in inspect.signature(self._fs.pipe_file).parameters

    def _fresh(self) -> Any:
        """The driver without what it remembers of listings: another process may have changed them."""
        self._fs.invalidate_cache()
        return self._fs
