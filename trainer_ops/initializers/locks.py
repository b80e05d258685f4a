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

import errno
import fcntl
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, Protocol

from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.initializers.store import Clock

__all__ = ["BEAT", "STALE", "Claim", "FileClaim", "Holder", "KernelLock", "boot_id", "holding"]

BEAT: Final = 10.0
# NFS caches attributes for up to a minute; a file that is opened anew is asked for, but a server may stand still too.
STALE: Final = 90.0
_SETTLE: Final = 2.0
_POLL: Final = 0.5
_RECENT: Final = 2.0
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_KERNEL_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock.

    Attributes:
        host: name, for people.
        pid: process id there.
        since: seconds since the epoch.
        place: within which it can be known whether it lives: for the kernel's lock the running kernel and the mount,
            for object storage the running kernel and its process ids.
        token: of this one claim.
    """

    host: str
    pid: int
    since: float
    place: str
    token: str

    @classmethod
    def here(cls, place: str, now: float) -> Holder:
        """This process."""
        return cls(socket.gethostname(), os.getpid(), now, place, secrets.token_hex(8))

    def dump(self) -> bytes:
        """The claim's text."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def load(cls, text: bytes) -> Holder:
        """The inverse; a claim that was half written when its writer died is nobody's."""
        try:
            data = json.loads(text)
            return cls(str(data["host"]), int(data["pid"]), float(data["since"]), data["place"], data["token"])
        except (ValueError, KeyError, TypeError):
            return cls("an unknown host", 0, 0.0, "", "")

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"process {self.pid} on {self.host} since {since}" if self.token else "another process"


class Claim(Protocol):
    """Where a holder is written down for all hosts to see."""

    def create(self, text: bytes) -> bool:
        """Write it unless there is one; whether it was written."""

    def read(self) -> tuple[bytes, str] | None:
        """The text and something that changes with every touch; None when there is none."""

    def replace(self, text: bytes) -> None:
        """Write it whatever is there."""

    def touch(self, text: bytes) -> None:
        """Show that its writer lives; ``text`` is what it wrote."""

    def remove(self) -> None:
        """Take it away; nothing happens when there is none."""


class FileClaim:
    """A claim in a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, text: bytes) -> bool:
        """Write it unless there is one: a link of a written file, so that nobody reads half of it."""
        try:
            aside = self._aside(text)
        except OSError as problem:
            if problem.errno in _FULL and self.read() is not None:
                return False
            raise
        try:
            os.link(aside, self._path)
        except FileExistsError:
            return False
        except OSError:
            return self._create_in_place(text)
        finally:
            aside.unlink(missing_ok=True)
        return True

    def _create_in_place(self, text: bytes) -> bool:
        # File systems without hard links.
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            return False
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        return True

    def read(self) -> tuple[bytes, str] | None:
        """Opened anew each time: that is when NFS asks its server."""
        try:
            with self._path.open("rb") as file:
                return file.read(), str(os.fstat(file.fileno()).st_mtime_ns)
        except FileNotFoundError:
            return None

    def replace(self, text: bytes) -> None:
        """Write it whatever is there."""
        self._aside(text).replace(self._path)

    def touch(self, text: bytes) -> None:
        """A newer time of change."""
        os.utime(self._path)

    def remove(self) -> None:
        """Take it away."""
        self._path.unlink(missing_ok=True)

    def _aside(self, text: bytes) -> Path:
        aside = self._path.with_name(f"{self._path.name}.{secrets.token_hex(6)}")
        try:
            aside.write_bytes(text)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        return aside


class KernelLock:
    """A lock that ends with its process. Two of them in one process exclude each other too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1
        self.works = True

    def take(self) -> bool:
        """Take it if it is free; True also where the file system has no such locks (``works`` says so)."""
        while self._handle < 0:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as problem:
                os.close(handle)
                self.works = problem.errno not in _NO_KERNEL_LOCKS
                return not self.works
            # Its last holder removes the file: what we locked may be nobody's any more.
            if _same_file(handle, self._path):
                self._handle = handle
            else:
                os.close(handle)
        return True

    def place(self) -> str:
        """See ``Holder``."""
        return f"{boot_id()}:{self._path.parent.stat().st_dev}"

    def release(self) -> None:
        """Let go; idempotent."""
        if self._handle >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = -1


def _processes() -> str:
    """Tells within which a process id means the same."""
    try:
        return f"{boot_id()}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return boot_id()


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def boot_id() -> str:
    """Tells one run of a kernel from the next and from others: what was not flushed is lost between them."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()


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
            except OSError:
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
    me = Holder.here(kernel.place() if kernel else _processes(), clock.now())
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
        clock.sleep(_POLL)


def _try(claim: Claim, me: Holder, kernel: KernelLock | None, watched: _Watched, clock: Clock) -> bool:
    try:
        if claim.create(me.dump()):
            return True
    except OSError as problem:
        # A full disk must not keep gc from making room. Other hosts do not see us then; a maker stops at once.
        if problem.errno in _FULL and kernel is not None and kernel.works:
            return True
        raise
    found = claim.read()
    if found is None:
        return claim.create(me.dump())
    holder = Holder.load(found[0])
    if holder.place == me.place and (kernel.works if kernel is not None else _is_gone(holder.pid)):
        claim.replace(me.dump())
        return True
    if watched.unchanged_for(found, clock.now()) < STALE:
        return False
    claim.replace(me.dump())
    clock.sleep(_SETTLE)
    now = claim.read()
    return now is not None and now[0] == me.dump()
