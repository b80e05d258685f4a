"""Looking at trainings for ``status`` and ``list``: how many calls that takes is decided here."""

from __future__ import annotations

from trainer_ops.backends.base import Backend
from trainer_ops.cli.glance import Glance, glance
from trainer_ops.model import keys
from trainer_ops.model.identity import JobRef
from trainer_ops.model.observed import Observation, ObservedTrainJob
from trainer_ops.model.result import result_of
from trainer_ops.status.classify import classify

__all__ = ["look_at", "survey"]

# An active training is looked at with its pods: several calls each on a cluster. Of finished ones, whose row needs
# the pods only for a metric, so many.
_FINISHED_WITH_PODS = 20


def look_at(backend: Backend, ref: JobRef, *, now: float) -> Glance:
    """One training, with its pods."""
    obs = backend.observe(ref.name, now=now)
    seen = _glance(obs)
    return seen if obs.job is not None else Glance(ref.name, seen.state, obs.at)


def survey(backend: Backend, *, now: float, every: bool) -> list[Glance]:
    """All trainings, newest first; without ``every``, of each run the newest attempt."""
    raws = backend.list()
    jobs = [(ObservedTrainJob.from_raw(raw), raw) for raw in raws]
    newest: dict[str, int] = {}
    for job, _ in jobs:
        key = job.labels.get(keys.LABEL_RUN_KEY, job.uid)
        newest[key] = max(newest.get(key, 0), job.attempt)
    found: list[Glance] = []
    looked = 0
    for job, raw in sorted(jobs, key=lambda pair: pair[0].created_at or 0.0, reverse=True):
        if not every and job.attempt < newest[job.labels.get(keys.LABEL_RUN_KEY, job.uid)]:
            continue
        seen = _glance(Observation.from_raw(now, raw))
        looked += seen.phase.finished
        if not seen.phase.finished or looked <= _FINISHED_WITH_PODS:
            obs = backend.observe(job.name, now=now)
            seen = _glance(obs) if obs.job is not None and obs.job.uid == job.uid else seen
        found.append(seen)
    return found


def _glance(obs: Observation) -> Glance:
    result = result_of(obs.pods)
    return glance(obs, classify(obs), result.metrics if result is not None else None)
