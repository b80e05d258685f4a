"""From the name that a person types to a TrainJob, and back into a wait for it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

from trainer_ops.backends.base import Backend, RawObject
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import ObservedTrainJob
from trainer_ops.status.wait import Wait

__all__ = ["begin", "find", "limits_of"]


def find(backend: Backend, name: str) -> JobRef:
    """The newest attempt of the run that a TrainJob of this name belongs to.

    The name of an earlier attempt that was deleted leads there too. A TrainJob that this tool did not make is found
    by its own name.

    Raises:
        InvalidRequest: field ``name``: there is none; lists close names.
    """
    raw = backend.get(name)
    if raw is None:
        raw = _later_attempt(backend, name)
    run_key = (raw["metadata"].get("labels") or {}).get(keys.LABEL_RUN_KEY)
    if run_key:
        # The one just read is among them, unless it was deleted since.
        raw = max([*backend.list({keys.LABEL_RUN_KEY: run_key}), raw], key=_attempt)
    meta = raw["metadata"]
    return JobRef(backend.target, backend.namespace, meta["name"], meta["uid"])


def _later_attempt(backend: Backend, name: str) -> RawObject:
    """Attempts are named ``<name>-2``, ``<name>-3``: one of those where ``<name>`` itself is gone."""
    known = backend.list()
    for raw in known:
        head, _, number = raw["metadata"]["name"].rpartition("-")
        if head == name and number == str(_attempt(raw)):
            return raw
    names = [raw["metadata"]["name"] for raw in known]
    close = difflib.get_close_matches(name, names, n=3) or [n for n in names if n.startswith(name)][:3]
    raise InvalidRequest(
        "name",
        f'no TrainJob "{name}" on {backend.target}',
        f"Did you mean {' or '.join(close)}?" if close else "All: trainer-ops status",
        what="not found",
    )


def _attempt(raw: Mapping[str, Any]) -> int:
    return ObservedTrainJob.from_raw(raw).attempt


def limits_of(job: ObservedTrainJob) -> Limits:
    """The limits it was submitted with, which its annotation carries for waiters in other processes."""
    text = job.annotations.get(keys.ANNOTATION_LIMITS)
    if not text:
        return Limits()
    try:
        return Limits.from_json(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        # Somebody edited it. Waiting without limits is what a TrainJob without the annotation gets, too.
        return Limits()


def begin(backend: Backend, ref: JobRef, *, now: float, limits: Limits | None = None) -> Wait:
    """A fresh wait for a TrainJob that may have been submitted elsewhere.

    Args:
        backend: where it runs.
        ref: which.
        now: seconds since the epoch; limits count from here.
        limits: None takes those it was submitted with.
    """
    raw = backend.get(ref.name)
    job = ObservedTrainJob.from_raw(raw) if raw is not None and raw["metadata"].get("uid") == ref.uid else None
    if job is None:
        return Wait.begin(ref, limits or Limits(), now=now)
    return Wait.begin(ref, limits_of(job) if limits is None else limits, now=now, attempt=job.attempt)
