"""YAML as people write it, line by line and with the path that each line is of, so that comments find their place.

Own, because the bytes must be the same with every version of PyYAML, and because its writer knows no paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer_ops.migrate.paths import Path

__all__ = ["Line", "literal", "render", "scalar", "to_yaml"]

_WORDS = frozenset(("", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "=", "<<"))
# What a reader of YAML 1.1 or 1.2 may take for a number or a date; more than they do is quoted, never less.
_NUMBER = re.compile(r"[-+]?[.\d][\d_.,:a-fA-FxXoO+-]*([ tT].*)?|[-+]?\.(inf|nan)", re.IGNORECASE)
_PLAIN = re.compile(r"[\w/.$(+^;<=-][\w/.$()+^;<>=~%@!?*&|\\\"'{}\[\], :#-]*", re.ASCII)
# What a variable may turn into a number, a date or true when it is filled in, and where only text may stand.
_FILLED_IN = re.compile(r"[\w.:-]*(?<!\$)\$(?:\{\w+\}|[A-Za-z_])[\w.:${}-]*", re.ASCII)
_TEXTS = ("command", "args", "labels", "annotations", "nodeSelector", "matchLabels")
_BLOCK = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\r\u2028\u2029\ufeff\ud800-\udfff]*")
# json leaves these as they are; YAML does not take them, or takes them for line ends.
_HIDDEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        path: of the value that begins here: the key, or the item of a list.
        text: with its indentation, without a line end.
        opens: a block scalar begins here, so nothing can be written after it.
    """

    path: Path
    text: str
    opens: bool = False

    @property
    def indent(self) -> int:
        """Columns before its first character."""
        return len(self.text) - len(self.text.lstrip(" "))


def to_yaml(value: Any) -> str:
    """One value as a document, with a line end."""
    return "".join(f"{line.text}\n" for line in render(value))


def render(value: Any, *, indent: int = 0) -> list[Line]:
    """The lines of a value, ``indent`` columns to the right."""
    if isinstance(value, Mapping) and value:
        return list(_mapping(value, (), indent))
    if _is_list(value) and value:
        return list(_items(value, (), indent))
    return list(_one("", value, (), indent))


def _mapping(value: Mapping[Any, Any], path: Path, indent: int) -> Iterator[Line]:
    for key, item in value.items():
        yield from _one(f"{scalar(str(key))}:", item, (*path, str(key)), indent)


def _items(value: Sequence[Any], path: Path, indent: int) -> Iterator[Line]:
    for index, item in enumerate(value):
        here = (*path, index)
        inner = _nested(item, here, indent + 2)
        if not inner:
            yield from _one("-", item, here, indent)
            continue
        first, *rest = inner
        yield Line(first.path, f"{' ' * indent}- {first.text[indent + 2 :]}", first.opens)
        yield from rest


def _nested(value: Any, path: Path, indent: int) -> list[Line]:
    if isinstance(value, Mapping) and value:
        return list(_mapping(value, path, indent))
    return list(_items(value, path, indent)) if _is_list(value) and value else []


def _one(head: str, value: Any, path: Path, indent: int) -> Iterator[Line]:
    pad = " " * indent
    inner = _nested(value, path, indent + 2)
    if inner:
        yield Line(path, pad + head)
        yield from inner
    elif isinstance(value, str) and "\n" in value and _blockable(value):
        yield from _literal(f"{pad}{head} " if head else pad, value, path, indent + 2)
    else:
        text = "{}" if isinstance(value, Mapping) else "[]" if _is_list(value) else scalar(value)
        if text == value and _FILLED_IN.fullmatch(text) and _is_text(path):
            text = _json(text)
        yield Line(path, f"{pad}{head} {text}" if head else pad + text)


def _is_text(path: Path) -> bool:
    """Whether Kubernetes takes nothing but text there, so that 1 has to be "1"."""
    return path[-1:] == ("value",) or path[-2:-1] in [(name,) for name in _TEXTS]


def _literal(head: str, value: str, path: Path, indent: int) -> Iterator[Line]:
    body = value.rstrip("\n")
    ends = len(value) - len(body)
    style = {0: "|-", 1: "|"}.get(ends, "|+")
    yield Line(path, head + style, opens=True)
    for text in (body + "\n" * max(0, ends - 1)).split("\n"):
        yield Line(path, " " * indent + text if text else "", opens=True)


def literal(value: str, *, indent: int) -> str:
    """A text of several lines as it stands behind a key: a block, or quoted when no block can say it."""
    if "\n" not in value or not _blockable(value):
        return scalar(value)
    return "\n".join(line.text for line in _literal("", value, (), indent))


def _blockable(value: str) -> bool:
    # A first line that begins with a space, or is empty, would need an indentation indicator.
    return _BLOCK.fullmatch(value) is not None and value[0] not in " \n\t" and not value.rstrip("\n")[-1:].isspace()


def scalar(value: Any) -> str:
    """A value that is no mapping or list, on one line: plain where every reader takes it for what it is."""
    if isinstance(value, float):
        # YAML 1.1 wants a point: 1e+16 is text there.
        return re.sub(r"^(-?\d+)e", r"\1.0e", json.dumps(value))
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    if _is_plain(value):
        return value
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", _json(value))


def _json(value: str) -> str:
    # Characters beyond ASCII stay readable; lone halves of pairs and those beyond 16 bits are escaped as YAML wants.
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _is_plain(value: str) -> bool:
    return (
        value.lower() not in _WORDS
        and _PLAIN.fullmatch(value) is not None
        and _NUMBER.fullmatch(value) is None
        and not value.startswith(("- ", "---", "..."))
        and value != "-"
        and not value.endswith((" ", ":"))
        and ": " not in value
        and " #" not in value
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
