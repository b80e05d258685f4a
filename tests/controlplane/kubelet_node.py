"""The Node objects of the test kubelet."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.controlplane.api import Api, ApiError
from tests.controlplane.kubelet_clock import rfc3339
from tests.controlplane.kubelet_exec import FEATURE

__all__ = ["register", "set_ready", "set_taints"]


def register(api: Api, node: Mapping[str, Any], port: int) -> dict[str, Any]:
    """Create a Node, or take over one of that name; returns it as stored."""
    name = node["name"]
    try:
        api.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **node.get("labels", {})}},
            }
        )
    except ApiError as exc:
        if exc.status != 409:
            raise
    capacity = {"pods": "110", **node["allocatable"]}
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        # Or the API server speaks SPDY to it for an exec.
        "declaredFeatures": [FEATURE],
        "nodeInfo": {"kubeletVersion": "v1.36.3", "operatingSystem": "linux", "architecture": "amd64"},
    }
    api.patch("Node", name, {"status": status}, namespace="", sub="status")
    # The API server taints a new node as not ready; the node controller, which is not here, takes that away.
    set_taints(api, name, node.get("taints") or ())
    return set_ready(api, name, "True", "KubeletReady", "kubelet is posting ready status")


def set_taints(api: Api, name: str, taints: Sequence[Mapping[str, str]]) -> None:
    """Replace a node's taints."""
    api.patch("Node", name, {"spec": {"taints": [dict(taint) for taint in taints]}}, namespace="")


def set_ready(api: Api, name: str, status: str, reason: str, message: str) -> dict[str, Any]:
    """Write a node's Ready condition; what a kubelet does, or the node controller for one that is silent."""
    at = rfc3339(time.time())
    condition = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
    }
    stored = api.patch("Node", name, {"status": {"conditions": [condition]}}, namespace="", sub="status")
    return dict(stored)
