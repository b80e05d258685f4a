"""Pods without what the API server writes into all of them, so that real and made-up ones can be compared."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tests.controlplane.quantities import quantity

__all__ = ["undefaulted"]

Raw = dict[str, Any]
_POD: Raw = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "serviceAccount": "default",
    "serviceAccountName": "default",
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER: Raw = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
    "securityContext": {},
}
_PROBE: Raw = {"failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}
_PROBES = ("readinessProbe", "livenessProbe", "startupProbe")
_TOLERATIONS = [
    {"effect": "NoExecute", "key": f"node.kubernetes.io/{state}", "operator": "Exists", "tolerationSeconds": 300}
    for state in ("not-ready", "unreachable")
]


def undefaulted(pod: Mapping[str, Any]) -> Raw:
    """A copy of a pod (``metadata``, ``spec``) without defaults, the token's volume and what admission adds."""
    made: Raw = copy.deepcopy(dict(pod))
    spec = made["spec"]
    _without(spec, _POD)
    if spec.get("serviceAccount") == spec.get("serviceAccountName"):
        spec.pop("serviceAccount", None)
    if spec.get("priorityClassName"):
        for filled in ("priority", "preemptionPolicy"):
            spec.pop(filled, None)
    spec["tolerations"] = [t for t in spec.get("tolerations") or () if t not in _TOLERATIONS]
    spec["volumes"] = [_volume(v) for v in spec.get("volumes") or () if not v["name"].startswith("kube-api-access-")]
    for part in ("containers", "initContainers"):
        for container in spec.get(part) or ():
            _strip_container(container)
    for key in ("tolerations", "volumes", "initContainers"):
        if not spec.get(key):
            spec.pop(key, None)
    return made


def _without(held: Raw, defaults: Mapping[str, Any]) -> None:
    for key, value in defaults.items():
        if key in held and held[key] == value:
            del held[key]


def _strip_container(container: Raw) -> None:
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition(":")[2]
    _without(container, {**_CONTAINER, "imagePullPolicy": "Always" if tag in ("", "latest") else "IfNotPresent"})
    mounts = [m for m in container.get("volumeMounts") or () if not m["name"].startswith("kube-api-access-")]
    container.pop("volumeMounts", None)
    if mounts:
        container["volumeMounts"] = mounts
    for probe in _PROBES:
        _without(container.get(probe) or {}, _PROBE)
    for port in container.get("ports") or ():
        # On the host's network a port is the host's too.
        _without(port, {"protocol": "TCP", "hostPort": port["containerPort"]})
    for entry in container.get("env") or ():
        _without((entry.get("valueFrom") or {}).get("fieldRef") or {}, {"apiVersion": "v1"})
        _without(entry, {"value": ""})
    if container.get("resources"):
        container["resources"] = _resources(container["resources"])


def _resources(given: Mapping[str, Any]) -> Raw:
    """Amounts as numbers; a request that is left out is the limit."""
    limits, requests = dict(given.get("limits") or {}), dict(given.get("requests") or {})
    found = {"limits": limits, "requests": {**limits, **requests}}
    amounts = {side: {name: str(quantity(str(n)).normalize()) for name, n in of.items()} for side, of in found.items()}
    return {side: of for side, of in amounts.items() if of}


def _volume(volume: Mapping[str, Any]) -> Raw:
    found = copy.deepcopy(dict(volume))
    for source in found.values():
        if isinstance(source, dict):
            _without(source, {"defaultMode": 0o644, "type": ""})
    return found
