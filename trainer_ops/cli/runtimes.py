"""``runtimes``: what a target offers, as a table, as JSON, and one of them whole. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from trainer_ops.cli.text import Spans, table
from trainer_ops.errors import RuntimeNotFound
from trainer_ops.model.runtime import TrainingRuntime

__all__ = ["runtime_rows", "runtime_text", "runtimes_table"]


def _parsed(raws: Sequence[dict[str, Any]]) -> list[TrainingRuntime]:
    return sorted(map(TrainingRuntime.from_raw, raws), key=lambda runtime: (runtime.kind, runtime.name))


def _image(runtime: TrainingRuntime) -> str:
    job = runtime.trainer_job
    return next((c.image for c in job.containers if c.image), "") if job is not None else ""


def runtime_rows(raws: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The documented JSON: fields are added, none is renamed or removed."""
    return [
        {
            "name": runtime.name,
            "kind": runtime.kind,
            "policy": runtime.policy,
            "framework": runtime.framework,
            "num_nodes": runtime.num_nodes,
            "image": _image(runtime),
        }
        for runtime in _parsed(raws)
    ]


def runtimes_table(raws: Sequence[dict[str, Any]], width: int) -> list[Spans]:
    """Name, what it starts a node with, nodes, image."""
    rows = [
        [r.name + ("" if r.kind.startswith("Cluster") else " (namespace)"), r.policy, str(r.num_nodes), _image(r)]
        for r in _parsed(raws)
    ]
    lines = table(["NAME", "POLICY", "NODES", "IMAGE"], rows, width=width, right=frozenset({2}))
    return [[("  ".join(line), "dim" if i == 0 else "")] for i, line in enumerate(lines)]


def runtime_text(raws: Sequence[dict[str, Any]], name: str, target: str) -> tuple[dict[str, Any], str]:
    """One runtime, as it is and as YAML.

    Raises:
        RuntimeNotFound: none of that name.
    """
    import yaml

    found = next((raw for raw in raws if raw["metadata"]["name"] == name), None)
    if found is None:
        known = sorted(raw["metadata"]["name"] for raw in raws)
        close = next(iter(difflib.get_close_matches(name, known, n=1)), None)
        raise RuntimeNotFound(name, target=target, known=known, close=close)
    return found, yaml.safe_dump(found, sort_keys=False)
