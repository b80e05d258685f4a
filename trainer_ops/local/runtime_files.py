"""Runtimes that are applied to an engine: a file each, in its own folder, beside those that people put there."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trainer_ops.errors import InvalidRequest
from trainer_ops.local.catalogue import load_runtimes

__all__ = ["apply"]

Raw = dict[str, Any]


def apply(manifest: Mapping[str, Any], standing: Mapping[str, Any] | None, *, own: Path, others: Iterable[Path]) -> Raw:
    """Make the runtime be as the manifest says.

    Args:
        manifest: the runtime.
        standing: the one of its kind and name that the engine knows now, built in or from a file.
        own: the folder of applied runtimes; made when it is missing.
        others: files and folders with runtimes that are not ours to write.

    Returns:
        The runtime as the engine knows it from now on.

    Raises:
        InvalidRequest: the runtime is in a file that was not written here.
    """
    wanted = _merged(manifest, standing)
    if standing is not None and wanted == standing:
        return wanted
    kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])
    file = own / f"{kind}.{name}.yaml"
    ours = [own] if own.is_dir() and not file.exists() else []
    foreign = [path for path in (*ours, *others) if (kind, name) in load_runtimes([path])]
    if foreign:
        reason = f"{kind} {name} is in {foreign[0]} already, in a file that was not written from here"
        raise InvalidRequest("metadata.name", reason, "Change that file, or take it away", what="invalid runtime")
    _write(file, wanted)
    return wanted


def _merged(manifest: Mapping[str, Any], standing: Mapping[str, Any] | None) -> Raw:
    """The manifest, with the labels and annotations besides its own that the runtime has already."""
    wanted = copy.deepcopy(dict(manifest))
    metadata = {k: v for k, v in wanted["metadata"].items() if k != "namespace"}
    for notes in ("labels", "annotations"):
        known = ((standing or {}).get("metadata") or {}).get(notes) or {}
        if known or metadata.get(notes):
            metadata[notes] = {**known, **(metadata.get(notes) or {})}
    wanted["metadata"] = metadata
    return wanted


def _write(file: Path, raw: Raw) -> None:
    """Whole or not at all: other processes read the folder at any time."""
    import yaml

    file.parent.mkdir(parents=True, exist_ok=True)
    number, aside = tempfile.mkstemp(prefix=".", suffix=".new", dir=file.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as stream:
            yaml.safe_dump(raw, stream, sort_keys=False, allow_unicode=True)
        os.replace(aside, file)
    except BaseException:
        os.unlink(aside)
        raise
