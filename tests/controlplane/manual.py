"""Pods driven by hand: states that no process can be brought into, written as a kubelet or a controller writes them.

A ``Hand`` holds the pods of a namespace back from the test kubelet and then says what becomes of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tests.controlplane.api import path_of
from tests.controlplane.fixtures import Cluster
from tests.controlplane.kubelet_clock import Clock, rfc3339
from tests.controlplane.kubelet_events import Recorder
from tests.controlplane.kubelet_status import (
    ContainerView,
    PodView,
    container_id,
    pod_status,
    running,
    terminated,
    waiting,
)
from tests.controlplane.plane import wait_until

__all__ = ["Hand"]

_NO_FIT = (
    "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/2 nodes are "
    "available: 2 Preemption is not helpful for scheduling."
)


class Hand:
    """Drives the pods of one namespace.

    Args:
        cluster: the cluster.
        namespace: whose new pods are held back from now on.
        pods: a pattern for their names.
        unbound: hold them back from the scheduler too.
    """

    def __init__(self, cluster: Cluster, namespace: str, pods: str = "*", *, unbound: bool = False) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._recorder = Recorder(cluster.api, Clock())
        self._views: dict[str, PodView] = {}
        self._unbound = unbound
        cluster.kubelet.hold(namespace, pods, unbound=unbound)

    def pods(self, count: int = 1, *, trainjob: str = "", seconds: float = 30.0) -> list[dict[str, Any]]:
        """Wait for so many pods (bound ones, unless they are held unbound), by name."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            pods = self._cluster.pods(self._namespace, trainjob)
            found[:] = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
            return len([pod for pod in found if self._unbound or pod["spec"].get("nodeName")]) >= count

        wait_until(f"{count} pods in {self._namespace}", there, seconds=seconds)
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    # -- what a scheduler says --------------------------------------------------------------------------------------

    def unschedulable(self, pod: Mapping[str, Any], message: str = _NO_FIT) -> None:
        """No node fits. The pod is to be held unbound."""
        at = rfc3339(time.time())
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self._patch(pod, {"conditions": [{**condition, "lastProbeTime": None, "lastTransitionTime": at}]})
        self._recorder.scheduler(pod, "FailedScheduling", message, kind="Warning")

    # -- what a kubelet says ----------------------------------------------------------------------------------------

    def creating(self, pod: Mapping[str, Any]) -> None:
        """Accepted by its node."""
        self._write(pod, waiting("ContainerCreating"), sandbox=False)

    def image_error(self, pod: Mapping[str, Any], text: str, *, back_off: bool = True) -> None:
        """ErrImagePull with this text, or ImagePullBackOff after it, with the events of both."""
        image = str(pod["spec"]["containers"][0]["image"])
        self._event(pod, "Pulling", f'Pulling image "{image}"')
        self._event(pod, "Failed", f'Failed to pull image "{image}": {text}', kind="Warning")
        self._event(pod, "Failed", "Error: ErrImagePull", kind="Warning")
        if not back_off:
            self._write(pod, waiting("ErrImagePull", text))
            return
        self._event(pod, "BackOff", f'Back-off pulling image "{image}"')
        self._event(pod, "Failed", "Error: ImagePullBackOff", kind="Warning")
        self._write(pod, waiting("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {text}'))

    def config_error(self, pod: Mapping[str, Any], text: str) -> None:
        """CreateContainerConfigError with this text."""
        self._event(pod, "Failed", f"Error: {text}", kind="Warning")
        self._write(pod, waiting("CreateContainerConfigError", text))

    def mount_error(self, pod: Mapping[str, Any], volume: str, text: str) -> None:
        """A volume cannot be mounted: only the event tells."""
        message = f'MountVolume.SetUp failed for volume "{volume}" : {text}'
        self._recorder.kubelet(pod, "FailedMount", message, kind="Warning")
        self.creating(pod)

    def running(self, pod: Mapping[str, Any]) -> None:
        """Runs, or runs again after an end: then its restart count rises."""
        view = self._view(pod)
        container = view.main[0]
        if container.ident:
            container.restarts += 1
            container.last = container.state if "terminated" in container.state else container.last
        container.ident = container_id(str(pod["metadata"]["uid"]), container.name, container.restarts)
        self._event(pod, "Started", "Container started")
        self._write(pod, running(time.time()), ready=True)

    def ended(
        self, pod: Mapping[str, Any], code: int, *, reason: str = "", message: str = "", final: bool = True
    ) -> None:
        """Its container has ended; ``final``: and is not restarted."""
        container = self._view(pod).main[0]
        why = reason or ("Completed" if code == 0 else "Error")
        now = time.time()
        state = terminated(code, why, message=message, started=now - 1, finished=now, ident=container.ident)
        self._write(pod, state, ended=final)

    def oom_killed(self, pod: Mapping[str, Any], *, final: bool = True) -> None:
        """Out of memory."""
        self.ended(pod, 137, reason="OOMKilled", final=final)

    def crash_loop(self, pod: Mapping[str, Any], seconds: int = 10) -> None:
        """Waits for its next start after an end."""
        container, meta = self._view(pod).main[0], pod["metadata"]
        full = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
        container.last = container.state if "terminated" in container.state else container.last
        text = f"Back-off restarting failed container {container.name} in pod {full}"
        self._event(pod, "BackOff", text, kind="Warning")
        text = f"back-off {seconds}s restarting failed container={container.name} pod={full}"
        self._write(pod, waiting("CrashLoopBackOff", text))

    def evicted(self, pod: Mapping[str, Any], message: str = "The node was low on resource: memory. ") -> None:
        """Ended by its node, which is under pressure."""
        view = self._view(pod)
        view.reason, view.message, view.killed = "Evicted", message, True
        self._recorder.kubelet(pod, "Evicted", message, kind="Warning")
        self.ended(pod, 137, reason="Error")
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}
        self._add_condition(pod, condition)

    # -- what the node controller says ------------------------------------------------------------------------------

    def node_lost(self, node: str) -> None:
        """The node goes silent and, its tolerations over, its pods in this namespace are to be deleted.

        They stay, terminating, for as long as the node is away (``Kubelet.return_node``).
        """
        self._cluster.kubelet.lose_node(node)
        for pod in self._cluster.pods(self._namespace):
            if pod["spec"].get("nodeName") != node:
                continue
            name = pod["metadata"]["name"]
            text = "Taint manager: deleting due to NoExecute taint"
            condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
            self._add_condition(pod, {**condition, "message": text})
            self._add_condition(pod, {"type": "Ready", "status": "False", "reason": "NodeNotReady"})
            lost = f"Node {node} which was running pod {name} is unresponsive"
            self._patch(pod, {"reason": "NodeLost", "message": lost})
            self._cluster.api.call("DELETE", path_of("Pod", self._namespace, name), {})

    # -- writing ----------------------------------------------------------------------------------------------------

    def _view(self, pod: Mapping[str, Any]) -> PodView:
        uid = pod["metadata"]["uid"]
        if uid not in self._views:
            containers = [ContainerView(spec) for spec in pod["spec"]["containers"]]
            self._views[uid] = PodView(pod, [], containers, time.time(), ip="127.0.0.1")
        return self._views[uid]

    def _write(
        self,
        pod: Mapping[str, Any],
        state: dict[str, Any],
        *,
        ready: bool = False,
        ended: bool = False,
        sandbox: bool = True,
    ) -> None:
        view = self._view(pod)
        view.sandbox, view.ended = sandbox, ended
        for container in view.main:
            container.state, container.ready = state, ready
        stored = self._cluster.api.get("Pod", pod["metadata"]["name"], namespace=self._namespace)
        self._patch(pod, pod_status(view, (stored or {}).get("status") or {}, time.time()))

    def _add_condition(self, pod: Mapping[str, Any], condition: Mapping[str, Any]) -> None:
        stored = self._cluster.api.get("Pod", pod["metadata"]["name"], namespace=self._namespace)
        others = [c for c in stored["status"].get("conditions") or () if c["type"] != condition["type"]]
        self._patch(pod, {"conditions": [*others, {**condition, "lastTransitionTime": rfc3339(time.time())}]})

    def _patch(self, pod: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        self._cluster.api.patch("Pod", pod["metadata"]["name"], body, namespace=self._namespace, sub="status")

    def _event(self, pod: Mapping[str, Any], reason: str, message: str, *, kind: str = "Normal") -> None:
        at = str(pod["spec"]["containers"][0]["name"])
        self._recorder.kubelet(pod, reason, message, kind=kind, at=at)
