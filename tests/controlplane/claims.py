"""A provisioner good enough for tests: binds claims, or says why not. A claim is a folder of the test kubelet.

A claim of no class, or of a StorageClass that is there, is bound as soon as a pod wants it; one of a class that is not
there stays Pending for ever, with the event of a real provisioner.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from tests.controlplane.api import Api
from tests.controlplane.kubelet_clock import rfc3339

__all__ = ["UNBOUND", "Claims"]

# What the scheduler says of a pod whose claim nobody provisions (Kubernetes 1.36).
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


class Claims:
    """The claims of all namespaces."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._told: set[str] = set()

    def trouble(self, pod: Mapping[str, Any]) -> str:
        """Why a pod cannot be scheduled for its claims, "" when it can; binds what can be bound on the way."""
        for volume in pod["spec"].get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            found = self._of_claim(str(name), pod["metadata"]["namespace"]) if name else ""
            if found:
                return found
        return ""

    def _of_claim(self, name: str, namespace: str) -> str:
        claim = self._api.get("PersistentVolumeClaim", name, namespace=namespace)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if (claim.get("status") or {}).get("phase") == "Bound":
            return ""
        wanted = claim["spec"].get("storageClassName")
        if wanted and self._api.get("StorageClass", wanted) is None:
            self._tell(claim, f'storageclass.storage.k8s.io "{wanted}" not found')
            return UNBOUND
        status = {"phase": "Bound", "accessModes": claim["spec"]["accessModes"]}
        status["capacity"] = claim["spec"]["resources"]["requests"]
        self._api.patch("PersistentVolumeClaim", name, {"status": status}, namespace=namespace, sub="status")
        return ""

    def _tell(self, claim: Mapping[str, Any], message: str) -> None:
        meta = claim["metadata"]
        if meta["uid"] in self._told:
            return
        self._told.add(meta["uid"])
        now = rfc3339(time.time())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{meta['name']}.{uuid.uuid4().hex[:16]}", "namespace": meta["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "type": "Warning",
            "reason": "ProvisioningFailed",
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": "persistentvolume-controller"},
            "reportingComponent": "persistentvolume-controller",
            "reportingInstance": "",
        }
        self._api.create(event, namespace=meta["namespace"])
