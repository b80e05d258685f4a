"""One pod from its binding to its removal: volumes, network, init containers, containers, and how it is ended."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from tests.controlplane.api import ApiError, path_of
from tests.controlplane.kubelet_container import Container
from tests.controlplane.kubelet_host import Host
from tests.controlplane.kubelet_logs import LogFile
from tests.controlplane.kubelet_run import Process
from tests.controlplane.kubelet_status import ContainerView, PodView, pod_status, terminated, waiting
from tests.controlplane.kubelet_volumes import MountError, Volumes

__all__ = ["LogError", "PodWorker", "Reporter", "find_log"]

_COLLECTED = "The container could not be located when the pod was terminated"


class LogError(Exception):
    """There is no log to give; the text is a kubelet's own."""


class Reporter:
    """Sends a pod's status and removes the pod in the end. Does nothing for a pod of a lost node."""

    def __init__(self, host: Host, pod: Mapping[str, Any]) -> None:
        self._host = host
        self._lock = threading.Lock()
        self.pod = pod
        self.posted: dict[str, Any] = {}

    @property
    def silent(self) -> bool:
        """Its node is lost."""
        return self.pod["spec"].get("nodeName") in self._host.lost

    def post(self, view: PodView, extra: Mapping[str, Any] | None = None) -> None:
        """Send the status as it is now; ``extra`` is a condition that others are to see too."""
        with self._lock:
            if self.silent:
                return
            foreign = list((self.pod.get("status") or {}).get("conditions") or ())
            ours = list(self.posted.get("conditions") or ())
            merged = {c["type"]: c for c in [*foreign, *ours, *([extra] if extra else [])]}
            self.posted = pod_status(view, {"conditions": list(merged.values())}, self._host.clock.now())
            self._patch(self.posted)

    def _patch(self, status: dict[str, Any]) -> None:
        meta = self.pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        try:
            self._host.api.patch("Pod", meta["name"], body, namespace=meta["namespace"], sub="status")
        except ApiError as exc:
            if exc.status not in (404, 409):
                raise

    def remove(self) -> None:
        """Take the pod out of the API: nothing of it runs any more."""
        if self.silent:
            return
        meta = self.pod["metadata"]
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        try:
            self._host.api.call("DELETE", path_of("Pod", meta["namespace"], meta["name"]), body)
        except ApiError as exc:
            if exc.status not in (404, 409):
                raise


class PodWorker:
    """Runs a pod in a thread of its own.

    Args:
        host: what all pods share.
        pod: the object; it is bound to a node of ours.
    """

    def __init__(self, host: Host, pod: Mapping[str, Any]) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        self.view = PodView(
            pod,
            [ContainerView(c, waiting("PodInitializing")) for c in spec.get("initContainers") or ()],
            [ContainerView(c) for c in spec["containers"]],
            host.clock.now(),
        )
        if self.view.init:
            for view in self.view.main:
                view.state = waiting("PodInitializing")
        self._host = host
        self._folder = host.folder / "pods" / meta["uid"]
        self._volumes = Volumes(host.api, self._folder / "volumes", host.folder / "claims")
        self._stop = threading.Event()
        self._gone = False
        self._over = False
        self._deleting = False
        self._reporter = Reporter(host, pod)
        self._containers = {view.name: self._container(view) for view in (*self.view.init, *self.view.main)}
        self._thread = threading.Thread(target=self._run, name=f"pod {meta['name']}", daemon=True)
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    # -- told from outside ------------------------------------------------------------------------------------------

    def update(self, pod: Mapping[str, Any]) -> None:
        """The object changed. A deletion timestamp ends the pod."""
        self.view.pod = self._reporter.pod = pod
        if not pod["metadata"].get("deletionTimestamp") or self._reporter.silent:
            return
        with self._lock:
            first, self._deleting = not self._deleting, True
            over = self._over
        if first and over:
            self._host.timers.after(0.0, self._reporter.remove)
        elif first:
            grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            self._end(self._host.clock.grace(grace))

    def gone(self) -> None:
        """The object is no more: whatever still runs is killed."""
        self._gone = True
        self._stop.set()
        for container in self._containers.values():
            container.kill()
        self._host.timers.after(0.0, self._clean)

    def join(self, timeout: float) -> None:
        """Wait until nothing of it runs, at most so many seconds."""
        self._thread.join(timeout)

    def evict(self, message: str) -> None:
        """End it as a node under pressure does: Failed, reason Evicted, condition DisruptionTarget."""
        self.view.reason, self.view.message = "Evicted", message
        self._host.recorder.kubelet(self.view.pod, "Evicted", message, kind="Warning")
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}
        self._reporter.post(self.view, condition)
        self._end(0.0)

    def kill_container(self, name: str, *, out_of_memory: bool) -> bool:
        """SIGKILL one container's processes; False when it does not run."""
        return self._containers[name].kill(out_of_memory=out_of_memory)

    def repost(self) -> None:
        """Tell everything again: its node is back."""
        self._reporter.post(self.view)
        if self.view.pod["metadata"].get("deletionTimestamp"):
            self.update(self.view.pod)

    def log(self, container: str, *, previous: bool) -> LogFile:
        """The log of a container.

        Raises:
            LogError: there is none, with a kubelet's text.
            LookupError: it is collected, with the id of its container.
        """
        found = self._containers.get(container)
        status = found.view.status() if found else None
        return find_log(self.view.pod, container, status, found.logs if found else {}, previous=previous)

    def process(self, container: str) -> Process | None:
        """The process of a container that runs."""
        found = self._containers.get(container)
        return found.process if found else None

    # -- the life ---------------------------------------------------------------------------------------------------

    def _container(self, view: ContainerView) -> Container:
        return Container(
            self._host,
            self.view,
            view,
            self._volumes,
            self._folder / "runs" / view.name,
            self._stop,
            self._post,
            self._restarts,
        )

    def _restarts(self, code: int) -> bool:
        policy = self.view.restart_policy
        return policy == "Always" or (policy == "OnFailure" and code != 0)

    def _post(self) -> None:
        if not self._gone:
            self._reporter.post(self.view)

    def _end(self, grace: float) -> None:
        self.view.killed = True
        self._stop.set()
        for container in self._containers.values():
            container.terminate(grace)

    def _run(self) -> None:
        try:
            self._post()
            if self._mount() and self._connect() and self._initialize():
                self._run_all()
            self._finish()
        except Exception as exc:
            print(f"pod {self.view.pod['metadata']['name']}: {exc!r}", file=sys.stderr, flush=True)
            if not self._gone and not isinstance(exc, OSError):
                raise

    def _mount(self) -> bool:
        pause = 0.5
        while not self._stop.is_set():
            try:
                self._volumes.mount(self.view.pod)
                return True
            except MountError as exc:
                self._host.recorder.kubelet(self.view.pod, "FailedMount", str(exc), kind="Warning")
            self._stop.wait(self._host.clock.short(pause))
            pause = min(pause * 2, 122.0)
        return False

    def _connect(self) -> bool:
        self.view.ip = self._host.network.attach(self.view.pod)
        self.view.sandbox = True
        self._post()
        return not self._stop.is_set()

    def _initialize(self) -> bool:
        for view in self.view.init:
            self._containers[view.name].run()
            if not view.done:
                return False
            view.ready = True
            self._post()
        for view in self.view.main:
            view.state = waiting("ContainerCreating") if not view.ident else view.state
        return True

    def _run_all(self) -> None:
        first, *others = (self._containers[view.name] for view in self.view.main)
        threads = [threading.Thread(target=other.run, daemon=True) for other in others]
        for thread in threads:
            thread.start()
        first.run()
        for thread in threads:
            thread.join()

    def _finish(self) -> None:
        """Nothing runs any more: the final phase, and the end of a deleted pod."""
        if self.view.killed:
            self._settle()
        else:
            self._post()
            self._stop.wait(self._host.clock.short(1.0))  # a kubelet stops the sandbox first
        self._host.network.detach(self.view.pod)
        self.view.ended = True
        self._post()
        with self._lock:
            self._over = True
            deleting = self._deleting
        if deleting and not self._gone:
            self._stop.wait(0)
            self._reporter.remove()

    def _settle(self) -> None:
        """Containers that do not run when their pod is killed are shown as ended."""
        for view in (*self.view.init, *self.view.main):
            if "waiting" in view.state and view.last:
                view.state, view.last = view.last, {}
            elif "waiting" in view.state:
                now = self._host.clock.now()
                view.state = terminated(137, "ContainerStatusUnknown", message=_COLLECTED, finished=now)
            view.ready = False

    def _clean(self) -> None:
        self._host.network.detach(self.view.pod)
        self._thread.join(timeout=30)
        shutil.rmtree(self._folder, ignore_errors=True)


def find_log(
    pod: Mapping[str, Any],
    container: str,
    status: Mapping[str, Any] | None,
    logs: Mapping[str, LogFile],
    *,
    previous: bool,
) -> LogFile:
    """The log that a kubelet would answer with, by the container's status.

    Raises:
        LogError: there is none, with a kubelet's text.
        LookupError: it is collected, with the id of its container.
    """
    ident = log_owner(pod["metadata"]["name"], container, status, previous=previous)
    if ident.removeprefix("containerd://") not in logs:
        raise LookupError(ident)
    return logs[ident.removeprefix("containerd://")]


def log_owner(pod: str, container: str, status: Mapping[str, Any] | None, *, previous: bool) -> str:
    """The id of the container whose log is asked for (rules of Kubernetes 1.36)."""
    here = f'container "{container}" in pod "{pod}" is'
    if status is None:
        raise LogError(f"{here} not available")
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated") or {}
    if previous:
        if not last.get("containerID"):
            raise LogError(f'previous terminated container "{container}" in pod "{pod}" not found')
        return str(last["containerID"])
    for ident in _candidates(state, last, status):
        if ident:
            return str(ident)
    reason = (state.get("waiting") or {}).get("reason")
    if reason is None or last:
        raise LogError(f"{here} terminated")
    texts = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
    raise LogError(f"{here} waiting to start: {texts.get(reason, reason)}")


def _candidates(state: Mapping[str, Any], last: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Any]:
    if "running" in state:
        yield status.get("containerID")
    if "terminated" in state:
        yield state["terminated"].get("containerID")
    yield last.get("containerID")
