"""What a training went through, phase by phase: a history that stays small however often it restarts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.observed import Observation, ObservedPod, ObservedWorkload
from trainer_ops.model.phase import Phase, State
from trainer_ops.model.times import rfc3339
from trainer_ops.status.nodes import ended_well, trainer_pods
from trainer_ops.status.queueing import is_admitted
from trainer_ops.status.wording import clip

__all__ = ["PHASES_LIMIT", "PhaseChange", "Trail", "add", "bounded", "past"]

PHASES_LIMIT = 60
# Of pods that are pulled and started side by side the reason changes many times a second; that is one moment.
_BLINK = 2.0
_REASON = 60


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """From when on it was in a phase, for one reason.

    Attributes:
        phase: the phase.
        at: since when, seconds since the epoch.
        reason: the state's reason.
        detail: the state's detail, the last one of this phase and reason.
        folded: how many shorter ones were merged into this one.
    """

    phase: Phase
    at: float
    reason: str = ""
    detail: str = ""
    folded: int = 0

    def to_json(self) -> dict[str, Any]:
        """The documented form; ``at`` has microseconds, for on one machine a phase may last a moment only."""
        return {
            "phase": self.phase.value,
            "reason": self.reason,
            "detail": self.detail,
            "at": rfc3339(self.at, micro=True),
            "folded": self.folded,
        }


Trail = tuple[PhaseChange, ...]


def add(trail: Trail, state: State, at: float) -> Trail:
    """The trail with one more look, at a time that is taken as not before the last one's."""
    new = PhaseChange(state.phase, at, state.reason[:_REASON], clip(state.detail))
    if not trail:
        return (new,)
    last = trail[-1]
    if last.phase is not new.phase:
        return bounded((*trail, replace(new, at=max(at, last.at))), PHASES_LIMIT)
    if (last.reason, last.detail) == (new.reason, new.detail):
        return trail
    if last.reason == new.reason or at - last.at < _BLINK:
        return (*trail[:-1], replace(last, reason=new.reason, detail=new.detail))
    return bounded((*trail, new), PHASES_LIMIT)


def bounded(trail: Trail, limit: int) -> Trail:
    """At most ``limit`` (three or more) changes: the shortest in the middle are merged into what was before them.

    The first stays, and the last two, which say how it came to where it is.
    """
    while len(trail) > limit:
        i = min(range(1, len(trail) - 2), key=lambda k: trail[k + 1].at - trail[k].at)
        before, gone, after = trail[i - 1], trail[i], trail[i + 1]
        folded = before.folded + gone.folded + 1
        if (before.phase, before.reason) == (after.phase, after.reason):
            joined = replace(after, at=before.at, folded=folded + after.folded)
            trail = (*trail[: i - 1], joined, *trail[i + 2 :])
        else:
            trail = (*trail[: i - 1], replace(before, folded=folded), *trail[i + 1 :])
    return trail


def past(obs: Observation) -> Trail:
    """What the objects themselves still tell of the time before the first look: when what was made, began and ended.

    For a wait that begins late: of a training that was adopted, or in another process than the wait before it.
    """
    trail: Trail = ()
    known = [moment for moment in _moments(obs) if moment.at <= obs.at]
    for moment in sorted(known, key=lambda moment: moment.at):
        trail = add(trail, State(moment.phase, moment.reason, moment.detail), moment.at)
    return trail


def _moments(obs: Observation) -> Iterator[PhaseChange]:
    job = obs.job
    if job is None or job.created_at is None:
        return
    yield PhaseChange(Phase.SUBMITTED, job.created_at)
    if obs.workload is not None:
        yield from _queue(obs.workload, job.created_at)
    setting_up = [p.created_at for p in obs.pods if p.step in keys.INITIALIZERS and p.created_at is not None]
    if setting_up:
        yield PhaseChange(Phase.INITIALIZING, min(setting_up))
    pods = trainer_pods(obs)
    made = [pod.created_at for pod in pods if pod.created_at is not None]
    if made:
        yield PhaseChange(Phase.PENDING, min(made))
    yield from _runs(pods)


def _queue(workload: ObservedWorkload, created_at: float) -> Iterator[PhaseChange]:
    reserved = workload.condition("QuotaReserved")
    if is_admitted(workload):
        yield PhaseChange(Phase.QUEUED, created_at)
    if reserved is not None and reserved.at is not None:
        phase = Phase.RESUMING if reserved.holds else Phase.QUEUED
        yield PhaseChange(phase, reserved.at)


def _runs(pods: tuple[ObservedPod, ...]) -> Iterator[PhaseChange]:
    """It runs from when the last of its nodes does; of a node's restarts the latest is known."""
    mains = [(pod, pod.main) for pod in pods if pod.main is not None]
    starts = [_first_start(pod) for pod in pods]
    known = [start for start in starts if start is not None]
    if known and len(known) == len(starts):
        yield PhaseChange(Phase.RUNNING, max(known))
    for pod, main in mains:
        if main.last is not None and main.last.finished_at:
            yield PhaseChange(Phase.RESTARTING, main.last.finished_at, main.last.reason, f"{pod.node}: restarted")
            if main.started_at is not None:
                yield PhaseChange(Phase.RUNNING, main.started_at)
        end = main.terminated
        if end is not None and end.finished_at and not ended_well(pod):
            yield PhaseChange(Phase.FAILING, end.finished_at, end.reason, f"{pod.node}: exit code {end.exit_code}")


def _first_start(pod: ObservedPod) -> float | None:
    main = pod.main
    if main is None:
        return None
    runs = (main.last, main.terminated)
    starts = [main.started_at, *(run.started_at for run in runs if run is not None)]
    # containerd writes 1970 for what never started.
    return min((start for start in starts if start), default=None)
