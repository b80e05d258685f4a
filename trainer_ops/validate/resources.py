"""Rules about ``resourcesPerNode``, alone and merged with what the runtime asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from trainer_ops.validate.findings import Finding, error, warning
from trainer_ops.validate.peek import at, mapping, show
from trainer_ops.validate.subject import Subject
from trainer_ops.validate.values import amount

__all__ = ["resources"]

_PATH = "spec.trainer.resourcesPerNode"
_OWN = ("cpu", "memory", "ephemeral-storage")
_MEANT = {"gpu": "nvidia.com/gpu", "gpus": "nvidia.com/gpu", "mem": "memory", "storage": "ephemeral-storage"}
# No training fits into this, so a unit is missing.
_LEAST_MEMORY = Decimal(1 << 20)


def resources(subject: Subject) -> Iterator[Finding]:
    """Names, amounts and the relation of requests to limits."""
    given = mapping(at(subject.spec, "trainer.resourcesPerNode"))
    if not given:
        return
    for kind in ("requests", "limits"):
        for name, value in _entries(given, kind):
            yield from _name(kind, name)
            yield from _amount(kind, name, value)
    yield from _together(given, mapping(subject.node_container.get("resources")))
    if subject.runtime is not None and not subject.has_policy and not subject.of_engine:
        reason = "is dropped silently: the runtime has no mlPolicy"
        yield error("resources-ignored", _PATH, reason, "Add spec.mlPolicy to the runtime, such as numNodes: 1")


def _entries(given: Mapping[Any, Any], kind: str) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in mapping(given.get(kind)).items() if isinstance(name, str)]


def _name(kind: str, name: str) -> Iterator[Finding]:
    if "/" not in name and name not in _OWN and not name.startswith("hugepages-"):
        meant = _MEANT.get(name.lower())
        remedy = f"Did you mean {meant}?" if meant else "Give its domain too, as in nvidia.com/gpu"
        yield error("resource-name", f"{_PATH}.{kind}[{name}]", f"{show(name)} is no resource of Kubernetes", remedy)


def _amount(kind: str, name: str, value: Any) -> Iterator[Finding]:
    path, much = f"{_PATH}.{kind}[{name}]", amount(value)
    if much is None:
        return
    if much < 0:
        yield error("resource-negative", path, f"{show(value)} is less than nothing", "Give 0 or more")
    elif _extended(name) and much != much.to_integral_value():
        yield error(
            "resource-extended", path, f"{show(value)} is not whole, and {name} cannot be shared", "Give 1 or more"
        )
    elif name == "memory" and 0 < much < _LEAST_MEMORY:
        milli = isinstance(value, str) and value.endswith("m")
        reason = f"{show(value)} is {'less than ' if much < 1 else ''}{max(1, int(much))} bytes"
        remedy = f"Did you mean {str(value).removesuffix('m')}{'Mi' if milli else 'Gi'}?"
        yield warning("memory-unit", path, reason, remedy)


def _together(given: Mapping[Any, Any], base: Mapping[Any, Any]) -> Iterator[Finding]:
    """Trainer merges by name of resource, so a request may meet a limit that only the runtime has."""
    requests = {**dict(_entries(base, "requests")), **dict(_entries(given, "requests"))}
    limits = {**dict(_entries(base, "limits")), **dict(_entries(given, "limits"))}
    own = {name for kind in ("requests", "limits") for name, _ in _entries(given, kind)}
    for name in sorted(own & requests.keys()):
        path = f"{_PATH}.requests[{name}]"
        request, limit = amount(requests[name]), amount(limits.get(name))
        if request is None:
            continue
        if limit is None and _extended(name):
            yield error("resource-extended", path, f"{name} has a request and no limit", "Give limits the same")
        elif limit is not None and _extended(name) and request != limit:
            reason = f"{show(requests[name])} is not the limit of {show(limits[name])}"
            yield error("resource-extended", path, reason, f"{name} cannot be shared: give both the same")
        elif limit is not None and request > limit:
            whose = "" if name in mapping(given.get("limits")) else " of the runtime"
            reason = f"{show(requests[name])} is more than the limit of {show(limits[name])}{whose}"
            yield error("requests-over-limits", path, reason, "Lower the request, or raise limits too")


def _extended(name: str) -> bool:
    domain = name.rpartition("/")[0]
    return bool(domain) and not domain.endswith("kubernetes.io")
