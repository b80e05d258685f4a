"""How a run ended: Outcome and Diagnosis, the JSON that CLI, XCom and KFP share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from trainer_ops.model.phase import Phase
from trainer_ops.model.times import parse_time, rfc3339

__all__ = ["Category", "Diagnosis", "Ending", "Outcome", "ProgressPoint"]


class Category(str, Enum):
    """Why a run did not succeed. A contract: DAGs branch on these words; none is renamed or removed."""

    EXIT_CODE = "exit_code"
    OUT_OF_MEMORY = "out_of_memory"
    IMAGE = "image"
    CONFIG = "config"
    UNSCHEDULABLE = "unschedulable"
    QUOTA = "quota"
    QUEUED_TOO_LONG = "queued_too_long"
    EVICTED = "evicted"
    NODE_LOST = "node_lost"
    DEADLINE = "deadline"
    RESTARTS_EXHAUSTED = "restarts_exhausted"
    ADMISSION = "admission"
    RUNTIME_MISSING = "runtime_missing"
    INITIALIZER = "initializer"
    NOT_RECONCILED = "not_reconciled"
    DELETED = "deleted"
    SUPERSEDED = "superseded"
    PERMISSION = "permission"
    UNREACHABLE = "unreachable"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


class Ending(str, Enum):
    """The five ways in which a wait ends; each front end has one idiom (exit code, exception, state) for each."""

    TRAINED = "trained"
    FAILED = "failed"
    GAVE_UP = "gave_up"
    CANCELLED = "cancelled"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why, for a tired person at three in the night.

    Attributes:
        category: the contract word.
        summary: one sentence: what happened, where.
        evidence: lines that prove it: last log lines, event texts, container states.
        remedy: one sentence: what to do.
    """

    category: Category
    summary: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """The documented form."""
        return {
            "category": self.category.value,
            "summary": self.summary,
            "evidence": list(self.evidence),
            "remedy": self.remedy,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Diagnosis:
        """The inverse of ``to_json``."""
        return cls(Category(data["category"]), data["summary"], tuple(data["evidence"]), data["remedy"])

    def __str__(self) -> str:
        lines = [f"{self.summary} ({self.category.value})"]
        lines += [f"  {line}" for line in self.evidence]
        if self.remedy:
            lines.append(self.remedy)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ProgressPoint:
    """One report of ``status.trainerStatus``.

    Attributes:
        at: seconds since the epoch.
        percentage: 0 to 100, or None when not reported.
        eta_seconds: estimated seconds left, or None.
        metrics: name to number, or to the text where it is no number.
    """

    at: float
    percentage: int | None = None
    eta_seconds: float | None = None
    metrics: Mapping[str, float | str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The documented form, with ``at`` as RFC 3339."""
        return {
            "at": rfc3339(self.at),
            "percentage": self.percentage,
            "eta_seconds": self.eta_seconds,
            "metrics": dict(self.metrics),
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, or why the wait for it did.

    Attributes:
        name: the TrainJob's name.
        namespace: its namespace.
        uid: its uid.
        target: where it ran: ``local:///dir`` or ``kubernetes://context/namespace``.
        phase: a finished phase, or the last one seen when the wait was given up.
        attempt: 1 for the first try of this run key.
        started_at: RFC 3339, when the first node started; None when none did.
        finished_at: RFC 3339, when it ended; None when it has not.
        metrics: what rank 0 reported: name to number (or text).
        model_uri: where the model is; None when not reported.
        artifacts: name to URI or other plain data.
        progress: bounded history of reports (at most 200 points), oldest first.
        diagnosis: None for a success.
        seen_at: RFC 3339, when the target last answered; None when it never did.
        num_nodes: nodes that train, a launcher left out; 0 when none was seen.
        gpus: GPUs of all of them together; 0 when they have none, or when that is not known.
        phases: what it went through, oldest first: ``{phase, reason, detail, at, folded}``; ``folded`` counts shorter
            ones that were merged into this one.
        nodes: how each node stands or ended: ``{name, state, restarts, exit_code, reason, host, last_line}``, with
            ``state`` one of ``waiting, running, done, failed, ended`` (its end was not seen). Of very many, those with
            something to tell.
        events: the cluster's, oldest first: ``{at, object, node, reason, message, warning, count}``; of very many the
            newest, warnings before others.
    """

    name: str
    namespace: str
    uid: str
    target: str
    phase: Phase
    attempt: int = 1
    started_at: str | None = None
    finished_at: str | None = None
    metrics: Mapping[str, float | str] = field(default_factory=dict)
    model_uri: str | None = None
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    progress: tuple[Mapping[str, Any], ...] = ()
    diagnosis: Diagnosis | None = None
    seen_at: str | None = None
    num_nodes: int = 0
    gpus: int = 0
    phases: tuple[Mapping[str, Any], ...] = ()
    nodes: tuple[Mapping[str, Any], ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()

    @property
    def succeeded(self) -> bool:
        """Whether it trained."""
        return self.phase is Phase.SUCCEEDED

    @property
    def took(self) -> float | None:
        """Seconds from the start of the first node to the end; None when it did not start or has not ended."""
        start, end = parse_time(self.started_at), parse_time(self.finished_at)
        return max(0.0, end - start) if start is not None and end is not None else None

    @property
    def ending(self) -> Ending:
        """Which of the five ways."""
        if self.succeeded:
            return Ending.TRAINED
        if self.diagnosis is not None and self.diagnosis.category is Category.UNREACHABLE:
            return Ending.UNREACHABLE
        if self.phase in (Phase.DELETED, Phase.REPLACED):
            return Ending.CANCELLED
        return Ending.FAILED if self.phase is Phase.FAILED else Ending.GAVE_UP

    def to_json(self) -> dict[str, Any]:
        """The documented JSON outcome, the same in the CLI, in XCom and in KFP."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "target": self.target,
            "phase": self.phase.value,
            "attempt": self.attempt,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "metrics": dict(self.metrics),
            "model_uri": self.model_uri,
            "artifacts": dict(self.artifacts),
            "progress": [dict(point) for point in self.progress],
            "diagnosis": self.diagnosis.to_json() if self.diagnosis else None,
            "seen_at": self.seen_at,
            "num_nodes": self.num_nodes,
            "gpus": self.gpus,
            "phases": [dict(change) for change in self.phases],
            "nodes": [dict(node) for node in self.nodes],
            "events": [dict(event) for event in self.events],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        """The inverse of ``to_json``; what is null, or what older versions did not write, may be missing."""
        diagnosis = data.get("diagnosis")
        return cls(
            name=data["name"],
            namespace=data["namespace"],
            uid=data["uid"],
            target=data["target"],
            phase=Phase(data["phase"]),
            attempt=data["attempt"],
            started_at=data.get("started_at"),
            finished_at=data.get("finished_at"),
            metrics=dict(data["metrics"]),
            model_uri=data.get("model_uri"),
            artifacts=dict(data["artifacts"]),
            progress=tuple(data["progress"]),
            diagnosis=Diagnosis.from_json(diagnosis) if diagnosis else None,
            seen_at=data.get("seen_at"),
            num_nodes=data.get("num_nodes", 0),
            gpus=data.get("gpus", 0),
            phases=tuple(data.get("phases", ())),
            nodes=tuple(data.get("nodes", ())),
            events=tuple(data.get("events", ())),
        )
