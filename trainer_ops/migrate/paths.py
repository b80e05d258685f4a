"""Paths into nested data: tuples inside, text for people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["Path", "get", "leaves", "text_of"]

Path = tuple[str | int, ...]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def text_of(path: Path) -> str:
    """``spec.containers[0].env[2].value``; names that are no plain words in brackets: ``labels["a.io/b"]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every leaf with its path: a scalar, or an empty mapping or list."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, str(key)))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


def get(value: Any, path: Path) -> Any:
    """What is there; None when nothing is."""
    for part in path:
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, Sequence) and not isinstance(value, str) and isinstance(part, int):
            value = value[part] if part < len(value) else None
        else:
            return None
    return value
