"""The parts of an observation that describe pods and conditions, parsed once into frozen values.

Unknown fields are ignored; missing ones have the value that the API's default means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.times import parse_time

__all__ = ["Condition", "JobCounts", "ObservedContainer", "ObservedPod", "Terminated", "conditions_of"]

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


def conditions_of(raw: Raw | None) -> tuple[Condition, ...]:
    """The conditions of a status; () when it has none."""
    return tuple(Condition.from_raw(c) for c in (raw or {}).get("conditions") or ())


@dataclass(frozen=True, slots=True)
class JobCounts:
    """One row of ``status.jobsStatus``. Counts child Jobs (0 or 1), not pods (seen with JobSet 0.12)."""

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
        gpus: GPUs of all its containers: whole ones, of any maker (``nvidia.com/gpu``).
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
    gpus: int = 0

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
            conditions=conditions_of(status),
            containers=(*init, *main),
            container_names=tuple(c["name"] for c in spec.get("containers") or ()),
            created_at=parse_time(meta.get("creationTimestamp")),
            deleting=bool(meta.get("deletionTimestamp")),
            gated=bool(spec.get("schedulingGates")),
            host=spec.get("nodeName") or "",
            gpus=sum(map(_gpus, spec.get("containers") or ())),
        )

    @property
    def node(self) -> str:
        """The name a person sees: ``node-1``; the first (mostly only) pod of another step is ``launcher`` alone."""
        return f"{self.step}-{self.index}" if self.step == keys.STEP_NODE or self.index else self.step

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


def _gpus(container: Raw) -> int:
    """Extended resources are whole numbers, and their request equals their limit."""
    limits = (container.get("resources") or {}).get("limits") or {}
    texts = [str(amount) for name, amount in limits.items() if name.endswith("/gpu")]
    return sum(int(text) for text in texts if text.isascii() and text.isdigit())
