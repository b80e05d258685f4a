"""Digests of files, in one reading and little memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["digests_of", "sha256_of"]

_CHUNK: Final = 1 << 20


def sha256_of(path: Path) -> str:
    """Hex."""
    return digests_of(path, ("sha256",))["sha256"]


def digests_of(path: Path, names: Sequence[str]) -> dict[str, str]:
    """Several digests in hex; ``blob_sha1`` is git's id of a blob.

    Args:
        path: a file; nobody writes to it.
        names: of ``sha256``, ``md5``, ``blob_sha1``.
    """
    hashes = {name: _new(name, path) for name in names}
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            for one in hashes.values():
                one.update(view[:count])
    return {name: one.hexdigest() for name, one in hashes.items()}


def _new(name: str, path: Path) -> Any:
    if name == "blob_sha1":
        made = hashlib.sha1(usedforsecurity=False)
        made.update(f"blob {path.stat().st_size}\0".encode())
        return made
    return hashlib.md5(usedforsecurity=False) if name == "md5" else hashlib.sha256()
