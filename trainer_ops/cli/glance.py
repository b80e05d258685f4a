"""What a person sees of one training at one moment, taken out of an Observation; and its JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.observed import Observation, ObservedPod, ObservedTrainJob
from trainer_ops.model.phase import Phase, State
from trainer_ops.model.times import rfc3339

__all__ = ["Glance", "NodeRow", "glance", "node_rows", "to_json", "word"]


def word(phase: Phase) -> str:
    """The phase in one short word; JSON has the phases' own names."""
    return phase.word


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node, initializer or launcher.

    Attributes:
        state: ``waiting``, ``running``, ``done`` or ``failed``.
        restarts: of its container, and of its JobSet.
        exit_code: of the run that ended last; None when none has.
        why: reason and message, in one line.
    """

    node: str
    state: str
    restarts: int = 0
    exit_code: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Glance:
    """One training at one moment. Times in seconds since the epoch, ``eta`` in seconds."""

    name: str
    state: State
    at: float
    created_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    percentage: int | None = None
    eta: float | None = None
    reported_at: float | None = None
    metrics: Mapping[str, float | str] = field(default_factory=dict)
    num_nodes: int | None = None
    runtime: str = ""
    queue: str = ""
    attempt: int = 1
    identity: str = ""
    run_key: str = ""
    uid: str = ""
    namespace: str = ""
    nodes: tuple[NodeRow, ...] = ()

    @property
    def phase(self) -> Phase:
        """The phase."""
        return self.state.phase

    @property
    def elapsed(self) -> float:
        """Seconds since it was created, or what it took once it ended."""
        begin = self.created_at if self.created_at is not None else self.at
        end = self.finished_at if self.phase.finished and self.finished_at is not None else self.at
        return max(0.0, end - begin)

    @property
    def eta_left(self) -> float | None:
        """Seconds left of the estimate, which was right when it was reported and shrinks until the next report."""
        if self.eta is None or self.reported_at is None:
            return self.eta
        return max(0.0, self.eta - max(0.0, self.at - self.reported_at))


def glance(obs: Observation, state: State, metrics: Mapping[str, float | str] | None = None) -> Glance:
    """The observation's TrainJob at a glance; ``metrics`` of the result, where there is one, go before progress."""
    job = obs.job
    if job is None:
        return Glance("", state, obs.at)
    progress = job.progress
    started, finished = _times(job, obs.pods)
    return Glance(
        name=job.name,
        state=state,
        at=obs.at,
        created_at=job.created_at,
        started_at=started,
        finished_at=finished,
        percentage=progress.percentage if progress else None,
        eta=progress.eta_seconds if progress else None,
        reported_at=progress.at if progress else None,
        metrics=dict(metrics or (progress.metrics if progress else {})),
        num_nodes=job.num_nodes or _count(obs.pods),
        runtime=job.runtime,
        queue=job.queue,
        attempt=job.attempt,
        identity=job.annotations.get(keys.ANNOTATION_IDENTITY, ""),
        run_key=job.labels.get(keys.LABEL_RUN_KEY, ""),
        uid=job.uid,
        namespace=job.namespace,
        nodes=node_rows(obs.pods),
    )


def _count(pods: Sequence[ObservedPod]) -> int | None:
    return len({pod.index for pod in pods if pod.step == keys.STEP_NODE}) or None


def _times(job: ObservedTrainJob, pods: Sequence[ObservedPod]) -> tuple[float | None, float | None]:
    mains = [pod.main for pod in pods if pod.main is not None and pod.step not in keys.INITIALIZERS]
    starts = [
        at
        for main in mains
        for at in (
            main.started_at,
            main.terminated.started_at if main.terminated else None,
            main.last.started_at if main.last else None,
        )
        if at is not None
    ]
    ends = [c.at for c in job.conditions if c.type in ("Complete", "Failed") and c.holds and c.at is not None]
    return min(starts, default=None), min(ends, default=None)


def node_rows(pods: Sequence[ObservedPod]) -> tuple[NodeRow, ...]:
    """A row per node: of pods that were made again, the newest; initializers and launcher first."""
    newest: dict[str, ObservedPod] = {}
    for pod in pods:
        seen = newest.get(pod.node)
        if seen is None or (pod.attempt, pod.created_at or 0.0) >= (seen.attempt, seen.created_at or 0.0):
            newest[pod.node] = pod
    order = {keys.STEP_DATASET: 0, keys.STEP_MODEL: 1, keys.STEP_LAUNCHER: 2}
    rows = sorted(newest.values(), key=lambda pod: (order.get(pod.step, 3), pod.step, pod.index))
    return tuple(_row(pod) for pod in rows)


def _row(pod: ObservedPod) -> NodeRow:
    main = pod.main
    if main is None:
        return NodeRow(pod.node, "waiting", pod.attempt, None, _why(pod.reason, pod.message))
    ended = main.terminated or main.last
    state = main.state
    if main.terminated is not None:
        state = "done" if main.terminated.exit_code == 0 else "failed"
    why = ""
    if main.state == "waiting":
        why = _why(main.reason, main.message)
    elif main.terminated is not None and main.terminated.exit_code != 0:
        # The message may be the result's JSON or a trace of many lines; the reason is the cluster's word.
        why = main.terminated.reason if main.terminated.reason not in ("", "Error") else ""
    return NodeRow(pod.node, state, main.restarts + pod.attempt, ended.exit_code if ended else None, why)


def _why(reason: str, message: str) -> str:
    lines = message.strip().splitlines()
    return ": ".join(part for part in (reason, lines[0] if lines else "") if part)


def to_json(seen: Glance, *, target: str, nodes: bool) -> dict[str, Any]:
    """The documented JSON of ``status`` and ``list``: fields are added, none is renamed or removed.

    Times are RFC 3339 or null, ``eta_seconds`` seconds; ``phase`` is one of ``model.phase.Phase``; ``nodes`` is there
    for one training only.
    """
    data: dict[str, Any] = {
        "name": seen.name,
        "namespace": seen.namespace,
        "uid": seen.uid,
        "target": target,
        "phase": seen.phase.value,
        "reason": seen.state.reason,
        "detail": seen.state.detail,
        "finished": seen.phase.finished,
        "attempt": seen.attempt,
        "run_key": seen.run_key,
        "identity": seen.identity,
        "runtime": seen.runtime,
        "num_nodes": seen.num_nodes,
        "queue": seen.queue,
        "created_at": _time(seen.created_at),
        "started_at": _time(seen.started_at),
        "finished_at": _time(seen.finished_at),
        "percentage": seen.percentage,
        "eta_seconds": seen.eta,
        "metrics": dict(seen.metrics),
    }
    if nodes:
        data["nodes"] = [
            {"node": n.node, "state": n.state, "restarts": n.restarts, "exit_code": n.exit_code, "why": n.why}
            for n in seen.nodes
        ]
    return data


def _time(at: float | None) -> str | None:
    return None if at is None else rfc3339(at)
