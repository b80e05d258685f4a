"""A runtime that cannot stand with its job: it is applied once, so nothing of it may hang on an expression."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainer_ops.migrate.convert import Converted
from trainer_ops.migrate.emit import PATCH_MANAGER
from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.masks import Masks
from trainer_ops.migrate.paths import Path, get, leaves, text_of
from trainer_ops.model import keys

__all__ = ["apart"]

_POD: Path = ("template", "spec", "template")
_PATCHES: Path = ("spec", "runtimePatches", 0, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
_PATCHED = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"))


def apart(converted: Converted, masks: Masks) -> tuple[Converted, list[Finding]]:
    """The job with a runtime that has a name of its own and no expression in it, and why that is not possible."""
    runtime, job = copy.deepcopy(converted.runtime), copy.deepcopy(converted.trainjob)
    assert runtime is not None
    assert job is not None
    if get(job, ("spec", "trainer", "image")):
        _without_image(runtime, masks)
    moved = _into_patches(runtime, job, masks)
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
    ledger = tuple(
        replace(entry, v2_paths=tuple(moved.get(path, path) for path in entry.v2_paths)) for entry in converted.ledger
    )
    return replace(converted, runtime=runtime, trainjob=job, ledger=ledger), []


def _into_patches(runtime: Mapping[str, Any], job: dict[str, Any], masks: Masks) -> dict[str, str]:
    """What hangs on an expression and a TrainJob can say itself: the pods' labels, annotations and node selector.

    Returns:
        Where it was -> where it is, as the ledger names them.
    """
    moved: dict[str, str] = {}
    patches: list[dict[str, Any]] = []
    for i, held in enumerate(get(runtime, ("spec", "template", "spec", "replicatedJobs")) or ()):
        patch: dict[str, Any] = {}
        for part, field in _PATCHED:
            values = get(held, (*_POD, part, field)) or {}
            taken = {key: value for key, value in values.items() if _hangs(value, masks)}
            for key in taken:
                del values[key]
                old = ("spec", "template", "spec", "replicatedJobs", i, *_POD, part, field, key)
                new = (*_PATCHES, len(patches), *_POD, part, field, key)
                moved[f"runtime:{text_of(old)}"] = f"trainjob:{text_of(new)}"
            if taken:
                patch.setdefault(part, {})[field] = taken
            if taken and not values:
                del get(held, (*_POD, part))[field]
            if taken and not get(held, (*_POD, part)):
                del get(held, _POD)[part]
        if patch:
            patches.append({"name": held["name"], "template": {"spec": {"template": patch}}})
    if patches:
        spec = {"template": {"spec": {"replicatedJobs": patches}}}
        job["spec"]["runtimePatches"] = [{"manager": PATCH_MANAGER, "trainingRuntimeSpec": spec}]
    return moved


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
