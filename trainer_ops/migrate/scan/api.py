"""The Kubernetes API and what reads v1's status: ``CustomObjectsApi``, dynamic clients, conditions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from trainer_ops.migrate.kinds import GROUP
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan.about import KIND_OF_PLURAL, placed
from trainer_ops.migrate.scan.embedded import converted, is_job
from trainer_ops.migrate.scan.source import Source, argument

__all__ = ["arguments", "is_api_call", "scan"]

_KINDS: Final = frozenset(KIND_OF_PLURAL.values())
_VERBS: Final = (
    ("create", "creates a v1 job"),
    ("delete", "deletes v1 jobs"),
    ("patch", "changes a v1 job; what a TrainJob trains cannot be changed"),
    ("replace", "changes a v1 job; what a TrainJob trains cannot be changed"),
    ("watch", "watches v1 jobs"),
    ("stream", "watches v1 jobs"),
    ("list", "lists v1 jobs"),
    ("get", "reads a v1 job"),
)


def scan(source: Source, options: Options, taken: set[int]) -> Iterator[Placed]:
    """Calls that name v1's group and plurals, and comparisons with v1's words for a status."""
    for call, _ in source.calls():
        if id(call) not in taken and is_api_call(source, call):
            yield _call(source, call, options, taken)
    yield from _status(source)


def is_api_call(source: Source, call: ast.Call) -> bool:
    """Whether a call is given v1's group together with a plural or a kind of v1, each as a text of its own."""
    held = {value for value in arguments(source, call) if isinstance(value, str)}
    grouped = GROUP in held or any(value.startswith(f"{GROUP}/") for value in held)
    return grouped and bool(held & KIND_OF_PLURAL.keys() or held & _KINDS)


def arguments(source: Source, call: ast.Call) -> list[Any]:
    """What a call is given, as far as it is known; the values of ``**{…}`` too."""
    found = [source.value(node) for node in call.args if not isinstance(node, ast.Starred)]
    for word in call.keywords:
        value = source.value(word.value)
        found += list(value.values()) if word.arg is None and isinstance(value, dict) else [value]
    return found


def _call(source: Source, call: ast.Call, options: Options, taken: set[int]) -> Placed:
    method = getattr(call.func, "attr", getattr(call.func, "id", "")).lower()
    verb, message = next((held for held in _VERBS if held[0] in method), ("", "names v1 jobs to the API"))
    body = next((value for value in arguments(source, call) if is_job(value)), None)
    if body is not None:
        taken.update(id(inner) for node in _nodes(source, call) for inner in ast.walk(node))
        job = converted(body, options)
        given = f"submitted = trainer_ops.submit(manifest=trainjob)  # trainjob:\n{job.text}" if job.text else ""
        what = source.segment(call)
        return placed("API-CALL", source.line(call), message, what=what, replacement=given, job=job)
    return placed(
        "API-CALL", source.line(call), message, what=source.segment(call), replacement=_instead(source, call, verb)
    )


def _nodes(source: Source, call: ast.Call) -> Iterator[ast.expr]:
    for node in (*call.args, *(word.value for word in call.keywords)):
        known = source.resolved(node)
        if known is not None:
            yield known


def _instead(source: Source, call: ast.Call, verb: str) -> str:
    node = argument(call, "name") or (call.args[4] if len(call.args) > 4 else None)
    name = ast.unparse(node) if node is not None else "name"
    return {
        "create": "submitted = trainer_ops.submit(manifest=trainjob)\n",
        "delete": f"trainer_ops.cancel({name})\n",
        "get": f"outcome = trainer_ops.wait({name})  # outcome.succeeded, .diagnosis, .metrics\n",
        "watch": f"outcome = trainer_ops.wait({name})\n",
        "stream": f"outcome = trainer_ops.wait({name})\n",
        "list": "# trainer-ops list -o json\n",
    }.get(verb, "")


def _status(source: Source) -> Iterator[Placed]:
    for node in source.nodes:
        if isinstance(node, ast.Compare) and _asks_for_succeeded(source, node):
            yield placed(
                "STATUS-READ",
                source.line(node),
                'asks for the condition "Succeeded", which a TrainJob never has',
                what=source.segment(node),
                replacement='any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)\n',
            )
        elif _is_replica_statuses(node):
            yield placed(
                "STATUS-READ",
                source.line(node),
                "reads replicaStatuses; a TrainJob counts its pods in status.jobsStatus",
                replacement='status["jobsStatus"]  # [{"name": "node", "ready": 0, "succeeded": 2, "failed": 0, …}]\n',
            )


def _asks_for_succeeded(source: Source, node: ast.Compare) -> bool:
    """``condition["type"] == "Succeeded"`` in any form; a pod's phase, which has that word too, is meant elsewhere."""
    sides = [node.left, *node.comparators]
    if not any(_holds(source.value(side)) for side in sides):
        return False
    text = ast.unparse(node).lower()
    return ("type" in text or "condition" in text) and "phase" not in text


def _holds(value: Any) -> bool:
    return value == "Succeeded" or (isinstance(value, list) and "Succeeded" in value)


def _is_replica_statuses(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in ("replica_statuses", "replicaStatuses")
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    # Argo's conditions: a line, unlike a manifest that holds them, which is migrated itself.
    return node.value == "replicaStatuses" or ("status.replicaStatuses." in node.value and "\n" not in node.value)
