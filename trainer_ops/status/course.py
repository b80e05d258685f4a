"""The course of a training: its phases, nodes and events as they were seen, for those who look at it afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.observed import Observation
from trainer_ops.model.phase import Phase, State
from trainer_ops.status import eventlog, roster, trail
from trainer_ops.status.evidence import Evidence
from trainer_ops.status.nodes import trainer_pods

__all__ = ["Course"]


@dataclass(frozen=True, slots=True)
class Course:
    """Plain, bounded, and never needed for a decision.

    Attributes:
        phases: what it went through.
        nodes: how each node stands.
        events: the cluster's.
        num_nodes: the most nodes that were seen or asked for, a launcher left out.
        gpus: the most GPUs of all pods that train.
    """

    phases: trail.Trail = ()
    nodes: roster.Roster = ()
    events: eventlog.EventLog = ()
    num_nodes: int = 0
    gpus: int = 0

    def enter(self, state: State, at: float) -> Course:
        """It is in that state."""
        return replace(self, phases=trail.add(self.phases, state, at))

    def see(self, obs: Observation, state: State, evidence: Evidence, at: float) -> Course:
        """Take a look into account, whose TrainJob is the one that is meant."""
        known = any(change.phase is not Phase.NOT_OBSERVED for change in self.phases)
        phases = self.phases if known else trail.past(obs)
        pods = trainer_pods(obs)
        asked = (obs.job.num_nodes if obs.job else None) or 0
        return Course(
            trail.add(phases, state, at),
            roster.update(self.nodes, obs, evidence),
            eventlog.add(self.events, obs),
            max(self.num_nodes, asked, sum(pod.step != keys.STEP_LAUNCHER for pod in pods)),
            max(self.gpus, sum(pod.gpus for pod in pods)),
        )

    def hear(self, tails: Mapping[str, Sequence[str]]) -> Course:
        """Keep the last line of each node's log."""
        return replace(self, nodes=roster.hear(self.nodes, tails))

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``from_json`` gives an equal value."""
        return {
            "phases": [{**asdict(change), "phase": change.phase.value} for change in self.phases],
            "nodes": [asdict(row) for row in self.nodes],
            "events": [asdict(note) for note in self.events],
            "num_nodes": self.num_nodes,
            "gpus": self.gpus,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Course:
        """The inverse of ``to_json``; of nothing an empty one, for a wait that an older version began."""
        return cls(
            tuple(trail.PhaseChange(**{**raw, "phase": Phase(raw["phase"])}) for raw in data.get("phases", ())),
            tuple(roster.NodeRow(**raw) for raw in data.get("nodes", ())),
            tuple(eventlog.EventNote(**raw) for raw in data.get("events", ())),
            data.get("num_nodes", 0),
            data.get("gpus", 0),
        )
