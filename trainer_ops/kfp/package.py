"""A compiled pipeline, read: its parameters, and its tasks' caching. Pure but for reading the file."""

from __future__ import annotations

import difflib
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainer_ops.errors import InvalidRequest

__all__ = ["Package"]

_FIELD: Final = "pipeline"
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Package:
    """What is uploaded.

    Attributes:
        name: the pipeline's.
        text: YAML.
        inputs: its parameters, as the compiler writes them.
    """

    name: str
    text: str
    inputs: Mapping[str, Any]

    @classmethod
    def of(cls, pipeline: Any, *, caching: bool) -> Package:
        """Read it.

        Args:
            pipeline: a compiled pipeline's file, or a function with ``@dsl.pipeline``.
            caching: leave it as it was compiled; else no task uses KFP's cache, those of nested pipelines neither.

        Raises:
            InvalidRequest: field ``pipeline``: it is none.
        """
        import yaml

        text = _text(pipeline)
        try:
            documents = [one for one in yaml.safe_load_all(text) if one is not None]
        except yaml.YAMLError as exc:
            raise _wrong(f"is not YAML: {' '.join(str(exc).split())}") from exc
        spec = documents[0] if documents else None
        if not isinstance(spec, dict) or "pipelineInfo" not in spec or "root" not in spec:
            raise _wrong("is no compiled pipeline")
        if not caching:
            for task in _tasks(spec):
                task["cachingOptions"] = {}
            text = yaml.safe_dump_all(documents, sort_keys=True)
        inputs = (spec["root"].get("inputDefinitions") or {}).get("parameters") or {}
        return cls(str(spec["pipelineInfo"]["name"]), text, inputs)

    @property
    def version(self) -> str:
        """A name for this content, and for no other."""
        return f"sha256-{hashlib.sha256(self.text.encode()).hexdigest()[:_DIGITS]}"

    def check(self, params: Mapping[str, Any]) -> None:
        """Refuse parameters that it does not have, and the lack of one that it needs.

        Raises:
            InvalidRequest: names it.
        """
        for name in params:
            if name not in self.inputs:
                close = difflib.get_close_matches(name, self.inputs, n=1)
                known = f"Did you mean {close[0]}?" if close else f"It has {', '.join(sorted(self.inputs)) or 'none'}"
                raise InvalidRequest(f"params.{name}", f"the pipeline {self.name} has no such parameter", known)
        for name, spec in self.inputs.items():
            if name not in params and "defaultValue" not in spec and not spec.get("isOptional"):
                raise InvalidRequest(f"params.{name}", f"the pipeline {self.name} needs it", "Give it")
        try:
            json.dumps(params, allow_nan=False)
        except (TypeError, ValueError) as exc:
            raise InvalidRequest("params", f"are no plain data: {exc}", "Give text, numbers, lists, mappings") from exc


def _text(pipeline: Any) -> str:
    if isinstance(pipeline, str | Path):
        try:
            return Path(pipeline).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise _wrong(f"{pipeline} cannot be read: {exc}") from exc
    if not hasattr(pipeline, "pipeline_spec"):
        raise _wrong(f"is a {type(pipeline).__name__}")
    from kfp import compiler

    with tempfile.TemporaryDirectory(prefix="trainer-ops-") as folder:
        file = Path(folder, "pipeline.yaml")
        compiler.Compiler().compile(pipeline, str(file))
        return file.read_text(encoding="utf-8")


def _tasks(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every task: of the root, and of what is nested (conditions, loops, pipelines in pipelines)."""
    for place in (spec["root"], *(spec.get("components") or {}).values()):
        yield from ((place.get("dag") or {}).get("tasks") or {}).values()


def _wrong(reason: str) -> InvalidRequest:
    return InvalidRequest(_FIELD, reason, "Give a compiled pipeline's file, or a function with @dsl.pipeline")
