"""Stop or remove many trainings at once: what a teardown, an exit handler, or a nightly clean-up does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from trainer_ops.backends.base import Backend
from trainer_ops.errors import BackendError, InvalidRequest
from trainer_ops.lifecycle.attempts import Attempt
from trainer_ops.lifecycle.cancel import stop_this_one
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.patience import persist
from trainer_ops.model.identity import JobRef
from trainer_ops.model.observed import ObservedTrainJob
from trainer_ops.model.phase import Phase

__all__ = ["Cleaned", "Only", "cleanup"]

Only = Literal["active", "failed", "finished", "all"]


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What became of one training.

    Attributes:
        ref: which.
        phase: where it stood.
        how: ``deleted``, ``suspended``, or ``gone``: somebody else was quicker.
    """

    ref: JobRef
    phase: Phase
    how: Literal["deleted", "suspended", "gone"]


def cleanup(
    backend: Backend,
    *,
    labels: Mapping[str, str] | None = None,
    names: Sequence[str] = (),
    only: Only = "active",
    policy: Literal["delete", "suspend"] = "delete",
    older_than: float | None = None,
    clock: Clock,
    patience: float = 30.0,
) -> tuple[Cleaned, ...]:
    """Delete or suspend the trainings that are meant; those that it finds in another state are left alone.

    One that cannot be stopped does not keep the others from being stopped: its error is raised at the end.

    Args:
        backend: where.
        labels: those with all these labels.
        names: those of these names; a name that is not there is no error. With ``labels`` both must hold.
        only: ``active`` (not ended, also queued and suspended ones), ``failed``, ``finished`` (trained or failed), or
            ``all``.
        policy: ``suspend`` stops the processes of those that are active and keeps the records; others it leaves.
        older_than: seconds since they were created, at least; None: any.
        clock: what sleeps.
        patience: seconds for which a target that gives no answer is asked again.

    Raises:
        InvalidRequest: nothing is selected: everything in a namespace is never meant by leaving something out.
        BackendError: the target refused one of them, the first such error.
    """
    if not labels and not names:
        raise InvalidRequest("labels", "neither labels nor names are given", "Say which trainings are meant")
    if only not in get_args(Only):
        raise InvalidRequest("only", f"{only!r} is none of {', '.join(get_args(Only))}", "Give one of them")
    if older_than is not None and not isinstance(older_than, int | float):
        raise InvalidRequest("older_than", f"{older_than!r} is no number of seconds", "Give a number, or a timedelta")
    found = persist(lambda: backend.list(labels or None), clock=clock, patience=patience)
    done: list[Cleaned] = []
    errors: list[BackendError] = []
    for raw in found:
        attempt = Attempt.from_raw(raw, now=clock.now())
        if (names and attempt.name not in names) or not _meant(attempt, raw, only, older_than, clock.now()):
            continue
        if policy == "suspend" and not attempt.active:
            continue
        ref = JobRef(backend.target, backend.namespace, attempt.name, attempt.uid)
        try:
            how = persist(lambda ref=ref: stop_this_one(backend, ref, policy), clock=clock, patience=patience)  # type: ignore[misc]
            done.append(Cleaned(ref, attempt.phase, how))
        except BackendError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return tuple(done)


def _meant(attempt: Attempt, raw: Mapping[str, object], only: Only, older_than: float | None, now: float) -> bool:
    made = ObservedTrainJob.from_raw(raw).created_at
    if older_than is not None and (made is None or now - made < older_than):
        return False
    if only == "active":
        return attempt.active
    if only == "failed":
        return attempt.phase is Phase.FAILED
    return only == "all" or attempt.phase.finished
