"""The Python API: what ``import trainer_ops`` offers. Each function is a few lines over the use cases beside it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trainer_ops.backends.base import Backend, LogSource
from trainer_ops.errors import Detached, InvalidRequest
from trainer_ops.lifecycle import cancel as cancelling
from trainer_ops.lifecycle import logs as reading
from trainer_ops.lifecycle import submit as submitting
from trainer_ops.lifecycle.cancel import Cancelled, Policy
from trainer_ops.lifecycle.clock import Clock, RealClock
from trainer_ops.lifecycle.code import function_code
from trainer_ops.lifecycle.drive import drive
from trainer_ops.lifecycle.find import begin, find
from trainer_ops.lifecycle.listener import Listener
from trainer_ops.lifecycle.submit import Submitted
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model.identity import JobRef, RunKey
from trainer_ops.model.limits import Limits
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.request import TrainRequest
from trainer_ops.status.verdict import error_for
from trainer_ops.status.wait import Wait

if TYPE_CHECKING:
    from trainer_ops.initializers.fetch import SnapshotListener
    from trainer_ops.model.snapshot import Snapshot, SnapshotKind

__all__ = ["cancel", "detached", "logs", "run", "run_key", "submit", "take_snapshot", "wait"]

# A target by its URL (None: $TRAINER_OPS_TARGET, else this machine), or one that is open already.
Target = str | Backend | None
Training = str | JobRef


def run(
    request: TrainRequest | None = None,
    *,
    target: Target = None,
    key: str | RunKey | None = None,
    python_callable: Callable[..., object] | None = None,
    python_kwargs: Mapping[str, Any] | None = None,
    listener: Listener | None = None,
    check: bool = False,
    clock: Clock | None = None,
    **fields: Any,
) -> Outcome:
    """Train, and wait for it.

    Args:
        request: what to train; or its fields as keyword arguments (``runtime=``, ``script=``, ``num_nodes=``, …).
        target: where: ``local:///folder``, or an open backend. None: $TRAINER_OPS_TARGET, else this machine.
        key: who asks for it. The same key again is the same training: one that trains is waited for, one that has
            trained gives its result, one that failed is tried again. None makes every call a training of its own.
        python_callable: a function to ship and call on every node; it imports what it needs inside.
        python_kwargs: its keyword arguments, JSON data.
        listener: hears states, log lines and notes.
        check: raise an error unless it trained.
        clock: what sleeps; a test gives its own.
        **fields: fields of ``TrainRequest``.

    Returns:
        How it ended, a failure included: see ``Outcome.diagnosis``.

    Raises:
        InvalidRequest: nothing was created.
        RunConflict: the key or the name belongs to something else.
        BackendError: the target refused.
        Detached: Ctrl-C; the training goes on.
        TrainingEnded: with ``check``, the error of the diagnosis' category.
    """
    wanted = _request(request, python_callable, python_kwargs, fields)
    clock = clock or RealClock()
    with _opened(target) as backend:
        submitted = submitting.submit(backend, wanted, run_key(key, wanted), clock=clock)
        first = Wait.begin(submitted.ref, wanted.limits, now=clock.now(), attempt=submitted.attempt)
        return _waited(backend, first, clock, listener, check)


def submit(
    request: TrainRequest | None = None,
    *,
    target: Target = None,
    key: str | RunKey | None = None,
    python_callable: Callable[..., object] | None = None,
    python_kwargs: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    **fields: Any,
) -> Submitted:
    """Make sure that the training exists, and say which it is, without waiting for it. Arguments are those of ``run``.

    Raises:
        InvalidRequest: nothing was created.
        RunConflict: the key or the name belongs to something else.
        BackendError: the target refused.
    """
    wanted = _request(request, python_callable, python_kwargs, fields)
    with _opened(target) as backend:
        return submitting.submit(backend, wanted, run_key(key, wanted), clock=clock or RealClock())


def wait(
    training: Training,
    *,
    target: Target = None,
    limits: Limits | None = None,
    listener: Listener | None = None,
    check: bool = False,
    clock: Clock | None = None,
) -> Outcome:
    """Wait for a training that was submitted before, here or elsewhere.

    Args:
        training: its name (the newest attempt of its run is meant), or the ref that ``submit`` gave.
        target: where; None: the ref's target, $TRAINER_OPS_TARGET, else this machine.
        limits: None takes those it was submitted with.
        listener: hears states, log lines and notes.
        check: raise an error unless it trained.
        clock: what sleeps.

    Raises:
        InvalidRequest: there is no such training.
        Detached: Ctrl-C; the training goes on.
        TrainingEnded: with ``check``, the error of the diagnosis' category.
    """
    clock = clock or RealClock()
    with _opened(_where(training, target)) as backend:
        ref = _ref(backend, training)
        first = begin(backend, ref, now=clock.now(), limits=limits)
        return _waited(backend, first, clock, listener, check)


def cancel(
    training: Training,
    *,
    target: Target = None,
    policy: Policy = "delete",
    wait: float | None = None,
    clock: Clock | None = None,
) -> Cancelled:
    """Stop a training.

    Args:
        training: its name (the newest attempt of its run is meant), or its ref.
        target: where, as for ``wait``.
        policy: ``delete``, ``suspend`` (keeps the record, to be resumed), or ``keep``.
        wait: seconds to wait for its processes to end.
        clock: what sleeps.

    Raises:
        InvalidRequest: there is no such training.
        BackendError: the target refused.
    """
    with _opened(_where(training, target)) as backend:
        ref = _ref(backend, training)
        return cancelling.cancel(backend, ref, policy=policy, wait=wait, clock=clock or RealClock())


def logs(
    training: Training,
    *,
    target: Target = None,
    node: str | int | None = None,
    follow: bool = False,
    tail: int | None = None,
    clock: Clock | None = None,
) -> Iterator[tuple[LogSource, str]]:
    """Log lines of a training, each with where it comes from.

    Args:
        training: its name (the newest attempt of its run is meant), or its ref.
        target: where, as for ``wait``.
        node: one node only: ``1``, ``"node-1"``, ``"launcher"``.
        follow: go on until it has ended.
        tail: begin with the last lines of each node, so many.
        clock: what sleeps.

    Raises:
        InvalidRequest: there is no such training, or no such node.
        BackendError: the target refused.
    """
    with _opened(_where(training, target)) as backend:
        ref = _ref(backend, training)
        one = None if node is None else str(node)
        yield from reading.logs(backend, ref, node=one, follow=follow, tail=tail, clock=clock or RealClock())


def run_key(key: str | RunKey | None, request: TrainRequest, *, kind: str = "api") -> RunKey:
    """The run key that a user's ``key`` means; None makes one that nobody else has."""
    if isinstance(key, RunKey):
        return key
    if key == "":
        raise InvalidRequest("key", "is empty", "Give it a value, or leave it out")
    return RunKey.of(kind, {"key": key or str(uuid.uuid4())}, slug=request.title)


def detached(ref: JobRef) -> Detached:
    """The error that tells how to come back to a training that was left alone."""
    where = f"{ref.name} --target {ref.target}"
    return Detached(
        ref,
        f"detached: {ref.name} goes on training",
        remedy=f"again: trainer-ops wait {where}     stop it: trainer-ops cancel {where}",
    )


def _waited(backend: Backend, first: Wait, clock: Clock, listener: Listener | None, check: bool) -> Outcome:
    try:
        outcome = drive(backend, first, clock=clock, listener=listener)
    except KeyboardInterrupt:
        raise detached(first.ref) from None
    error = error_for(outcome) if check else None
    if error is not None:
        raise error
    return outcome


def _request(
    request: object,
    python_callable: Callable[..., object] | None,
    python_kwargs: Mapping[str, Any] | None,
    fields: Mapping[str, Any],
) -> TrainRequest:
    if request is not None:
        if not isinstance(request, TrainRequest):
            kind = type(request).__name__
            raise InvalidRequest(
                "request", f"is of type {kind}, not TrainRequest", "Give its fields by name: runtime=…"
            )
        given = [*fields, *(["python_callable"] if python_callable is not None else [])]
        if given:
            raise InvalidRequest(given[0], "the request already says it all", "Give a request or its fields, not both")
        return request
    if python_callable is None:
        if python_kwargs:
            raise InvalidRequest("python_kwargs", "there is no function to call", "Give python_callable")
        return TrainRequest(**fields)
    if fields.get("code") is not None:
        raise InvalidRequest("python_callable", "excludes code", "Give one of script, code, command, python_callable")
    return TrainRequest(**{**fields, "code": function_code(python_callable, dict(python_kwargs or {}))})


def take_snapshot(
    uri: str,
    *,
    kind: SnapshotKind = "dataset",
    target: Target = None,
    listener: SnapshotListener | None = None,
    clock: Clock | None = None,
    **options: Any,
) -> Snapshot:
    """One whole, verified snapshot of a dataset or a model, for any number of trainings on the same target to read.

    ::

        data = trainer_ops.take_snapshot("hf://datasets/org/digits", revision="main")
        trainer_ops.run(runtime="torch-distributed", script="train.py", dataset=data)

    Args:
        uri: ``hf://``, ``s3://``, ``gs://``, ``az://``, ``http(s)://``, ``file://`` (on this machine), ``pvc://`` (on a
            cluster).
        kind: ``dataset`` or ``model``.
        target: see ``run``.
        listener: told how it gets on.
        clock: for tests.
        **options: ``revision``, ``include``, ``ignore``, ``to``, ``storage``, ``secret_ref``, ``refresh`` and others:
            see ``trainer_ops.lifecycle.snapshots.take_snapshot``.

    Raises:
        InvalidRequest: names the field; nothing was made.
        SnapshotError: it cannot be made now; what was fetched is kept for the next try.
    """
    from trainer_ops.lifecycle import snapshots

    with _opened(target) as backend:
        given: dict[str, Any] = {"kind": kind, "listener": listener, "clock": clock or RealClock(), **options}
        return snapshots.take_snapshot(backend, uri, **given)


@contextmanager
def _opened(target: Target) -> Iterator[Backend]:
    """The backend; closed again only if it was opened here."""
    if target is not None and not isinstance(target, str):
        yield target
        return
    backend = open_backend(target)
    try:
        yield backend
    finally:
        backend.close()


def _where(training: Training, target: Target) -> Target:
    return training.target if target is None and isinstance(training, JobRef) else target


def _ref(backend: Backend, training: Training) -> JobRef:
    return training if isinstance(training, JobRef) else find(backend, training)
