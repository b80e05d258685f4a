"""Cancelling: kill means kill, and "cancelled" is not "stopped".

A deleted TrainJob is gone at once while its processes go on for their grace period, so the answer says both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainer_ops.backends.base import Backend
from trainer_ops.errors import Forbidden, NotFound, PreconditionFailed
from trainer_ops.lifecycle.attempts import Attempt
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.patience import persist
from trainer_ops.model.identity import JobRef
from trainer_ops.model.observed import ObservedPod

__all__ = ["Cancelled", "Policy", "cancel", "stop_this_one"]

Policy = Literal["delete", "suspend", "keep"]

_POLL = 0.5


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What became of it.

    Attributes:
        how: ``deleted``, ``suspended`` or ``kept`` by this call's policy; ``already_finished``: it had ended before,
            its record was left; ``gone``: there was no such TrainJob any more (or another of the same name).
        ended: whether its processes have all ended. False also when this user may not read pods.
    """

    how: Literal["deleted", "suspended", "kept", "already_finished", "gone"]
    ended: bool


def cancel(
    backend: Backend,
    ref: JobRef,
    *,
    policy: Policy = "delete",
    wait: float | None = None,
    clock: Clock,
    patience: float = 10.0,
) -> Cancelled:
    """Stop a training, this one only: another of the same name with another uid is never touched.

    Args:
        backend: where it runs.
        ref: which.
        policy: ``delete`` removes it; ``suspend`` stops its processes and keeps the record, to be resumed; ``keep``
            leaves it training.
        wait: seconds to wait for its processes to end; None asks once.
        clock: what sleeps.
        patience: seconds for which a target that gives no answer is asked again.

    Raises:
        Forbidden: this user may not.
        Unreachable: no answer within ``patience``; it may or may not have been cancelled.
    """
    how = persist(lambda: _stop(backend, ref, policy, clock), clock=clock, patience=patience)
    return Cancelled(how, _ended(backend, ref, clock, 0.0 if how == "kept" else wait or 0.0, patience))


def _stop(
    backend: Backend, ref: JobRef, policy: Policy, clock: Clock
) -> Literal["deleted", "suspended", "kept", "already_finished", "gone"]:
    raw = backend.get(ref.name)
    if raw is None or raw["metadata"].get("uid") != ref.uid:
        return "gone"
    if Attempt.from_raw(raw, now=clock.now()).phase.finished:
        return "already_finished"
    if policy == "keep":
        return "kept"
    return stop_this_one(backend, ref, policy)


def stop_this_one(
    backend: Backend, ref: JobRef, policy: Literal["delete", "suspend"]
) -> Literal["deleted", "suspended", "gone"]:
    """One call, wherever it stands; ``gone``: there is none of this uid any more.

    Raises:
        BackendError: the target refuses, or gave no answer.
    """
    try:
        if policy == "suspend":
            backend.set_suspended(ref.name, True, uid=ref.uid)
            return "suspended"
        return "deleted" if backend.delete(ref.name, uid=ref.uid) else "gone"
    except (NotFound, PreconditionFailed):
        return "gone"


def _ended(backend: Backend, ref: JobRef, clock: Clock, wait: float, patience: float) -> bool:
    deadline = clock.now() + wait
    while True:
        try:
            raws = persist(lambda: backend.pods(ref.name, uid=ref.uid), clock=clock, patience=patience)
        except Forbidden:
            return False
        if all(ObservedPod.from_raw(raw).phase in ("Succeeded", "Failed") for raw in raws):
            return True
        left = deadline - clock.now()
        if left <= 0:
            return False
        clock.sleep(min(_POLL, left))
