"""Label selectors of v1's pods in code and commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan.about import placed
from trainer_ops.migrate.scan.source import Source, one_line

__all__ = ["rewritten", "scan"]

_PREFIX: Final = "training.kubeflow.org/"
_ROLES: Final = {"launcher": "launcher", "ps": "ps", "chief": "chief", "evaluator": "evaluator"}
_PAIR: Final = re.compile(rf"{re.escape(_PREFIX)}([\w-]+)(?:(\s*==?\s*)([^,\s\"']+))?")


def scan(source: Source) -> Iterator[Placed]:
    """Every text with such a label in it, docstrings left out."""
    told_of = {
        id(node.body[0].value)
        for node in source.nodes
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in source.nodes:
        if not isinstance(node, ast.Constant | ast.JoinedStr) or id(node) in told_of:
            continue
        told_of.update(id(part) for part in getattr(node, "values", ()))
        text = source.value(node)
        # Longer ones are manifests, whose selectors the conversion tells of.
        if isinstance(text, str) and _PREFIX in text and "\n" not in text:
            yield told(source.line(node), text)


def told(line: int, text: str) -> Placed:
    """The finding about one selector."""
    return placed(
        "LABEL-SELECTOR",
        line,
        "pods of a TrainJob have none of these labels",
        what=one_line(text, 120),
        replacement=rewritten(text),
        remedy="Use the labels that JobSet sets",
    )


def rewritten(text: str) -> str:
    """The selector for v2's pods; what has no counterpart is left out."""
    return re.sub(r"(?:^|,)\s*(?=,|$)", "", _PAIR.sub(_label, text))


def _label(found: re.Match[str]) -> str:
    name, equals, value = found[1], found[2] or "", found[3] or ""
    if name in ("job-name", "pytorch-job-name", "tf-job-name", "mpi-job-name"):
        return f"jobset.sigs.k8s.io/jobset-name{equals}{value}"
    if name == "replica-index":
        return f"batch.kubernetes.io/job-completion-index{equals}{value}"
    if name in ("replica-type", "job-role"):
        if value == "master":
            return (
                f"jobset.sigs.k8s.io/replicatedjob-name{equals}node,batch.kubernetes.io/job-completion-index{equals}0"
            )
        role = _ROLES.get(value, "node") if value else ""
        return f"jobset.sigs.k8s.io/replicatedjob-name{equals}{role}"
    return ""
