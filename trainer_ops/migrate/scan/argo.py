"""Compiled pipelines: YAML of Argo workflows and of KFP, whose steps run the removed launchers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from trainer_ops.migrate.options import Options
from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan.about import LAUNCHER_IMAGE, placed
from trainer_ops.migrate.scan.kfp import flags, launched, launcher_kind

__all__ = ["scan_compiled"]


def scan_compiled(text: str, options: Options | None = None) -> tuple[Placed, ...]:
    """Every container of a YAML or JSON text that runs a launcher; text that is neither holds none."""
    if LAUNCHER_IMAGE.search(text) is None:
        return ()
    try:
        values = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError):
        return ()
    lines = iter([text[: found.start()].count("\n") + 1 for found in LAUNCHER_IMAGE.finditer(text)])
    return tuple(_step(held, next(lines, 1), options or Options()) for value in values for held in _containers(value))


def _containers(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        image = value.get("image")
        if isinstance(image, str) and launcher_kind(image):
            yield value
            return
        for item in value.values():
            yield from _containers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _containers(item)


def _step(container: Mapping[str, Any], line: int, options: Options) -> Placed:
    image = str(container["image"])
    kind = launcher_kind(image)
    words = [*_list(container.get("command")), *_list(container.get("args"))]
    # What a pipeline fills in when it runs is a hole like any other.
    inputs = {name: _holes(value) for name, value in flags(words).items()}
    job = launched(kind, inputs, options)
    return placed(
        "KFP-LAUNCHER",
        line,
        f"a compiled step that launches a {kind}",
        what=f"image: {image}",
        replacement=job.text,
        job=job,
        remedy="Compile the pipeline anew with trainer_ops.kfp.train_job",
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _holes(value: Any) -> Any:
    return re.sub(r"\{\{\$?(.*?)\}\}", r"{{\1}}", value) if isinstance(value, str) else value
