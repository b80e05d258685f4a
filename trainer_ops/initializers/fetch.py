"""Fetching the files of a snapshot: in parallel, verified, in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final, Protocol

from trainer_ops.initializers.hashing import FOLLOWED, Follower, digests_of
from trainer_ops.initializers.manifest import FileEntry
from trainer_ops.initializers.provider import Provider, RemoteFile, SnapshotError
from trainer_ops.initializers.store import Draft, Held

__all__ = ["Silent", "SnapshotListener", "fetch_all"]

_REMOTE_DIGESTS: Final = ("sha256", "blob_sha1", "md5")


class SnapshotListener(Protocol):
    """Told how a snapshot gets on; never by two threads at once. What it raises ends the snapshot."""

    def on_start(self, files: int, size: int, done: int) -> None:
        """The download begins.

        Args:
            files: how many.
            size: bytes of those whose size is known.
            done: bytes that an earlier try left.
        """

    def on_progress(self, size: int, files: int) -> None:
        """So many bytes and files are there now, all in all."""

    def on_note(self, text: str) -> None:
        """Something a person may want to know: whom it waits for, what is tried again."""


class Silent:
    """A listener that says nothing."""

    def on_start(self, files: int, size: int, done: int) -> None:
        """Nothing."""

    def on_progress(self, size: int, files: int) -> None:
        """Nothing."""

    def on_note(self, text: str) -> None:
        """Nothing."""


class _Stopped(Exception):
    """Another file failed: this one's download ends too."""


class _Progress:
    """Adds up what the threads report."""

    def __init__(self, listener: SnapshotListener, done: int) -> None:
        self._listener, self._size, self._files = listener, done, 0
        self._lock = threading.Lock()
        self.stop = threading.Event()

    def wrote(self, count: int) -> None:
        if self.stop.is_set():
            raise _Stopped
        with self._lock:
            self._size += count
            self._listener.on_progress(self._size, self._files)

    def finished(self) -> None:
        with self._lock:
            self._files += 1
            self._listener.on_progress(self._size, self._files)

    def note(self, text: str) -> None:
        with self._lock:
            self._listener.on_note(text)


def fetch_all(
    provider: Provider,
    draft: Draft,
    files: Sequence[RemoteFile],
    *,
    done: int,
    jobs: int,
    held: Held,
    listener: SnapshotListener,
) -> list[FileEntry]:
    """Every file in the draft, kept.

    Args:
        provider: fetches.
        draft: takes.
        files: what to fetch.
        done: bytes of them that are there already.
        jobs: threads.
        held: the lock; asked before each file is kept whether it is still ours.
        listener: told.

    Raises:
        SourceChanged: a file is of another version now.
        SnapshotError: a file cannot be had, or is not what the source says it is.
        OSError: it cannot be written.
    """
    progress = _Progress(listener, done)
    queue = iter(_large_first(files))
    entries: list[FileEntry] = []
    lock = threading.Lock()

    def work() -> None:
        # Threads take from one queue: a future for each of a million files would be a lot of memory.
        while not progress.stop.is_set():
            with lock:
                file = next(queue, None)
            if file is None:
                return
            entry = _fetch(provider, draft, file, progress, held)
            progress.finished()
            with lock:
                entries.append(entry)

    pool = ThreadPoolExecutor(max(1, jobs), thread_name_prefix="snapshot")
    workers: list[Future[None]] = []
    try:
        workers += [pool.submit(work) for _ in range(min(jobs, len(files)) or 1)]
        ended = wait(workers, return_when=FIRST_EXCEPTION).done
        first = next((error for worker in ended if (error := worker.exception())), None)
        if first is not None:
            raise first
        return entries
    finally:
        # Also when this thread is interrupted: no thread writes into the draft after the lock is gone.
        progress.stop.set()
        stop = getattr(provider, "stop", None)
        if stop is not None and not all(worker.done() for worker in workers):
            stop()
        pool.shutdown()


def _large_first(files: Sequence[RemoteFile]) -> list[RemoteFile]:
    """So that not one thread is left with the largest file when all others have nothing more to do."""
    return sorted(files, key=lambda file: -(file.size or 0) if (file.size or 0) >= FOLLOWED else 0)


def _fetch(provider: Provider, draft: Draft, file: RemoteFile, progress: _Progress, held: Held) -> FileEntry:
    kept = draft.kept(file, progress.wrote)
    if kept is not None:
        return kept
    part = draft.part(file)
    for last in (False, True):
        found = _digested(provider, file, part, progress.wrote)
        entry, problem = _verified(file, part, found)
        if not problem:
            break
        # Bytes of an earlier try may be the cause: once more, from the first byte on.
        progress.wrote(-part.stat().st_size)
        part.unlink()
        if last:
            raise SnapshotError(problem, remedy="Try again; if it stays so, the source is damaged.", transient=True)
        progress.note(f"{problem}: fetching it again")
    held.check()
    draft.keep(file, entry)
    return entry


def _digested(provider: Provider, file: RemoteFile, part: Path, wrote: Callable[[int], None]) -> dict[str, str]:
    """Fetch it and say its digests: of a large file they are taken while it is written, of a small one afterwards."""
    names = sorted({"sha256", *(name for name in _REMOTE_DIGESTS if getattr(file, name))})
    if file.size is None or file.size < FOLLOWED:
        provider.fetch(file, part, wrote)
        part.touch()  # A provider need not write anything for an empty file.
        return digests_of(part, names)
    with Follower(part, names, file.size) as follower:

        def told(count: int) -> None:
            follower.wrote(count)
            wrote(count)

        provider.fetch(file, part, told)
        return follower.digests() or digests_of(part, names)


def _verified(file: RemoteFile, part: Path, found: dict[str, str]) -> tuple[FileEntry, str]:
    size = part.stat().st_size
    entry = FileEntry(file.path, size, found["sha256"])
    if file.size is not None and size != file.size:
        return entry, f"{file.path} has {size} bytes instead of {file.size}"
    for name in _REMOTE_DIGESTS:
        said = getattr(file, name).lower()
        if said and said != found[name]:
            return entry, f"{file.path} is damaged: its {name} is {found[name]} instead of {said}"
    return entry, ""
