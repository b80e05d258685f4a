"""Commands inside a training that runs: which pod is meant, and what to say when it cannot be entered."""

from __future__ import annotations

from dataclasses import dataclass

from trainer_ops.backends.base import Backend
from trainer_ops.errors import Forbidden, InvalidRequest
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.patience import persist
from trainer_ops.model import keys
from trainer_ops.model.identity import JobRef
from trainer_ops.model.observed import Observation, ObservedPod
from trainer_ops.model.phase import Phase
from trainer_ops.status.classify import classify
from trainer_ops.status.podwhy import pod_cause

__all__ = ["SHELL", "Door", "door"]

# An interactive shell: bash where the image has one.
SHELL = ("sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi")


@dataclass(frozen=True, slots=True)
class Door:
    """Where a command goes.

    Attributes:
        node: the name a person sees: ``launcher``, ``node-1``.
        pod: the pod's name.
        container: the container that trains.
    """

    node: str
    pod: str
    container: str


def door(backend: Backend, ref: JobRef, node: str | None, *, clock: Clock, patience: float = 10.0) -> Door:
    """The newest pod of a node, to run a command in (``Backend.exec``).

    Args:
        backend: where it runs.
        ref: which training.
        node: ``launcher``, ``node-1`` or ``1``. None: the launcher where there is one, so that ``mpirun`` starts its
            ranks on the nodes; else node 0.
        clock: what sleeps.
        patience: seconds for which a target that gives no answer is asked again.

    Raises:
        InvalidRequest: field ``name``: the training has ended; field ``node``: it has no such node (lists them), or
            that node does not run (says why).
        Forbidden: this user may not read pods.
        Unreachable: no answer within ``patience``.
    """
    obs = persist(lambda: backend.observe(ref.name, now=clock.now()), clock=clock, patience=patience)
    state = classify(obs, uid=ref.uid)
    if state.phase.finished:
        raise _no("name", f"{ref.name} {_ENDED[state.phase]}, nothing of it runs", f"See trainer-ops status {ref.name}")
    if "pods" in obs.unreadable:
        raise Forbidden(
            f"not allowed: listing pods in namespace {backend.namespace}", remedy="Without it no node can be found"
        )
    standing = {pod.node: pod for pod in sorted(obs.pods, key=_age)}
    wanted = _named(node) if node is not None else _usual(obs)
    pod = standing.get(wanted)
    if pod is None and standing and wanted != _usual(obs):
        raise _no("node", f'{ref.name} has no node "{wanted}"', f"Its nodes: {', '.join(sorted(standing))}")
    why = f"{state.phase}: {state.detail or state.reason}".rstrip(": ")
    if pod is None:
        raise _no("node", f"{wanted} of {ref.name} does not run yet: the training is {why}", _LATER.format(ref.name))
    if not _runs(pod):
        raise _no("node", f"{wanted} of {ref.name} does not run: {_why(pod, obs)}", _LATER.format(ref.name))
    return Door(pod.node, pod.name, pod.main_name)


_ENDED = {
    Phase.SUCCEEDED: "has trained",
    Phase.FAILED: "has failed",
    Phase.DELETED: "was deleted",
    Phase.REPLACED: "was replaced by another of its name",
}
_LATER = "Wait until it does: trainer-ops status {}"


def _no(field: str, reason: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(field, reason, remedy, what="cannot run a command")


def _named(node: str) -> str:
    return f"{keys.STEP_NODE}-{node}" if node.isdigit() else node


def _usual(obs: Observation) -> str:
    """The launcher, also one that waits for its nodes."""
    rows = obs.job.jobs if obs.job is not None else ()
    steps = {pod.step for pod in obs.pods} | {row.name for row in rows}
    return keys.STEP_LAUNCHER if keys.STEP_LAUNCHER in steps else f"{keys.STEP_NODE}-0"


def _age(pod: ObservedPod) -> tuple[bool, int, float]:
    """Later is the one to enter: of those that are not being deleted the newest."""
    return (not pod.deleting, pod.attempt, pod.created_at or 0.0)


def _runs(pod: ObservedPod) -> bool:
    return pod.phase == "Running" and pod.main is not None and pod.main.state == "running" and not pod.deleting


def _why(pod: ObservedPod, obs: Observation) -> str:
    """Phase and reason of a pod that does not run."""
    if pod.deleting:
        return "it is being stopped"
    if pod.main is not None and pod.main.terminated is not None:
        return f"it has ended with exit code {pod.main.terminated.exit_code}"
    cause = pod_cause(pod, obs.events)
    if cause is None:
        return pod.phase
    reason = f" ({cause.reason})" if cause.reason else ""
    return f"{pod.phase}{reason}: {cause.detail.removeprefix(f'{pod.node}: ')}"
