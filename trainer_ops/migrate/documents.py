"""Text to documents: where each stands, byte for byte, and what is wrong with it, by line.

Only documents in which something of Kubeflow is named are parsed; all others are text that stays as it is. So a file
that is broken elsewhere can still be migrated, and a thousand documents cost little.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trainer_ops.migrate.nodes import Built, Problem, Unreadable, build, end_of

if TYPE_CHECKING:
    from trainer_ops.migrate.paths import Path

__all__ = [
    "BOM",
    "Document",
    "Edit",
    "Problem",
    "Unreadable",
    "decode",
    "edited",
    "line_end",
    "names_kubeflow",
    "read",
]

BOM = "\ufeff"
_JOBS = "pytorch|tf|mpi|xgboost|paddle|jax|mx"
# A document without any of these is none of ours.
_OURS = re.compile(
    rf"kubeflow\.org|({_JOBS})job|podSpecOverrides|podTemplateOverrides|TrainingRuntime|{{{{-?\s*\.Values", re.I
)
_BREAK = "\n\r\x85\u2028\u2029"
# The start and the end of a document; both count at the start of a line only, so not inside an indented block scalar.
_MARK = re.compile(rf"(?:^|(?<=[{_BREAK}{BOM}]))(?:---|\.\.\.)(?=[ \t{_BREAK}]|\Z)")
_KIND = re.compile(r"""^["']?kind["']?\s*:\s*["']?(\w+)""", re.M)
_NO_CONTENT = re.compile(rf"(?:[ \t]*(?:#[^{_BREAK}]*)?[{_BREAK}]|%[^{_BREAK}]*[{_BREAK}])*")
_REST = re.compile(rf"(?:[ \t]+#[^{_BREAK}]*)?")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One document.

    Attributes:
        index: counted from 1; empty ones are not counted.
        line: the line in the text on which its content begins, counted from 1.
        start: where its content begins in the text: behind the comments above it.
        end: where its content ends: after its last line that is no comment, without the line's end.
        is_json: it is JSON, and so is what replaces it.
        kind: what it says it is, "" when it does not.
        built: its content with positions; None when nothing of Kubeflow is named in it, or it cannot be read.
        problem: why it cannot be read.
        origin: where the text begins that its nodes count their positions from.
    """

    index: int
    line: int
    start: int
    end: int
    is_json: bool = False
    kind: str = ""
    built: Built | None = None
    problem: Problem | None = None
    origin: int = 0

    @property
    def value(self) -> Any:
        """Its content, None when it was not parsed."""
        return self.built.value if self.built is not None else None

    def line_of(self, path: Path) -> int:
        """The line in the text where a path begins, or the nearest one above it that is known."""
        lines: Mapping[Path, int] = self.built.lines if self.built is not None else {}
        while path and path not in lines:
            path = path[:-1]
        return lines.get(path, self.line)


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Put ``text`` where the text from ``start`` to ``end`` is."""

    start: int
    end: int
    text: str = field(compare=False)


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits, which do not overlap, made; what they do not touch is the same."""
    parts: list[str] = []
    done = 0
    for edit in sorted(edits):
        parts += [text[done : edit.start], edit.text]
        done = edit.end
    return "".join([*parts, text[done:]])


def names_kubeflow(text: str) -> bool:
    """Whether there is anything in a text that this package looks at."""
    return _OURS.search(text) is not None


def decode(data: bytes) -> str:
    """UTF-8 text, a byte order mark kept.

    Raises:
        Unreadable: with the line and the place of the byte that is none.
    """
    # YAML's own rule (1.2, 5.2): with no mark of the byte order, where the zeros of the first character are tells it.
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or (len(data) > 1 and data[:2].count(0) == 1):
        raise Unreadable(Problem(1, "the file is UTF-16", "Save it as UTF-8"))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        column = exc.start - data.rfind(b"\n", 0, exc.start)
        reason = f"byte 0x{data[exc.start]:02x} (byte {exc.start + 1} of the file) is not UTF-8 text"
        raise Unreadable(Problem(line, reason, "Save the file as UTF-8", column)) from exc


def read(text: str, *, all_of_it: bool = False) -> tuple[Document, ...]:
    """The documents of a text, in order.

    Args:
        text: YAML of several documents, JSON, or several JSON values.
        all_of_it: parse documents too that name nothing of Kubeflow.
    """
    breaks = [found.end() for found in re.finditer(r"\r\n|[\n\r\x85\u2028\u2029]", text)]
    found: list[Document] = []
    for start, end in _chunks(text):
        for document in _documents(text, start, end, breaks, all_of_it):
            found.append(replace(document, index=len(found) + 1))
    return tuple(found)


def _chunks(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of what stands between the marks of documents."""
    start = 1 if text.startswith(BOM) else 0
    for mark in _MARK.finditer(text, start):
        yield start, mark.start()
        start = mark.end()
    yield start, len(text)


def _content(text: str, start: int, end: int) -> int | None:
    """Where content begins: behind empty lines, comments and directives; None when there is none."""
    above = _NO_CONTENT.match(text, start, end)
    first = above.end() if above else start
    rest = text[first:end].lstrip(" \t")
    return None if not rest or rest.startswith(("#", "%")) else first


def _documents(text: str, start: int, end: int, breaks: list[int], every: bool) -> Iterator[Document]:
    first = _content(text, start, end)
    if first is None:
        return
    chunk = text[first:end]
    ours = every or names_kubeflow(chunk)
    stripped = chunk.lstrip()
    if ours and stripped[:1] in ("{", "[") and not stripped.startswith("{{"):
        values = _json_values(text, first, end, breaks)
        if values is not None:
            yield from values
            return
    line = _line(breaks, first + len(chunk) - len(stripped))
    kind = _KIND.search(chunk)
    name = kind.group(1) if kind else ""
    if not ours:
        yield Document(0, line, first, end, False, name)
        return
    try:
        built = build(chunk, first_line=_line(breaks, first), first_column=_column(breaks, first))
    except Unreadable as exc:
        yield Document(0, line, first, end, False, name, None, exc.problem, first)
        return
    last = first + line_end(chunk, end_of(built.node, chunk))
    yield Document(0, line, first, last, False, _kind(built.value) or name, built, None, first)


def line_end(text: str, position: int) -> int:
    """The end of the line on which a value ends, with the comment behind it and without the line's end."""
    position = len(text[:position].rstrip())
    return _REST.match(text, position).end()  # type: ignore[union-attr]


def _json_values(text: str, first: int, last: int, breaks: list[int]) -> list[Document] | None:
    """Documents of JSON values one after the other; None when it is not JSON."""
    decoder = json.JSONDecoder(parse_constant=_no_number)
    found: list[Document] = []
    while first < last:
        first += len(text[first:last]) - len(text[first:last].lstrip())
        try:
            value, end = decoder.raw_decode(text, first)
        except (ValueError, RecursionError):
            return None
        # Tabs are no part of a value there, and YAML does not know pairs of escapes; positions stay the same.
        masked = _SURROGATE.sub(r"\\u0041", text[first:end].replace("\t", " "))
        line = _line(breaks, first)
        try:
            built = build(masked, first_line=line, first_column=0, value=value)
            found.append(Document(0, line, first, end, True, _kind(value), built, None, first))
        except Unreadable as exc:
            found.append(Document(0, line, first, end, True, _kind(value), None, exc.problem, first))
        first = end
        if not text[first:last].strip():
            break
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _kind(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


def _line(breaks: list[int], position: int) -> int:
    return bisect.bisect_right(breaks, position) + 1


def _column(breaks: list[int], position: int) -> int:
    at = bisect.bisect_right(breaks, position)
    return position - (breaks[at - 1] if at else 0)
