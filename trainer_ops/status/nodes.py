"""Questions about pods that several decisions ask: which are current, which one is down, and by whose fault."""

from __future__ import annotations

from collections.abc import Iterable

from trainer_ops.model import keys
from trainer_ops.model.observed import Observation, ObservedContainer, ObservedPod, Terminated

__all__ = [
    "current_pods",
    "disruption",
    "down",
    "ended_well",
    "is_final",
    "older_pods",
    "restarts",
    "trainer_pods",
]

# status.reason of a pod that the kubelet or a controller ended, not its program.
_DISRUPTED = frozenset({"Evicted", "NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"})


def _age(pod: ObservedPod) -> tuple[int, bool, float]:
    # A pod that is being deleted makes room for its successor, also where no creation time was recorded.
    return (pod.attempt, not pod.deleting, pod.created_at or 0.0)


def current_pods(pods: Iterable[ObservedPod]) -> tuple[ObservedPod, ...]:
    """The newest pod of each node, in the order of step and index."""
    newest: dict[tuple[str, int], ObservedPod] = {}
    for pod in sorted(pods, key=_age):
        newest[(pod.step, pod.index)] = pod
    return tuple(newest[key] for key in sorted(newest))


def older_pods(pod: ObservedPod, pods: Iterable[ObservedPod]) -> tuple[ObservedPod, ...]:
    """The pods that the same node had before this one, oldest first."""
    same = (p for p in pods if (p.step, p.index) == (pod.step, pod.index) and p.uid != pod.uid)
    return tuple(sorted(same, key=_age))


def trainer_pods(obs: Observation) -> tuple[ObservedPod, ...]:
    """The newest pod of each node that trains: initializers left out, and, with a launcher or nodes, other steps."""
    names = {row.name for row in obs.job.trainer_jobs} if obs.job else set()
    pods = [p for p in current_pods(obs.pods) if p.step not in keys.INITIALIZERS]
    return tuple(p for p in pods if p.step in names) if names else tuple(pods)


def _failing(container: ObservedContainer) -> Terminated | None:
    if container.state == "terminated":
        end = container.terminated
    elif container.state == "waiting":
        end = container.last
    else:
        end = None
    return end if end is not None and end.exit_code != 0 else None


def _relevant(pod: ObservedPod) -> tuple[ObservedContainer, ...]:
    """Init containers as long as the main container has not run, then the main container."""
    main = pod.main
    waiting = main is None or (main.state == "waiting" and main.last is None)
    inits = tuple(c for c in pod.containers if c.init) if waiting else ()
    return inits if main is None else (*inits, main)


def down(pod: ObservedPod) -> Terminated | None:
    """How the pod's program failed, if it is not running now; None while it runs, waits to start, or ended well."""
    return next((end for end in map(_failing, _relevant(pod)) if end is not None), None)


def restarts(pod: ObservedPod) -> int:
    """Restarts inside this pod, of the container that trains or, before it could start, of a failing init container."""
    return max((c.restarts for c in _relevant(pod)), default=0)


def is_final(pod: ObservedPod) -> bool:
    """Whether the kubelet is done with the pod: what failed in it is not restarted in place.

    Seen on Kubernetes 1.36: for a second the phase is still ``Running`` with ``Ready`` false for ``PodFailed``.
    """
    ready = pod.condition("Ready")
    return pod.phase == "Failed" or (ready is not None and ready.reason == "PodFailed")


def ended_well(pod: ObservedPod) -> bool:
    """Whether the pod's program ended with 0."""
    main = pod.main
    if main is None or main.terminated is None:
        return pod.phase == "Succeeded"
    return main.terminated.exit_code == 0


def disruption(pod: ObservedPod) -> tuple[str, str] | None:
    """Reason and message when the pod was ended from outside (eviction, preemption, a lost machine), else None."""
    if pod.reason in _DISRUPTED:
        return pod.reason, pod.message
    target = pod.condition("DisruptionTarget")
    if target is not None and target.holds:
        return target.reason or "DisruptionTarget", target.message
    return None
