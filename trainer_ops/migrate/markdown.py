"""Fenced code blocks of Markdown that may hold YAML or JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Fence", "fences"]

_OPEN = re.compile(r"^([ \t>]*)(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n`]*\n", re.M)
_LANGUAGES = frozenset(("", "yaml", "yml", "json", "console", "text"))


@dataclass(frozen=True, slots=True)
class Fence:
    """One block.

    Attributes:
        start: where its first line begins.
        end: where the closing fence's line begins.
        margin: what all its lines begin with (a list's indentation, the sign of a quote).
        text: its lines without the margin.
    """

    start: int
    end: int
    margin: str
    text: str


def fences(text: str) -> Iterator[Fence]:
    """The blocks whose language is YAML, JSON, or not said."""
    position = 0
    while opened := _OPEN.search(text, position):
        margin, marks, language = opened.groups()
        closing = re.compile(rf"^[ \t>]*{re.escape(marks[0])}{{{len(marks)},}}[ \t]*\r?$", re.M)
        closed = closing.search(text, opened.end())
        end = closed.start() if closed else len(text)
        position = closed.end() if closed else len(text)
        if language.lower() in _LANGUAGES:
            body = text[opened.end() : end]
            yield Fence(opened.end(), end, margin, _without(body, margin))


def _without(body: str, margin: str) -> str:
    if not margin:
        return body
    return "".join(line.removeprefix(margin) for line in body.splitlines(keepends=True))
