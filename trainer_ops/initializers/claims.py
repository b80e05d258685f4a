"""Who holds a lock, as the kernel knows it and as all hosts can read it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, Protocol

__all__ = ["FULL", "Claim", "FileClaim", "Holder", "KernelLock", "boot_id", "is_gone", "processes"]

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
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
            if problem.errno in FULL and self.read() is not None:
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


def processes() -> str:
    """Tells within which a process id means the same."""
    try:
        return f"{boot_id()}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return boot_id()


def is_gone(pid: int) -> bool:
    """Whether there is no such process here."""
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
