"""Pods that are not run: driven by hand from a test, or through their states without a process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.controlplane.kubelet_host import Host
from tests.controlplane.kubelet_logs import LogFile
from tests.controlplane.kubelet_pod import Reporter, find_log
from tests.controlplane.kubelet_status import ContainerView, PodView, container_id, running, terminated

__all__ = ["HeldPod", "InstantPod"]


class HeldPod:
    """A pod whose status a test writes. Only its removal after a deletion is done here."""

    def __init__(self, host: Host, pod: Mapping[str, Any]) -> None:
        self._host = host
        self._reporter = Reporter(host, pod)

    def start(self) -> None:
        """Nothing is run."""

    def update(self, pod: Mapping[str, Any]) -> None:
        """The object changed; a deleted one is removed at once."""
        self._reporter.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._host.timers.after(0.0, self._reporter.remove)

    def gone(self) -> None:
        """Nothing is left."""

    def join(self, timeout: float) -> None:
        """Nothing is waited for."""

    def log(self, container: str, *, previous: bool) -> LogFile:
        """There never is one, for the reason that the status gives."""
        pod = self._reporter.pod
        status = pod.get("status") or {}
        entries = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
        found = next((entry for entry in entries if entry["name"] == container), None)
        return find_log(pod, container, found, {}, previous=previous)


class InstantPod:
    """A pod that is started, runs for a while and ends, all of it in its status only. For many pods at once.

    Args:
        host: what all pods share.
        pod: the object.
        seconds: how long it runs (divided by the clock's speed).
        code: its exit code; with another than 0 the pod is Failed whatever its restart policy is.
        message: its termination message.
        lines: its log.
    """

    def __init__(
        self,
        host: Host,
        pod: Mapping[str, Any],
        *,
        seconds: float = 1.0,
        code: int = 0,
        message: str = "",
        lines: str = "",
    ) -> None:
        self._host = host
        self._reporter = Reporter(host, pod)
        self._seconds = seconds
        self._code = code
        self._message = message
        self._lines = lines
        self._lock = threading.Lock()
        self._over = False
        self._logs: dict[str, LogFile] = {}
        self._folder: Path = host.folder / "instant" / pod["metadata"]["uid"]
        self._started = host.clock.now()
        self.view = PodView(pod, [], [ContainerView(c) for c in pod["spec"]["containers"]], self._started)

    def start(self) -> None:
        """Begin; returns at once."""
        self._host.timers.after(0.0, self._run)

    def update(self, pod: Mapping[str, Any]) -> None:
        """The object changed; a deleted one ends with 143 and is removed."""
        self.view.pod = self._reporter.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._host.timers.after(0.0, self._leave)

    def gone(self) -> None:
        """Its log goes too."""
        with self._lock:
            self._over = True
        for log in self._logs.values():
            log.path.unlink(missing_ok=True)

    def join(self, timeout: float) -> None:
        """Nothing is waited for."""

    def log(self, container: str, *, previous: bool) -> LogFile:
        """See ``PodWorker.log``."""
        view = next((view for view in self.view.main if view.name == container), None)
        return find_log(self.view.pod, container, view.status() if view else None, self._logs, previous=previous)

    def _run(self) -> None:
        if self._over:
            return
        self.view.sandbox, self.view.ip = True, "127.0.0.1"
        self._folder.mkdir(parents=True, exist_ok=True)
        for view in self.view.main:
            view.ident = container_id(str(self.view.pod["metadata"]["uid"]), view.name, 0)
            view.state, view.ready = running(self._started), True
            log = LogFile(self._folder / view.name)
            log.write(self._lines.encode())
            self._logs[view.ident] = log
        self._reporter.post(self.view)
        self._host.timers.after(self._host.clock.short(self._seconds), self._succeed)

    def _succeed(self) -> None:
        self._end(self._code, self._message)

    def _leave(self) -> None:
        self._end(143, "")
        self._reporter.remove()

    def _end(self, code: int, message: str) -> None:
        with self._lock:
            if self._over:
                return
            self._over = True
        reason, finished = "Completed" if code == 0 else "Error", self._host.clock.now()
        for view in self.view.main:
            view.state = terminated(
                code, reason, message=message, started=self._started, finished=finished, ident=view.ident
            )
            view.ready = False
        for log in self._logs.values():
            log.end()
        self.view.killed = self.view.ended = True
        self._reporter.post(self.view)
