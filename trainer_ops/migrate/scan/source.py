"""Python as data: what names mean, and what values are known without running anything."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Source", "Unknown", "argument", "camel", "dotted", "one_line"]

# Calls that change the form of data and not what it says.
_SAME_DATA: Final = ("dedent", "cleandoc", "dumps", "safe_load", "loads")
_MODEL: Final = re.compile(r"(?:KubeflowOrg)?V\d\w+")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only running would tell: its text."""

    text: str

    def __str__(self) -> str:
        return f"<{self.text}>"


@dataclass(slots=True)
class Source:
    """One module.

    Attributes:
        text: of it.
        tree: its syntax tree.
        offset: what to add to a line of the tree to get the line that people see.
        names: what imported names stand for: ``{"TC": "kubeflow.training.TrainingClient"}``.
        assigned: the one value that a name, or an attribute like ``self.client``, is given; of names with several none.
        annotated: the types of parameters.
        nodes: of the tree, outer ones before inner ones.
    """

    text: str
    tree: ast.Module
    offset: int = 0
    names: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, ast.expr] = field(default_factory=dict)
    annotated: dict[str, ast.expr] = field(default_factory=dict)
    nodes: tuple[ast.AST, ...] = ()

    @classmethod
    def parse(cls, text: str, *, offset: int = 0, known: Source | None = None) -> Source:
        """Read a module.

        Args:
            text: of it.
            offset: see above.
            known: names of another one are known too: the cells of a notebook above this one.

        Raises:
            SyntaxError: it is no Python 3.
            ValueError: it holds a null byte.
            RecursionError: it is nested too deeply.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes of others' texts are none of ours
            source = cls(text, ast.parse(text), offset)
        source.nodes = tuple(ast.walk(source.tree))
        if known is not None:
            source.names, source.assigned = dict(known.names), dict(known.assigned)
        source._read()
        return source

    def _read(self) -> None:
        seen: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.names[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            else:
                self._assign(node, seen)

    def _assign(self, node: ast.AST, seen: set[str]) -> None:
        for target, value in _assignments(node):
            name = dotted(target)
            if not name:
                continue
            if name not in seen:
                self.assigned[name] = value
            elif not _same_maker(self.assigned.get(name), value):
                self.assigned.pop(name, None)
            seen.add(name)
        if isinstance(node, ast.arg) and isinstance(node.annotation, ast.Name | ast.Attribute) and node.arg not in seen:
            self.annotated.setdefault(node.arg, node.annotation)

    def line(self, node: ast.AST) -> int:
        """Where a node begins, as people see it."""
        return getattr(node, "lineno", 0) + self.offset

    def segment(self, node: ast.expr) -> str:
        """The text of an expression, on one line and cut to what fits one."""
        return one_line(ast.unparse(node))

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Every call, with the full name of what is called, in the order of the text."""
        found = [node for node in self.nodes if isinstance(node, ast.Call)]
        for node in sorted(found, key=lambda call: (call.lineno, call.col_offset)):
            yield node, self.meaning(node.func)

    def meaning(self, node: ast.expr, depth: int = 32) -> str:
        """The full name that an expression stands for; a method of a known object as ``package.Class.method``.

        "" when it is no name, or one that is made of itself: ``x = x.copy()``.
        """
        name = dotted(node)
        if not depth:
            return ""
        if name in self.names:
            return self.names[name]
        known = self.assigned.get(name)
        if isinstance(known, ast.Call):
            return self.meaning(known.func, depth - 1)
        if name in self.annotated:
            return self.meaning(self.annotated[name], depth - 1)
        if isinstance(node, ast.Attribute):
            owner = self.meaning(node.value, depth - 1)
            return f"{owner}.{node.attr}" if owner else ""
        return self.meaning(node.func, depth - 1) if isinstance(node, ast.Call) else name

    def resolved(self, node: ast.expr | None, depth: int = 8) -> ast.expr | None:
        """The expression that a name was given, where that is known."""
        while depth and node is not None and dotted(node) in self.assigned:
            node, depth = self.assigned[dotted(node)], depth - 1
        return node

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function, inner ones too."""
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def function(self, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function of that name."""
        return next((found for found in self.functions() if found.name == name), None)

    def value(self, node: ast.expr | None, depth: int = 8) -> Any:
        """A literal as plain data, names and f-strings followed; what is not known is ``Unknown``."""
        if node is None:
            return None
        if isinstance(node, ast.Constant):
            return node.value
        if depth and isinstance(node, ast.Name | ast.Attribute):
            known = self.assigned.get(dotted(node))
            return Unknown(ast.unparse(node)) if known is None else self.value(known, depth - 1)
        if isinstance(node, ast.Dict):
            return self._mapping(node, depth)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [self.value(item, depth) for item in node.elts]
        return self._text(node, depth)

    def _mapping(self, node: ast.Dict, depth: int) -> Any:
        made: dict[Any, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            held = self.value(item, depth)
            if key is None:
                made.update(held if isinstance(held, Mapping) else {})
                continue
            name = self.value(key, depth)
            made[name if isinstance(name, str | int) else str(name)] = held
        return made

    def _text(self, node: ast.expr, depth: int) -> Any:
        if isinstance(node, ast.JoinedStr):
            return "".join(self._piece(part, depth) for part in node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.value(node.left, depth), self.value(node.right, depth)
            if isinstance(left, str) and isinstance(right, str):
                return left + right
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            held = node.operand.value
            return -held if isinstance(held, int | float) else Unknown(ast.unparse(node))
        return self._built(node, depth) if isinstance(node, ast.Call) else Unknown(ast.unparse(node))

    def _built(self, node: ast.Call, depth: int) -> Any:
        """Calls that only put data together: ``dict(…)``, ``json.dumps(…)``, the classes of Kubernetes' clients."""
        name = dotted(node.func).rpartition(".")[2]
        words = {word.arg: self.value(word.value, depth) for word in node.keywords if word.arg}
        if name == "dict" and not node.args:
            return words
        if name in _SAME_DATA and len(node.args) == 1:
            return self.value(node.args[0], depth)
        if _MODEL.fullmatch(name) and not node.args and len(words) == len(node.keywords):
            return {camel(word): held for word, held in words.items() if held is not None}
        return Unknown(ast.unparse(node))

    def _piece(self, part: ast.expr, depth: int) -> str:
        if isinstance(part, ast.FormattedValue):
            held = self.value(part.value, depth)
            return f"<{ast.unparse(part.value)}>" if isinstance(held, Unknown) else str(held)
        return str(part.value) if isinstance(part, ast.Constant) else ""


def camel(word: str) -> str:
    """The name of a field as the API has it, of its name in the Python clients."""
    known = {"host_ip": "hostIP", "pod_ip": "podIP", "host_ipc": "hostIPC", "host_pid": "hostPID", "_from": "from"}
    head, *rest = word.split("_")
    return known.get(word) or head + "".join(part[:1].upper() + part[1:] for part in rest)


def _same_maker(first: ast.expr | None, second: ast.expr) -> bool:
    """Both are made by a call of the same thing, so that what can be done with them is the same."""
    return (
        isinstance(first, ast.Call)
        and isinstance(second, ast.Call)
        and bool(dotted(first.func))
        and dotted(first.func) == dotted(second.func)
        and _MODEL.fullmatch(dotted(first.func).rpartition(".")[2]) is None
        and dotted(first.func).rpartition(".")[2] not in (*_SAME_DATA, "dict")
    )


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _pairs(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.With | ast.AsyncWith):
        yield from ((item.optional_vars, item.context_expr) for item in node.items if item.optional_vars is not None)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """``a, b = 1, 2`` is two."""
    sides = [side.elts for side in (target, value) if isinstance(side, ast.Tuple | ast.List)]
    if len(sides) == 2 and len(sides[0]) == len(sides[1]) and not any(isinstance(one, ast.Starred) for one in sides[0]):
        yield from zip(*sides, strict=True)
    else:
        yield target, value


def dotted(node: ast.expr) -> str:
    """``self.client`` of names and attributes; "" of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """An argument by its name, or where it stands without one."""
    for word in call.keywords:
        if word.arg == name:
            return word.value
    if position is not None and position < len(call.args):
        return call.args[position]
    return None


def one_line(text: str, limit: int = 160) -> str:
    """On one line, cut."""
    short = " ".join(text.split())
    return short if len(short) <= limit else f"{short[: limit - 1]}…"
