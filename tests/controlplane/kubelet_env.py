"""The environment, command and working folder of a container, as a kubelet makes them from the spec."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.controlplane.quantities import quantity

__all__ = ["ConfigError", "Lookup", "command", "decoded", "environment", "expand", "field_of", "resource_of"]

# kind ("ConfigMap" or "Secret"), name -> its data as text, or None when there is no such object.
Lookup = Callable[[str, str], Mapping[str, str] | None]

_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class ConfigError(Exception):
    """A container's configuration names what is not there; the text is a kubelet's own."""


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` where NAME is known; ``$$`` is one dollar; what is not known stays as it is."""

    def one(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else known.get(name, match.group(0))

    return _REFERENCE.sub(one, text)


def field_of(pod: Mapping[str, Any], path: str, *, ip: str = "", node: Mapping[str, Any] | None = None) -> str:
    """A field of the downward API.

    Raises:
        ConfigError: a field that the downward API does not have.
    """
    meta, spec = pod["metadata"], pod["spec"]
    if match := _SUBSCRIPT.fullmatch(path):
        return str((meta.get(match.group(1)) or {}).get(match.group(2), ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = meta.get(path.partition(".")[2]) or {}
        return "\n".join(f'{key}="{value}"' for key, value in sorted(pairs.items()))
    host = ((node or {}).get("status", {}).get("addresses") or [{"address": "127.0.0.1"}])[0]["address"]
    fields = {
        "metadata.name": meta.get("name", ""),
        "metadata.namespace": meta.get("namespace", ""),
        "metadata.uid": meta.get("uid", ""),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.podIP": ip,
        "status.podIPs": ip,
        "status.hostIP": host,
        "status.hostIPs": host,
    }
    if path not in fields:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return str(fields[path])


def environment(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    lookup: Lookup,
    *,
    ip: str = "",
    node: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """All variables of ``envFrom`` and ``env``, the later ones over the earlier.

    Raises:
        ConfigError: a ConfigMap, Secret or key is missing and not optional.
    """
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        found.update(_all_of(source, lookup))
    for entry in container.get("env") or ():
        if "valueFrom" not in entry:
            found[entry["name"]] = expand(entry.get("value") or "", found)
            continue
        value = _value_from(entry["valueFrom"], pod, container, lookup, ip, node)
        if value is not None:
            found[entry["name"]] = value
    return found


_KINDS = {"configMapKeyRef": "ConfigMap", "configMapRef": "ConfigMap", "secretKeyRef": "Secret", "secretRef": "Secret"}


def _all_of(source: Mapping[str, Any], lookup: Lookup) -> dict[str, str]:
    for field in ("configMapRef", "secretRef"):
        if field in source:
            data = _object(_KINDS[field], source[field], lookup) or {}
            return {f"{source.get('prefix') or ''}{key}": value for key, value in data.items()}
    return {}


def _value_from(
    source: Mapping[str, Any],
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    lookup: Lookup,
    ip: str,
    node: Mapping[str, Any] | None,
) -> str | None:
    if "fieldRef" in source:
        return field_of(pod, source["fieldRef"]["fieldPath"], ip=ip, node=node)
    if "resourceFieldRef" in source:
        return resource_of(source["resourceFieldRef"], container, node)
    for field in ("configMapKeyRef", "secretKeyRef"):
        if field in source:
            return _key(_KINDS[field], source[field], pod, lookup)
    raise ConfigError(f"unsupported valueFrom: {', '.join(source)}")


def _object(kind: str, ref: Mapping[str, Any], lookup: Lookup) -> Mapping[str, str] | None:
    data = lookup(kind, ref["name"])
    if data is None and not ref.get("optional"):
        raise ConfigError(f'{kind.lower()} "{ref["name"]}" not found')
    return data


def _key(kind: str, ref: Mapping[str, Any], pod: Mapping[str, Any], lookup: Lookup) -> str | None:
    data = _object(kind, ref, lookup)
    if data is None or (ref["key"] not in data and ref.get("optional")):
        return None
    if ref["key"] not in data:
        raise ConfigError(f"couldn't find key {ref['key']} in {kind} {pod['metadata']['namespace']}/{ref['name']}")
    return data[ref["key"]]


def resource_of(ref: Mapping[str, Any], container: Mapping[str, Any], node: Mapping[str, Any] | None) -> str:
    """A limit or request of the container; a limit that is not given is what the node has. Rounded up."""
    side, _, name = str(ref["resource"]).partition(".")
    given = (container.get("resources") or {}).get(side) or {}
    value = given.get(name)
    if value is None and side == "limits":
        value = ((node or {}).get("status", {}).get("allocatable") or {}).get(name)
    divisor = quantity(ref.get("divisor") or "0") or 1
    return str(math.ceil(quantity(value or "0") / divisor))


def decoded(data: Mapping[str, str] | None) -> dict[str, str]:
    """A Secret's data as text."""
    return {key: base64.b64decode(value).decode("utf-8", "replace") for key, value in (data or {}).items()}


def command(container: Mapping[str, Any], env: Mapping[str, str]) -> Sequence[str]:
    """The argv of a container, with its references expanded."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [expand(word, env) for word in words]
