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
class Condition:
    """One condition; ``holds`` is True for the string "True" only ("False" and "Unknown" are not truth)."""

    type: str
    holds: bool
    reason: str = ""
    message: str = ""
    at: float | None = None

    @classmethod
    def from_raw(cls, raw: Raw) -> Condition:
        """Parse a metav1.Condition or a PodCondition."""
        return cls(
            raw["type"],
            raw.get("status") == "True",
            raw.get("reason") or "",
            raw.get("message") or "",
            parse_time(raw.get("lastTransitionTime")),
        )


def _conditions(raw: Raw | None) -> tuple[Condition, ...]:
    return tuple(Condition.from_raw(c) for c in (raw or {}).get("conditions") or ())


@dataclass(frozen=True, slots=True)
class JobCounts:
    """One row of ``status.jobsStatus``. Counts child Jobs (0 or 1), not pods (facts/observed.md)."""

    name: str
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0

    @classmethod
    def from_raw(cls, raw: Raw) -> JobCounts:
        """Parse one row."""
        return cls(raw["name"], *(int(raw.get(k) or 0) for k in cls.__slots__[1:]))


@dataclass(frozen=True, slots=True)
class Terminated:
    """How a container ended. ``signal`` is also taken from an exit code over 128, as the shell counts."""

    exit_code: int
    reason: str = ""
    message: str = ""
    started_at: float | None = None
    finished_at: float | None = None

    @property
    def signal(self) -> int | None:
        """The signal number, or None for an ordinary exit."""
        return self.exit_code - 128 if 128 < self.exit_code < 160 else None

    @classmethod
    def from_raw(cls, raw: Raw | None) -> Terminated | None:
        """Parse ``state.terminated``; None for None and {}."""
        if not raw:
            return None
        return cls(
            int(raw.get("exitCode") or 0),
            raw.get("reason") or "",
            raw.get("message") or "",
            parse_time(raw.get("startedAt")),
            parse_time(raw.get("finishedAt")),
        )


@dataclass(frozen=True, slots=True)
class ObservedContainer:
    """One containerStatus. ``state`` is ``waiting``, ``running`` or ``terminated``."""

    name: str
    state: str = "waiting"
    reason: str = ""
    message: str = ""
    started_at: float | None = None
    terminated: Terminated | None = None
    last: Terminated | None = None
    restarts: int = 0
    ready: bool = False
    init: bool = False

    @classmethod
    def from_raw(cls, raw: Raw, *, init: bool = False) -> ObservedContainer:
        """Parse one entry of containerStatuses or initContainerStatuses."""
        state = raw.get("state") or {}
        name = next((s for s in ("terminated", "running", "waiting") if state.get(s) is not None), "waiting")
        inner = state.get(name) or {}
        return cls(
            raw["name"],
            name,
            inner.get("reason") or "",
            inner.get("message") or "",
            parse_time(inner.get("startedAt")),
            Terminated.from_raw(state.get("terminated")),
            Terminated.from_raw((raw.get("lastState") or {}).get("terminated")),
            int(raw.get("restartCount") or 0),
            bool(raw.get("ready")),
            init,
        )


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One pod of the TrainJob.

    Attributes:
        step: the replicatedJob's name: ``node``, ``launcher``, ``dataset-initializer``, …
        index: the completion index; the rank of the node within its step.
        attempt: JobSet's restart attempt, 0 for the first.
        containers: init containers first, then the others, in the order of the status.
    """

    name: str
    uid: str
    step: str
    index: int
    phase: str
    attempt: int = 0
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    containers: tuple[ObservedContainer, ...] = ()
    container_names: tuple[str, ...] = ()
    created_at: float | None = None
    deleting: bool = False
    gated: bool = False
    host: str = ""

    @classmethod
    def from_raw(cls, raw: Raw) -> ObservedPod:
        """Parse a Pod."""
        meta, status, spec = raw["metadata"], raw.get("status") or {}, raw.get("spec") or {}
        labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
        index = labels.get(keys.COMPLETION_INDEX) or notes.get(keys.COMPLETION_INDEX) or "0"
        init = [ObservedContainer.from_raw(c, init=True) for c in status.get("initContainerStatuses") or ()]
        main = [ObservedContainer.from_raw(c) for c in status.get("containerStatuses") or ()]
        return cls(
            name=meta["name"],
            uid=meta.get("uid") or "",
            step=labels.get(keys.LABEL_REPLICATED_JOB) or "",
            index=int(index),
            phase=status.get("phase") or "Pending",
            attempt=int(labels.get(keys.LABEL_RESTART_ATTEMPT) or 0),
            reason=status.get("reason") or "",
            message=status.get("message") or "",
            conditions=_conditions(status),
            containers=(*init, *main),
            container_names=tuple(c["name"] for c in spec.get("containers") or ()),
            created_at=parse_time(meta.get("creationTimestamp")),
            deleting=bool(meta.get("deletionTimestamp")),
            gated=bool(spec.get("schedulingGates")),
            host=spec.get("nodeName") or "",
        )

    @property
    def node(self) -> str:
        """The name a person sees: ``node-1``; a step that has one pod goes by its own name (``launcher``)."""
        return f"{self.step}-{self.index}" if self.step == keys.STEP_NODE else self.step

    @property
    def main(self) -> ObservedContainer | None:
        """The container that trains (or initializes): named ``node`` or like its step, else the first."""
        plain = [c for c in self.containers if not c.init]
        named = [c for c in plain if c.name in (keys.STEP_NODE, self.step)]
        return next(iter(named or plain), None)

    @property
    def main_name(self) -> str:
        """The name of that container, also before it has a status."""
        if self.main is not None:
            return self.main.name
        named = [n for n in self.container_names if n in (keys.STEP_NODE, self.step)]
        return next(iter(named or self.container_names), keys.STEP_NODE)

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type, whatever its status."""
        return next((c for c in self.conditions if c.type == type_), None)


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
        # eventTime first: events of events.k8s.io leave firstTimestamp and lastTimestamp null (facts/trainer.md 2).
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
        return cls(int(status.get("restarts") or 0), limit, _conditions(status))

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
        return cls(raw["metadata"]["name"], active is not False, _conditions(status), queue)

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
            conditions=_conditions(status),
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
