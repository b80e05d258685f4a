"""What a kubelet writes into ``pod.status``: pure functions from what is known about the containers.

The shapes, reasons and texts are those seen on Kubernetes 1.36 with containerd (``tests/status/evidence``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.controlplane.kubelet_clock import rfc3339

__all__ = [
    "ContainerView",
    "PodView",
    "back_off_text",
    "container_id",
    "pod_status",
    "running",
    "terminated",
    "true_phase",
    "waiting",
]

EPOCH = "1970-01-01T00:00:00Z"


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """A container state."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def running(started: float) -> dict[str, Any]:
    """A container state."""
    return {"running": {"startedAt": rfc3339(started)}}


def terminated(
    code: int, reason: str, *, message: str = "", started: float | None = None, finished: float, ident: str = ""
) -> dict[str, Any]:
    """A container state; a container that never started has the epoch as its start, as containerd has."""
    end: dict[str, Any] = {
        "exitCode": code,
        "reason": reason,
        "startedAt": EPOCH if started is None else rfc3339(started),
        "finishedAt": rfc3339(finished),
    }
    if message:
        end["message"] = message
    if ident:
        end["containerID"] = f"containerd://{ident}"
    return {"terminated": end}


def container_id(uid: str, name: str, run: int) -> str:
    """A containerd id of one run of one container."""
    return hashlib.sha256(f"{uid}/{name}/{run}".encode()).hexdigest()


def back_off_text(seconds: float) -> str:
    """A Go duration: ``10s``, ``1m20s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


@dataclass(slots=True)
class ContainerView:
    """One container of a pod.

    Attributes:
        spec: the container as the pod's spec has it.
        state: ``state`` as the status shows it.
        last: ``lastState``.
        restarts: ``restartCount``.
        ready: running and found ready.
        ident: id of the newest run; "" before the first.
    """

    spec: Mapping[str, Any]
    state: dict[str, Any] = field(default_factory=lambda: waiting("ContainerCreating"))
    last: dict[str, Any] = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    ident: str = ""

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def done(self) -> bool:
        """Ended with success."""
        return bool(self.state.get("terminated", {}).get("exitCode", 1) == 0)

    def status(self) -> dict[str, Any]:
        """The entry of ``containerStatuses``."""
        image = str(self.spec.get("image", ""))
        out: dict[str, Any] = {
            "name": self.name,
            "state": self.state,
            "lastState": self.last,
            "ready": self.ready,
            "restartCount": self.restarts,
            "image": image,
            "imageID": f"sha256:{hashlib.sha256(image.encode()).hexdigest()}" if self.ident else "",
            "started": "running" in self.state,
        }
        if self.ident:
            out["containerID"] = f"containerd://{self.ident}"
        return out


@dataclass(slots=True)
class PodView:
    """A pod as the kubelet knows it.

    Attributes:
        pod: the object, for spec and generation.
        sandbox: its network and volumes are there.
        ended: it will not run again: the phase may be a final one.
        killed: it is being deleted or was evicted; every end of a container is final.
    """

    pod: Mapping[str, Any]
    init: list[ContainerView]
    main: list[ContainerView]
    started: float
    host_ip: str = "127.0.0.1"
    ip: str = ""
    sandbox: bool = False
    ended: bool = False
    killed: bool = False
    reason: str = ""
    message: str = ""

    @property
    def restart_policy(self) -> str:
        return str(self.pod["spec"].get("restartPolicy", "Always"))


def true_phase(view: PodView) -> str:
    """The phase by the containers alone, before it is held back until everything of the pod has stopped."""
    if any(not c.done for c in view.init):
        failed = any(c.state.get("terminated", {}).get("exitCode", 0) != 0 for c in view.init)
        return "Failed" if failed and (view.restart_policy == "Never" or view.killed) else "Pending"
    begun = [c for c in view.main if not ("waiting" in c.state and not c.last)]
    if len(begun) < len(view.main):
        return "Pending"
    stopped = [c for c in view.main if "running" not in c.state]
    if len(stopped) < len(view.main):
        return "Running"
    if all(c.done for c in view.main):
        return "Succeeded" if view.restart_policy != "Always" or view.killed else "Running"
    return "Failed" if view.restart_policy == "Never" or view.killed else "Running"


def pod_status(view: PodView, before: Mapping[str, Any], now: float) -> dict[str, Any]:
    """The whole status.

    Args:
        view: what is known.
        before: the status so far: transition times and the conditions of others are kept.
        now: seconds since the epoch.
    """
    phase = true_phase(view)
    shown = phase
    if phase in ("Succeeded", "Failed") and not view.ended:
        shown = "Running" if any("terminated" in c.state or c.last for c in view.main) else "Pending"
    generation = view.pod["metadata"].get("generation", 1)
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "phase": shown,
        "conditions": _conditions(view, phase, before.get("conditions") or (), generation, now),
        "hostIP": view.host_ip,
        "hostIPs": [{"ip": view.host_ip}],
        "startTime": rfc3339(view.started),
        "containerStatuses": [c.status() for c in view.main],
    }
    if view.ip:
        status |= {"podIP": view.ip, "podIPs": [{"ip": view.ip}]}
    if view.init:
        status["initContainerStatuses"] = [c.status() for c in view.init]
    if view.reason:
        status |= {"reason": view.reason, "message": view.message}
    return status


_OURS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def _conditions(
    view: PodView, phase: str, before: Iterable[Mapping[str, Any]], generation: int, now: float
) -> list[dict[str, Any]]:
    old = {c["type"]: c for c in before}
    found = {
        "PodReadyToStartContainers": (view.sandbox and not view.ended, "", ""),
        "Initialized": _initialized(view, phase),
        "Ready": _readiness(view, phase),
        "ContainersReady": _readiness(view, phase),
        "PodScheduled": (True, "", ""),
    }
    conditions = []
    for kind in _OURS:
        good, reason, message = found[kind]
        status = "True" if good else "False"
        same = kind in old and old[kind]["status"] == status
        at = old[kind].get("lastTransitionTime") if same else None
        condition = {
            "type": kind,
            "observedGeneration": generation,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": at or rfc3339(now),
        }
        condition |= {k: v for k, v in (("reason", reason), ("message", message)) if v}
        conditions.append(condition)
    return conditions + [dict(c) for kind, c in old.items() if kind not in _OURS]


def _initialized(view: PodView, phase: str) -> tuple[bool, str, str]:
    open_ones = [c.name for c in view.init if not c.done]
    if open_ones:
        return False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(open_ones)}]"
    return True, "PodCompleted" if phase == "Succeeded" else "", ""


def _readiness(view: PodView, phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed" and _ran(view.main):
        return False, "PodFailed", ""
    unready = [c.name for c in view.main if not c.ready]
    if unready:
        return False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    return True, "", ""


def _ran(containers: Sequence[ContainerView]) -> bool:
    """A container that was never made keeps the pod at ContainersNotReady to its end."""
    return any(c.ident for c in containers)
