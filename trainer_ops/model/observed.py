"""What a target says about a TrainJob, parsed once into frozen values. Nobody else sees a raw dict.

Both backends speak the cluster's shape (TrainJob, pods, events, JobSet, Kueue Workload), so this is the only parser.
Unknown fields are ignored; missing ones have the value that the API's default means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.observed_pod import (
    Condition,
    JobCounts,
    ObservedContainer,
    ObservedPod,
    Terminated,
    conditions_of,
)
from trainer_ops.model.outcome import ProgressPoint
from trainer_ops.model.times import parse_time

__all__ = [
    "Condition",
    "JobCounts",
    "Observation",
    "ObservedContainer",
    "ObservedEvent",
    "ObservedJobSet",
    "ObservedPod",
    "ObservedTrainJob",
    "ObservedWorkload",
    "Terminated",
    "number",
]

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ObservedEvent:
    """One event about the TrainJob or something it owns. ``warning`` is the event's type."""

    kind: str
    name: str
    reason: str
    message: str
    warning: bool = False
    at: float | None = None
    count: int = 1

    @classmethod
    def from_raw(cls, raw: Raw) -> ObservedEvent:
        """Parse a core/v1 Event, or the short form of our recorded ones (``object: "Pod/x"``)."""
        about = raw.get("involvedObject") or raw.get("regarding") or {}
        if not about and "/" in str(raw.get("object") or ""):
            kind, name = str(raw["object"]).split("/", 1)
            about = {"kind": kind, "name": name}
        # eventTime first: events of events.k8s.io leave firstTimestamp and lastTimestamp null.
        series = raw.get("series") or {}
        meta = raw.get("metadata") or {}
        stamps = (
            series.get("lastObservedTime"),
            raw.get("lastTimestamp"),
            raw.get("eventTime"),
            raw.get("firstTimestamp"),
            meta.get("creationTimestamp"),
        )
        return cls(
            about.get("kind") or "",
            about.get("name") or "",
            raw.get("reason") or "",
            raw.get("message") or raw.get("note") or "",
            raw.get("type") == "Warning",
            next((t for t in map(parse_time, stamps) if t is not None), None),
            int(series.get("count") or raw.get("count") or 1),
        )


@dataclass(frozen=True, slots=True)
class ObservedJobSet:
    """What the JobSet adds to the TrainJob's status."""

    restarts: int = 0
    max_restarts: int | None = None
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def from_raw(cls, raw: Raw) -> ObservedJobSet:
        """Parse a JobSet."""
        status, spec = raw.get("status") or {}, raw.get("spec") or {}
        limit = (spec.get("failurePolicy") or {}).get("maxRestarts")
        return cls(int(status.get("restarts") or 0), limit, conditions_of(status))

    @property
    def restarting(self) -> bool:
        """JobSet 0.12 says so in a condition."""
        return any(c.type == "RestartingJobSet" and c.holds for c in self.conditions)


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """The Kueue Workload (the engine gives one of the same shape for its own queue)."""

    name: str
    active: bool = True
    conditions: tuple[Condition, ...] = ()
    cluster_queue: str = ""

    @classmethod
    def from_raw(cls, raw: Raw) -> ObservedWorkload:
        """Parse a Workload."""
        status = raw.get("status") or {}
        active = (raw.get("spec") or {}).get("active")
        queue = (status.get("admission") or {}).get("clusterQueue") or ""
        return cls(raw["metadata"]["name"], active is not False, conditions_of(status), queue)

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type, whatever its status."""
        return next((c for c in self.conditions if c.type == type_), None)


@dataclass(frozen=True, slots=True)
class ObservedTrainJob:
    """One TrainJob as its target stores it."""

    namespace: str
    name: str
    uid: str
    created_at: float | None = None
    deleting: bool = False
    suspend: bool = False
    managed_by: str = ""
    runtime: str = ""
    num_nodes: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    jobs: tuple[JobCounts, ...] = ()
    progress: ProgressPoint | None = None
    has_initializer: tuple[str, ...] = ()

    @classmethod
    def from_raw(cls, raw: Raw) -> ObservedTrainJob:
        """Parse a TrainJob."""
        meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
        initializer = spec.get("initializer") or {}
        return cls(
            namespace=meta.get("namespace") or "default",
            name=meta["name"],
            uid=meta.get("uid") or "",
            created_at=parse_time(meta.get("creationTimestamp")),
            deleting=bool(meta.get("deletionTimestamp")),
            suspend=bool(spec.get("suspend")),
            managed_by=spec.get("managedBy") or "",
            runtime=(spec.get("runtimeRef") or {}).get("name") or "",
            num_nodes=(spec.get("trainer") or {}).get("numNodes"),
            labels=meta.get("labels") or {},
            annotations=meta.get("annotations") or {},
            conditions=conditions_of(status),
            jobs=tuple(JobCounts.from_raw(j) for j in status.get("jobsStatus") or ()),
            progress=_progress(status.get("trainerStatus")),
            has_initializer=tuple(f"{k}-initializer" for k in ("dataset", "model") if initializer.get(k)),
        )

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type, whatever its status."""
        return next((c for c in self.conditions if c.type == type_), None)

    def holds(self, type_: str) -> bool:
        """Whether that condition is there with status "True"."""
        return any(c.type == type_ and c.holds for c in self.conditions)

    def job(self, name: str) -> JobCounts | None:
        """The row of ``jobsStatus`` with that name."""
        return next((j for j in self.jobs if j.name == name), None)

    @property
    def trainer_jobs(self) -> tuple[JobCounts, ...]:
        """The rows that train: ``launcher`` and ``node``; with other names, all but the initializers."""
        usual = tuple(j for j in self.jobs if j.name in (keys.STEP_LAUNCHER, keys.STEP_NODE))
        return usual or tuple(j for j in self.jobs if j.name not in keys.INITIALIZERS)

    @property
    def attempt(self) -> int:
        """The attempt in our label; 1 for a TrainJob that we did not make."""
        text = self.labels.get(keys.LABEL_ATTEMPT, "")
        return int(text) if text.isdigit() else 1

    @property
    def queue(self) -> str:
        """Kueue's queue-name label, "" when there is none."""
        return self.labels.get(keys.LABEL_QUEUE, "")


def number(text: Any) -> float | str:
    """A metric's value: a float where it is a finite one, else the text. Trainer carries metrics as strings.

    NaN and infinity stay text: JSON has no numbers for them.
    """
    try:
        value = float(text)
    except (TypeError, ValueError, OverflowError):
        return str(text)
    return value if math.isfinite(value) else str(text)


def _progress(raw: Raw | None) -> ProgressPoint | None:
    if not raw:
        return None
    metrics = {m["name"]: number(m.get("value")) for m in raw.get("metrics") or ()}
    eta = raw.get("estimatedRemainingSeconds")
    at = parse_time(raw.get("lastUpdatedTime")) or 0.0
    return ProgressPoint(at, raw.get("progressPercentage"), None if eta is None else float(eta), metrics)


@dataclass(frozen=True, slots=True)
class Observation:
    """All that was read at one moment; the only input of ``classify``, ``Wait.see`` and ``diagnose``.

    Attributes:
        at: when it was read, seconds since the epoch.
        job: None when GET answered 404.
        events: oldest first, bounded by the backend.
        unreadable: plural kinds that this user may not read (``events``, ``jobsets``, ``workloads``, ``pods``).
    """

    at: float
    job: ObservedTrainJob | None
    pods: tuple[ObservedPod, ...] = ()
    events: tuple[ObservedEvent, ...] = ()
    jobset: ObservedJobSet | None = None
    workload: ObservedWorkload | None = None
    unreadable: frozenset[str] = frozenset()

    @classmethod
    def from_raw(
        cls,
        at: float,
        job: Raw | None,
        pods: Sequence[Raw] = (),
        events: Sequence[Raw] = (),
        jobset: Raw | None = None,
        workload: Raw | None = None,
        unreadable: frozenset[str] = frozenset(),
    ) -> Observation:
        """Parse raw objects of one TrainJob."""
        parsed = [ObservedEvent.from_raw(e) for e in events]
        return cls(
            at,
            ObservedTrainJob.from_raw(job) if job else None,
            tuple(
                sorted(map(ObservedPod.from_raw, pods), key=lambda p: (p.step, p.index, p.attempt, p.created_at or 0))
            ),
            tuple(sorted(parsed, key=lambda e: e.at or 0.0)),
            ObservedJobSet.from_raw(jobset) if jobset else None,
            ObservedWorkload.from_raw(workload) if workload else None,
            unreadable,
        )
