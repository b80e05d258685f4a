"""One word for what a model is made from: equal fingerprints mean that training again would learn nothing new."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.snapshot import Snapshot

__all__ = ["Part", "fingerprint"]

# Text, a file or a folder, a snapshot (or its JSON, as XCom and KFP carry it), settings as plain data.
Part = str | Path | Snapshot | Mapping[str, Any]

_FIELD: Final = "fingerprint"
_CHUNK: Final = 1 << 20
# What Python and editors leave beside code; it changes without the code.
_NOISE: Final = frozenset({"__pycache__", ".git", ".ipynb_checkpoints", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


def fingerprint(*parts: Part) -> str:
    """``sha256:…`` over the parts, in this order.

    A path counts by what is in it (a folder by the names and contents of its files), not by where it is: the checkout
    of another machine gives the same. A snapshot counts by its content, not by whether it was there already. A text is
    itself: give a ``Path`` for a file.

    Raises:
        InvalidRequest: field ``fingerprint``: a path is not there or cannot be read, or data is no JSON.
    """
    total = hashlib.sha256()
    for part in parts:
        kind, digest = _part(part)
        total.update(f"{kind}:{digest}\n".encode())
    return f"sha256:{total.hexdigest()}"


def _part(part: object) -> tuple[str, str]:
    if isinstance(part, Snapshot):
        return "snapshot", part.digest or part.key
    if isinstance(part, Path):
        return ("folder", _folder(part)) if part.is_dir() else ("file", _file(part))
    if isinstance(part, str):
        return "text", hashlib.sha256(part.encode()).hexdigest()
    if isinstance(part, Mapping):
        found = _snapshot(part)
        return _part(found) if found is not None else ("data", _data(part))
    kind = type(part).__name__
    raise InvalidRequest(_FIELD, f"a part is a {kind}", "Give text, a Path, a Snapshot or a mapping of plain data")


def _snapshot(data: Mapping[str, Any]) -> Snapshot | None:
    """The snapshot whose JSON this is: it says "hit" the second time, and is the same snapshot all the same."""
    if not {"kind", "uri", "revision", "key", "location"} <= data.keys():
        return None
    return Snapshot.from_json(data)


def _data(data: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise InvalidRequest(_FIELD, f"a mapping is no JSON: {exc}", "Give plain data") from exc
    return hashlib.sha256(text.encode()).hexdigest()


def _folder(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(_files(folder), key=lambda found: found.relative_to(folder).as_posix()):
        name = os.fsencode(path.relative_to(folder).as_posix())
        total.update(b"%d:%s:%s\n" % (len(name), name, _file(path).encode()))
    return total.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    """All files below, those of linked folders too; a ring of links is walked once."""
    seen: set[tuple[int, int]] = set()
    for root, names, files in os.walk(folder, followlinks=True, onerror=_unreadable):
        found = os.stat(root)
        if (found.st_dev, found.st_ino) in seen:
            names.clear()
            continue
        seen.add((found.st_dev, found.st_ino))
        names[:] = sorted(name for name in names if name not in _NOISE)
        yield from (Path(root, name) for name in files)


def _file(path: Path) -> str:
    total = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                total.update(chunk)
    except OSError as exc:
        _unreadable(exc)
    return total.hexdigest()


def _unreadable(exc: OSError) -> None:
    reason = f'"{exc.filename}" cannot be read ({exc.strerror})'
    raise InvalidRequest(_FIELD, reason, f"Give a path as seen from {Path.cwd()}") from exc
