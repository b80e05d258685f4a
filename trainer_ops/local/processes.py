"""The machine's processes: who is alive, who belongs to a TrainJob, and how to end all of them for sure.

A process belongs to a TrainJob when it descends from the job's supervisor, is in the session of one of its containers,
carries the job's marker in its environment, or writes one of its logs. Each of these alone can be shaken off (a daemon
leaves the tree and the session, ``env -i`` drops the marker), hence all of them. On Linux everything is read from
/proc, which takes a few milliseconds and no import; elsewhere psutil answers. May import: the standard library,
psutil (late).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = [
    "ENV_JOB",
    "ENV_POD",
    "ON_LINUX",
    "Process",
    "descendants",
    "is_alive",
    "kill_all",
    "marked",
    "marker_of",
    "place",
    "process",
    "snapshot",
    "start_mark",
    "writes_below",
]

# In the environment of every process that the engine starts: the TrainJob's uid, and which run of which container.
ENV_JOB = "TRAINER_OPS_ENGINE_JOB"
ENV_POD = "TRAINER_OPS_ENGINE_POD"

ON_LINUX: bool = sys.platform.startswith("linux")


@dataclass(frozen=True, slots=True)
class Process:
    """One process; ``start`` tells it from a later one with the same pid. Zombies are none: they run nothing."""

    pid: int
    ppid: int
    session: int
    start: str


def snapshot() -> dict[int, Process]:
    """All processes of this machine (or pid namespace) by pid, zombies left out."""
    if not ON_LINUX:
        return _psutil_snapshot()
    found = (process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {p.pid: p for p in found if p is not None}


def process(pid: int) -> Process | None:
    """The process of that pid; None when there is none, or a zombie."""
    if not ON_LINUX:
        return _psutil_process(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name is in brackets and may hold anything, brackets and spaces too.
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[3]), fields[19].decode())


def start_mark(pid: int) -> str:
    """When that process started, as text that is equal for the same process only; "" for none."""
    found = process(pid)
    return found.start if found else ""


def is_alive(pid: int | None, start: str | None) -> bool:
    """Whether the process of this pid and start is still there and no zombie."""
    return bool(pid and start) and start_mark(int(pid or 0)) == start


def place() -> str:
    """Text that is equal for two callers only where pids mean the same: machine, boot and pid namespace."""
    parts = [os.uname().nodename]
    for path, read in (("/proc/sys/kernel/random/boot_id", _read), ("/proc/self/ns/pid", os.readlink)):
        try:
            parts.append(read(path))
        except OSError:
            parts.append("")
    return "/".join(parts)


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def marker_of(pid: int, name: str = ENV_JOB) -> str:
    """The value of a marker in that process' environment; "" without it, or when it may not be read."""
    if not ON_LINUX:
        return _psutil_environ(pid).get(name, "")
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = file.read()
    except OSError:
        return ""
    # The first wins, as for getenv.
    head = f"{name}=".encode()
    return next((p[len(head) :].decode("utf-8", "replace") for p in text.split(b"\0") if p.startswith(head)), "")


def writes_below(pid: int, folder: str) -> bool:
    """Whether stdout or stderr of that process is a file below the folder. Known on Linux only.

    What has no marker and whose parent was killed before anybody noted it can still be told by its log.
    """
    for fd in (1, 2) if ON_LINUX else ():
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(folder + "/"):
                return True
        except OSError:
            continue
    return False


def marked(job_uid: str) -> list[Process]:
    """The processes whose environment names this TrainJob; supervisor and guard are among them."""
    return [p for p in snapshot().values() if marker_of(p.pid) == job_uid]


def descendants(pid: int, among: dict[int, Process]) -> list[Process]:
    """Children, their children and so on, nearest first."""
    children: dict[int, list[Process]] = {}
    for p in among.values():
        children.setdefault(p.ppid, []).append(p)
    found: list[Process] = []
    queue = [pid]
    for parent in queue:
        below = children.get(parent, [])
        found.extend(below)
        queue.extend(p.pid for p in below)
    return found


def kill_all(
    select: Callable[[], Iterable[Process]], *, seconds: float = 5.0, pause: float = 0.005, looks: int = 1
) -> bool:
    """SIGKILL whatever ``select`` finds, again and again until it finds nothing: a process may fork while it is killed.

    Args:
        select: finds them.
        seconds: when to give up.
        pause: between two looks, in seconds.
        looks: how often in a row nothing must be found: while a program is being loaded, its environment is empty.

    Returns:
        False when some were left after that many seconds (a process in an uninterruptible system call).
    """
    end = time.monotonic() + seconds
    empty = 0
    while True:
        found = list(select())
        empty = 0 if found else empty + 1
        if empty >= looks:
            return True
        if time.monotonic() > end:
            return False
        for victim in found:
            send(victim.pid, signal.SIGKILL)
        _collect(found)
        time.sleep(pause)


def send(pid: int, number: int) -> None:
    """Send a signal; a process that has just ended is no error."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _collect(victims: Iterable[Process]) -> None:
    """Reap those that are our own children: nobody else would, and as zombies they hold their pids."""
    for victim in victims:
        if victim.ppid != os.getpid():
            continue
        try:
            os.waitpid(victim.pid, os.WNOHANG)
        except ChildProcessError:
            pass


def _psutil_process(pid: int) -> Process | None:
    import psutil

    try:
        found = psutil.Process(pid)
        with found.oneshot():
            if found.status() == psutil.STATUS_ZOMBIE:
                return None
            return Process(pid, found.ppid(), os.getsid(pid), repr(found.create_time()))
    except (psutil.Error, OSError):
        return None


def _psutil_snapshot() -> dict[int, Process]:
    import psutil

    found = (_psutil_process(pid) for pid in psutil.pids())
    return {p.pid: p for p in found if p is not None}


def _psutil_environ(pid: int) -> dict[str, str]:
    import psutil

    try:
        return dict(psutil.Process(pid).environ())
    except (psutil.Error, OSError):
        return {}
