"""A folder of object storage by way of fsspec: the few calls that a store needs, with errors of our own."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.initializers.objects_words import code_of, explain, lacks_bucket
from trainer_ops.initializers.provider import Credentials, SnapshotError
from trainer_ops.initializers.source import Source

__all__ = ["Bucket", "ObjectClaim"]

_EXTRAS: Final = {"s3": "initializers", "gs": "gcs", "az": "azure"}
_LOCAL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class Bucket:
    """Objects below one URL, by relative path. Safe for threads.

    Args:
        url: canonical, ``s3://bucket/folder``.
        credentials: options for the driver.

    Raises:
        InvalidRequest: the driver is not installed, or does not take these options.
    """

    def __init__(self, url: str, credentials: Credentials) -> None:
        self.url = url
        self._options = credentials.options
        scheme, _, self._root = url.partition("://")
        try:
            import fsspec

            # Nothing is cached: other processes write here, and a listing must be of now.
            self._fs: Any = fsspec.filesystem(
                scheme, **{"use_listings_cache": False, "skip_instance_cache": True, **credentials.options}
            )
        except (ImportError, ValueError) as problem:
            raise InvalidRequest(
                "to",
                f"{scheme}:// cannot be opened here ({problem})",
                f"pip install 'trainer-ops[{_EXTRAS[scheme]}]', and check the credentials' options.",
            ) from problem

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    @contextmanager
    def _errors(self, path: str, *, absent: bool = False) -> Iterator[None]:
        """Each driver has errors of its own: botocore's, aiohttp's, Google's, Azure's.

        Args:
            path: what is asked for.
            absent: whether it may be that it is not there; then that is not an error of the store.
        """
        try:
            yield
        except (TrainerOpsError, FileExistsError):
            raise
        except Exception as problem:
            if isinstance(problem, FileNotFoundError) and absent and not lacks_bucket(problem):
                raise
            if isinstance(problem, OSError) and problem.errno in _LOCAL:
                raise
            raise self._failed(path, problem) from problem

    def _failed(self, path: str, problem: Exception) -> TrainerOpsError:
        explained = explain(problem, Source(self.url), anonymous=False, server=self._server())
        if isinstance(explained, InvalidRequest):
            return InvalidRequest("to", explained.reason, explained.remedy)
        if isinstance(problem, PermissionError) and code_of(problem) in ("AccessDenied", "403"):
            return SnapshotError(
                f"{self.url}: the credentials are not allowed to write there",
                remedy="Let them list, read, write and delete objects below it.",
                credentials="refused",
            )
        return explained or SnapshotError(
            f"{self.url}/{path}: {str(problem) or type(problem).__name__}",
            remedy="Check the endpoint and that the bucket exists.",
            transient=True,
        )

    def _server(self) -> str:
        if not self.url.startswith("s3:"):
            return ""
        from trainer_ops.initializers.s3 import server_of

        return server_of(self._options)

    def read(self, path: str, most: int | None = None) -> bytes:
        """An object's (first ``most``) bytes.

        Raises:
            FileNotFoundError: there is none.
        """
        with self._errors(path, absent=True):
            found: bytes = self._fs.cat_file(self._path(path), start=None if most is None else 0, end=most)
            return found

    def write(self, path: str, data: bytes) -> None:
        """Whole or not at all."""
        with self._errors(path):
            self._fs.pipe_file(self._path(path), data)

    def create(self, path: str, data: bytes) -> bool:
        """Write it unless it is there, as one step of the server where it can; whether it was written."""
        try:
            with self._errors(path):
                try:
                    self._fs.pipe_file(self._path(path), data, mode="create")
                except (NotImplementedError, TypeError):
                    if self._fs.exists(self._path(path)):
                        return False
                    self._fs.pipe_file(self._path(path), data)
        except FileExistsError:
            return False
        return True

    def upload(self, path: str, local: Path) -> None:
        """A file, in parts where it is large."""
        with self._errors(path):
            self._fs.put_file(str(local), self._path(path))

    def download_blocks(self, path: str, block: int) -> Iterator[bytes]:
        """Its content, a block at a time.

        Raises:
            FileNotFoundError: there is none.
        """
        with self._errors(path, absent=True), self._fs.open(self._path(path), "rb", cache_type="none") as file:
            while data := file.read(block):
                yield data

    def sizes(self, path: str) -> dict[str, tuple[int, float]]:
        """Bytes and time of change of each object below it, by path below it."""
        base = self._path(path).rstrip("/") + "/"
        try:
            with self._errors(path, absent=True):
                found: Mapping[str, Mapping[str, Any]] = self._fs.find(base, detail=True)
        except FileNotFoundError:
            return {}
        return {
            name.removeprefix(base): (int(info.get("size") or 0), _changed(info))
            for name, info in found.items()
            if name.startswith(base)
        }

    def names(self, path: str) -> list[str]:
        """What is right below it, objects and folders."""
        try:
            with self._errors(path, absent=True):
                found: list[str] = self._fs.ls(self._path(path), detail=False)
        except FileNotFoundError:
            return []
        return sorted({name.rstrip("/").rpartition("/")[2] for name in found})

    def remove(self, path: str) -> None:
        """One object; nothing happens when there is none."""
        try:
            with self._errors(path, absent=True):
                self._fs.rm_file(self._path(path))
        except FileNotFoundError:
            pass

    def remove_below(self, path: str) -> None:
        """All objects below it."""
        there = [self._path(f"{path}/{name}") for name in self.sizes(path)]
        if there:
            with self._errors(path):
                self._fs.rm(there)


def _changed(info: Mapping[str, Any]) -> float:
    for name in ("LastModified", "last_modified", "updated", "mtime"):
        found = info.get(name)
        if isinstance(found, datetime):
            return found.timestamp()
        if isinstance(found, str):
            return datetime.fromisoformat(found.replace("Z", "+00:00")).timestamp()
    return 0.0


class ObjectClaim:
    """See ``locks.Claim``; an object cannot be touched, so it is written anew with a count."""

    def __init__(self, bucket: Bucket, path: str) -> None:
        self._bucket, self._path, self._count = bucket, path, 0

    def _text(self, text: bytes) -> bytes:
        return text + b"\n" + str(self._count).encode()

    def create(self, text: bytes) -> bool:
        """Write it unless there is one."""
        return self._bucket.create(self._path, self._text(text))

    def read(self) -> tuple[bytes, str] | None:
        """The text and the count."""
        try:
            text, _, count = self._bucket.read(self._path).rpartition(b"\n")
        except FileNotFoundError:
            return None
        return text, count.decode(errors="replace")

    def replace(self, text: bytes) -> None:
        """Write it whatever is there."""
        self._bucket.write(self._path, self._text(text))

    def touch(self, text: bytes) -> None:
        """A higher count."""
        self._count += 1
        self._bucket.write(self._path, self._text(text))

    def remove(self) -> None:
        """Take it away."""
        self._bucket.remove(self._path)
