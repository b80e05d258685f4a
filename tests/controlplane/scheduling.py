"""The scheduler's thread: binds pods that have no node, and says why it cannot."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.controlplane.api import Api, ApiError, path_of
from tests.controlplane.claims import Claims
from tests.controlplane.kubelet_clock import rfc3339
from tests.controlplane.kubelet_events import Recorder
from tests.controlplane.scheduler import place

__all__ = ["Scheduler"]


class Scheduler:
    """Places pods one after the other.

    Args:
        api: binds pods.
        recorder: writes events.
        left_alone: whether a pod is not to be scheduled (a test drives it by hand).
    """

    def __init__(self, api: Api, recorder: Recorder, left_alone: Callable[[Mapping[str, Any]], bool]) -> None:
        self._api = api
        self._claims = Claims(api)
        self._recorder = recorder
        self._left_alone = left_alone
        self._changed = threading.Condition()
        self._dirty = False
        self._pods: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, dict[str, Any]] = {}
        self._told: dict[str, str] = {}

    def start(self) -> None:
        """Begin; returns at once."""
        threading.Thread(target=self._loop, name="scheduler", daemon=True).start()

    def on_pod(self, change: str, pod: dict[str, Any]) -> None:
        """A pod appeared, changed or went."""
        uid = pod["metadata"]["uid"]
        with self._changed:
            if change == "DELETED":
                self._pods.pop(uid, None)
                self._told.pop(uid, None)
            else:
                self._pods[uid] = pod
            self._wake()

    def on_node(self, change: str, node: dict[str, Any]) -> None:
        """A node appeared, changed or went."""
        with self._changed:
            if change == "DELETED":
                self._nodes.pop(node["metadata"]["name"], None)
            else:
                self._nodes[node["metadata"]["name"]] = node
            self._wake()

    def _wake(self) -> None:
        self._dirty = True
        self._changed.notify()

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._dirty, timeout=1.0)  # claims and rules change unwatched
                self._dirty = False
                pods, nodes = (
                    list(self._pods.values()),
                    sorted(self._nodes.values(), key=lambda n: n["metadata"]["name"]),
                )
            waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
            held = [pod for pod in pods if pod["spec"].get("nodeName") and not _over(pod)]
            for pod in sorted(waiting, key=lambda p: str(p["metadata"]["creationTimestamp"])):
                try:
                    self._one(pod, nodes, held)
                except (ApiError, OSError) as exc:
                    if not isinstance(exc, ApiError) or exc.status not in (404, 409):
                        print(f"scheduler: {exc!r}", file=sys.stderr, flush=True)

    def _one(self, pod: dict[str, Any], nodes: list[dict[str, Any]], held: list[dict[str, Any]]) -> None:
        if pod["metadata"].get("deletionTimestamp") or self._left_alone(pod):
            return
        if pod["spec"].get("schedulingGates"):
            return  # the API server itself writes the condition SchedulingGated
        found = place(pod, nodes, held, claims=self._claims.trouble(pod))
        if found.node:
            self._bind(pod, found.node)
            held.append({**pod, "spec": {**pod["spec"], "nodeName": found.node}})
        elif self._told.get(pod["metadata"]["uid"]) != found.message:
            self._told[pod["metadata"]["uid"]] = found.message
            self._recorder.scheduler(pod, "FailedScheduling", found.message, kind="Warning")
            self._tell(pod, found.message)

    def _bind(self, pod: dict[str, Any], node: str) -> None:
        meta = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "uid": meta["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._api.call("POST", path_of("Pod", meta["namespace"], meta["name"], "binding"), body)
        with self._changed:
            if meta["uid"] in self._pods:
                self._pods[meta["uid"]] = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        text = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
        self._recorder.scheduler(pod, "Scheduled", text)

    def _tell(self, pod: dict[str, Any], message: str) -> None:
        meta = pod["metadata"]
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(time.time()),
        }
        others = [c for c in (pod.get("status") or {}).get("conditions") or () if c["type"] != "PodScheduled"]
        status = {"status": {"conditions": [*others, condition]}}
        self._api.patch("Pod", meta["name"], status, namespace=meta["namespace"], sub="status")


def _over(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
