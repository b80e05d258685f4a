"""What a snapshot holds, file by file. Pure."""

from __future__ import annotations

import hashlib
import itertools
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.provider import Listing, RemoteFile, SnapshotError
from trainer_ops.initializers.source import Source
from trainer_ops.model.snapshot import FORMAT, Snapshot, SnapshotKind

__all__ = ["FileEntry", "Manifest", "check_clashes", "select", "taken"]

_NAMES_SHOWN: Final = 8
# What Linux and macOS take; a longer name could be listed but not written.
_NAME_BYTES: Final = 255
_PATH_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a snapshot.

    Attributes:
        path: relative to its data folder, with ``/``.
        size: bytes.
        sha256: hex.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A snapshot's description, kept beside its files; written last, so where it is the snapshot is whole.

    Attributes:
        key: see ``model.snapshot``.
        uri: canonical source.
        revision: resolved.
        asked: the revision as asked ("main").
        include: patterns.
        ignore: patterns.
        created: seconds since the epoch.
        tool: name and version of what wrote it.
        count: how many files.
        size: bytes of all files together.
        digest: ``sha256:…`` over path, size and sha256 of all files: equal for equal content, wherever it comes from.
        files: sorted by path; left out (()) in what a store's ``find`` and ``list`` give.
        used: seconds since the epoch; when it was last asked for, as far as the store can say. Not in the JSON.
    """

    key: str
    uri: str
    revision: str
    asked: str = ""
    include: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    created: float = 0.0
    tool: str = ""
    count: int = 0
    size: int = 0
    digest: str = ""
    files: tuple[FileEntry, ...] = ()
    used: float = 0.0

    @classmethod
    def of(
        cls, key: str, source: Source, revision: str, files: Iterable[FileEntry], *, now: float, tool: str
    ) -> Manifest:
        """The manifest of these files."""
        ordered = tuple(sorted(files, key=lambda entry: entry.path))
        return cls(
            key=key,
            uri=source.uri,
            revision=revision,
            asked=source.revision,
            include=tuple(source.include),
            ignore=tuple(source.ignore),
            created=now,
            tool=tool,
            count=len(ordered),
            size=sum(entry.size for entry in ordered),
            digest=_digest(ordered),
            files=ordered,
            used=now,
        )

    def snapshot(self, kind: SnapshotKind, location: str, *, hit: bool) -> Snapshot:
        """What is told of it to pipelines."""
        return Snapshot(
            kind=kind,
            uri=self.uri,
            revision=self.revision,
            key=self.key,
            location=location,
            digest=self.digest,
            files=self.count,
            size=self.size,
            hit=hit,
        )

    def to_json(self) -> dict[str, Any]:
        """Everything but the files, and when it was used."""
        return {**self._head(), "used": self.used}

    def dump(self) -> str:
        """The JSON text: everything but the files on the first line, so that ``head`` need not read a million names."""
        lines = (json.dumps({"path": f.path, "size": f.size, "sha256": f.sha256}) for f in self.files)
        return json.dumps(self._head())[:-1] + ', "files": [\n' + ",\n".join(lines) + "\n]}\n"

    def _head(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "key": self.key,
            "uri": self.uri,
            "revision": self.revision,
            "asked": self.asked,
            "include": list(self.include),
            "ignore": list(self.ignore),
            "created": self.created,
            "tool": self.tool,
            "count": self.count,
            "bytes": self.size,
            "digest": self.digest,
        }

    @classmethod
    def head(cls, first_line: str) -> Manifest:
        """Everything but the files.

        Raises:
            ValueError: it is not the first line of a manifest of this format.
        """
        return cls._of(json.loads(first_line + "]}"))

    @classmethod
    def load(cls, text: str) -> Manifest:
        """The inverse of ``dump``.

        Raises:
            ValueError: it is not a manifest of this format, or it was changed.
        """
        data = json.loads(text)
        head = cls._of(data)
        try:
            files = tuple(FileEntry(f["path"], f["size"], f["sha256"]) for f in data["files"])
        except (KeyError, TypeError) as problem:
            raise ValueError(f"not a snapshot's manifest: {problem!r}") from problem
        if _digest(files) != head.digest:
            raise ValueError("the manifest's digest does not fit its files")
        return replace(head, files=files)

    @classmethod
    def _of(cls, data: Any) -> Manifest:
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise ValueError("not a snapshot's manifest of this format")
        try:
            return cls(
                key=data["key"],
                uri=data["uri"],
                revision=data["revision"],
                asked=data.get("asked", ""),
                include=tuple(data.get("include", ())),
                ignore=tuple(data.get("ignore", ())),
                created=float(data["created"]),
                tool=data.get("tool", ""),
                count=data["count"],
                size=data["bytes"],
                digest=data["digest"],
                used=float(data["created"]),
            )
        except (KeyError, TypeError) as problem:
            raise ValueError(f"not a snapshot's manifest: {problem!r}") from problem


def _digest(files: Sequence[FileEntry]) -> str:
    # The path as JSON has neither a line end nor a raw space in front of the size: no two sets of files give one text.
    lines = "".join(f"{json.dumps(entry.path)} {entry.size} {entry.sha256}\n" for entry in files)
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def select(listing: Listing, source: Source) -> tuple[RemoteFile, ...]:
    """The files that the patterns take, sorted by path.

    Patterns are those of ``huggingface_hub``: ``*`` goes over ``/`` too, and ``folder/`` is all below it.

    Raises:
        InvalidRequest: nothing is left, field ``include`` or ``uri``.
        SnapshotError: a path cannot be a file below a folder, or two cannot be there at once.
    """
    files = [file for file in listing.files if not (file.path.endswith("/") and not file.size)]
    chosen = [file for file in files if taken(file.path, source)]
    if not chosen:
        raise _nothing(files, source)
    for file in chosen:
        _check_path(file.path, source)
    chosen.sort(key=lambda file: file.path)
    _check_folders(chosen, source)
    return tuple(chosen)


def taken(path: str, source: Source) -> bool:
    """Whether the patterns take a path."""
    included = not source.include or any(_matches(path, pattern) for pattern in source.include)
    return included and not any(_matches(path, pattern) for pattern in source.ignore)


def _matches(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern + "*" if pattern.endswith("/") else pattern)


def _nothing(files: Sequence[RemoteFile], source: Source) -> InvalidRequest:
    if not files:
        return InvalidRequest("uri", f"{source.uri} holds no files", "Check the path; an empty source is no snapshot.")
    names = sorted(file.path for file in files)
    shown = ", ".join(names[:_NAMES_SHOWN]) + (f" and {len(names) - _NAMES_SHOWN} more" * (len(names) > _NAMES_SHOWN))
    field = "include" if source.include else "ignore"
    said = ", ".join(source.include if source.include else source.ignore)
    if source.include and source.ignore:
        said += f" without {', '.join(source.ignore)}"
    left = "matches none of" if source.include else "leaves none of"
    return InvalidRequest(field, f"{said} {left} the {len(names)} files of {source.uri}", f"There are: {shown}.")


def _check_path(path: str, source: Source) -> None:
    parts = path.split("/")
    problem = ""
    if not path or path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        problem = "would not be a file below the snapshot's folder"
    elif "\0" in path:
        problem = "holds a NUL character"
    elif any("\ud800" <= char <= "\udfff" for char in path):
        problem = "is not valid UTF-8"
    elif len(path.encode()) > _PATH_BYTES or any(len(part.encode()) > _NAME_BYTES for part in parts):
        problem = "is too long to be a file's name here"
    if problem:
        # !a: whatever is in that name, the message can be printed.
        raise SnapshotError(
            f"{source.uri} holds {path[:200]!a}, which {problem}", remedy="Leave it out with an ignore pattern."
        )


def _check_folders(files: Sequence[RemoteFile], source: Source) -> None:
    """No path twice, and none that is a file and a folder: object stores have such."""
    paths = {file.path for file in files}
    if len(paths) < len(files):
        twice = next(a.path for a, b in itertools.pairwise(files) if a.path == b.path)
        raise SnapshotError(f'{source.uri} lists "{twice}" twice', remedy="This is a fault of the source.")
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder:
            if folder in paths:
                raise SnapshotError(
                    f'{source.uri} holds "{folder}" as a file and "{path}" below it',
                    remedy="Leave one of them out with an ignore pattern.",
                )
            folder = folder.rpartition("/")[0]


def check_clashes(files: Iterable[RemoteFile], source: Source) -> None:
    """For a file system that takes ``A`` and ``a`` for one name.

    Raises:
        SnapshotError: two paths, or the folders above them, differ only in case or in how an accent is written.
    """
    seen: dict[str, str] = {}
    for file in files:
        above = ""
        for part in file.path.split("/"):
            above = f"{above}/{part}" if above else part
            other = seen.setdefault(unicodedata.normalize("NFC", above).casefold(), above)
            if other != above:
                raise SnapshotError(
                    f'{source.uri} holds "{other}" and "{above}", which are one name on this file system',
                    remedy="Leave one of them out with an ignore pattern, or take the snapshot on Linux.",
                )
