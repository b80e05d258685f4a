"""Waiting for a snapshot's Job: a value that crosses processes, and what a look at the Job makes of it. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from trainer_ops.build.snapshot_job import SnapshotAsk
from trainer_ops.errors import TrainerOpsError
from trainer_ops.initializers.provider import SnapshotError, error_from_json
from trainer_ops.lifecycle.snapshot_secret import how_to_make, named
from trainer_ops.model.times import duration
from trainer_ops.status.stepjob import StepState
from trainer_ops.status.wording import clip

__all__ = ["Answer", "Finished", "Gone", "Look", "SnapshotStep", "SnapshotWait", "judge"]

_FIRST_POLL: Final = 1.0
_POLL: Final = 5.0
# For so long after its start a Job is looked at often: a hit takes seconds.
_EARLY: Final = 30.0
# The kubelet's words for a Secret that is not there, and for one without a key that a variable is taken from.
_NO_SECRET: Final = re.compile(r'secret "([^"]+)" not found', re.IGNORECASE)
_NO_KEY: Final = re.compile(r"couldn't find key (\S+) in Secret \S+/(\S+)")


@dataclass(frozen=True, slots=True)
class SnapshotWait:
    """Which Job is waited for, and until when. Plain data with absolute times, without secrets.

    Attributes:
        target: URL of the cluster.
        namespace: of the Job.
        name: the Job's.
        uid: the Job's: another one of that name is not it.
        attempt: which attempt of the ask it is.
        ask: what it does: enough to start it again.
        asked_by: who asks; see ``begin_snapshot``.
        began_at: seconds since the epoch.
        answered_at: when the cluster last answered.
        wait_until: ``wait_timeout`` runs out; None: never.
        start_until: it must have started by then; None: it may take as long as it likes.
        unreachable_timeout: seconds without an answer.
        phase: ``waiting`` or ``running``, as last seen.
        detail: why it waits, as last seen.
        trouble: the reason that it is waiting for now, where a person must correct something.
        trouble_since: since when.
        position: how far its log was read: pod and position.
        renewed: how often it was started again because somebody deleted it.
        joined: it was there already when it was asked for.
    """

    target: str
    namespace: str
    name: str
    uid: str
    attempt: int
    ask: SnapshotAsk
    asked_by: str = ""
    began_at: float = 0.0
    answered_at: float = 0.0
    wait_until: float | None = None
    start_until: float | None = None
    unreachable_timeout: float = 1800.0
    phase: str = "waiting"
    detail: str = ""
    trouble: str = ""
    trouble_since: float = 0.0
    position: Mapping[str, str] = field(default_factory=dict)
    renewed: int = 0
    joined: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {item.name: getattr(self, item.name) for item in fields(self)} | {
            "ask": self.ask.to_json(),
            "position": dict(self.position),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SnapshotWait:
        """The inverse of ``to_json``."""
        return cls(**{**data, "ask": SnapshotAsk.from_json(data["ask"])})

    def pause(self, now: float) -> float:
        """Seconds until the next look: often at first, and never past a deadline."""
        poll = _FIRST_POLL if now - self.began_at < _EARLY else _POLL
        ends = [end - now for end in (self.wait_until, self.start_until) if end is not None and end > now]
        return max(0.1, min([poll, *ends]))


@dataclass(frozen=True, slots=True)
class Look:
    """Look again after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Finished:
    """It is over.

    Attributes:
        answer: what the program wrote: a snapshot's JSON, or that of another verb.
    """

    answer: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gone:
    """The Job, or its answer, is not there any more: it is to be started again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A failure.

    Attributes:
        error: what to raise.
        delete: the Job is of no use any more and stands in the way of the next attempt.
    """

    error: TrainerOpsError
    delete: bool = False


SnapshotStep = Look | Finished


def judge(wait: SnapshotWait, state: StepState, now: float) -> tuple[SnapshotWait, Look | Finished | Gone | Answer]:
    """What this state means for the wait."""
    wait = replace(wait, answered_at=now, phase=state.phase, detail=_detail(state))
    if state.phase == "gone":
        return wait, Gone()
    if state.phase == "succeeded":
        answer = _json(state.message)
        # A Job may outlive its pods, and with them what they have said.
        return wait, Gone() if answer is None else Finished(answer)
    if state.phase == "failed":
        answer = _json(state.message)
        # Damage that "verify" has found is an answer, though the program ends with 1 for it.
        told = answer is not None and "error" not in answer and wait.ask.verb != "take"
        return wait, Finished(answer) if answer is not None and told else Answer(_failure(wait, state))
    wait = _note_trouble(wait, state, now)
    return wait, _overdue(wait, state, now) or Look(wait.pause(now))


def _detail(state: StepState) -> str:
    """Of a try that failed its reason, where it has said one: the exit code tells nobody anything."""
    told = _told(state.original) if state.reason == "Retrying" else None
    return f"{clip(str(told['reason']))}; it is tried again" if told and told.get("reason") else state.detail


def _note_trouble(wait: SnapshotWait, state: StepState, now: float) -> SnapshotWait:
    if state.phase == "running":
        return replace(wait, trouble="", start_until=None)
    # ErrImagePull and ImagePullBackOff take turns: one trouble.
    trouble = "" if state.patience is None else f"{state.patience:g}"
    return wait if trouble == wait.trouble else replace(wait, trouble=trouble, trouble_since=now)


def _overdue(wait: SnapshotWait, state: StepState, now: float) -> Answer | None:
    waiting = state.phase == "waiting"
    stuck = waiting and state.patience is not None and now >= wait.trouble_since + state.patience
    late = waiting and wait.start_until is not None and now >= wait.start_until
    if stuck or late:
        return Answer(_not_started(wait, state), delete=True)
    if wait.wait_until is not None and now >= wait.wait_until:
        after = duration(now - wait.began_at)
        what = f"the snapshot's Job {wait.name} has not ended after {after} (wait_timeout)"
        why = f": {wait.detail}" if wait.detail else ""
        remedy = "It goes on; asking again joins it. Give a longer wait_timeout, or none"
        return Answer(SnapshotError(f"{what}{why}", remedy=remedy, transient=True))
    return None


_REMEDIES: Final = {
    "Unschedulable": "Ask for less (resources), or add room to the cluster",
    "FailedCreate": "Look at the namespace's quota and Pod Security; the pod's fields can be set with pod",
    "ProvisioningFailed": "Look at the claim's class (storage_class) and at what its provisioner says",
    "FailedBinding": "Give storage_class, or a claim that is bound",
    "Lost": "Make the claim anew: its volume is gone",
    "FailedMount": "Look at the claim: kubectl describe pvc",
    "FailedAttachVolume": "A ReadWriteOnce claim can be used on one machine at a time: give a ReadWriteMany one",
}


def _not_started(wait: SnapshotWait, state: StepState) -> SnapshotError:
    remedy = _REMEDIES.get(state.reason, "")
    if absent := _NO_SECRET.search(state.detail):
        made = how_to_make(absent[1], wait.ask, wait.namespace)
        where = "secret_ref" if absent[1] == wait.ask.secret_ref else "env"
        remedy = f"Create it ({made}), or correct {where}"
    elif lacking := _NO_KEY.search(state.detail):
        remedy = f"Add the key {lacking[1]} to Secret {lacking[2]}, or correct env"
    elif "mage" in state.reason or state.reason.startswith("ErrI"):
        remedy = "Give an image that this cluster can pull: image, or $TRAINER_OPS_INITIALIZER_IMAGE"
    return SnapshotError(f"the snapshot's Job {wait.name} cannot start: {state.detail}", remedy=remedy)


def _failure(wait: SnapshotWait, state: StepState) -> TrainerOpsError:
    told = _told(state.message)
    if state.reason == "DeadlineExceeded":
        limit, why = wait.ask.active_deadline_seconds, f": {told['reason']}" if told and told.get("reason") else ""
        return SnapshotError(
            f"the snapshot's Job {wait.name} was not done within {limit} s (active_deadline_seconds){why}",
            remedy="Give it more time; what was fetched is kept and gone on from",
        )
    if state.exit is not None and state.exit.reason == "OOMKilled":
        return SnapshotError(
            f"the snapshot's Job {wait.name} ran out of memory, in its last of {state.tries} tries",
            remedy='Give it more: resources={"limits": {"memory": "4Gi"}}; what was fetched is kept',
        )
    if told is not None:
        error = error_from_json(told)  # the program's own words
        return named(error, wait.ask, wait.namespace) if isinstance(error, SnapshotError) else error
    lines = " | ".join(state.message.strip().splitlines()[-3:])
    tail = f"; its last words: {lines}" if lines else ""
    return SnapshotError(
        f"the snapshot's Job {wait.name} failed: {state.detail or state.reason}{tail}"[:1500],
        remedy=_exit_remedy(wait, state),
        transient=state.exit is None,
    )


def _exit_remedy(wait: SnapshotWait, state: StepState) -> str:
    code = state.exit.exit_code if state.exit else 0
    if code in (126, 127, 128) or "No module named" in state.message:
        return f"Give an image that has trainer-ops[initializers] of this version: {wait.ask.image} is the one used"
    return "Try again: what was fetched is kept"


def _told(text: str) -> Mapping[str, Any] | None:
    """The error that the program has written; None for none."""
    told = (_json(text) or {}).get("error")
    return told if isinstance(told, Mapping) else None


def _json(text: str) -> dict[str, Any] | None:
    """The last line that is a JSON object; what a library printed before it does no harm."""
    for line in [text, *reversed(text.strip().splitlines())]:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None
