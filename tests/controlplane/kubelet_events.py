"""Events as a kubelet and a scheduler write them; the same again raises the count of the first."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from tests.controlplane.api import Api, ApiError
from tests.controlplane.kubelet_clock import Clock, rfc3339

__all__ = ["Recorder"]


class Recorder:
    """Writes events about pods. An event that cannot be written is left out, as the real ones do."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, ...], tuple[str, int]] = {}

    def kubelet(self, pod: Mapping[str, Any], reason: str, message: str, *, kind: str = "Normal", at: str = "") -> None:
        """An event of the node; ``at`` is the container it is about."""
        meta = pod["metadata"]
        key = (meta["uid"], reason, message, at)
        now = rfc3339(self._clock.now())
        with self._lock:
            name, count = self._known.get(key, (f"{meta['name']}.{uuid.uuid4().hex[:16]}", 0))
            self._known[key] = (name, count + 1)
        if count:
            self._send("PATCH", meta["namespace"], name, {"count": count + 1, "lastTimestamp": now})
            return
        event = self._event(pod, name, reason, message, kind)
        if at:
            event["involvedObject"]["fieldPath"] = f"spec.containers{{{at}}}"
        source = {"component": "kubelet", "host": pod["spec"].get("nodeName", "")}
        event |= {"count": 1, "firstTimestamp": now, "lastTimestamp": now, "source": source}
        event |= {"reportingComponent": "kubelet", "reportingInstance": source["host"]}
        self._send("POST", meta["namespace"], "", event)

    def scheduler(self, pod: Mapping[str, Any], reason: str, message: str, *, kind: str = "Normal") -> None:
        """An event of the scheduler: of the newer kind, with ``eventTime`` only."""
        name = f"{pod['metadata']['name']}.{uuid.uuid4().hex[:16]}"
        event = self._event(pod, name, reason, message, kind)
        event |= {
            "eventTime": datetime.fromtimestamp(self._clock.now(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "action": "Binding" if reason == "Scheduled" else "Scheduling",
            "reportingComponent": "default-scheduler",
            "reportingInstance": "default-scheduler-test",
        }
        self._send("POST", pod["metadata"]["namespace"], "", event)

    def forget(self, uid: str) -> None:
        """Its pod is gone."""
        with self._lock:
            for key in [key for key in self._known if key[0] == uid]:
                del self._known[key]

    def _event(self, pod: Mapping[str, Any], name: str, reason: str, message: str, kind: str) -> dict[str, Any]:
        meta = pod["metadata"]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": meta["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
                "resourceVersion": meta.get("resourceVersion", ""),
            },
            "type": kind,
            "reason": reason,
            "message": message[:1024],
        }

    def _send(self, method: str, namespace: str, name: str, body: dict[str, Any]) -> None:
        try:
            if method == "POST":
                self._api.create(body, namespace=namespace)
            else:
                self._api.patch("Event", name, body, namespace=namespace)
        except (ApiError, OSError):
            pass
