"""The version of this tool, as its package metadata says it."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["tool_version"]


@cache
def tool_version() -> str:
    """``0.1.0``; ``0+unknown`` when run from a folder that was never installed."""
    try:
        return version("trainer-ops")
    except PackageNotFoundError:
        return "0+unknown"
