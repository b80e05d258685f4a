"""Is it the shape of a v1 job at all? What the API server would refuse is told here, and all later rules rely on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainer_ops.migrate import fields
from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.normalise import Role, V1Job
from trainer_ops.migrate.paths import Path, text_of

__all__ = ["misshapen", "typed"]

_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "map": "a mapping",
    "maps": "a list of mappings",
    "str": "a text",
    "strs": "a list of texts",
    "texts": "a mapping of texts",
}
_METADATA = {"labels": "texts", "annotations": "texts", "name": "str", "namespace": "str", "generateName": "str"}
_RUN_POLICY = {
    "cleanPodPolicy": "str",
    "ttlSecondsAfterFinished": "int",
    "activeDeadlineSeconds": "int",
    "backoffLimit": "int",
    "schedulingPolicy": "map",
    "suspend": "bool",
    "managedBy": "str",
}
_SCHEDULING = {
    "minAvailable": "int",
    "queue": "str",
    "minResources": "map",
    "priorityClass": "str",
    "scheduleTimeoutSeconds": "int",
}
_ITEM_NAMES = ("env", "volumes", "volumeMounts", "containers", "initContainers")


def misshapen(job: V1Job) -> Iterator[Finding]:
    """What has another type than its field in v1, for all fields that the rules look into."""
    yield from typed(job.metadata, ("metadata",), _METADATA)
    if isinstance(job.spec.get("runPolicy", {}), Mapping):
        for name, value in job.run_policy.items():
            yield from typed({name: value}, job.run_policy_paths[name][:-1], _RUN_POLICY)
    else:
        yield from typed(job.spec, ("spec",), {"runPolicy": "map"})
    policy = job.run_policy.get("schedulingPolicy")
    if isinstance(policy, Mapping):
        yield from typed(policy, job.run_policy_paths["schedulingPolicy"], _SCHEDULING)
    for role in job.roles:
        yield from _role(role)


def _role(role: Role) -> Iterator[Finding]:
    metadata = role.template.get("metadata")
    if metadata is not None:
        yield from typed({"metadata": metadata}, role.template_path, {"metadata": "map"})
    if isinstance(metadata, Mapping):
        yield from typed(metadata, (*role.template_path, "metadata"), _METADATA)
    yield from typed(role.pod, role.pod_path, fields.POD)
    for kind in ("initContainers", "containers"):
        held = role.pod.get(kind)
        for i, container in enumerate(held if isinstance(held, list | tuple) else ()):
            if isinstance(container, Mapping):
                yield from _container(container, (*role.pod_path, kind, i))


def _container(container: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    yield from typed(container, path, fields.CONTAINER)
    if not container.get("image"):
        yield finding("NOT-A-JOB", (*path, "image"), f"{text_of((*path, 'image'))} is missing")
    for key, what in (("limits", "map"), ("requests", "map"), ("claims", "maps")):
        resources = container.get("resources")
        if isinstance(resources, Mapping):
            yield from typed(resources, (*path, "resources"), {key: what})
    for i, item in enumerate(container["env"] if _is(container.get("env"), "maps") else ()):
        yield from typed(item, (*path, "env", i), {"value": "str", "valueFrom": "map"})


def typed(held: Mapping[str, Any], path: Path, table: Mapping[str, str]) -> Iterator[Finding]:
    """The fields of a mapping that are not of their type.

    Args:
        held: the mapping.
        path: where it stands.
        table: field -> type: ``str``, ``int``, ``bool``, ``map``, ``maps`` (a list of them), ``strs``, ``texts``
            (a mapping of texts). null is as good as left out.
    """
    for name, what in table.items():
        value = held.get(name)
        if value is None:
            continue
        if not _is(value, what):
            where = (*path, name)
            yield finding("NOT-A-JOB", where, f"{text_of(where)} is not {_WORDS[what]}", remedy=_remedy(what))
        elif name in _ITEM_NAMES:
            yield from _named(value, (*path, name))


def _named(items: Any, path: Path) -> Iterator[Finding]:
    field = fields.KEYED.get(str(path[-1]), "name")
    for i, item in enumerate(items):
        # v1's own rule for names of containers is elsewhere: a container with the code may lack one.
        if not isinstance(item.get(field), str) and str(path[-1]) != "containers":
            where = (*path, i, field)
            yield finding("NOT-A-JOB", where, f"{text_of(where)} is missing or no text")


def _remedy(what: str) -> str | None:
    return "Put it in quotes" if what in ("str", "strs", "texts") else None


def _is(value: Any, what: str) -> bool:
    if what in ("maps", "strs"):
        kind = Mapping if what == "maps" else str
        return isinstance(value, list | tuple) and all(isinstance(item, kind) for item in value)
    if what == "texts":
        return isinstance(value, Mapping) and all(isinstance(item, str) or item is None for item in value.values())
    if what == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, {"bool": bool, "map": Mapping, "str": str}[what])
