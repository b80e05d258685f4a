"""``runtimes``: what a target offers, as a table, as JSON, and one of them. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from trainer_ops.cli.runtimeview import describe, image_of
from trainer_ops.cli.text import Spans, table
from trainer_ops.errors import RuntimeNotFound
from trainer_ops.model import keys
from trainer_ops.model.runtime import TrainingRuntime

__all__ = ["pick", "runtime_rows", "runtimes_table"]

_ROW = ("name", "kind", "policy", "framework", "deprecated", "num_nodes", "image")


def _parsed(raws: Sequence[dict[str, Any]]) -> list[TrainingRuntime]:
    return sorted(map(TrainingRuntime.from_raw, raws), key=lambda runtime: (runtime.kind, runtime.name))


def runtime_rows(raws: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The documented JSON: fields are added, none is renamed or removed."""
    return [{field: described[field] for field in _ROW} for described in map(describe, _parsed(raws))]


def runtimes_table(raws: Sequence[dict[str, Any]], width: int) -> list[Spans]:
    """Name, kind, framework, nodes, image."""
    rows = [
        [
            described["name"] + (" (deprecated)" if described["deprecated"] else ""),
            "cluster" if runtime.kind == keys.CLUSTER_RUNTIME else "namespace",
            described["framework"] or described["policy"],
            str(described["num_nodes"]),
            image_of(runtime),
        ]
        for runtime in _parsed(raws)
        for described in (describe(runtime),)
    ]
    lines = table(["NAME", "KIND", "FRAMEWORK", "NODES", "IMAGE"], rows, width=width, right=frozenset({3}))
    return [[("  ".join(line), "dim" if i == 0 else "")] for i, line in enumerate(lines)]


def pick(raws: Sequence[dict[str, Any]], name: str, target: str) -> dict[str, Any]:
    """The runtime of that name; of two the namespace's own.

    Raises:
        RuntimeNotFound: none of that name.
    """
    found = [raw for raw in raws if raw["metadata"]["name"] == name]
    if not found:
        known = sorted(raw["metadata"]["name"] for raw in raws)
        close = next(iter(difflib.get_close_matches(name, known, n=1)), None)
        raise RuntimeNotFound(name, target=target, known=known, close=close)
    return next((raw for raw in found if raw.get("kind") == keys.NAMESPACED_RUNTIME), found[0])
