"""Snapshots in this process: the engine's."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainer_ops.backends.base import Backend
from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.initializers.provider import Credentials, SnapshotError
from trainer_ops.initializers.source import Source
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.model.snapshot import Snapshot, SnapshotKind
from trainer_ops.model.times import duration

if TYPE_CHECKING:
    from trainer_ops.initializers.fetch import SnapshotListener
    from trainer_ops.initializers.provider import Provider
    from trainer_ops.initializers.store import Store

__all__ = ["Here", "store_here"]

_OBJECTS: Final = ("s3", "gs", "az")
_LOCK_SECONDS: Final = 3600.0


def store_here(
    backend: Backend, to: str, credentials: Credentials | None = None, env: Mapping[str, Any] | None = None
) -> Store:
    """The store of a target that makes snapshots in the caller's process.

    Args:
        backend: the target.
        to: ``file:///folder``, a path, or object storage; "" for ``<engine root>/snapshots``.
        credentials: for object storage; None for what the environment has.
        env: goes before this process's environment.

    Raises:
        InvalidRequest: field ``to``: nothing can be kept there.
    """
    from trainer_ops.initializers.store import open_store

    if not to:
        root = getattr(backend, "root", None)
        if root is None:
            raise InvalidRequest("to", f"{backend.target} has no store of its own", "Give file:///folder")
        return open_store(str(Path(root) / "snapshots"))
    scheme = to.partition("://")[0]
    if credentials is None and scheme in _OBJECTS:
        credentials = _credentials(scheme, env or {})
    return open_store(to, credentials)


def _credentials(scheme: str, env: Mapping[str, Any]) -> Credentials:
    from trainer_ops.initializers.environment import credentials_from

    plain = {name: str(value) for name, value in env.items() if isinstance(value, str | int | float)}
    return credentials_from({**os.environ, **plain}, scheme)


@dataclass(frozen=True, slots=True)
class Here:
    """One target's snapshots in this process; fields as of ``take_snapshot``."""

    backend: Backend
    to: str
    credentials: Credentials | None
    env: Mapping[str, Any]
    clock: Clock
    listener: SnapshotListener | None

    def take(
        self, source: Source, kind: SnapshotKind, *, verify: bool, timeout: float | None, unused: Sequence[str]
    ) -> Snapshot:
        """Make it, or find it.

        Raises:
            InvalidRequest: names the field.
            SnapshotError: it cannot be made now.
        """
        from trainer_ops.initializers.open import open_provider
        from trainer_ops.initializers.take import pinned_hit, take

        # Credentials that were given are the source's; of a store of the same kind they are too.
        same = self.to.partition("://")[0] == source.scheme
        store = store_here(self.backend, self.to, self.credentials if same else None, self.env)
        found = None if verify else pinned_hit(source, store, kind=kind)
        if found is not None:
            return found
        if unused and self.listener is not None:
            self.listener.on_note(f"not used on {self.backend.target}: {', '.join(unused)}")
        provider = open_provider(source, self.credentials or _credentials(source.scheme, self.env))
        try:
            with _stopped_after(timeout, provider):
                return take(
                    source,
                    store,
                    kind=kind,
                    provider=provider,
                    clock=self.clock,
                    listener=_Limited(self.listener, self.clock, timeout),
                    lock_timeout=_LOCK_SECONDS if timeout is None else timeout,
                    verify_hit=verify,
                )
        finally:
            provider.close()


@contextmanager
def _stopped_after(timeout: float | None, provider: Provider) -> Iterator[None]:
    """End the wait for a source that does not answer: nothing moves then, so that no listener is asked."""
    stop = getattr(provider, "stop", None)
    if timeout is None or stop is None:
        yield
        return
    over = threading.Event()

    def end() -> None:
        over.set()
        stop()

    timer = threading.Timer(timeout, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as problem:
        # Whatever being stopped looks like to the one who was asking.
        if not over.is_set() or "(wait_timeout)" in str(problem):
            raise
        raise _out_of_time(timeout, problem.message if isinstance(problem, TrainerOpsError) else "") from problem
    finally:
        timer.cancel()


def _out_of_time(timeout: float, last: str = "") -> SnapshotError:
    return SnapshotError(
        f"the snapshot was not done within {duration(timeout)} (wait_timeout){last and ': '}{last}",
        remedy="Give it more time; what was fetched is kept and gone on from",
        transient=True,
    )


class _Limited:
    """Passes on what it is told, and ends the snapshot when its time is up."""

    def __init__(self, listener: SnapshotListener | None, clock: Clock, timeout: float | None) -> None:
        self._listener = listener
        self._clock = clock
        self._timeout = timeout
        self._began = clock.now()

    def _check(self) -> None:
        if self._timeout is not None and self._clock.now() - self._began >= self._timeout:
            raise _out_of_time(self._timeout)

    def on_start(self, files: int, size: int, done: int) -> None:
        self._check()
        if self._listener is not None:
            self._listener.on_start(files, size, done)

    def on_progress(self, size: int, files: int) -> None:
        self._check()
        if self._listener is not None:
            self._listener.on_progress(size, files)

    def on_note(self, text: str) -> None:
        if self._listener is not None:
            self._listener.on_note(text)
