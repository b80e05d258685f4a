"""One maker a snapshot, on one host and on many.

Two things say together who holds a key. The kernel's lock (flock) ends with its process, whatever kills it, but on
some network file systems each host sees its own only. The claim, a small file beside it, is seen by all: it names the
holder, and its holder touches it every few seconds. So:

* the kernel's lock is held by another: wait for it;
* it is ours, and there is no claim: write one (exclusively) and go;
* there is one of the same mount on the same running kernel: that holder is dead, go;
* there is one of elsewhere: it is dead when it has not been touched for ``STALE`` seconds of our own clock (clocks of
  hosts differ), then go, and look again whether nobody else had the same thought.

A holder that was taken for dead sees at its next touch that the claim is not its own any more, and stops.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from trainer_ops.initializers.claims import FULL, Claim, Holder, KernelLock, is_gone, processes
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.initializers.store import Clock

__all__ = ["BEAT", "STALE", "holding"]

BEAT: Final = 10.0
# NFS caches attributes for up to a minute; a file that is opened anew is asked for, but a server may stand still too.
STALE: Final = 90.0
_SETTLE: Final = 2.0
_POLL: Final = 0.5
# Each look at object storage is two requests, which are paid for.
_POLL_OBJECTS: Final = 5.0
_RECENT: Final = 2.0


class _Watched:
    """How long a claim has looked the same to us."""

    def __init__(self) -> None:
        self._seen: tuple[bytes, str] | None = None
        self._since = 0.0

    def unchanged_for(self, seen: tuple[bytes, str], now: float) -> float:
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since


class _Heartbeat:
    """Touches the claim until it is stopped, and sees when it is ours no more."""

    def __init__(self, claim: Claim, me: Holder, what: str) -> None:
        self._claim, self._text, self._what = claim, me.dump(), what
        self._stop = threading.Event()
        self._lost = False
        self._seen = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="snapshot-lock", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def ours(self) -> bool:
        found = self._claim.read()
        self._seen = time.monotonic()
        return found is not None and found[0] == self._text

    def check(self, *, ask: bool = False) -> None:
        recent = not ask and time.monotonic() - self._seen < _RECENT
        if self._lost or not (recent or self.ours()):
            raise SnapshotError(
                f"{self._what} was taken over by another process, because this one stood still",
                remedy="Run it again: it is a hit, or goes on where that one stops.",
                transient=True,
            )

    def _run(self) -> None:
        while not self._stop.wait(BEAT):
            try:
                if not self.ours():
                    self._lost = True
                    return
                self._claim.touch(self._text)
            except (OSError, SnapshotError):
                continue  # The file system is away: either it comes back, or the download fails by itself.


@contextmanager
def holding(
    claim: Claim, kernel: KernelLock | None, *, what: str, clock: Clock, timeout: float, note: Callable[[str], None]
) -> Iterator[_Heartbeat]:
    """Hold a lock while the block runs.

    Args:
        claim: where the holder is written down.
        kernel: None where there is none (object storage).
        what: what is held, for messages.
        clock: for waiting.
        timeout: seconds; 0 to ask once.
        note: told once whom it waits for.

    Raises:
        SnapshotError: another process held it all the time.
    """
    me = Holder.here(kernel.place() if kernel else processes(), clock.now())
    try:
        try:
            _acquire(claim, kernel, me, what=what, clock=clock, timeout=timeout, note=note)
        except OSError as problem:
            raise SnapshotError(
                f"{what} cannot be locked: {problem.strerror or problem}",
                remedy="Check that this user may write there, and that there is room (trainer-ops snapshots gc).",
            ) from problem
        beat = _Heartbeat(claim, me, what)
        beat.start()
        try:
            yield beat
        finally:
            beat.stop()
            # Whatever ended the block is what counts; a claim that stays is one of a dead holder.
            with suppress(OSError, SnapshotError):
                if beat.ours():
                    claim.remove()
    finally:
        if kernel:
            kernel.release()


def _acquire(
    claim: Claim,
    kernel: KernelLock | None,
    me: Holder,
    *,
    what: str,
    clock: Clock,
    timeout: float,
    note: Callable[[str], None],
) -> None:
    deadline = clock.now() + timeout
    watched = _Watched()
    told = ""
    while not (_try(claim, me, kernel, watched, clock) if kernel is None or kernel.take() else False):
        found = claim.read()
        holder = str(Holder.load(found[0])) if found else "another process"
        if clock.now() >= deadline:
            raise SnapshotError(
                f"{what} is being worked on by {holder}, and was not let go within {timeout:.0f} s",
                remedy="Wait for it, or end that process: what it has done is gone on with.",
                transient=True,
            )
        if told != holder:
            note(f"waiting for {holder}, which works on {what}")
            told = holder
        clock.sleep(_POLL if kernel else _POLL_OBJECTS)


def _try(claim: Claim, me: Holder, kernel: KernelLock | None, watched: _Watched, clock: Clock) -> bool:
    try:
        if claim.create(me.dump()):
            return True
    except OSError as problem:
        # A full disk must not keep gc from making room. Other hosts do not see us then; a maker stops at once.
        if problem.errno in FULL and kernel is not None and kernel.works:
            return True
        raise
    found = claim.read()
    if found is None:
        return claim.create(me.dump())
    holder = Holder.load(found[0])
    if holder.place == me.place and (kernel.works if kernel is not None else is_gone(holder.pid)):
        claim.replace(me.dump())
        return True
    if watched.unchanged_for(found, clock.now()) < STALE:
        return False
    claim.replace(me.dump())
    clock.sleep(_SETTLE)
    now = claim.read()
    return now is not None and now[0] == me.dump()
