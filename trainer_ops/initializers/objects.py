"""s3://, gs://, az://: objects below a prefix, or one object, by way of the drivers of fsspec.

An object is what it was when it was listed: every read says, or is followed by the question, which content it is.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.initializers.objects_words import bucket_of, explain, is_absent, no_bucket
from trainer_ops.initializers.parts import open_part, restart, write_all
from trainer_ops.initializers.patience import Patience
from trainer_ops.initializers.pieces import Pieces, Stopped
from trainer_ops.initializers.provider import Credentials, Listing, Provider, RemoteFile, SnapshotError
from trainer_ops.initializers.source import Source
from trainer_ops.initializers.target import Target, Tries
from trainer_ops.initializers.wire import LineCut

__all__ = ["Objects", "open_source"]

_NAMES: Final = 8


def open_source(
    source: Source, credentials: Credentials, *, patience: Patience | None = None, pieces: Pieces | None = None
) -> Provider:
    """Open a bucket or container.

    Args:
        source: what is below it.
        credentials: options for the driver: ``key``, ``secret``, ``endpoint_url``, ``anon`` of s3fs, ``token`` of
            gcsfs, ``account_name`` of adlfs. With ``version_aware`` of s3fs each object is pinned by its version in a
            bucket that keeps versions; else by its ETag.
        patience: how long to go on asking.
        pieces: threads and memory for large objects.

    Raises:
        ImportError: the driver is not installed.
        InvalidRequest: it does not take these options.
    """
    if source.scheme == "s3":
        from trainer_ops.initializers.s3 import S3Objects

        return S3Objects(source, credentials, patience or Patience(), pieces)
    return Objects(source, credentials, patience or Patience(), pieces)


class Objects:
    """Objects by any driver of fsspec: read in pieces, and asked afterwards whether they are still the same."""

    def __init__(
        self, source: Source, credentials: Credentials, patience: Patience, pieces: Pieces | None = None
    ) -> None:
        self.source = source
        # The drivers ask again by themselves; once more is for a body that is cut.
        self._patience = replace(patience, tries=2)
        # A driver hands over bytes of its own, so each piece is in memory twice.
        self._pieces = pieces or Pieces(at_once=4)
        self._asking: set[Future[Any]] = set()
        self._options = dict(credentials.options)
        self._fs = self._driver(self._options)

    @property
    def anonymous(self) -> bool:
        """Whether nothing is signed."""
        return bool(self._options.get("anon")) or self._options.get("token") == "anon"

    def resolve(self) -> Listing:
        """What is below the prefix now; its revision is a digest over what tells contents apart."""
        files = tuple(sorted(self._files(), key=lambda file: file.path))
        if not files:
            raise self._nothing()
        said = json.dumps([[file.path, file.version, file.size] for file in files])
        return Listing(self.source.uri, hashlib.sha256(said.encode()).hexdigest()[:40], files)

    def fetch(self, file: RemoteFile, part: Path, wrote: Callable[[int], None]) -> None:
        """See ``Provider.fetch``."""
        size, target = file.size or 0, self._target(file)

        def read(offset: int, view: memoryview, stopped: Callable[[], bool]) -> None:
            data = self._tried(lambda: self._bytes(file, offset, offset + len(view)), target, stopped)
            if len(data) != len(view):
                raise target.changed()
            view[:] = data

        with open_part(part) as out:
            have = out.tell()
            if have > size:
                have = restart(out, wrote)
            self._pieces.copy(have, size, lambda piece: write_all(out, piece), read, wrote)
            if not self._unchanged(file):
                # What is there may be of two contents.
                restart(out, wrote)
                raise target.changed()

    def stop(self) -> None:
        """See ``Provider``. A driver that does not work on an event loop ends its own question first."""
        self._patience.end()
        for future in tuple(self._asking):
            future.cancel()

    def close(self) -> None:
        """See ``Provider.close``."""
        self._pieces.close()

    def _driver(self, options: Mapping[str, object]) -> Any:
        import fsspec

        fsspec.get_filesystem_class(self.source.scheme)
        try:
            # Nothing is remembered: a listing must be of now.
            return fsspec.filesystem(
                self.source.scheme, **{"use_listings_cache": False, "skip_instance_cache": True, **options}
            )
        except (TypeError, ValueError) as error:
            raise self._explained(error) or InvalidRequest(
                "credentials",
                f"the driver of {self.source.scheme}:// does not take them ({self._scrubbed(error)})",
                "Check the names of the options.",
            ) from error

    def _files(self) -> Iterator[RemoteFile]:
        root = self.source.uri.partition("://")[2]
        for name, info in self._asked(lambda: self._found(root)).items():
            # A key that ends with a slash and holds nothing stands for a folder in a store that has none.
            if info.get("type") == "directory" or (name.endswith("/") and not info.get("size")):
                continue
            if name == root:
                yield self._file(name, name.rpartition("/")[2], info)
            elif name.startswith(f"{root}/"):
                yield self._file(name, name[len(root) + 1 :], info)

    def _found(self, root: str) -> dict[str, dict[str, Any]]:
        try:
            found = _walked(self._fs, root) if _walks(self._fs) else self._fs.find(root, detail=True)
        except FileNotFoundError as error:
            if self._explained(error) is not None:
                raise
            found = {}
        if "/" not in root or set(found) - {root}:
            return dict(found)
        try:
            info = self._fs.info(root)
        except FileNotFoundError:
            return {}
        return {root: info} if info.get("type") == "file" else {}

    def _file(self, name: str, path: str, info: Mapping[str, Any]) -> RemoteFile:
        size = info.get("size")
        return RemoteFile(path, None if size is None else int(size), _version(info), md5=_md5(info), url=name)

    def _bytes(self, file: RemoteFile, start: int, stop: int) -> bytes:
        data: bytes = self._done("cat_file", file.url, start=start, end=stop)
        return data

    def _done(self, name: str, *args: object, **options: object) -> Any:
        """What a method of the driver gives; where it works on an event loop ``stop`` ends it."""
        if not self._fs.async_impl:
            return getattr(self._fs, name)(*args, **options)
        return self._on_loop(getattr(self._fs, f"_{name}")(*args, **options))

    def _on_loop(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, self._fs.loop)
        self._asking.add(future)
        try:
            if self._patience.ended.is_set():
                future.cancel()
            return future.result()
        finally:
            self._asking.discard(future)

    def _unchanged(self, file: RemoteFile) -> bool:
        def ask() -> Mapping[str, Any] | None:
            try:
                self._fs.invalidate_cache()
                info: Mapping[str, Any] = self._done("info", file.url)
                return info
            except FileNotFoundError:
                return None

        info = self._tried(ask, self._target(file))
        return info is not None and _version(info) == file.version and info.get("size") == file.size

    def _target(self, file: RemoteFile) -> Target:
        return Target(
            name=f"{self.source.uri}: {file.path}", url=lambda: self.source.uri, size=file.size, host=self._host()
        )

    def _host(self) -> str:
        return bucket_of(self.source)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        return self._tried(ask, Target(name=self.source.uri, url=lambda: self.source.uri, host=self._host()))

    def _tried(self, ask: Callable[[], Any], target: Target, stopped: Callable[[], bool] = lambda: False) -> Any:
        """The driver's answer, after as many tries as it takes."""
        tries = Tries(self._patience, target)
        while True:
            if stopped():
                raise Stopped
            try:
                with self._errors(target):
                    return ask()
            except LineCut as error:
                tries.again(error)

    @contextmanager
    def _errors(self, target: Target) -> Iterator[None]:
        try:
            yield
        except TrainerOpsError:
            raise
        except Exception as error:
            # Each driver has errors of its own: botocore's, aiohttp's, Google's, Azure's.
            told = self._explained(error)
            if told is not None:
                raise told from error
            if target.size is not None and is_absent(error):
                raise target.changed() from error
            raise LineCut(self._scrubbed(error)) from error

    def _explained(self, error: BaseException) -> TrainerOpsError | None:
        return explain(error, self.source, anonymous=self.anonymous, server=self._server())

    def _server(self) -> str:
        """Who is asked, where a scheme is served by many; "" for who has it alone."""
        return ""

    def _scrubbed(self, error: BaseException) -> str:
        """A driver's words, without what they must not show."""
        words = str(error) or type(error).__name__
        for value in _texts(self._options):
            words = words.replace(value, "…")
        return " ".join(words.split())[:300]

    def _nothing(self) -> InvalidRequest:
        """There is no such object or prefix, or not even the bucket."""
        scheme, _, above = self.source.uri.partition("://")
        there: list[str] | None = []
        while not there and "/" in above:
            above = above.rpartition("/")[0]
            there = self._names(above)
        if there is None or (not there and self._names(above) is None):
            return no_bucket(self.source, self._server())
        shown = ", ".join(there[:_NAMES]) + (f" and {len(there) - _NAMES} more" if len(there) > _NAMES else "")
        return InvalidRequest(
            "uri",
            f"there is no object {self.source.uri}, and none below it",
            f"In {scheme}://{above} there are: {shown}." if there else f"{scheme}://{above} is empty.",
        )

    def _names(self, folder: str) -> list[str] | None:
        """What is right below a folder; None where there is no such folder."""
        try:
            found: list[str] = self._fs.ls(folder, detail=False)
        except FileNotFoundError:
            return None
        except Exception:
            # This only makes an error more helpful; whatever is wrong here, that error is the one to tell.
            return []
        return sorted({name.rstrip("/").rpartition("/")[2] for name in found})


def _walks(fs: Any) -> bool:
    """Whether it lists folder by folder, as fsspec does for drivers that know nothing better."""
    from fsspec import AbstractFileSystem
    from fsspec.asyn import AsyncFileSystem

    own = getattr(type(fs), "_find", None) if isinstance(fs, AsyncFileSystem) else type(fs).find
    return own in (AbstractFileSystem.find, AsyncFileSystem._find)


def _walked(fs: Any, root: str) -> dict[str, dict[str, Any]]:
    """Everything below a folder. fsspec's own walk leaves out what cannot be listed, and says nothing."""
    found: dict[str, dict[str, Any]] = {}
    folders = [root]
    while folders:
        folder = folders.pop()
        for info in fs.ls(folder, detail=True):
            name = info["name"].rstrip("/")
            if info["type"] != "directory":
                found[info["name"]] = info
            elif name != folder:
                folders.append(name)
    return found


def _version(info: Mapping[str, Any]) -> str:
    """What tells this content from a later one: Google's generation, an ETag, a time."""
    for name in ("generation", "ETag", "etag", "LastModified", "last_modified", "updated", "mtime", "created"):
        if info.get(name):
            return str(info[name])
    raise SnapshotError(
        "the driver does not say what tells an object from a later one of the same name",
        remedy="This driver cannot be used for snapshots.",
    )


def _md5(info: Mapping[str, Any]) -> str:
    """Google's digest of an object. An ETag of S3 is not taken for one: that of an encrypted object is none."""
    try:
        return base64.b64decode(str(info.get("md5Hash") or ""), validate=True).hex()
    except binascii.Error:
        return ""


def _texts(value: object) -> Iterator[str]:
    """All texts in options that are long enough to be a secret, the longest first where one holds another."""
    found: list[str] = []
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, Mapping):
        found += [text for each in value.values() for text in _texts(each)]
    yield from sorted((text for text in found if len(text) > 5), key=len, reverse=True)
