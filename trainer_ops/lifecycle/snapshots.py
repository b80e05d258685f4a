"""Snapshots of datasets and models, on whatever target: one call makes one, or finds that it is there.

On the engine it is made in the caller's process, in ``<engine root>/snapshots`` or where ``to`` says. On a cluster a
``batch/v1`` Job makes it on a claim (or in object storage); the caller waits for it, here or, split into
``begin_snapshot`` and ``see_snapshot``, in another process. Two steps that ask for the same at once are one Job and one
download; a branch is looked up anew by every call; see ``build.snapshot_job`` for how names make that so.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from trainer_ops.backends.base import Backend
from trainer_ops.backends.steps import steps_of
from trainer_ops.build.snapshot_job import SnapshotAsk
from trainer_ops.errors import BackendError, InvalidRequest, TrainerOpsError
from trainer_ops.initializers.provider import Credentials, SnapshotError
from trainer_ops.initializers.source import parse
from trainer_ops.lifecycle import snapshot_job as jobs
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.snapshot_here import Here
from trainer_ops.lifecycle.snapshot_job import STARTUP_SECONDS
from trainer_ops.lifecycle.snapshot_store import cluster_store, gc_snapshots, image_of, list_snapshots, verify_snapshot
from trainer_ops.lifecycle.snapshot_told import Told
from trainer_ops.lifecycle.snapshot_wait import SnapshotWait
from trainer_ops.lifecycle.threads import in_thread
from trainer_ops.model.snapshot import Snapshot, SnapshotKind

if TYPE_CHECKING:
    from trainer_ops.initializers.fetch import SnapshotListener

__all__ = [
    "SnapshotWait",
    "aawait_snapshot",
    "await_snapshot",
    "begin_snapshot",
    "cancel_snapshot",
    "gc_snapshots",
    "list_snapshots",
    "made_here",
    "see_snapshot",
    "take_snapshot",
    "verify_snapshot",
]


def made_here(backend: Backend) -> bool:
    """Whether this target's snapshots are made in the caller's own process: all but clusters."""
    return steps_of(backend) is None


def take_snapshot(
    backend: Backend,
    uri: str,
    *,
    kind: SnapshotKind = "dataset",
    revision: str = "",
    include: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    to: str = "",
    secret_ref: str | None = None,
    env: Mapping[str, Any] | None = None,
    credentials: Credentials | None = None,
    storage: str | None = None,
    storage_class: str | None = None,
    access_mode: str = "ReadWriteMany",
    image: str | None = None,
    resources: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    active_deadline_seconds: int | None = None,
    wait_timeout: float | None = None,
    startup_timeout: float | None = STARTUP_SECONDS,
    refresh: bool = False,
    key: str = "",
    clock: Clock,
    listener: SnapshotListener | None = None,
) -> Snapshot:
    """One whole, verified snapshot of what the source holds now.

    Interrupted by anything but an error of its own (KeyboardInterrupt, an exception of a signal handler or of the
    listener) it deletes the Job that it has started; what was fetched is kept, and the next call goes on from there.

    Args:
        backend: the target; trainings that shall read the snapshot run on the same.
        uri: ``hf://``, ``s3://``, ``gs://``, ``az://``, ``http(s)://``, ``file://`` (engine), ``pvc://`` (cluster).
        kind: ``dataset`` or ``model``; also what ``hf://owner/name`` is taken for.
        revision: branch, tag or commit; "" for the newest.
        include: glob patterns of paths to take; None for all.
        ignore: glob patterns of paths to leave out.
        to: the store: ``pvc://claim[/folder]`` on a cluster, ``file:///folder`` on the engine, object storage on both;
            "" for the target's own (the claim ``trainer-ops-snapshots``, the engine's folder ``snapshots``).
        secret_ref: cluster: the Secret whose keys become the Job's environment (HF_TOKEN, AWS_ACCESS_KEY_ID, …).
        env: variables of the Job, or, on the engine, to find credentials in; no secrets: they would be readable.
        credentials: engine: of the source, where the environment does not have them.
        storage: cluster: the size to make the claim with when it is not there, such as ``20Gi``.
        storage_class: cluster: its class; None for the default one.
        access_mode: cluster: its access mode.
        image: cluster: None for $TRAINER_OPS_INITIALIZER_IMAGE, else that of ``build.image``.
        resources: cluster: of the Job's container, Kubernetes' form.
        pod: cluster: fields of the pod's spec that go before ours (``nodeSelector``, ``serviceAccountName``, …).
        labels: cluster: of the Job, such as Kueue's ``kueue.x-k8s.io/queue-name``.
        active_deadline_seconds: cluster: the Job's own deadline.
        wait_timeout: seconds after which the caller stops waiting; a Job goes on.
        startup_timeout: cluster: seconds in which the Job must have started; it is deleted then.
        refresh: trust nothing that is there: no Job of somebody else is joined, and the files of a snapshot that is
            found are read again (one that is damaged is made anew).
        key: who asks, such as a run's key: when the same asker comes again (a retry), the Job that it has started is
            its own, also when that is over.
        clock: what sleeps.
        listener: told how it gets on.

    Raises:
        InvalidRequest: names the field; nothing was made.
        SnapshotError: it cannot be made now; nothing half made is visible, and what was fetched is kept.
        Forbidden: the cluster refuses this user; names the missing right.
        Unreachable: the cluster gave no answer.
    """
    if made_here(backend):
        source = parse(uri, revision=revision, include=include or (), ignore=ignore or (), kind=kind)
        unused = {"secret_ref": secret_ref, "storage": storage, "image": image, "pod": pod, "resources": resources}
        here = Here(backend, to, credentials, env or {}, clock, listener)
        return here.take(source, kind, verify=refresh, timeout=wait_timeout, unused=[k for k, v in unused.items() if v])
    wait = begin_snapshot(
        backend,
        uri,
        kind=kind,
        revision=revision,
        include=include,
        ignore=ignore,
        to=to,
        secret_ref=secret_ref,
        env=env,
        credentials=credentials,
        storage=storage,
        storage_class=storage_class,
        access_mode=access_mode,
        image=image,
        resources=resources,
        pod=pod,
        labels=labels,
        active_deadline_seconds=active_deadline_seconds,
        wait_timeout=wait_timeout,
        startup_timeout=startup_timeout,
        refresh=refresh,
        key=key,
        clock=clock,
        listener=listener,
    )
    with _deleted_when_interrupted(backend, wait) as moved:
        return await_snapshot(backend, wait, clock=clock, listener=listener, moved=moved)


@contextmanager
def _deleted_when_interrupted(backend: Backend, wait: SnapshotWait) -> Iterator[Callable[[SnapshotWait], object]]:
    """Give a function that is told where the wait is; the Job is deleted when it ends by no error of ours."""
    last = [wait]
    try:
        yield lambda moved: last.__setitem__(0, moved)
    except TrainerOpsError as error:
        # One that a listener or a signal's handler raises is an interruption too, whatever it is called.
        if not isinstance(error, InvalidRequest | SnapshotError | BackendError):
            _quietly_cancel(backend, last[0])
        raise
    except BaseException:
        _quietly_cancel(backend, last[0])
        raise


def _quietly_cancel(backend: Backend, wait: SnapshotWait) -> None:
    try:
        cancel_snapshot(backend, wait)
    except BackendError:
        pass  # What interrupts is what the caller is to hear of.


def begin_snapshot(
    backend: Backend,
    uri: str,
    *,
    kind: SnapshotKind = "dataset",
    revision: str = "",
    include: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    to: str = "",
    secret_ref: str | None = None,
    env: Mapping[str, Any] | None = None,
    credentials: Credentials | None = None,
    storage: str | None = None,
    storage_class: str | None = None,
    access_mode: str = "ReadWriteMany",
    image: str | None = None,
    resources: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    active_deadline_seconds: int | None = None,
    wait_timeout: float | None = None,
    startup_timeout: float | None = STARTUP_SECONDS,
    unreachable_timeout: float = 1800.0,
    refresh: bool = False,
    key: str = "",
    clock: Clock,
    listener: SnapshotListener | None = None,
) -> SnapshotWait:
    """Start the Job on a cluster, or join the one that runs for the same; does not wait.

    The wait is plain data: ``to_json`` carries it into another process. Parameters are those of ``take_snapshot``.

    Raises:
        InvalidRequest: names the field; field ``target``: it is no cluster (``made_here``).
        Rejected: the cluster's admission refuses the Job or the claim.
        Forbidden: the cluster refuses this user; names the missing right.
        Unreachable: the cluster gave no answer.
    """
    jobs.need_steps(backend)
    source = parse(uri, revision=revision, include=include or (), ignore=ignore or (), kind=kind)
    if source.scheme == "file":
        reason = f"{source.uri} is on one machine, and the Job runs on {backend.target}"
        raise InvalidRequest("uri", reason, "Put it where the cluster can read it: object storage, or a claim (pvc://)")
    if credentials is not None:
        reason = "would stand readable in the Job"
        raise InvalidRequest("credentials", reason, "Put them into a Secret of the namespace and give secret_ref")
    ask = SnapshotAsk(
        args=("--verify",) if refresh else (),
        kind=kind,
        uri=source.uri,
        revision=source.revision,
        include=tuple(source.include),
        ignore=tuple(source.ignore),
        store=cluster_store(to),
        secret_ref=secret_ref or "",
        env=dict(env or {}),
        image=image_of(image),
        active_deadline_seconds=active_deadline_seconds,
        resources=dict(resources or {}),
        pod=dict(pod or {}),
        labels=dict(labels or {}),
        token=(key or uuid.uuid4().hex) if refresh else "",
    )
    if ask.claim:
        note = jobs.ensure_claim(
            backend, ask.claim, storage=storage, storage_class=storage_class, access_mode=access_mode
        )
        if note and listener is not None:
            listener.on_note(note)
    wait = jobs.begin(
        backend,
        ask,
        now=clock.now(),
        # Without a key a call knows its own Job all the same, when the answer to its creation was lost.
        asked_by=key or f"call-{uuid.uuid4().hex}",
        wait_timeout=wait_timeout,
        startup_timeout=startup_timeout,
        unreachable_timeout=unreachable_timeout,
    )
    if listener is not None:
        listener.on_note(f"{'joined' if wait.joined else 'made'} Job {wait.name} in namespace {wait.namespace}")
    return wait


def see_snapshot(
    backend: Backend, wait: SnapshotWait, now: float, *, listener: SnapshotListener | None = None
) -> tuple[SnapshotWait, Snapshot | None]:
    """Look at the Job once: the wait as it is now, and the snapshot when it is there.

    With None look again after ``wait.pause(now)`` seconds.

    Args:
        backend: the wait's target.
        wait: as ``begin_snapshot`` or the last look gave it.
        now: seconds since the epoch.
        listener: told what the Job has printed since.

    Raises:
        InvalidRequest: what was asked for is wrong, in the Job's words.
        SnapshotError: it failed, cannot start, or took longer than it may.
        Unreachable: no answer for ``unreachable_timeout``.
    """
    heard = None if listener is None else Told(listener)
    before = wait.detail
    wait, answer = jobs.look(backend, wait, now, heard)
    if listener is not None and answer is None and wait.phase == "waiting" and wait.detail not in ("", before):
        listener.on_note(wait.detail)
    return wait, None if answer is None else _snapshot(wait, answer)


def await_snapshot(
    backend: Backend,
    wait: SnapshotWait,
    *,
    clock: Clock,
    listener: SnapshotListener | None = None,
    moved: Callable[[SnapshotWait], object] = lambda wait: None,
) -> Snapshot:
    """Wait for the Job in this thread. Interrupting it leaves the Job alone (``cancel_snapshot`` deletes it).

    Args:
        backend: the wait's target.
        wait: fresh, or carried over from another process.
        clock: what sleeps.
        listener: told how it gets on.
        moved: told of the wait after each look.

    Raises:
        TrainerOpsError: as ``see_snapshot``.
    """
    while True:
        wait, snapshot = see_snapshot(backend, wait, clock.now(), listener=listener)
        if snapshot is not None:
            return snapshot
        moved(wait)
        clock.sleep(wait.pause(clock.now()))


async def aawait_snapshot(
    backend: Backend,
    wait: SnapshotWait,
    *,
    clock: Clock,
    listener: SnapshotListener | None = None,
    moved: Callable[[SnapshotWait], object] = lambda wait: None,
) -> Snapshot:
    """``await_snapshot`` for an event loop: calls run in the shared pool of threads, and sleeping costs none.

    The listener is called from the pool's threads.
    """
    while True:
        look = partial(see_snapshot, backend, wait, clock.now(), listener=listener)
        wait, snapshot = await in_thread(look)
        if snapshot is not None:
            return snapshot
        moved(wait)
        await clock.asleep(wait.pause(clock.now()))


def cancel_snapshot(backend: Backend, wait: SnapshotWait) -> bool:
    """Delete the Job; whether it was deleted now.

    One that was joined is left to whoever started it. What it has fetched is kept for the next attempt.
    """
    return jobs.cancel(backend, wait)


def _snapshot(wait: SnapshotWait, answer: Mapping[str, Any]) -> Snapshot:
    try:
        return Snapshot.from_json(answer)
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotError(
            f"the answer of Job {wait.name} is no snapshot: {str(dict(answer))[:200]}",
            remedy=f"Its image {wait.ask.image} is not of this version: set image",
        ) from error
