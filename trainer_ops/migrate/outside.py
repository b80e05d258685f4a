"""A runtime that cannot stand with its job: it is applied once, so nothing of it may hang on an expression."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainer_ops.migrate.convert import Converted
from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.masks import Masks
from trainer_ops.migrate.paths import get, leaves, text_of
from trainer_ops.model import keys

__all__ = ["apart"]


def apart(converted: Converted, masks: Masks) -> tuple[Converted, list[Finding]]:
    """The job with a runtime that has a name of its own and no expression in it, and why that is not possible."""
    runtime, job = copy.deepcopy(converted.runtime), copy.deepcopy(converted.trainjob)
    assert runtime is not None
    assert job is not None
    if get(job, ("spec", "trainer", "image")):
        _without_image(runtime, masks)
    left = [path for path, value in leaves(runtime["spec"], ("spec",)) if _hangs(value, masks)]
    if left:
        needed = masks.restored(get(runtime, left[0]))
        told = f"the runtime would need {needed} ({text_of(left[0])}), which is not known yet"
        remedy = "Write the value out, or render the workflow and migrate the job itself"
        return converted, [finding("TEMPLATE", (), told, severity="refused", remedy=remedy)]
    if _hangs(runtime["metadata"]["name"], masks):
        digest = hashlib.sha256(json.dumps(runtime["spec"], sort_keys=True).encode()).hexdigest()[:8]
        name = f"{runtime['metadata']['labels'][keys.LABEL_FRAMEWORK]}-{digest}"
        runtime["metadata"]["name"] = job["spec"]["runtimeRef"]["name"] = name
    return replace(converted, runtime=runtime, trainjob=job), []


def _hangs(value: Any, masks: Masks) -> bool:
    return isinstance(value, str) and any(word in value for word in masks.words)


def _without_image(runtime: Mapping[str, Any], masks: Masks) -> None:
    """Take out the image that the TrainJob gives anyway."""
    for job in get(runtime, ("spec", "template", "spec", "replicatedJobs")) or ():
        if keys.LABEL_ANCESTOR not in (get(job, ("template", "metadata", "labels")) or {}):
            continue
        for container in get(job, ("template", "spec", "template", "spec", "containers")) or ():
            if container.get("name") == keys.STEP_NODE and _hangs(container.get("image"), masks):
                del container["image"]
