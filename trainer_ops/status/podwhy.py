"""Why one pod does not run: its conditions, its containers' states and the events about it, in that order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer_ops.model.observed import ObservedContainer, ObservedEvent, ObservedPod
from trainer_ops.status.exits import START_ERRORS, ending
from trainer_ops.status.nodes import disruption, down, is_final, restarts
from trainer_ops.status.wording import clip, image_trouble, mount_trouble, scheduling_trouble

__all__ = ["CONFIG_REASONS", "IMAGE_REASONS", "MOUNT_REASONS", "Cause", "pod_cause"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something does not run.

    Attributes:
        reason: one CamelCase word of the cluster's.
        detail: one line for a person.
        original: the cluster's own text, for the evidence; "" when ``detail`` says all there is.
        rank: 0 needs a person, 1 may need one, 2 passes by itself; of several pods the lowest is shown.
    """

    reason: str
    detail: str
    original: str = ""
    rank: int = 2


IMAGE_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
CONFIG_REASONS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun"}
)
MOUNT_REASONS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_CREATING = frozenset({"", "ContainerCreating", "PodInitializing"})
_PROGRESS = {
    "Pulling": "pulling image",
    "Pulled": "image pulled, starting",
    "Created": "starting",
    "Started": "starting",
}


def pod_cause(pod: ObservedPod, events: Sequence[ObservedEvent]) -> Cause | None:
    """Why this pod does not run; None when it does.

    Args:
        pod: the newest pod of its node.
        events: all events of the training, oldest first; those of other pods are left out here, by the exact name
            (a TrainJob called ``train`` must not be shown what happens to ``train2``).
    """
    mine = [e for e in events if e.kind == "Pod" and e.name == pod.name]
    found = _failed(pod) or _unscheduled(pod) or _waiting(pod, mine) or _creating(pod, mine) or _unready(pod)
    return None if found is None else Cause(found.reason, f"{pod.node}: {found.detail}", found.original, found.rank)


def _failed(pod: ObservedPod) -> Cause | None:
    outside = disruption(pod)
    if outside is not None:
        reason, message = outside
        return Cause(reason, clip(f"{_words(reason)}: {message}" if message else _words(reason)), message, 1)
    end = down(pod)
    if end is None:
        return None
    count = restarts(pod)
    text = ending(end)
    if not is_final(pod) and count > 0:
        text += f", restart {count}, next try after back-off"
    main = pod.main
    waiting = main.reason if main is not None and main.state == "waiting" else ""
    reason = end.reason if end.reason in START_ERRORS or waiting in _CREATING else waiting
    return Cause(reason or "Error", text, end.message, 0)


def _words(reason: str) -> str:
    return "evicted" if reason == "Evicted" else f"ended from outside ({reason})"


def _unscheduled(pod: ObservedPod) -> Cause | None:
    scheduled = pod.condition("PodScheduled")
    if pod.gated or (scheduled is not None and scheduled.reason == "SchedulingGated"):
        return Cause("SchedulingGated", "held back by a scheduling gate", scheduled.message if scheduled else "")
    if scheduled is None or scheduled.holds:
        return None
    return Cause(scheduled.reason or "Unschedulable", scheduling_trouble(scheduled.message), scheduled.message, 1)


def _waiting(pod: ObservedPod, events: Sequence[ObservedEvent]) -> Cause | None:
    """A container that waits for a reason of its own; init containers come first, as they run first."""
    for container in pod.containers:
        if container.state == "waiting" and container.reason not in _CREATING:
            return _trouble(container, events)
    return None


def _trouble(container: ObservedContainer, events: Sequence[ObservedEvent]) -> Cause:
    reason, message = container.reason, container.message
    if reason not in IMAGE_REASONS:
        return Cause(reason, clip(message or reason), message, 0)
    if "ErrImagePull: " not in message and message.startswith("Back-off"):
        # Before Kubernetes 1.32 the back-off hides the cause; the event of the failed pull has it.
        failed = (e.message for e in reversed(events) if e.reason == "Failed" and "pull" in e.message)
        message = next(failed, message)
    return Cause(reason, image_trouble(message), message, 0)


def _creating(pod: ObservedPod, events: Sequence[ObservedEvent]) -> Cause | None:
    """What is being done for a pod whose containers are not there yet: only events tell (a missing ConfigMap too)."""
    main = pod.main
    if pod.phase != "Pending" or (main is not None and main.state != "waiting"):
        return None
    for event in reversed(events):
        # Noise of a kubelet that has just learned of the pod: gone a second later, seen on Kubernetes 1.36.
        if event.reason in MOUNT_REASONS and "not registered" not in event.message:
            return Cause(event.reason, mount_trouble(event.message), event.message, 1)
        if event.reason == "FailedCreatePodSandBox":
            return Cause(event.reason, clip(event.message), event.message, 1)
        if event.reason in _PROGRESS:
            return Cause(event.reason, _PROGRESS[event.reason])
    scheduled = pod.condition("PodScheduled")
    if scheduled is None and main is None:
        return Cause("Pending", "waiting for a machine")
    return Cause("ContainerCreating", "preparing the container")


def _unready(pod: ObservedPod) -> Cause | None:
    main = pod.main
    if main is None or main.state != "running" or main.ready:
        return None
    return Cause("ContainersNotReady", "running, but not ready yet")
