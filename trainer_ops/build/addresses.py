"""Addresses of a training's own nodes, in a TrainJob that is created under another name than its manifest's.

Nodes find each other as ``<name>-node-0-0.<name>``. Where that is written down, it has to follow the name: every run of
a DAG, and every attempt after the first, is a TrainJob of its own name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["follow_name"]


def follow_name(value: Any, old: str, new: str) -> Any:
    """A copy of nested data in whose texts addresses of nodes of ``old`` are those of ``new``."""
    return value if not old or old == new else _followed(value, _addresses(old), rf"{new}\g<1>{new}")


def _addresses(name: str) -> re.Pattern[str]:
    escaped = re.escape(name)
    return re.compile(rf"(?<![A-Za-z0-9_.-]){escaped}(-[a-z][a-z0-9-]*-0-\d+\.){escaped}(?![A-Za-z0-9_-])")


def _followed(value: Any, pattern: re.Pattern[str], by: str) -> Any:
    if isinstance(value, str):
        return pattern.sub(by, value)
    if isinstance(value, Mapping):
        return {key: _followed(item, pattern, by) for key, item in value.items()}
    return [_followed(item, pattern, by) for item in value] if isinstance(value, list) else value
