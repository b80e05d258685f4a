"""Comments of a v1 job: each to the line that says now what its line said, else into a block above."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainer_ops.migrate.ledger import Entry
from trainer_ops.migrate.paths import Path, get, leaves, text_of
from trainer_ops.migrate.yamltext import Line

if TYPE_CHECKING:
    from trainer_ops.migrate.nodes import Built

__all__ = ["HEADING", "Comment", "comments", "placed"]

HEADING = "# Comments of the v1 job on what has no place here:"
_IN_GAP = re.compile(r"(?:(?<=[ \t\n\r])|^)#[^\n\r]*")
_BLOCK_HEAD = re.compile(r"[|>][-+0-9]*[ \t]+(#[^\n\r]*)")


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment.

    Attributes:
        text: with its ``#``.
        path: of what it stands at, in the job.
        behind: it stands behind its value on the same line, not above it.
    """

    text: str
    path: Path
    behind: bool


def comments(text: str, built: Built, site: Path, span: tuple[int, int]) -> tuple[Comment, ...]:
    """The comments within one job.

    Args:
        text: what was parsed.
        built: what it is.
        site: where in it the job is.
        span: where the job begins and ends in the text.
    """
    start, end = span
    if "#" not in text[start:end]:
        return ()
    rows = _Rows(text, built, site)
    found = []
    for position, said in _found(text):
        if start <= position < end:
            path, behind = rows.at(position)
            found.append(Comment(said.rstrip(), path[len(site) :], behind))
    return tuple(found)


def _found(text: str) -> Iterator[tuple[int, str]]:
    """(position, text) of what lies between the tokens of YAML."""
    import yaml

    done = 0
    for token in yaml.scan(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        start, end = token.start_mark.index, token.end_mark.index
        if start > done:
            for found in _IN_GAP.finditer(text, done, start):
                yield found.start(), found[0]
        if end > start and text[start] in "|>":
            head = _BLOCK_HEAD.match(text, start, end)
            if head:
                yield head.start(1), head[1]
        done = max(done, end)
    for found in _IN_GAP.finditer(text, done):
        yield found.start(), found[0]


class _Rows:
    """Which path a line is of."""

    def __init__(self, text: str, built: Built, site: Path) -> None:
        self._text = text
        self._starts = [0, *(found.end() for found in re.finditer(r"\r\n|[\n\r]", text))]
        self._flows: list[tuple[int, int, Path]] = []
        # Of every line with the start of a value: its outermost and its innermost path.
        self._first: dict[int, Path] = {}
        self._last: dict[int, Path] = {}
        seen: set[int] = set()
        for path, node in built.nodes.items():
            key = built.keys.get(path, node)
            # What an alias brings in stands elsewhere.
            known = id(key) in seen
            seen.add(id(key))
            if path[: len(site)] != site or path == site or known or self._inside(node.start_mark.index):
                continue
            if getattr(node, "flow_style", None):
                self._flows.append((node.start_mark.index, node.end_mark.index, path))
            line = int(key.start_mark.line)
            self._first.setdefault(line, path)
            self._last[line] = path
        self._lines = sorted(self._first)

    def _inside(self, position: int) -> bool:
        # Nodes come in the order of the text, so only the newest flow collection can hold the next one.
        return bool(self._flows) and self._flows[-1][0] < position < self._flows[-1][1]

    def at(self, position: int) -> tuple[Path, bool]:
        """The path that a comment is about, and whether it stands behind its value."""
        for start, end, path in self._flows:
            if start < position < end:
                return path, False
        line = bisect.bisect_right(self._starts, position) - 1
        if self._text[self._starts[line] : position].strip():
            at = bisect.bisect_right(self._lines, line) - 1
            return (self._last[self._lines[at]] if at >= 0 else ()), True
        after = bisect.bisect_right(self._lines, line)
        return (self._first[self._lines[after]] if after < len(self._lines) else ()), False


def placed(
    found: Sequence[Comment], raw: Mapping[str, Any], ledger: Sequence[Entry], objects: Mapping[str, Sequence[Line]]
) -> tuple[dict[str, list[Line]], list[str]]:
    """Objects with the comments in them, and the lines of the block above for those without a place.

    Args:
        found: the comments.
        raw: the v1 job.
        ledger: what became of its leaves.
        objects: ``trainjob`` and, where it is written here, ``runtime``: their lines.
    """
    where = {
        f"{name}:{text_of(line.path)}": (name, number)
        for name, lines in objects.items()
        for number, line in reversed(list(enumerate(lines)))
    }
    # The first line of a path is that with its key.
    fates = {entry.path: entry for entry in ledger}
    above: dict[tuple[str, int], list[str]] = {}
    behind: dict[tuple[str, int], list[str]] = {}
    lost: list[str] = []
    for comment in found:
        target = _target(comment.path, raw, fates, where, objects)
        if target is None:
            about = text_of(comment.path)
            lost.append(f"#   {about}: {comment.text.lstrip('# ')}" if about else f"#   {comment.text.lstrip('# ')}")
        elif comment.behind and not objects[target[0]][target[1]].opens:
            behind.setdefault(target, []).append(comment.text)
        else:
            above.setdefault(target, []).append(comment.text)
    made = {
        name: [
            row
            for number, line in enumerate(lines)
            for row in _with(line, above.get((name, number), ()), behind.get((name, number), ()))
        ]
        for name, lines in objects.items()
    }
    return made, [HEADING, *lost] if lost else []


def _with(line: Line, above: Sequence[str], behind: Sequence[str]) -> Iterator[Line]:
    for text in above:
        yield Line(line.path, " " * line.indent + text)
    yield replace(line, text=f"{line.text}  {' '.join(behind)}") if behind else line


def _target(
    path: Path,
    raw: Mapping[str, Any],
    fates: Mapping[str, Entry],
    where: Mapping[str, tuple[str, int]],
    objects: Mapping[str, Sequence[Line]],
) -> tuple[str, int] | None:
    """The line for what is said about a path: of the path itself or, of a subtree, of the first leaf that goes on."""
    if not path:
        return None
    for leaf, _ in leaves(get(raw, path), path):
        entry = fates.get(text_of(leaf))
        at = next((where[v2] for v2 in entry.v2_paths if v2 in where), None) if entry is not None else None
        if at is None:
            continue
        name, number = at
        tail, now = list(leaf[len(path) :]), list(objects[name][number].path)
        # Up again by as many steps as the subtree came along unchanged.
        while tail and len(now) > 1 and tail[-1] == now[-1]:
            tail.pop()
            now.pop()
        return where.get(f"{name}:{text_of(tuple(now))}", at)
    return None
