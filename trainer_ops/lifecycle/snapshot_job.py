"""Snapshots on a cluster: start the Job (or join it), look at it, wait for it, take it back.

Which Job answers whom is said in ``build.snapshot_job``; what a look means in ``snapshot_wait``. Here are the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from trainer_ops.backends.base import Backend, LogSource, RawObject
from trainer_ops.backends.steps import Steps, StepView, steps_of
from trainer_ops.build.snapshot_job import (
    ANNOTATION_ASKED_BY,
    CONTAINER,
    LABEL_SNAPSHOT,
    SnapshotAsk,
    claim,
    snapshot_job,
)
from trainer_ops.errors import AlreadyExists, BackendError, Forbidden, InvalidRequest, Unreachable
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.lifecycle.snapshot_wait import Answer, Finished, Gone, SnapshotWait, judge
from trainer_ops.lifecycle.version import tool_version
from trainer_ops.model import keys
from trainer_ops.model.observed_pod import conditions_of
from trainer_ops.status.stepjob import step_state

__all__ = ["STARTUP_SECONDS", "Lines", "begin", "cancel", "ensure_claim", "look", "need_steps"]

Lines = Callable[[str], None]

# So long a Job may take to start: a claim is provisioned, a machine is added, an image is pulled.
STARTUP_SECONDS: Final = 1800.0

# Each lost race has another cause; more than a few in a row is not a race.
_ROUNDS: Final = 10
_RENEWALS: Final = 3
# One look reads at most so many pieces of the log.
_CHUNKS: Final = 16


def need_steps(backend: Backend) -> Steps:
    """The cluster's steps.

    Raises:
        InvalidRequest: field ``target``: this target makes snapshots in the caller's own process.
    """
    steps = steps_of(backend)
    if steps is None:
        raise InvalidRequest("target", f"{backend.target} is no cluster", "Take the snapshot in this process")
    return steps


def ensure_claim(
    backend: Backend, name: str, *, storage: str | None, storage_class: str | None, access_mode: str
) -> str:
    """Make sure that there is a claim to write to; what a person may want to know of it, "" for nothing.

    Raises:
        InvalidRequest: field ``to``: there is none, and no size is given to make it; or it is being deleted.
        Rejected: admission or a quota refuses the new one.
    """
    steps = need_steps(backend)
    try:
        found = steps.claim(name)
    except Forbidden as error:
        if error.status == 401:
            raise
        # Claims may not be read: with a size it is tried, else the scheduler will tell.
        found = None
        if storage is None:
            return ""
    if found is not None:
        return _of_claim(found)
    if storage is None:
        raise InvalidRequest(
            "to",
            f'there is no claim "{name}" in namespace {backend.namespace}',
            'Give storage (a size such as "20Gi") to have it made, or name one that is there: pvc://claim',
        )
    try:
        steps.create_claim(claim(name, storage=storage, storage_class=storage_class, access_mode=access_mode))
    except AlreadyExists:
        return ""
    return f"made the claim {name} of {storage}"


def _of_claim(found: RawObject) -> str:
    name = found["metadata"]["name"]
    if _leaving(found):
        raise InvalidRequest("to", f'the claim "{name}" is being deleted', "Wait until it is gone, or name another")
    modes = (found.get("spec") or {}).get("accessModes") or ()
    if modes and not {"ReadWriteMany", "ReadOnlyMany"} & set(modes):
        return f"the claim {name} is {modes[0]}: a training on several machines cannot read it on all of them at once"
    return ""


def begin(
    backend: Backend,
    ask: SnapshotAsk,
    *,
    now: float,
    asked_by: str = "",
    wait_timeout: float | None = None,
    startup_timeout: float | None = None,
    unreachable_timeout: float = 1800.0,
) -> SnapshotWait:
    """Start the Job of this ask, or join the one that runs; see ``SnapshotWait``."""
    job, joined = _started(need_steps(backend), ask, asked_by)
    return SnapshotWait(
        target=backend.target,
        namespace=backend.namespace,
        name=job["metadata"]["name"],
        uid=job["metadata"]["uid"],
        attempt=_attempt(job),
        ask=ask,
        asked_by=asked_by,
        began_at=now,
        answered_at=now,
        wait_until=None if wait_timeout is None else now + wait_timeout,
        start_until=None if startup_timeout is None else now + startup_timeout,
        unreachable_timeout=unreachable_timeout,
        joined=joined,
    )


def _started(steps: Steps, ask: SnapshotAsk, asked_by: str) -> tuple[RawObject, bool]:
    """The Job, and whether somebody else made it."""
    since = 0  # of Jobs that were made after this call began, the end is an answer too
    for _ in range(_ROUNDS):
        found = [
            job for job in steps.find({LABEL_SNAPSHOT: ask.digest}) if not job["metadata"].get("deletionTimestamp")
        ]
        newest = max(found, key=_attempt, default=None)
        if newest is not None and _answers(newest, asked_by, since):
            return newest, not (asked_by and _asked_by(newest) == asked_by)
        number = 1 if newest is None else _attempt(newest) + 1
        try:
            return steps.create(snapshot_job(ask, number, version=tool_version(), asked_by=asked_by)), False
        except AlreadyExists:
            since = number
    raise SnapshotError(
        f"{ask.name(1)}: its Jobs are made and deleted as fast as they are asked for",
        remedy="Find what else deletes Jobs with this name",
    )


def _answers(job: RawObject, asked_by: str, since: int) -> bool:
    """Whether this Job answers the caller: one that goes on does; see ``build.snapshot_job`` for one that is over."""
    over = {c.type for c in conditions_of(job.get("status")) if c.holds} & {"Complete", "Failed"}
    if not over or (since and _attempt(job) >= since):
        return True
    return "Complete" in over and bool(asked_by) and _asked_by(job) == asked_by


def _leaving(job: RawObject) -> bool:
    return bool(job["metadata"].get("deletionTimestamp"))


def _attempt(job: RawObject) -> int:
    text = (job["metadata"].get("labels") or {}).get(keys.LABEL_ATTEMPT) or ""
    return int(text) if text.isdigit() else 0


def _asked_by(job: RawObject) -> str:
    return str((job["metadata"].get("annotations") or {}).get(ANNOTATION_ASKED_BY) or "")


def look(
    backend: Backend, wait: SnapshotWait, now: float, lines: Lines | None = None
) -> tuple[SnapshotWait, Mapping[str, Any] | None]:
    """Look at the Job once: the wait as it is now, and the program's answer when it is over.

    Args:
        backend: the cluster.
        wait: as it was.
        now: seconds since the epoch.
        lines: told each new line of the Job's log.

    Raises:
        InvalidRequest: the program refused what was asked for.
        SnapshotError: it failed, cannot start, or took longer than it may.
        Unreachable: no answer for ``unreachable_timeout``.
        Forbidden: the cluster refuses this user.
    """
    steps = need_steps(backend)
    try:
        view = steps.look(wait.name, uid=wait.uid, claim=wait.ask.claim)
    except Unreachable as error:
        if now - wait.answered_at < wait.unreachable_timeout:
            return wait, None
        remedy = f"Job {wait.name} in namespace {wait.namespace} may go on; asking again joins it"
        raise Unreachable(error.message, status=error.status, remedy=remedy) from error
    if lines is not None:
        wait = _read_log(backend, wait, view, lines)
    return _judged(backend, steps, wait, view, now)


def _judged(
    backend: Backend, steps: Steps, wait: SnapshotWait, view: StepView, now: float
) -> tuple[SnapshotWait, Mapping[str, Any] | None]:
    wait, step = judge(wait, step_state(view.job, view.pods, view.events, view.claim), now)
    if isinstance(step, Finished):
        return wait, step.answer
    if isinstance(step, Gone):
        return _renewed(steps, wait, view, now), None
    if isinstance(step, Answer):
        if step.delete and not wait.joined:
            _quietly(lambda: steps.delete(wait.name, uid=wait.uid))
        raise step.error
    return wait, None


def _renewed(steps: Steps, wait: SnapshotWait, view: StepView, now: float) -> SnapshotWait:
    """A Job that is complete, but whose pod is gone with its answer, is started again: its next attempt is a hit."""
    if view.job is not None and not _leaving(view.job) and wait.renewed >= _RENEWALS:
        raise SnapshotError(
            f"the snapshot's Job {wait.name} is complete, but its answer cannot be read, {_RENEWALS + 1} times",
            remedy=f"Look for what deletes pods here, and whether the image {wait.ask.image} is of this version",
        )
    if view.job is None or _leaving(view.job):
        raise SnapshotError(
            f"the snapshot's Job {wait.name} was deleted by somebody before it was done",
            remedy="Ask again: what was fetched is kept and gone on from",
            transient=True,
        )
    # Not as the same asker: the Job without an answer would be taken for its own.
    job, joined = _started(steps, wait.ask, "")
    meta = job["metadata"]
    return replace(
        wait, name=meta["name"], uid=meta["uid"], attempt=_attempt(job), joined=joined, renewed=wait.renewed + 1
    )


def _read_log(backend: Backend, wait: SnapshotWait, view: StepView, lines: Lines) -> SnapshotWait:
    """Tell what is new of its newest pod's log. Logs never fail a snapshot."""
    pods = [pod for pod in view.pods if (pod.get("status") or {}).get("phase") not in (None, "Pending")]
    if not pods:
        return wait
    meta = pods[-1]["metadata"]
    source = LogSource(CONTAINER, meta["name"], meta["uid"], CONTAINER)
    position, chunks = wait.position.get(source.key, ""), _CHUNKS
    while chunks:
        chunks -= 1
        try:
            chunk = backend.logs(source, after=position)
        except BackendError:
            break
        position = chunk.position or position
        for line in chunk.lines:
            lines(line)
        if not chunk.more:
            break
    return replace(wait, position={source.key: position} if position else {})


def cancel(backend: Backend, wait: SnapshotWait) -> bool:
    """Delete the Job; whether it was deleted now. One that somebody else started is left to them.

    What it has fetched stays in the store, for the next attempt to go on from.
    """
    return not wait.joined and need_steps(backend).delete(wait.name, uid=wait.uid)


def _quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except BackendError:
        pass
