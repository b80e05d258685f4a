"""Which module opens which scheme; each is imported when a source needs it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.provider import Credentials, Provider
from trainer_ops.initializers.source import Source, claim_of, folder_of

__all__ = ["open_provider"]

# Each module has ``open_source(source, credentials) -> Provider``.
_MODULES: Final = {"hf": "hub", "http": "http", "https": "http", "s3": "objects", "gs": "objects", "az": "objects"}
_EXTRAS: Final = {"gs": "gcs", "az": "azure"}


def open_provider(
    source: Source, credentials: Credentials | None = None, *, mounts: Mapping[str, str] | None = None
) -> Provider:
    """The provider of a source.

    Args:
        source: what ``source.parse`` made.
        credentials: for it; None for what the environment has.
        mounts: claims that are mounted here, by name: what ``pvc://`` may read.

    Raises:
        InvalidRequest: field ``uri``: its driver is not installed, or its claim is not mounted here.
    """
    if source.scheme in ("file", "pvc"):
        return _folder(source, mounts or {})
    try:
        module = importlib.import_module(f"trainer_ops.initializers.{_MODULES[source.scheme]}")
        opened: Provider = module.open_source(source, credentials or Credentials())
    except ImportError as missing:
        extra = _EXTRAS.get(source.scheme, "initializers")
        raise InvalidRequest(
            "uri",
            f"{source.scheme}:// needs packages that are not installed ({missing.name or missing})",
            f"pip install 'trainer-ops[{extra}]'",
        ) from missing
    return opened


def _folder(source: Source, mounts: Mapping[str, str]) -> Provider:
    from trainer_ops.initializers.files import FileProvider

    if source.scheme == "file":
        return FileProvider(source, Path(folder_of(source.uri)))
    claim = claim_of(source.uri)
    if claim not in mounts:
        raise InvalidRequest(
            "uri",
            f"the claim {claim} is not mounted here",
            "A pvc:// source is read by a step on its cluster; here give file:///folder.",
        )
    return FileProvider(source, Path(mounts[claim]) / folder_of(source.uri))
