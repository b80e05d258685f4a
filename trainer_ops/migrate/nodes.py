"""One YAML document to the value that Kubernetes reads, with the line of every path; strict where YAML is not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

    from trainer_ops.migrate.paths import Path

__all__ = ["Built", "Problem", "Unreadable", "build", "end_of", "start_of"]

_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_CONTROL = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufeff\uff00-\ufffd\U00010000-\U0010ffff]")
# What an anchor may multiply a document by, beside what is small anyway.
_GROWTH, _SMALL = 10, 100_000


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something cannot be read.

    Attributes:
        line: counted from 1.
        reason: one sentence without its end.
        remedy: what to do.
        column: counted from 1; 0 when it says nothing.
    """

    line: int
    reason: str
    remedy: str = ""
    column: int = 0

    def __str__(self) -> str:
        where = f"line {self.line}" + (f", column {self.column}" if self.column else "")
        return f"{where}: {self.reason}" + (f". {self.remedy}" if self.remedy else "")


class Unreadable(Exception):
    """It cannot be read; ``problem`` says why. Never leaves the package."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Built:
    """A parsed document.

    Attributes:
        value: its content.
        node: the same with positions, counted from the start of the text that was parsed.
        lines: of every path the line on which its key, or its item of a list, begins.
        shared: lines of anchors that something else refers to, by alias or merge key.
        keys: of every path its key's node, where it has one.
        nodes: of every path its node.
    """

    value: Any
    node: yaml.Node
    lines: Mapping[Path, int]
    shared: tuple[int, ...] = ()
    keys: Mapping[Path, yaml.Node] = field(default_factory=dict)
    nodes: Mapping[Path, yaml.Node] = field(default_factory=dict)


def build(text: str, *, first_line: int = 1, first_column: int = 0, value: Any = None) -> Built:
    """Parse one document.

    Args:
        text: the document alone.
        first_line: the line that it begins on.
        first_column: the column, from 0.
        value: what it holds, when that is known better than YAML would read it (JSON).

    Raises:
        Unreadable: it is no YAML, or nothing that JSON can say, or a key is written twice.
    """
    import yaml

    try:
        node = yaml.compose(text, Loader=_loader())
        if node is None:
            raise Unreadable(Problem(first_line, "nothing is in it", ""))
        builder = _Builder(first_line)
        made = builder.value(node, ())
    except yaml.MarkedYAMLError as exc:
        raise Unreadable(_marked(exc, text, first_line, first_column)) from exc
    except yaml.reader.ReaderError as exc:
        raise Unreadable(_character(text, first_line)) from exc
    except RecursionError as exc:
        raise Unreadable(Problem(first_line, "it is nested too deeply", "Write it flatter")) from exc
    return Built(
        made if value is None else value,
        node,
        builder.lines,
        tuple(sorted(builder.shared)),
        builder.keys,
        builder.nodes,
    )


def end_of(node: yaml.Node, text: str) -> int:
    """Where a node's last value ends; a block collection's own end mark is only where the next thing begins."""
    import yaml

    while isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        before, child = last if isinstance(last, tuple) else (node, last)
        if child.start_mark.index < before.start_mark.index:
            # An alias: the node itself stands elsewhere.
            return _trimmed(text, int(node.end_mark.index))
        node = child
    return int(node.end_mark.index)


def start_of(node: yaml.Node) -> yaml.Mark:
    """Where a node's first value begins: behind its anchor."""
    if node.tag == _TAG + "map" and node.value and not getattr(node, "flow_style", False):
        mark: yaml.Mark = node.value[0][0].start_mark
        return mark
    return node.start_mark


def _trimmed(text: str, end: int) -> int:
    """The end of the last line that is neither empty nor a comment."""
    while True:
        end = len(text[:end].rstrip())
        line = text.rfind("\n", 0, end) + 1
        if not text[line:end].lstrip().startswith("#"):
            found = re.search(r"[ \t]#[^\n]*$", text[line:end])
            return line + found.start() if found else end
        end = line


_LOADERS: dict[str, Any] = {}


def _loader() -> Any:
    """The fastest safe loader there is; dates without quotes stay text, as Kubernetes means them."""
    import yaml

    if "loader" not in _LOADERS:
        base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        resolvers = {
            first: [(tag, pattern) for tag, pattern in known if tag != _TAG + "timestamp"]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }
        _LOADERS["loader"] = type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})
        _LOADERS["scalars"] = yaml.constructor.SafeConstructor()
    return _LOADERS["loader"]


class _Builder:
    """Walks the nodes of one document."""

    def __init__(self, first_line: int) -> None:
        self._first = first_line
        self._above: list[int] = []
        self._seen: set[int] = set()
        # Those that an alias has brought in, whose insides are no aliases of their own.
        self._again: set[int] = set()
        self._visits = 0
        self.lines: dict[Path, int] = {}
        self.keys: dict[Path, yaml.Node] = {}
        self.nodes: dict[Path, yaml.Node] = {}
        self.shared: set[int] = set()

    def value(self, node: yaml.Node, path: Path) -> Any:
        """The value of a node."""
        self._visit(node)
        self.nodes[path] = node
        self.lines.setdefault(path, self._line(node))
        kind = node.tag.removeprefix(_TAG)
        if isinstance(node.value, str):
            return self._scalar(node, kind)
        if kind not in ("map", "seq"):
            raise self._wrong(node, f"the tag {self._tag(node)} has no meaning here", "Write plain lists and mappings")
        self._above.append(id(node))
        if kind == "map":
            made: Any = dict(self._entries(node, path))
        else:
            made = [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        self._above.pop()
        return made

    def _visit(self, node: yaml.Node) -> None:
        self._visits += 1
        if id(node) in self._above:
            raise self._wrong(node, "an anchor contains itself", "Write the value out")
        if id(node) in self._seen:
            if not any(above in self._again for above in self._above):
                self.shared.add(self._line(node))
            self._again.add(id(node))
            if self._visits > _SMALL + _GROWTH * len(self._seen):
                raise self._wrong(node, "anchors make the document too big", "Write out what is meant")
        self._seen.add(id(node))

    def _scalar(self, node: yaml.Node, kind: str) -> Any:
        if kind in ("int", "float") and ":" in node.value:
            # YAML 1.1 reads 1:30 as the number 90; Kubernetes' reader does not.
            return node.value
        if kind == "float":
            if re.fullmatch(r"[-+]?\.(inf|nan)", node.value, re.IGNORECASE):
                raise self._wrong(
                    node, f"{node.value} is no number that JSON can say", "Put it in quotes if text is meant"
                )
            return _LOADERS["scalars"].construct_yaml_float(node)
        if kind == "str":
            return node.value
        if kind == "null":
            return None
        if kind not in ("int", "bool"):
            raise self._wrong(node, f"the tag {self._tag(node)} has no meaning here", "Write plain text and numbers")
        try:
            made = getattr(_LOADERS["scalars"], f"construct_yaml_{kind}")(node)
        except (ValueError, KeyError) as exc:
            raise self._wrong(node, f"{node.value!r} is no {kind}", "Write a value that fits its tag") from exc
        return made

    def _entries(self, node: yaml.Node, path: Path) -> Iterator[tuple[str, Any]]:
        """Keys and values; what merge keys bring in comes first, so that the mapping's own win."""
        first: dict[str, int] = {}
        for key, item in node.value:
            if key.tag == _MERGE:
                yield from self._merged(item, path)
        for key, item in node.value:
            if key.tag == _MERGE:
                continue
            line = self._line(key)
            if key.tag != _TAG + "str":
                text = key.value if isinstance(key.value, str) else "a list or mapping"
                raise self._wrong(key, f"the key {text} is not text", "Put it in quotes")
            if key.value in first:
                raise self._wrong(
                    key, f'the key "{key.value}" is here twice, first at line {first[key.value]}', "Keep one of them"
                )
            first[key.value] = line
            here = (*path, key.value)
            self.lines[here], self.keys[here] = line, key
            yield key.value, self.value(item, here)

    def _merged(self, node: yaml.Node, path: Path) -> Iterator[tuple[str, Any]]:
        sources = node.value if node.tag == _TAG + "seq" else [node]
        # Of several the first wins, so it comes last.
        for source in reversed(sources):
            if not isinstance(source.value, list) or source.tag != _TAG + "map":
                raise self._wrong(source, "<< is given no mapping", "Write << before an alias of a mapping")
            self._visit(source)
            self._above.append(id(source))
            yield from self._entries(source, path)
            self._above.pop()

    def _line(self, node: yaml.Node) -> int:
        return self._first + int(node.start_mark.line)

    def _tag(self, node: yaml.Node) -> str:
        return str(node.tag).replace(_TAG, "!!")

    def _wrong(self, node: yaml.Node, reason: str, remedy: str) -> Unreadable:
        return Unreadable(Problem(self._line(node), reason, remedy))


def _marked(exc: yaml.MarkedYAMLError, text: str, first_line: int, first_column: int) -> Problem:
    mark = exc.problem_mark or exc.context_mark
    line = mark.line if mark else 0
    column = (mark.column if mark else 0) + (first_column if line == 0 else 0) + 1
    problem = exc.problem or "it cannot be read"
    where = first_line + line
    tab = mark is not None and text[mark.index : mark.index + 1] == "\t" and "start any token" in problem
    if tab or "tab character" in problem:
        return Problem(where, "a tab where YAML wants spaces", "Indent with spaces", column)
    if "mapping values are not allowed" in problem:
        remedy = 'Check the indentation, or put text with ": " in quotes'
        return Problem(where, "a colon in an unexpected place", remedy, column)
    if "maximum nesting" in problem:
        return Problem(where, "it is nested too deeply", "Write it flatter", column)
    if mark is not None and mark.index >= len(text.rstrip()):
        return Problem(where, "it ends where more is expected", "Close all brackets and quotes", column)
    context = f" {exc.context}" if exc.context else ""
    return Problem(where, f"{problem}{context}", "Check the indentation, quotes and brackets up to this line", column)


def _character(text: str, first_line: int) -> Problem:
    found = _CONTROL.search(text)
    if found is None:
        return Problem(first_line, "a character that YAML does not allow", "Take it out")
    line = first_line + text.count("\n", 0, found.start())
    return Problem(line, f"character #x{ord(found[0]):04x} is not allowed in YAML", "Take it out")
