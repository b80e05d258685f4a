"""YAML files: bytes to documents, with the line of everything that is wrong with them.

What a TrainJob may say is in ``validate``. Here is only what a file can do wrong before it is one: it is missing,
not text, not YAML, or YAML that JSON (and so the Kubernetes API) cannot say.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer_ops.errors import InvalidRequest

if TYPE_CHECKING:
    import yaml

__all__ = ["STDIN", "Document", "only", "parse", "read"]

STDIN = "-"
_TAG = "tag:yaml.org,2002:"
# What JSON can say. A timestamp without quotes stays the text that it is, as the Kubernetes API means it.
_JSON_TAGS = frozenset(_TAG + kind for kind in ("map", "seq", "str", "int", "float", "bool", "null", "merge"))
_KINDS = {list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document.

    Attributes:
        source: the file's name as it was given; ``stdin`` for ``-``.
        index: counted from 1; empty documents are not counted.
        line: the line it starts on, counted from 1.
        manifest: its content.
    """

    source: str
    index: int
    line: int
    manifest: dict[str, Any]


def read(path: str) -> bytes:
    """The bytes of a file, or of standard input for ``-``.

    Raises:
        InvalidRequest: it cannot be read.
    """
    if path == STDIN:
        return sys.stdin.buffer.read()
    if not os.path.exists(path):
        raise _wrong(path, "there is no such file", _neighbour(path))
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as exc:
        what = "is a folder" if os.path.isdir(path) else f"cannot be read ({exc.strerror or exc})"
        raise _wrong(path, what, "Give the path of a YAML file that you may read") from exc


def _neighbour(path: str) -> str:
    import difflib

    folder = os.path.dirname(path)
    try:
        names = [n for n in os.listdir(folder or ".") if n.endswith((".yaml", ".yml", ".json"))]
    except OSError:
        names = []
    close = difflib.get_close_matches(os.path.basename(path), names, n=1)
    return f"Did you mean {os.path.join(folder, close[0])}?" if close else "Check the path"


def parse(data: bytes, source: str) -> tuple[Document, ...]:
    """All documents of a file, in order; empty ones between ``---`` are left out.

    Raises:
        InvalidRequest: names the file, the line, the reason and the remedy.
    """
    import yaml

    name = "stdin" if source == STDIN else source
    text = _text(data, name)
    try:
        found = tuple(_documents(text, name))
    except yaml.MarkedYAMLError as exc:
        raise _marked(exc, name) from exc
    except yaml.reader.ReaderError as exc:
        line = text[: exc.position].count("\n") + 1
        reason = f"character #x{exc.character:04x} is not allowed in YAML"
        raise _wrong(f"{name}: line {line}", reason, "Take it out") from exc
    if not found:
        raise _wrong(name, "is empty", "Write a TrainJob into it; a start: trainer-ops run --help")
    return found


def _documents(text: str, name: str) -> Iterator[Document]:
    loader = _loader()(text)
    index = 0
    while loader.check_node():
        node = loader.get_node()
        if node is None or node.tag == _TAG + "null":
            continue
        index += 1
        _check(node, name, ())
        value, line = loader.construct_document(node), node.start_mark.line + 1
        if not isinstance(value, dict):
            raise _wrong(
                f"{name}: line {line}",
                f"this is {_KINDS.get(type(value), 'a value')}, not a mapping of fields",
                "A TrainJob starts with the fields apiVersion, kind, metadata and spec",
            )
        yield Document(name, index, line, value)


def only(documents: Sequence[Document]) -> Document:
    """The one document.

    Raises:
        InvalidRequest: there are several.
    """
    if len(documents) > 1:
        lines = ", ".join(str(d.line) for d in documents)
        raise _wrong(
            documents[0].source,
            f"holds {len(documents)} documents (at lines {lines}), one training takes one",
            "Put each TrainJob into a file of its own, or pipe one of them to -f -",
        )
    return documents[0]


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        reason = f"byte 0x{data[exc.start]:02x} is not UTF-8 text"
        raise _wrong(f"{name}: line {line}", reason, "Save the file as UTF-8") from exc


def _loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        """Reads what JSON can say; a date without quotes stays text."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TAG + "timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader


def _check(node: yaml.Node, name: str, above: tuple[int, ...]) -> None:
    """Refuse what JSON cannot say, and a key that is written twice: YAML takes the second one silently."""
    where = f"{name}: line {node.start_mark.line + 1}"
    if id(node) in above:
        raise _wrong(where, "an anchor contains itself", "Write the value out")
    if node.tag not in _JSON_TAGS:
        tag = node.tag.replace(_TAG, "!!")
        raise _wrong(where, f"the tag {tag} has no meaning in a TrainJob", "Write plain text, numbers, lists, mappings")
    if isinstance(node.value, str):
        _check_scalar(node, where)
        return
    for child in _children(node, name):
        _check(child, name, (*above, id(node)))


def _check_scalar(node: yaml.Node, where: str) -> None:
    if node.tag not in (_TAG + "int", _TAG + "float"):
        return
    if ":" in node.value:
        # YAML 1.1 reads 1:30 as the number 90; Kubernetes' reader does not.
        node.tag = _TAG + "str"
    elif re.fullmatch(r"[-+]?\.(inf|nan)", node.value, re.IGNORECASE):
        raise _wrong(where, f"{node.value} is no number that JSON can say", "Put it in quotes if text is meant")


def _children(node: yaml.Node, name: str) -> Iterator[yaml.Node]:
    first: dict[str, int] = {}
    for item in node.value:
        if not isinstance(item, tuple):
            yield item
            continue
        key, value = item
        line = key.start_mark.line + 1
        if key.tag not in (_TAG + "str", _TAG + "merge"):
            text = key.value if isinstance(key.value, str) else "a list or mapping"
            raise _wrong(f"{name}: line {line}", f"the key {text} is not text", "Put it in quotes")
        if key.value in first and key.tag != _TAG + "merge":
            raise _wrong(
                f"{name}: line {line}",
                f'the key "{key.value}" is here twice, first at line {first[key.value]}',
                "Keep one of them",
            )
        first[key.value] = line
        yield value


def _marked(exc: yaml.MarkedYAMLError, name: str) -> InvalidRequest:
    mark = exc.problem_mark or exc.context_mark
    where = f"{name}: line {mark.line + 1}, column {mark.column + 1}" if mark else name
    problem = (exc.problem or "cannot be read").replace("found character '\\t'", "a tab")
    if "\\t" in (exc.problem or ""):
        return _wrong(where, "a tab where YAML wants spaces", "Indent with spaces")
    if "mapping values are not allowed" in problem:
        return _wrong(where, "a colon in an unexpected place", 'Check the indentation, or put text with ": " in quotes')
    context = f" {exc.context}" if exc.context else ""
    return _wrong(where, f"{problem}{context}", "Check the indentation, quotes and brackets up to this line")


def _wrong(where: str, reason: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(where, reason, remedy, what="unreadable input")
