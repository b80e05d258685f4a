"""Which trainings are meant by somebody who did not start them: one by its name, some by labels, one by its model."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer_ops.backends.base import Backend, RawObject, RawObjects, Watch
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.observed import ObservedTrainJob
from trainer_ops.model.result import Result, result_of
from trainer_ops.validate.findings import Finding
from trainer_ops.validate.identity import label_syntax, name_syntax

__all__ = ["Scout", "Selection", "reported", "wanted_labels"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which trainings are meant; those that this tool did not make count like its own.

    Of the attempts of one run, and of the runs before and after a task was cleared, the newest is meant.

    Attributes:
        name: the one of that name; of a run of ours with several attempts the newest, whichever is named.
        labels: those with all these labels.
        model_uri: one that has trained and reports this model, or one under this URI. What a training will report is
            not known before its end, so one that fails says nothing about it: the next one is waited for.
        since: seconds since the epoch; what had ended before is not meant. None: whatever still stands.
    """

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    model_uri: str = ""
    since: float | None = None

    @classmethod
    def of(
        cls,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | str | None = None,
        model_uri: str | None = None,
        since: float | None = None,
    ) -> Selection:
        """From what a user gives.

        Raises:
            InvalidRequest: nothing is selected, a name and something else, or what no TrainJob can be called: it would
                be waited for in vain.
        """
        wanted = wanted_labels(labels)
        if not name and not wanted and not model_uri:
            raise InvalidRequest("name", "neither a name nor labels nor a model are given", "Give one of them")
        if name and (wanted or model_uri):
            raise InvalidRequest("name", "a name and labels or a model exclude each other", "Give one of them")
        if name:
            _refuse(name_syntax(str(name)), "name")
        return cls(str(name or ""), wanted, model_uri or "", since)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"name": self.name, "labels": dict(self.labels), "model_uri": self.model_uri, "since": self.since}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Selection:
        """The inverse of ``to_json``."""
        return cls(data["name"], dict(data["labels"]), data["model_uri"], data["since"])

    def __str__(self) -> str:
        if self.name:
            return self.name
        words = ",".join(f"{key}={value}" for key, value in sorted(self.labels.items()))
        return " ".join(filter(None, [words, f"with the model {self.model_uri}" if self.model_uri else ""]))


def wanted_labels(given: Mapping[str, Any] | str | None) -> dict[str, str]:
    """Labels by which trainings are chosen, from what a user gives: a mapping, or ``team=a,sweep=42``.

    Raises:
        InvalidRequest: field ``labels``: it is neither, or holds what is no label, so that nothing could ever match.
    """
    if not given:
        return {}
    if not isinstance(given, str | Mapping):
        raise InvalidRequest(
            "labels", f"{given!r} is no mapping"[:200], "Write key: value pairs, or key=value,key=value"
        )
    labels = _parsed(given) if isinstance(given, str) else dict(given)
    for key, value in labels.items():
        if value is None:
            raise InvalidRequest("labels", f"{key} has no value", "Correct it, or the template that it came from")
    wanted = {str(key): str(value) for key, value in labels.items()}
    _refuse(label_syntax({"labels": wanted}, ""), "labels")
    return wanted


def _refuse(findings: Iterable[Finding], field: str) -> None:
    for finding in findings:
        raise InvalidRequest(field, finding.reason, finding.remedy)


def _parsed(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        key, value = key.strip(), value.removeprefix("=").strip()
        if not equals or not key or key.endswith("!"):
            raise InvalidRequest("labels", f'"{part.strip()}" is not written as key=value', "Write key=value,key=value")
        if found.setdefault(key, value) != value:
            raise InvalidRequest("labels", f"{key} is given twice", "Remove one of them")
    return found


class Scout:
    """Finds the selected trainings at a target, again and again, and wakes when there may be others.

    It holds a watch: to be closed.
    """

    def __init__(self, backend: Backend, selection: Selection) -> None:
        self._backend, self._selection = backend, selection
        named = bool(selection.name)
        self.watch: Watch = backend.watch(selection.name) if named else backend.watch_all(selection.labels)

    def look(self, now: float) -> RawObjects:
        """The selected ones, oldest first: of each subject the newest run, of each run the newest attempt.

        Raises:
            BackendError: the target did not answer, or refused.
        """
        selection = self._selection
        found = self._named(now) if selection.name else self._backend.overview(selection.labels)
        if selection.since is not None:
            found = [raw for raw in found if _ended_at(raw, now) >= selection.since]
        if selection.model_uri:
            found = [raw for raw in found if self._has_the_model(raw, now)]
        newest: dict[str, RawObject] = {}
        for raw in sorted(found, key=_age):
            newest[subject_of(raw)] = raw
        return list(newest.values())

    def close(self) -> None:
        """Let go of the watch."""
        self.watch.close()

    def _named(self, now: float) -> RawObjects:
        obs = self._backend.observe(self._selection.name, now=now)
        if obs.job is None:
            return []
        run_key = obs.job.labels.get(keys.LABEL_RUN_KEY)
        if run_key and _failed(obs.job):
            # Only then there may be a later attempt, under another name.
            return self._backend.list({keys.LABEL_RUN_KEY: run_key})
        raw = self._backend.get(self._selection.name)
        return [] if raw is None else [raw]

    def _has_the_model(self, raw: RawObject, now: float) -> bool:
        if not _holds(ObservedTrainJob.from_raw(raw), "Complete"):
            return False
        uri, wanted = reported(self._backend, raw, now).model_uri or "", self._selection.model_uri
        return uri == wanted or uri.startswith(wanted.rstrip("/") + "/")


def subject_of(raw: Mapping[str, Any]) -> str:
    """What stays the same over the attempts and generations of a training; of one that is not ours its own uid."""
    labels = raw["metadata"].get("labels") or {}
    return str(labels.get(keys.LABEL_SUBJECT) or labels.get(keys.LABEL_RUN_KEY) or raw["metadata"]["uid"])


def _age(raw: RawObject) -> tuple[int, float, int]:
    job = ObservedTrainJob.from_raw(raw)
    generation = job.labels.get(keys.LABEL_GENERATION, "")
    return (int(generation) if generation.isdigit() else 0, job.created_at or 0.0, job.attempt)


def _holds(job: ObservedTrainJob, type_: str) -> bool:
    condition = job.condition(type_)
    return condition is not None and condition.holds


def _failed(job: ObservedTrainJob) -> bool:
    return _holds(job, "Failed") and not _holds(job, "Complete")


def _ended_at(raw: RawObject, now: float) -> float:
    """When it ended; one that goes on ends later than now."""
    job = ObservedTrainJob.from_raw(raw)
    ends = [c.at for c in job.conditions if c.type in ("Complete", "Failed") and c.holds]
    return min((at if at is not None else now for at in ends), default=now)


_KEPT = 10_000
_results: weakref.WeakKeyDictionary[Backend, OrderedDict[str, Result]] = weakref.WeakKeyDictionary()
_results_lock = threading.Lock()


def reported(backend: Backend, raw: RawObject, now: float) -> Result:
    """What a training that has ended reported. Asked for once of a backend, however many want to know.

    Raises:
        BackendError: the target did not answer, or refused.
    """
    uid = str(raw["metadata"]["uid"])
    with _results_lock:
        known = _results.setdefault(backend, OrderedDict()).get(uid)
    if known is not None:
        return known
    obs = backend.observe(raw["metadata"]["name"], now=now)
    if obs.job is None or obs.job.uid != uid:
        return Result()  # deleted in the meantime; no word about it is kept
    found = result_of(obs.pods) or Result()
    progress = obs.job.progress
    if not found.metrics and progress is not None:
        found = Result(progress.metrics, found.model_uri, found.artifacts)
    with _results_lock:
        kept = _results.setdefault(backend, OrderedDict())
        kept[uid] = found
        while len(kept) > _KEPT:
            kept.popitem(last=False)
    return found
