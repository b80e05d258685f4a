"""Creating twice is creating once.

``submit`` may be killed at any instruction, lose a reply, run in twenty processes at the same moment or again after an
hour: as long as they bring the same run key there is one TrainJob, because its name follows from the key and what is
already there is found by label, never remembered.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainer_ops.backends.base import Backend
from trainer_ops.build.manifest import BuiltJob, build
from trainer_ops.errors import (
    AlreadyExists,
    Forbidden,
    NotFound,
    PreconditionFailed,
    RunConflict,
    RuntimeNotFound,
    Unreachable,
)
from trainer_ops.lifecycle.attempts import Attempt, attempts_of
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.code import resolve_code
from trainer_ops.lifecycle.data import check_data
from trainer_ops.lifecycle.patience import persist
from trainer_ops.lifecycle.version import tool_version
from trainer_ops.model import keys
from trainer_ops.model.identity import JobRef, RunKey
from trainer_ops.model.request import TrainRequest
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.validate.trainjob import check, refuse

__all__ = ["Submitted", "submit"]

How = Literal["created", "adopted", "finished"]

# Each lost race has another cause (somebody created, somebody deleted); more than a few in a row is not a race.
_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Submitted:
    """Which TrainJob a request became.

    Attributes:
        ref: the TrainJob.
        attempt: 1 for the first try of this run key.
        how: ``created`` now; ``adopted``: this run's training was already there and goes on; ``finished``: this run
            has already trained, its result is that training's.
        superseded: names of older generations' trainings that were deleted.
        warnings: what is accepted but may not do what is meant, one line each.
    """

    ref: JobRef
    attempt: int
    how: How
    superseded: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def submit(
    backend: Backend,
    request: TrainRequest,
    key: RunKey,
    *,
    clock: Clock,
    source_link: str = "",
    owner: Mapping[str, Any] | None = None,
    away: Callable[[Unreachable], None] = lambda error: None,
) -> Submitted:
    """Make sure that the training of this run key exists, and say which TrainJob it is.

    Args:
        backend: where it shall run.
        request: what to train.
        key: who asks for it. A failed or deleted attempt of an equal key is followed by the next attempt.
        clock: what sleeps between tries while the target is away, for ``request.unreachable_timeout`` at most.
        source_link: where a person finds what asked for it (a DAG run's page).
        owner: an ownerReference in the target's namespace: the TrainJob goes when that object does.
        away: told of the error when the target gives no answer, once, before it is asked again.

    Raises:
        InvalidRequest: nothing was created; names the field, the reason and the remedy.
        RuntimeNotFound: no such runtime; names the close ones.
        RunConflict: the name belongs to something else, or a newer generation of this run exists.
        Forbidden: the target refuses this user.
        Rejected: the target's admission refused the TrainJob.
        Unreachable: no answer in time. Submitting again is safe.
    """
    request = resolve_code(request)
    submission = _Submission(backend, request, key, source_link, clock, owner)
    submission.refuse_what_is_no_trainjob()
    return persist(submission.once, clock=clock, patience=request.unreachable_timeout, away=away)


class _Submission:
    """One submission; ``once`` is idempotent, so it is simply called again when an answer was lost."""

    def __init__(
        self,
        backend: Backend,
        request: TrainRequest,
        key: RunKey,
        source_link: str,
        clock: Clock,
        owner: Mapping[str, Any] | None,
    ) -> None:
        self._backend = backend
        self._request = request
        self._key = key
        self._link = source_link
        self._owner = owner
        self._clock = clock
        self._warnings: tuple[str, ...] = ()

    def refuse_what_is_no_trainjob(self) -> None:
        """Before the target is asked for its runtime: of a v1 job, or one without a spec, it would ask for ""."""
        if self._request.manifest is not None:
            refuse(check(self._built(1, None).manifest, None))

    def once(self) -> Submitted:
        runtime = self._runtime()
        for _ in range(_ROUNDS):
            found = self._found()
            self._refuse_when_superseded(found)
            newest = max((a for a in found if a.run_key == self._key.digest), key=lambda a: a.number, default=None)
            number = 1 if newest is None else newest.number if newest.counts else newest.number + 1
            built = self._build(number, runtime)
            if newest is not None and newest.counts:
                how = self._settle(newest, built)
                return self._submitted(newest, how, found)
            # Not earlier: a run that has trained already is finished, whatever has become of its data.
            check_data(self._request, self._backend.target)
            created = self._create(built)
            if created is not None:
                # Listed again: of two generations that start at once each sees the other here, or is seen by it.
                found = self._found()
                self._yield_to_newer(created, found)
                return self._submitted(created, "created", found)
        raise RunConflict(
            f"{built.name} is created and deleted by somebody else as fast as it is asked for",
            remedy="Find what else submits or deletes TrainJobs with this key",
        )

    def _runtime(self) -> TrainingRuntime | None:
        kind, name = self._request.runtime_ref
        try:
            raw = self._backend.runtime(name, kind)
            if raw is not None:
                return TrainingRuntime.from_raw(raw)
            known = sorted(r["metadata"]["name"] for r in self._backend.runtimes())
        except Forbidden as error:
            self._warnings = (f"not checked against runtime {name}: {error.message}",)
            return None
        close = difflib.get_close_matches(name, known, n=1)
        raise RuntimeNotFound(name, target=self._backend.target, known=known, close=next(iter(close), None))

    def _found(self) -> tuple[Attempt, ...]:
        return attempts_of(self._backend, {keys.LABEL_SUBJECT: self._key.subject}, now=self._clock.now())

    def _built(self, number: int, runtime: TrainingRuntime | None) -> BuiltJob:
        return build(
            self._request,
            self._key,
            number,
            runtime=runtime,
            version=tool_version(),
            source_link=self._link,
            owner=self._owner,
            target=self._backend.target,
        )

    def _build(self, number: int, runtime: TrainingRuntime | None) -> BuiltJob:
        built = self._built(number, runtime)
        findings = check(built.manifest, runtime)
        refuse(findings)
        extra = tuple(str(finding) for finding in findings if finding.severity == "warning")
        self._warnings = tuple(dict.fromkeys((*self._warnings, *extra)))
        return built

    def _settle(self, standing: Attempt, built: BuiltJob) -> How:
        """An attempt of this run stands: go on with it, unless it was made from another request."""
        same = standing.spec_hash == built.spec_hash
        if standing.succeeded:
            if not same:
                self._warnings += (
                    f"{standing.name} has trained for this key from another request than this one; its result is used",
                )
            return "finished"
        if not same:
            raise RunConflict(
                f"{standing.name} (attempt {standing.number}) is training for this key ({self._key.readable}) from "
                f"another request than this one: spec hash {standing.spec_hash or 'none'}, here {built.spec_hash}",
                remedy=f"Cancel it (trainer-ops cancel {standing.name}), or submit this request under another key",
            )
        return "adopted"

    def _create(self, built: BuiltJob) -> Attempt | None:
        """The new TrainJob; None when another submitter of this run was faster, or it has just gone."""
        try:
            return Attempt.from_raw(self._backend.create(built.manifest), now=self._clock.now())
        except AlreadyExists:
            raw = self._backend.get(built.name)
        if raw is not None:
            other = Attempt.from_raw(raw, now=self._clock.now())
            if other.run_key != self._key.digest:
                raise _taken(other, self._key)
        return None

    def _refuse_when_superseded(self, found: tuple[Attempt, ...]) -> None:
        newer = [a for a in found if a.generation > self._key.generation]
        if newer:
            raise _superseded(self._key, newer[-1])

    def _yield_to_newer(self, mine: Attempt, found: tuple[Attempt, ...]) -> None:
        newer = [a for a in found if a.generation > self._key.generation]
        if newer:
            self._delete(mine)
            raise _superseded(self._key, newer[-1])

    def _submitted(self, attempt: Attempt, how: How, found: tuple[Attempt, ...]) -> Submitted:
        older = [a for a in found if a.generation < self._key.generation and a.active]
        superseded = tuple(a.name for a in older if self._delete(a))
        ref = JobRef(self._backend.target, self._backend.namespace, attempt.name, attempt.uid)
        return Submitted(ref, attempt.number, how, superseded, self._warnings)

    def _delete(self, attempt: Attempt) -> bool:
        try:
            return self._backend.delete(attempt.name, uid=attempt.uid)
        except (NotFound, PreconditionFailed):
            return False


def _taken(other: Attempt, key: RunKey) -> RunConflict:
    owner: Any = other.identity or ("another run of this tool" if other.run_key else "something else than this tool")
    return RunConflict(
        f"the name {other.name} is taken by {owner} (uid {other.uid}); this run is {key.readable}",
        remedy=f"Give this training another name, or delete the other one: trainer-ops cancel {other.name}",
    )


def _superseded(key: RunKey, newer: Attempt) -> RunConflict:
    return RunConflict(
        f"{key.readable} was superseded by {newer.name} ({newer.identity or f'generation {newer.generation}'})",
        remedy="Nothing to do: the newer training is the one that counts",
    )
