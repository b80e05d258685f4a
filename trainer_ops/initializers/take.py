"""Make a snapshot, or find that it is there already."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.fetch import Silent, SnapshotListener, fetch_all
from trainer_ops.initializers.manifest import Manifest, select
from trainer_ops.initializers.provider import Listing, Provider, RemoteFile, SnapshotError, SourceChanged
from trainer_ops.initializers.source import Source
from trainer_ops.initializers.store import Clock, Draft, Held, Store
from trainer_ops.model.snapshot import Snapshot, SnapshotKind, snapshot_key

__all__ = ["human", "pinned_hit", "take"]

_LISTINGS: Final = 5
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Beside the files: folders, the manifest, what the file system itself needs.
_SPARE: Final = 16 << 20
_MAKE_ROOM: Final = "Make room (trainer-ops snapshots gc), or take less with include and ignore patterns."


def pinned_hit(source: Source, store: Store, *, kind: SnapshotKind) -> Snapshot | None:
    """The snapshot of a source whose revision says by itself what it holds; nobody is asked. None: make it."""
    if not source.pinned:
        return None
    return _hit(store, snapshot_key(source.uri, source.pinned, include=source.include, ignore=source.ignore), kind)


def take(
    source: Source,
    store: Store,
    *,
    kind: SnapshotKind,
    provider: Provider,
    clock: Clock,
    jobs: int = 8,
    listener: SnapshotListener | None = None,
    lock_timeout: float = 3600.0,
    verify_hit: bool = False,
) -> Snapshot:
    """One whole, verified snapshot of the source as it is now; made at most once for equal content.

    Args:
        source: what.
        store: where.
        kind: said in the result.
        provider: the source, opened. Not asked at all when the revision is pinned and the snapshot is there.
        clock: for waiting and for the manifest's date.
        jobs: files fetched at once.
        listener: told how it gets on.
        lock_timeout: seconds to wait for another process that makes the same snapshot.
        verify_hit: read a snapshot that is there again, and make it anew if it is damaged.

    Raises:
        InvalidRequest: there is nothing of that name, revision or pattern.
        SnapshotError: it cannot be made now; what was fetched is kept for the next try.
    """
    heard = listener or Silent()
    _check_apart(source, store)
    found = None if verify_hit else pinned_hit(source, store, kind=kind)
    if found is not None:
        return found
    maker = _Maker(source, store, kind, provider, clock, jobs, heard, lock_timeout, verify_hit)
    outdated = ""
    for _ in range(_LISTINGS):
        listing = provider.resolve()
        _check_revision(source, listing)
        try:
            return maker.take(listing, outdated)
        except SourceChanged as changed:
            outdated, last = maker.key(listing), changed
            heard.on_note(f"{changed.message}: listing the source again")
    raise SnapshotError(
        f"{source.uri} changed while it was read, {_LISTINGS} times: {last.message}",
        remedy="Take the snapshot when nobody writes there, or of a folder that is not written to.",
        transient=True,
    ) from last


def _hit(store: Store, key: str, kind: SnapshotKind) -> Snapshot | None:
    found = store.find(key)
    return None if found is None else found.snapshot(kind, store.location(key), hit=True)


def _check_apart(source: Source, store: Store) -> None:
    if f"{store.url}/".startswith(f"{source.uri}/"):
        raise InvalidRequest(
            "to", f"{store.url} lies inside {source.uri}, so each snapshot would hold the others", "Keep them apart."
        )


def _check_revision(source: Source, listing: Listing) -> None:
    if source.scheme != "hf" and source.revision and listing.revision != source.revision:
        raise InvalidRequest(
            "revision",
            f'{source.uri} holds "{listing.revision}" now, not "{source.revision}"',
            "Older content cannot be asked for there; leave the revision out for what it holds now.",
        )


@dataclass(frozen=True, slots=True)
class _Maker:
    """What ``take`` was given, for each listing it needs."""

    source: Source
    store: Store
    kind: SnapshotKind
    provider: Provider
    clock: Clock
    jobs: int
    listener: SnapshotListener
    lock_timeout: float
    verify_hit: bool

    def key(self, listing: Listing) -> str:
        source = self.source
        return snapshot_key(source.uri, listing.revision, include=source.include, ignore=source.ignore)

    def take(self, listing: Listing, outdated: str) -> Snapshot:
        files = select(listing, self.source)
        key = self.key(listing)
        found = self._sound_hit(key)
        if found is not None:
            return found
        with self._lock(key) as held:
            found = _hit(self.store, key, self.kind)
            if found is not None:
                return found
            if outdated and outdated != key:
                self._hand_over(outdated, key)
            return self._make(key, listing, files, held)

    def _lock(self, key: str) -> AbstractContextManager[Held]:
        return self.store.lock(key, clock=self.clock, timeout=self.lock_timeout, note=self.listener.on_note)

    def _sound_hit(self, key: str) -> Snapshot | None:
        found = _hit(self.store, key, self.kind)
        if found is None or not self.verify_hit:
            return found
        problems = self.store.verify(key)
        if not problems:
            return found
        self.listener.on_note(f"snapshot {key} is damaged ({problems[0]}): making it anew")
        with self._lock(key):
            if self.store.verify(key):  # Unless somebody has mended it meanwhile.
                self.store.discard(key)
        return None

    def _hand_over(self, outdated: str, key: str) -> None:
        try:
            with self.store.lock(outdated, clock=self.clock, timeout=0, note=lambda _text: None):
                self.store.hand_over(outdated, key)
        except SnapshotError:
            pass  # Somebody else goes on with it: then everything is fetched.

    def _make(self, key: str, listing: Listing, files: Sequence[RemoteFile], held: Held) -> Snapshot:
        # A folder without a manifest that fits is not a snapshot, and must not be in the way of one.
        self.store.discard(key)
        draft = self.store.draft(key)
        try:
            done = draft.start(files, self.source)
            size = sum(file.size or 0 for file in files)
            _check_room(draft, size - done)
            self.listener.on_start(len(files), size, done)
            entries = fetch_all(
                self.provider, draft, files, done=done, jobs=self.jobs, held=held, listener=self.listener
            )
            made = Manifest.of(key, self.source, listing.revision, entries, now=self.clock.now(), tool=_tool())
            held.check(ask=True)
            draft.commit(made)
        except BaseException as problem:
            with suppress(SnapshotError):
                draft.leave()
            if isinstance(problem, OSError):
                raise _cannot_write(problem, draft) from problem
            raise
        return made.snapshot(self.kind, self.store.location(key), hit=False)


def _check_room(draft: Draft, needed: int) -> None:
    free = draft.room()
    if free is None or needed + _SPARE <= free:
        return
    raise SnapshotError(
        f"the snapshot needs {human(needed + _SPARE)} more, and {human(free)} are free in {draft.place}",
        remedy=_MAKE_ROOM,
    )


def _cannot_write(problem: OSError, draft: Draft) -> SnapshotError:
    if problem.errno in _NO_ROOM:
        why = "the file would be too large" if problem.errno == errno.EFBIG else "the disk or the quota is full"
        return SnapshotError(
            f"{draft.place} cannot be written: {why}",
            remedy=f"{_MAKE_ROOM} What was fetched is kept there for the next try, and goes with gc after a day.",
        )
    what = f" ({problem.filename})" if problem.filename else ""
    return SnapshotError(
        f"{draft.place} cannot be written: {problem.strerror or problem}{what}",
        remedy="Check that it is mounted and that this user may write there.",
    )


def human(size: int) -> str:
    """Bytes for people: ``1.5 GB``."""
    if size < 1000:
        return f"{size} bytes"
    amount, units = size / 1000, ["TB", "GB", "MB", "kB"]
    while amount >= 999.95 and len(units) > 1:
        amount /= 1000
        units.pop()
    return f"{amount:.1f} {units[-1]}"


def _tool() -> str:
    try:
        return f"trainer-ops {version('trainer-ops')}"
    except PackageNotFoundError:
        return "trainer-ops"
