"""Text for a terminal: numbers and lengths for people, styled spans. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from trainer_ops.model.numbers import number_text

__all__ = ["Spans", "cut", "fold", "number_text", "plain", "roughly", "size_text", "table", "wide", "wrap"]

# (text, style) pairs; styles are rich's, "" is none. Made into rich.Text where there is a terminal.
Spans = Sequence[tuple[str, str]]


def plain(spans: Spans) -> str:
    """The text alone."""
    return "".join(text for text, _ in spans)


def wide(text: str) -> int:
    """Columns that a text takes: East Asian wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def cut(text: str, width: int, *, ellipsis: str = "…") -> str:
    """The text, with its end replaced by ``…`` when it is wider than ``width`` columns."""
    if wide(text) <= width:
        return text
    if width <= 0:
        return ""
    room, kept = width - 1, ""
    for char in text:
        room -= wide(char)
        if room < 0:
            break
        kept += char
    return kept.rstrip() + ellipsis


def wrap(text: str, width: int, indent: str) -> list[str]:
    """Paragraph lines of at most ``width`` columns; the second and later ones start with ``indent``."""
    lines: list[str] = []
    current = ""
    for token in text.split():
        room = width - (len(indent) if lines else 0)
        if current and wide(current) + 1 + wide(token) > room:
            lines.append(current)
            current = token
        else:
            current = f"{current} {token}" if current else token
    lines.append(current)
    return [lines[0], *(indent + line for line in lines[1:])]


def fold(text: str, width: int) -> list[str]:
    """The text in pieces of at most ``width`` columns, the later ones indented by two more than the text is."""
    pieces: list[str] = []
    indent = " " * min(len(text) - len(text.lstrip(" ")) + 2, width // 2)
    while wide(text) > width:
        piece = cut(text, width + 1, ellipsis="")
        pieces.append(piece)
        text = indent + text[len(piece) :].lstrip(" ")
    return [*pieces, text]


def roughly(seconds: float) -> str:
    """A length of time that is an estimate: ``17 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{max(0, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} d"


def size_text(size: float) -> str:
    """Bytes as a person reads them: ``512 B``, ``1.7 GB``; powers of ten, as disks and networks are sold."""
    for unit in ("B", "kB", "MB", "GB"):
        # 999.6 would be written as 1000.
        if size < 999.5:
            return f"{size:.1f} {unit}" if unit != "B" and size < 9.95 else f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, width: int | None, right: frozenset[int] = frozenset()
) -> list[list[str]]:
    """Cells padded so that columns stand below each other, the header's row first.

    The last column is cut so that a row takes at most ``width`` columns (None: nothing is cut); when that leaves it
    fewer than 12, the first is cut as well. Columns in ``right`` are set to the right.
    """
    lines = [list(header), *(list(row) for row in rows)]
    sizes = [max(wide(line[column]) for line in lines) for column in range(len(header))]
    if width is not None:
        gaps = 2 * (len(sizes) - 1)
        over = sum(sizes[:-1]) + gaps + min(12, sizes[-1]) - width
        sizes[0] = max(12, sizes[0] - over) if over > 0 else sizes[0]
        sizes[-1] = max(4, min(sizes[-1], width - sum(sizes[:-1]) - gaps))
    last = len(sizes) - 1
    return [[_cell(cell, sizes[i], i in right, i == last) for i, cell in enumerate(line)] for line in lines]


def _cell(text: str, size: int, right: bool, last: bool) -> str:
    short = cut(text, size)
    pad = " " * (size - wide(short))
    return pad + short if right else short if last else short + pad
