"""Looking into JSON of unknown shape without raising, and writing what was found as text."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["at", "close_to", "find", "flat", "items", "mapping", "named", "number", "repeated", "show", "text", "texts"]


def mapping(value: Any) -> Mapping[Any, Any]:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Any]:
    """The value's items where it is a list, else none."""
    return list(value) if isinstance(value, list | tuple) else []


def text(value: Any) -> str:
    """The value where it is text, else ""."""
    return value if isinstance(value, str) else ""


def texts(value: Any) -> list[str]:
    """The items of a list that are text."""
    return [item for item in items(value) if isinstance(item, str)]


def number(value: Any) -> int | None:
    """The value where it is a whole number of 64 bits (2 and 2.0, but not true), else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -(2**63) <= value < 2**63:
        return None
    return int(value) if isinstance(value, int) or value.is_integer() else None


def at(value: Any, path: str) -> Any:
    """What is at a path of names such as ``spec.trainer``, None where there is nothing."""
    for name in path.split("."):
        value = mapping(value).get(name)
    return value


def find(value: Any, pattern: str) -> Iterator[tuple[str, Any]]:
    """Every place that fits ``spec.runtimePatches[].manager``, with its path; absent and null ones are left out."""
    found = [("", value)]
    for part in pattern.split("."):
        name = part.removesuffix("[]")
        found = [(f"{path}.{name}" if path else name, mapping(held).get(name)) for path, held in found]
        if part != name:
            found = [(f"{path}[{i}]", item) for path, held in found for i, item in enumerate(items(held))]
    yield from ((path, held) for path, held in found if held is not None)


def named(value: Any) -> list[tuple[int, str, Mapping[Any, Any]]]:
    """The mappings of a list that have a name in text: (index, name, mapping)."""
    return [
        (i, name, mapping(item)) for i, item in enumerate(items(value)) if (name := text(mapping(item).get("name")))
    ]


def repeated(values: Iterable[str]) -> list[str]:
    """What occurs more than once, in the order of first occurrence."""
    return [value for value, count in Counter(values).items() if count > 1]


def show(value: Any, limit: int = 60) -> str:
    """A value as it stands in JSON, cut at ``limit`` characters."""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def flat(name: str) -> str:
    """A name without what people get wrong about it: case, underscores, hyphens."""
    return name.replace("_", "").replace("-", "").lower()


def close_to(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, "" when none is near."""
    by_flat = {flat(one): one for one in known}
    close = difflib.get_close_matches(flat(name), by_flat, n=1, cutoff=0.7)
    return by_flat[close[0]] if close else ""
