"""The TrainJobs that one subject has had, found by label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer_ops.backends.base import Backend
from trainer_ops.model import keys
from trainer_ops.model.observed import Observation, ObservedTrainJob
from trainer_ops.model.phase import Phase
from trainer_ops.status.classify import classify

__all__ = ["Attempt", "attempts_of", "generation_of"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One TrainJob, as far as a submitter needs to know it.

    Attributes:
        number: from the label; compared as a number, so that 10 follows 9.
        generation: from the label.
        phase: where it stands.
    """

    name: str
    uid: str
    run_key: str
    number: int
    generation: int
    spec_hash: str
    identity: str
    phase: Phase

    @classmethod
    def from_raw(cls, raw: Mapping[str, Any], *, now: float) -> Attempt:
        """Parse a TrainJob."""
        obs = Observation.from_raw(now, raw)
        job = obs.job
        assert job is not None
        return cls(
            job.name,
            job.uid,
            job.labels.get(keys.LABEL_RUN_KEY, ""),
            job.attempt,
            generation_of(job),
            job.annotations.get(keys.ANNOTATION_SPEC_HASH, ""),
            job.annotations.get(keys.ANNOTATION_IDENTITY, ""),
            classify(obs).phase,
        )

    @property
    def succeeded(self) -> bool:
        """It has trained."""
        return self.phase is Phase.SUCCEEDED

    @property
    def active(self) -> bool:
        """It may still train."""
        return not self.phase.finished and self.phase is not Phase.DELETING

    @property
    def counts(self) -> bool:
        """No further attempt is needed: it trains or has trained. One that failed or is being deleted does not."""
        return self.active or self.succeeded


def generation_of(job: ObservedTrainJob) -> int:
    """The generation in our label; 0 for a TrainJob that we did not make."""
    text = job.labels.get(keys.LABEL_GENERATION, "")
    return int(text) if text.isdigit() else 0


def attempts_of(backend: Backend, labels: Mapping[str, str], *, now: float) -> tuple[Attempt, ...]:
    """All TrainJobs with these labels, by generation and number."""
    found = [Attempt.from_raw(raw, now=now) for raw in backend.list(labels)]
    return tuple(sorted(found, key=lambda a: (a.generation, a.number)))
