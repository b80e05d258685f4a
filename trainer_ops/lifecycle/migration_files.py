"""The files of a migration: found in folders, read, and written so that none is ever half written or lost."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainer_ops.errors import InvalidRequest
from trainer_ops.migrate.scan.any import wants

__all__ = ["STDIN", "Found", "find", "replace_file", "write_file"]

STDIN = "-"
_SUFFIXES = frozenset((".md", ".markdown", ".mdx", ".tpl"))
# What holds copies of others' files, or none that a person wrote.
_SKIPPED = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache"))
_SNIFFED = 8192


@dataclass(frozen=True, slots=True)
class Found:
    """One file to look at.

    Attributes:
        name: as it was given, or below the folder that was given; ``stdin``.
        data: its content.
        path: None for standard input.
        below: its path in an output folder.
        named: it was given itself, not a folder with it.
    """

    name: str
    data: bytes
    path: Path | None = None
    below: Path = Path("stdin.yaml")
    named: bool = True


def find(paths: Iterable[str], stdin: Iterable[bytes] = ()) -> list[Found]:
    """All files, in a fixed order, each once: those given as they are, of folders those that may hold jobs.

    Args:
        paths: files, folders, ``-``.
        stdin: what ``-`` is, in pieces.

    Raises:
        InvalidRequest: a path is not there, or cannot be read.
    """
    found: list[Found] = []
    seen: set[Path] = set()
    for given in paths:
        if given == STDIN:
            found.append(Found("stdin", b"".join(stdin)))
            continue
        top = Path(given)
        if not top.exists():
            raise InvalidRequest(given, "there is no such file or folder", "Check the path", what="unreadable input")
        for path in _below(top) if top.is_dir() else [top]:
            real = path.resolve()
            if real in seen:
                continue
            seen.add(real)
            below = path.relative_to(top) if top.is_dir() else Path(path.name)
            data = _read(path)
            if top.is_dir() and b"\0" in data[:_SNIFFED]:
                continue
            found.append(Found(str(path), data, path, below, named=not top.is_dir()))
    return found


def _below(top: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(names):
            path = Path(folder, name)
            wanted = path.suffix.lower() in _SUFFIXES or name == "kustomization" or wants(name)
            # A link out of the folder would let files be changed that nobody named; one within is seen anyway.
            if wanted and path.is_file() and not path.is_symlink():
                yield path


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        reason = f"cannot be read ({exc.strerror or exc})"
        raise InvalidRequest(str(path), reason, "Give files that you may read", what="unreadable input") from exc


def replace_file(found: Found, text: bytes) -> None:
    """Write a file anew in its place: aside first, with its mode, then renamed.

    Raises:
        InvalidRequest: it is not any more what was read, or cannot be written. It is as it was.
    """
    assert found.path is not None
    path = found.path.resolve()
    if _read(path) != found.data:
        reason = "it was changed by somebody else since it was read"
        raise InvalidRequest(str(found.path), reason, "Run it again", what="not written")
    _write(path, text, path.stat().st_mode & 0o7777, str(found.path), like=path.stat())


def write_file(path: Path, text: bytes) -> None:
    """Write a file, new or not, with the folders above it.

    Raises:
        InvalidRequest: it cannot be written; what was there is as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask()
    except OSError as exc:
        raise _unwritten(str(path), exc) from exc
    _write(path, text, mode, str(path))


def _write(path: Path, text: bytes, mode: int, name: str, *, like: os.stat_result | None = None) -> None:
    try:
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as exc:
        raise _unwritten(name, exc) from exc
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            if like is not None:
                # Before the mode, which a change of the owner may lower. Others than root may give nothing away.
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException as exc:
        Path(aside).unlink(missing_ok=True)
        if isinstance(exc, OSError):
            raise _unwritten(name, exc) from exc
        raise


def _unwritten(name: str, exc: OSError) -> InvalidRequest:
    remedy = "Give a folder that you may write to, with room in it"
    return InvalidRequest(name, f"cannot be written ({exc.strerror or exc})", remedy, what="not written")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
