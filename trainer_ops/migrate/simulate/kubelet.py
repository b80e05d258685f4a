"""A pod as the kubelet starts it: variables in their order, ``$(NAME)`` replaced, downward API read.

Source: Kubernetes v1.36 ``pkg/kubelet/kubelet_pods.go`` makeEnvironmentVariables and
``third_party/forked/golang/expansion``: a value sees the variables before it, command and args see all; ``$$`` is a
dollar; an unknown name stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from trainer_ops.migrate.simulate.fleet import SimContainer, SimPod

__all__ = ["expand", "pod"]

Raw = Mapping[str, Any]

_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")
_KEYED: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def pod(raw: Raw, *, role: str, index: int, seat: str, host: str, main: str, namespace: str) -> SimPod:
    """Read a pod.

    Args:
        raw: ``metadata`` with the name, and ``spec``.
        role: what its controller calls it.
        index: within the role.
        seat: what it is in the training.
        host: the name by which others reach it.
        main: the name of the container with the code.
        namespace: of the job.
    """
    metadata = raw.get("metadata") or {}
    spec = raw.get("spec") or {}
    seen = {**metadata, "namespace": namespace}
    started = {
        kind: tuple(_container(container, seen, spec) for container in spec.get(kind) or ())
        for kind in ("initContainers", "containers")
    }
    name = str(metadata.get("name") or "")
    return SimPod(role, index, seat, name, host, main, raw, started["initContainers"], started["containers"])


def expand(text: str, known: Mapping[str, str]) -> str:
    """``$(NAME)`` and ``$$`` replaced."""

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return known.get(match[1], match[0])

    return _REFERENCE.sub(replaced, text)


def _container(raw: Raw, metadata: Raw, spec: Raw) -> SimContainer:
    env: dict[str, str] = {}
    for item in raw.get("env") or ():
        name, source = str(item.get("name")), item.get("valueFrom")
        value = _source(source, metadata, spec, raw) if source else expand(str(item.get("value") or ""), env)
        # The last of two with one name, and where that one stands.
        env.pop(name, None)
        env[name] = value
    return SimContainer(
        str(raw.get("name") or ""),
        str(raw.get("image") or ""),
        tuple(expand(str(text), env) for text in raw.get("command") or ()),
        tuple(expand(str(text), env) for text in raw.get("args") or ()),
        env,
        tuple(_from(item) for item in raw.get("envFrom") or ()),
        _resources(raw.get("resources") or {}),
        {str(mount.get("mountPath")): mount for mount in raw.get("volumeMounts") or ()},
        raw,
    )


def _resources(raw: Raw) -> dict[str, dict[str, str]]:
    limits, requests = (
        {str(name): str(value) for name, value in (raw.get(kind) or {}).items() if value is not None}
        for kind in ("limits", "requests")
    )
    return {"limits": limits, "requests": {**limits, **requests}}


def _from(item: Raw) -> str:
    prefix = str(item.get("prefix") or "")
    for kind in ("configMapRef", "secretRef"):
        if isinstance(item.get(kind), Mapping):
            return f"{prefix}<{kind.removesuffix('Ref').lower()} {item[kind].get('name')}>"
    return f"{prefix}<nothing>"


def _source(source: Raw, metadata: Raw, spec: Raw, container: Raw) -> str:
    for kind, word in (("secretKeyRef", "secret"), ("configMapKeyRef", "configmap"), ("fileKeyRef", "file")):
        ref = source.get(kind)
        if isinstance(ref, Mapping):
            return f"<{word} {ref.get('name') or ref.get('volumeName')}/{ref.get('key')}>"
    amount, field = source.get("resourceFieldRef"), source.get("fieldRef")
    if isinstance(amount, Mapping):
        return _amount(amount, container)
    return _field(str(field.get("fieldPath") if isinstance(field, Mapping) else ""), metadata, spec)


def _field(path: str, metadata: Raw, spec: Raw) -> str:
    keyed = _KEYED.fullmatch(path)
    if keyed:
        # A key that is not there reads as nothing.
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    if path in ("metadata.name", "metadata.namespace"):
        return str(metadata.get(path.partition(".")[2]) or "")
    if path == "spec.serviceAccountName":
        return str(spec.get("serviceAccountName") or "default")
    return f"<{path}>"


def _amount(ref: Raw, container: Raw) -> str:
    resource = str(ref.get("resource") or "")
    kind, _, name = resource.partition(".")
    held = _resources(container.get("resources") or {}).get(kind, {}).get(name)
    if ref.get("containerName") not in (None, container.get("name")) or held is None:
        return f"<{resource}>"
    divisor = str(ref.get("divisor") or "0")
    return f"<{resource} {held}>" if divisor in ("", "0", "1") else f"<{resource} {held} in {divisor}>"
