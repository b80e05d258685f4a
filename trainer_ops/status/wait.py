"""One wait for one training, as a frozen value: each look gives a new value and what to do next.

A ``Wait`` holds no clock and does no I/O. Its times are absolute (seconds since the epoch) and it is plain JSON, so it
crosses processes: an operator begins it, a triggerer goes on with it, a worker reads its outcome.

It also remembers what the target forgets: the first terminal state of a uid is the answer (Trainer up to 2.3 drops
``Failed`` again and may run a failed job once more: trainer #3737), and how nodes ended is kept from the moment it was
seen, because their pods are deleted before the TrainJob says ``Failed``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.model.lines import clean
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Outcome, ProgressPoint
from trainer_ops.model.phase import Phase, State
from trainer_ops.model.result import Result, result_of
from trainer_ops.model.times import rfc3339
from trainer_ops.status import progress as history
from trainer_ops.status.classify import classify
from trainer_ops.status.clocks import RESTARTS, Clocks, overdue, until
from trainer_ops.status.course import Course
from trainer_ops.status.diagnose import diagnose
from trainer_ops.status.evidence import NODE_LIMIT, Evidence, collect
from trainer_ops.status.facts import LINE_LIMIT, Facts
from trainer_ops.status.fit import fitted
from trainer_ops.status.roster import closed
from trainer_ops.status.why import clues

__all__ = ["TAIL_LIMIT", "Done", "GaveUp", "Sleep", "Step", "Stop", "Wait"]

TAIL_LIMIT = 30  # lines kept of each node
_ERROR_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Sleep:
    """Look again after this many seconds (more than zero), or as soon as something changed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """The training is over: succeeded, failed, deleted or replaced."""


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A limit of the wait ran out; the training is left alone."""


@dataclass(frozen=True, slots=True)
class Stop:
    """``max_restarts`` is used up: the caller deletes the training (uid precondition), then reads the outcome."""


Step = Sleep | Done | GaveUp | Stop

_ENDS: Mapping[str, Step] = {"done": Done(), "gave_up": GaveUp(), "stop": Stop()}


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait. Make it with ``begin``; every other method gives a new value.

    Attributes:
        ref: the TrainJob that is meant; one of the same name with another uid is another.
        limits: how long to wait for what.
        attempt: 1 for the first try of the run key.
        poll: seconds between looks at most.
        clocks: since when which limit counts.
        state: the last one seen.
        seen: whether the TrainJob was seen at all.
        restarts_seen: the JobSet's restarts after which it has run again.
        evidence: what was seen of the nodes.
        tails: last log lines by node.
        clues: the cluster's own texts at the last look.
        result: what rank 0 reported, also when its pod is gone.
        progress: thinned history of reports.
        course: phases, nodes and events, for those who look at it afterwards.
        ended: "" while it goes on, else ``done``, ``gave_up`` or ``stop``: never left again.
        limit: the limit that ended it.
        ended_at: when the training ended (for a limit: when it ran out).
        error: the target's last error while it does not answer; after Stop, why it would not delete the training.
        superseded_by: set by ``superseded``.
        unreadable: plural kinds that this user may not read.
    """

    ref: JobRef
    limits: Limits
    clocks: Clocks
    attempt: int = 1
    poll: float = 10.0
    state: State = field(default=State(Phase.NOT_OBSERVED))
    seen: bool = False
    restarts_seen: int = 0
    evidence: Evidence = field(default_factory=Evidence)
    tails: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    clues: tuple[str, ...] = ()
    result: Result | None = None
    progress: tuple[ProgressPoint, ...] = ()
    course: Course = field(default_factory=Course)
    ended: str = ""
    limit: str = ""
    ended_at: float | None = None
    error: str = ""
    superseded_by: str = ""
    unreadable: tuple[str, ...] = ()

    @classmethod
    def begin(cls, ref: JobRef, limits: Limits, *, now: float, attempt: int = 1, poll: float = 10.0) -> Wait:
        """Start to wait at ``now`` (seconds since the epoch), looking at most ``poll`` seconds apart."""
        return cls(ref, limits, Clocks.begin(now), attempt, poll)

    @property
    def began_at(self) -> float:
        """When the wait began, seconds since the epoch."""
        return self.clocks.began_at

    def see(self, obs: Observation, now: float) -> tuple[Wait, Step]:
        """Take a look into account.

        A limit has run out at the very moment of its deadline. A terminal state goes before any limit, and a used-up
        ``max_restarts`` before the limits of time. After the end nothing changes any more, whatever is seen.
        """
        if self.ended:
            return self, _ENDS[self.ended]
        wait = self._learn(obs, now)
        if wait.state.phase.finished:
            return wait._end("done", "", _ended_at(obs, wait.state.phase, now)), Done()
        if wait.evidence.exhausted:
            stopped = State(Phase.FAILED, "", f"{wait.evidence.exhausted}: {RESTARTS}={self.limits.max_restarts}")
            return replace(wait, course=wait.course.enter(stopped, now))._end("stop", RESTARTS, now), Stop()
        limit = overdue(wait.clocks, wait.limits, now, answered=True)
        if limit:
            return wait._end("gave_up", limit, now), GaveUp()
        missing = wait.state.phase is Phase.NOT_OBSERVED
        look_at = self.began_at + self.limits.missing_grace if missing else None
        return wait, Sleep(until(wait.clocks, wait.limits, now, self.poll, answered=True, look_at=look_at))

    def unreachable(self, error: str, now: float) -> tuple[Wait, Step]:
        """Take into account that the target gave no answer.

        Only ``unreachable_timeout`` (from the last answer) and ``wait_timeout`` count then: what the training does
        meanwhile nobody knows.
        """
        if self.ended:
            return self, _ENDS[self.ended]
        wait = replace(self, error=error[:_ERROR_LIMIT])
        limit = overdue(wait.clocks, wait.limits, now, answered=False)
        if limit:
            return wait._end("gave_up", limit, now), GaveUp()
        return wait, Sleep(until(wait.clocks, wait.limits, now, self.poll, answered=False))

    def hear(self, tails: Mapping[str, Sequence[str]]) -> Wait:
        """Keep the last log lines of nodes (``node-1`` to lines), in place of those that were known of these nodes.

        They are made fit to show (no colours, no bars that were overwritten): what they are kept for is a diagnosis.
        At most 30 lines of 500 characters, of at most 16 nodes: those that failed, then those in ``tails``; of every
        node the very last one.
        """
        heard = {node: tuple(clean(line)[:LINE_LIMIT] for line in lines[-TAIL_LIMIT:]) for node, lines in tails.items()}
        merged = {**self.tails, **{node: lines for node, lines in heard.items() if lines}}
        if len(merged) > NODE_LIMIT:
            order = sorted(merged, key=lambda node: (node not in self.evidence.nodes, node not in heard))
            merged = {node: merged[node] for node in order[:NODE_LIMIT]}
        return replace(self, tails=merged, course=self.course.hear(tails))

    def superseded(self, by: str) -> Wait:
        """Say that the training was deleted for a newer one of the same task; ``by`` names that one."""
        return replace(self, superseded_by=by)

    def not_stopped(self, error: str) -> Wait:
        """Say that the training used up its restarts, but that the target would not delete it."""
        return replace(self, error=error[:_ERROR_LIMIT])

    def outcome(self) -> Outcome:
        """How it ended, or why the wait for it did; valid once a step was Done, GaveUp or Stop.

        After Stop the phase is FAILED: the caller ends the training. After GaveUp it is the last one seen.

        Its JSON is at most ``fit.SIZE_LIMIT`` bytes, so that XCom, KFP and a log bear it.
        """
        ref, result, course = self.ref, self.result or Result(), self.course
        phase = Phase.FAILED if self.ended == "stop" else self.state.phase
        over = phase.finished and self.ended_at is not None
        outcome = Outcome(
            name=ref.name,
            namespace=ref.namespace,
            uid=ref.uid,
            target=ref.target,
            phase=phase,
            attempt=self.attempt,
            started_at=None if self.evidence.started_at is None else rfc3339(self.evidence.started_at),
            finished_at=rfc3339(self.ended_at) if over and self.ended_at is not None else None,
            metrics=result.metrics or (self.progress[-1].metrics if self.progress else {}),
            model_uri=result.model_uri,
            artifacts=result.artifacts,
            progress=tuple(point.to_json() for point in self.progress),
            diagnosis=None if phase is Phase.SUCCEEDED else diagnose(self._facts()),
            seen_at=rfc3339(self.clocks.answered_at) if self.course.phases else None,
            num_nodes=course.num_nodes,
            gpus=course.gpus,
            phases=tuple(change.to_json() for change in course.phases),
            nodes=tuple(row.to_json() for row in (closed(course.nodes) if phase.finished else course.nodes)),
            events=tuple(note.to_json() for note in course.events),
        )
        return fitted(outcome)

    def _learn(self, obs: Observation, now: float) -> Wait:
        state = classify(
            obs,
            uid=self.ref.uid,
            seen=self.seen,
            created_at=self.began_at,
            grace=self.limits.missing_grace,
            restarts_seen=self.restarts_seen,
        )
        wait = replace(self, state=state, clocks=self.clocks.enter(state.phase, now), error="")
        moment = _ended_at(obs, state.phase, now)
        if obs.job is None or state.phase is Phase.REPLACED:
            return replace(wait, course=self.course.enter(state, moment))
        evidence = collect(self.evidence, obs, self.limits.max_restarts)
        over = obs.jobset is not None and state.phase in (Phase.RUNNING, Phase.COMPLETING)
        return replace(
            wait,
            seen=True,
            restarts_seen=obs.jobset.restarts if over and obs.jobset else self.restarts_seen,
            evidence=evidence,
            clues=() if state.phase in (Phase.RUNNING, Phase.SUCCEEDED) else clues(obs),
            # A later run's report replaces an earlier one's; none does not.
            result=result_of(obs.pods) or self.result,
            progress=history.add(self.progress, obs.job.progress),
            course=self.course.see(obs, state, evidence, moment),
            unreadable=tuple(sorted(obs.unreadable)),
        )

    def _end(self, ended: str, limit: str, at: float) -> Wait:
        return replace(self, ended=ended, limit=limit, ended_at=at)

    def _facts(self) -> Facts:
        return Facts(
            name=self.ref.name,
            state=self.state,
            limits=self.limits,
            limit=self.limit,
            silent=(self.ended_at or self.began_at) - self.clocks.answered_at,
            evidence=self.evidence,
            tails=self.tails,
            clues=self.clues,
            error=self.error,
            superseded_by=self.superseded_by,
            target=self.ref.target,
            unreadable=self.unreadable,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, free of secrets; ``from_json`` gives an equal value."""
        state = self.state
        return {
            "ref": self.ref.to_json(),
            "limits": self.limits.to_json(),
            "clocks": self.clocks.to_json(),
            "attempt": self.attempt,
            "poll": self.poll,
            "state": {"phase": state.phase.value, "reason": state.reason, "detail": state.detail},
            "seen": self.seen,
            "restarts_seen": self.restarts_seen,
            "evidence": self.evidence.to_json(),
            "tails": {node: list(lines) for node, lines in self.tails.items()},
            "clues": list(self.clues),
            "result": asdict(self.result) if self.result else None,
            "progress": history.to_plain(self.progress),
            "course": self.course.to_json(),
            "ended": self.ended,
            "limit": self.limit,
            "ended_at": self.ended_at,
            "error": self.error,
            "superseded_by": self.superseded_by,
            "unreadable": list(self.unreadable),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Wait:
        """The inverse of ``to_json``."""
        state, result = data["state"], data["result"]
        return cls(
            ref=JobRef.from_json(data["ref"]),
            limits=Limits.from_json(data["limits"]),
            clocks=Clocks.from_json(data["clocks"]),
            attempt=data["attempt"],
            poll=data["poll"],
            state=State(Phase(state["phase"]), state["reason"], state["detail"]),
            seen=data["seen"],
            restarts_seen=data["restarts_seen"],
            evidence=Evidence.from_json(data["evidence"]),
            tails={node: tuple(lines) for node, lines in data["tails"].items()},
            clues=tuple(data["clues"]),
            result=Result(**result) if result else None,
            progress=history.from_plain(data["progress"]),
            course=Course.from_json(data.get("course", {})),
            ended=data["ended"],
            limit=data["limit"],
            ended_at=data["ended_at"],
            error=data["error"],
            superseded_by=data["superseded_by"],
            unreadable=tuple(data.get("unreadable", ())),
        )


def _ended_at(obs: Observation, phase: Phase, now: float) -> float:
    """When the controller says that it ended; else when that was seen."""
    type_ = {Phase.SUCCEEDED: "Complete", Phase.FAILED: "Failed"}.get(phase, "")
    condition = obs.job.condition(type_) if obs.job else None
    return now if condition is None or condition.at is None else condition.at
