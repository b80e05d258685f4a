"""What is set on a KFP task, as fields of the training. Pure.

KFP hands a task's configuration on as six fields of a pod (``dsl.TaskConfig``). Each becomes what a TrainJob has for
it, or is refused by name:

    resources                resourcesPerNode
    env                      env of the training code
    nodeSelector             a runtime patch of every pod that trains
    tolerations              the same
    affinity                 the same
    volumes, volumeMounts    the same, mounted in the container that trains
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.inputs import plain
from trainer_ops.model import keys

__all__ = ["PATCH_MANAGER", "applied", "applied_to_pod", "parse"]

PATCH_MANAGER: Final = "trainer-ops.kubeflow.org/kfp-task"

_FIELD: Final = "task_config"
# Kubernetes' spelling, which KFP's driver writes -> the Python SDK's. Each with the type it must have.
_FIELDS: Final[Mapping[str, tuple[str, type]]] = {
    "resources": ("resources", dict),
    "env": ("env", list),
    "nodeSelector": ("node_selector", dict),
    "tolerations": ("tolerations", list),
    "affinity": ("affinity", dict),
    "volumes": ("volumes", list),
    "volumeMounts": ("volume_mounts", list),
}
_OF_THE_POD: Final = ("nodeSelector", "tolerations", "affinity", "volumes")


def parse(given: Any) -> dict[str, Any]:
    """A task's configuration with Kubernetes' names; only what is set.

    Args:
        given: what KFP hands on: a mapping, its JSON text, or nothing (``None``, "", ``{}``).

    Raises:
        InvalidRequest: a field that is not one of the seven, or that has no such shape.
    """
    config = _parsed(given) if isinstance(given, str) else given
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise InvalidRequest(_FIELD, f"is a {type(config).__name__}", "Leave it to KFP")
    names = {snake: name for name, (snake, _) in _FIELDS.items()}
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = names.get(str(key), str(key))
        if not value:
            continue
        if name not in _FIELDS:
            raise InvalidRequest(f"{_FIELD}.{key}", "is not known here", f"Known: {', '.join(_FIELDS)}")
        if not isinstance(value, _FIELDS[name][1]):
            kind = "a list" if _FIELDS[name][1] is list else "a mapping"
            raise InvalidRequest(f"{_FIELD}.{name}", f"is no {kind.split()[-1]}", f"Give {kind}")
        found[name] = plain(value)
    resources = {part: value for part, value in (found.pop("resources", None) or {}).items() if value}
    return {**found, "resources": resources} if resources else found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if text.strip() else None
    except ValueError as exc:
        raise InvalidRequest(_FIELD, f"is no JSON: {exc}", "Leave it to KFP") from exc


def applied(fields: Mapping[str, Any], config: Mapping[str, Any], jobs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A request's fields with a task's configuration in them.

    Args:
        fields: of ``TrainRequest``.
        config: see ``parse``.
        jobs: (replicatedJob, container that trains in it) of the runtime.

    Raises:
        InvalidRequest: the inputs say the same thing differently; a volume is mounted twice or not there.
    """
    made = dict(fields)
    manifest = made.get("manifest")
    if manifest is not None:
        made["manifest"] = manifest = copy.deepcopy(dict(manifest))
    patches = _patches(config, jobs)
    if manifest is None:
        _set_resources(made, "resources_per_node", config, "resources_per_node")
        env = _environment(config, made.get("env") or {}, "env")
        if env:
            made["env"] = {**(made.get("env") or {}), **env}
        if patches:
            made["runtime_patches"] = [*(made.get("runtime_patches") or []), *patches]
        return made
    spec = manifest.setdefault("spec", {})
    if config.get("resources") or config.get("env"):
        trainer = spec.setdefault("trainer", {})
        _set_resources(trainer, "resourcesPerNode", config, "manifest.spec.trainer.resourcesPerNode")
        standing = trainer.get("env") or []
        env = _environment(config, {entry["name"]: _value(entry) for entry in standing}, "manifest.spec.trainer.env")
        if env:
            taken = {entry["name"] for entry in standing}
            more = [_entry(name, value) for name, value in env.items() if name not in taken]
            trainer["env"] = [*standing, *more]
    if patches:
        spec["runtimePatches"] = [*(spec.get("runtimePatches") or []), *patches]
    return made


def applied_to_pod(fields: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of ``take_snapshot`` with a task's configuration in them: it is the pod's that makes the snapshot.

    Args:
        fields: its arguments, of which ``env`` and ``resources`` are of the same kind.
        config: see ``parse``.

    Raises:
        InvalidRequest: the inputs say the same thing differently; or a volume is set, for which it has no place.
    """
    for name in ("volumes", "volumeMounts"):
        if config.get(name):
            remedy = "Name the claim it is to be kept on as to, and one to read from as uri=pvc://claim/folder"
            raise InvalidRequest(f"{_FIELD}.{name}", "has no meaning for a snapshot", remedy)
    made = dict(fields)
    _set_resources(made, "resources", config, "resources")
    env = _environment(config, made.get("env") or {}, "env")
    if env:
        made["env"] = {**(made.get("env") or {}), **env}
    pod = {name: copy.deepcopy(config[name]) for name in _OF_THE_POD if config.get(name)}
    return {**made, "pod": pod} if pod else made


def _set_resources(place: dict[str, Any], name: str, config: Mapping[str, Any], field: str) -> None:
    wanted = config.get("resources")
    if not wanted:
        return
    if place.get(name) and place[name] != wanted:
        raise InvalidRequest(
            field,
            "is given, and the task sets cpu, memory or accelerators too",
            "Give them as this input, or on the task (set_cpu_limit, …), not both",
        )
    place[name] = copy.deepcopy(wanted)


def _environment(config: Mapping[str, Any], given: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The task's variables by name; the tool's own one, which tells the step its target, is none of them.

    Args:
        config: see ``parse``.
        given: the variables that an input gives.
        field: that input's name.

    Raises:
        InvalidRequest: the input and the task set one differently.
    """
    found: dict[str, Any] = {}
    for entry in config.get("env") or ():
        if not isinstance(entry, Mapping) or not entry.get("name"):
            raise InvalidRequest(f"{_FIELD}.env", f"{entry!r} has no name", "Give name and value")
        found[str(entry["name"])] = _value(entry)
    found.pop(keys.ENV_TARGET, None)
    for name, value in found.items():
        if name in given and _text(given[name]) != _text(value):
            raise InvalidRequest(
                f"{field}.{name}", "is given, and the task sets another value", "Set it here or on the task, not both"
            )
    return found


def _value(entry: Mapping[str, Any]) -> Any:
    return {"valueFrom": entry["valueFrom"]} if entry.get("valueFrom") else str(entry.get("value") or "")


def _entry(name: str, value: Any) -> dict[str, Any]:
    return {"name": name, **value} if isinstance(value, Mapping) else {"name": name, "value": value}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _patches(config: Mapping[str, Any], jobs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    pod = {name: config[name] for name in _OF_THE_POD if config.get(name)}
    mounts = config.get("volumeMounts") or []
    _check_mounts(config, mounts)
    if not pod and not mounts:
        return []
    rows = []
    for job, container in jobs:
        spec = copy.deepcopy(pod)
        if mounts:
            spec["containers"] = [{"name": container, "volumeMounts": copy.deepcopy(mounts)}]
        rows.append({"name": job, "template": {"spec": {"template": {"spec": spec}}}})
    change = {"template": {"spec": {"replicatedJobs": rows}}}
    return [{"manager": PATCH_MANAGER, "trainingRuntimeSpec": change}]


def _check_mounts(config: Mapping[str, Any], mounts: Sequence[Mapping[str, Any]]) -> None:
    names = [str(mount.get("name")) for mount in mounts]
    known = {str(volume.get("name")) for volume in config.get("volumes") or ()}
    for name in names:
        if name not in known:
            raise InvalidRequest(f"{_FIELD}.volumeMounts", f'there is no volume "{name}"', "Mount one of the task's")
        # Trainer's patches key mounts by the volume's name, so a second one would silently replace the first.
        if names.count(name) > 1:
            raise InvalidRequest(
                f"{_FIELD}.volumeMounts", f'the volume "{name}" is mounted twice', "Mount it once, at a common folder"
            )
