"""The parts of a TrainJob's spec that come from a request's fields."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from trainer_ops.build.env import env_entry, text_of
from trainer_ops.build.mounts import fetched
from trainer_ops.build.patches import patches_of
from trainer_ops.build.ship import launch_command
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.request import Initializer, TrainRequest
from trainer_ops.model.runtime import TrainingRuntime

__all__ = ["spec_of"]

_RESOURCE_PARTS: Final = ("limits", "requests", "claims")


def spec_of(request: TrainRequest, runtime: TrainingRuntime | None, target: str = "") -> dict[str, Any]:
    """``spec`` of a request that describes the job by fields; ours is not yet in the environment.

    Args:
        request: what to train.
        runtime: the runtime it names; None where it may not be read.
        target: the URL of where it shall run: what fetches a snapshot in object storage depends on it.

    Raises:
        InvalidRequest: a field that cannot be expressed.
    """
    kind, name = request.runtime_ref
    spec: dict[str, Any] = {"runtimeRef": {"apiGroup": keys.GROUP, "kind": kind, "name": name}}
    initializer = {
        step: _initializer(step, source)
        for step, source in (("dataset", request.dataset), ("model", request.model))
        if isinstance(source, Initializer)
    }
    initializer.update({step: {"storageUri": uri} for step, uri in fetched(request.snapshots, runtime, target).items()})
    if initializer:
        spec["initializer"] = initializer
    spec["trainer"] = _trainer(request, runtime)
    patches = patches_of(request, runtime)
    if patches:
        spec["runtimePatches"] = patches
    if request.suspend:
        spec["suspend"] = True
    if request.active_deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = request.active_deadline_seconds
    if request.managed_by is not None:
        spec["managedBy"] = request.managed_by
    return spec


def _trainer(request: TrainRequest, runtime: TrainingRuntime | None) -> dict[str, Any]:
    """Always sent: Trainer's torch, jax and xgboost plugins inject no environment where ``spec.trainer`` is absent."""
    trainer: dict[str, Any] = {}
    # Also where it is the runtime's own: the MPI plugin sizes its nodes, and flux works at all, only when it is given.
    nodes = request.num_nodes if request.num_nodes is not None else (runtime.num_nodes if runtime else None)
    if nodes is not None:
        trainer["numNodes"] = nodes
    if request.num_proc_per_node is not None:
        trainer["numProcPerNode"] = request.num_proc_per_node
    if request.image is not None:
        trainer["image"] = request.image
    if request.code is not None:
        trainer["command"] = launch_command(request, runtime)
    elif request.command is not None:
        trainer["command"] = list(request.command)
    if request.args is not None:
        trainer["args"] = list(request.args)
    if request.env:
        trainer["env"] = [env_entry(name, value, "env") for name, value in request.env.items()]
    if request.resources_per_node is not None:
        trainer["resourcesPerNode"] = _resources(request.resources_per_node)
    return trainer


def _resources(given: Mapping[str, Any]) -> dict[str, Any]:
    """``{"cpu": 2}`` as requests and limits; Kubernetes' own form as it is. Quantities become text."""
    own = [part for part in given if part in _RESOURCE_PARTS]
    if not own:
        amounts = _quantities(given, "resources_per_node")
        return {"requests": amounts, "limits": dict(amounts)}
    if len(own) < len(given):
        other = sorted(set(given) - set(own))
        raise InvalidRequest(
            f"resources_per_node.{other[0]}",
            f"stands beside {own[0]}",
            'Give amounts alone ({"cpu": 2}), or requests and limits alone',
        )
    return {
        part: copy.deepcopy(value) if part == "claims" else _quantities(value, f"resources_per_node.{part}")
        for part, value in given.items()
    }


def _quantities(given: Any, field: str) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise InvalidRequest(field, f"is a {type(given).__name__}", 'Give amounts by name, such as {"cpu": 2}')
    for name, value in given.items():
        if isinstance(value, bool):
            raise InvalidRequest(f"{field}.{name}", f"{value!r} is no amount", 'Give a number or text such as "4Gi"')
    return {name: text_of(value, f"{field}.{name}") for name, value in given.items()}


def _initializer(step: str, source: Initializer) -> dict[str, Any]:
    made: dict[str, Any] = {"storageUri": source.storage_uri}
    if source.env:
        made["env"] = [env_entry(name, value, f"{step}.env") for name, value in source.env.items()]
    if source.secret_ref is not None:
        made["secretRef"] = {"name": source.secret_ref}
    return made
