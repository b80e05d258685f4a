"""Commands inside a container of the engine: one more process of it, started by whoever asks for it.

It gets the environment and folder that the container's own process has, and the container's marker, so that whatever
ends the TrainJob ends it too; the one who asked watches that it ends with the container. What it leaves running in the
background goes on, as in a container of a cluster, until the TrainJob ends. May import: ``backends``, ``store``,
``records``, ``processes``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer_ops.backends.base import Streams
from trainer_ops.backends.pump import STDOUT, pump, write_all
from trainer_ops.errors import NotFound
from trainer_ops.local import processes, records
from trainer_ops.local.processes import ENV_POD, Process
from trainer_ops.local.store import Store, decode

__all__ = ["execute"]

# How often it is looked whether the container, or a command without a terminal, has ended.
_PERIOD = 0.05
# Seconds for a command to end after SIGHUP.
_PATIENCE = 2.0
# A terminal holds far less than so many reads.
_LAST_PIECES = 16

# Takes the terminal as its own, so that Ctrl-C in it is a signal, and becomes the command.
_BECOME = """\
import os, sys
terminal, argv = sys.argv[1] == "terminal", sys.argv[2:]
try:
    if terminal:
        import fcntl, termios
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.execvp(argv[0], argv)
except OSError as error:
    print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
    os._exit(127 if isinstance(error, (FileNotFoundError, NotADirectoryError)) else 126)
"""


def execute(store: Store, pod: str, container: str, argv: Sequence[str], streams: Streams) -> int:
    """See ``Backend.exec``. A Ctrl-C that reaches this process is passed on as SIGINT."""
    room = _room(store, pod, container)
    with _started(room, argv, streams) as command:
        with store.write() as connection:
            if records.job_by_uid(connection, room.job) is not None:
                # What hides its marker is still told by its session.
                records.add_process(connection, room.job, command.pid, processes.start_mark(command.pid))
        while True:
            try:
                return command.run(streams)
            except KeyboardInterrupt:
                command.interrupt()


@dataclass(frozen=True, slots=True)
class _Room:
    """A running container, to be entered."""

    job: str
    first: Process
    env: dict[str, str]
    folder: str

    @property
    def closed(self) -> bool:
        """Whether the container has ended."""
        return not processes.is_alive(self.first.pid, self.first.start)


def _room(store: Store, pod: str, container: str) -> _Room:
    with store.read() as connection:
        rows = connection.execute("SELECT job, uid, object FROM pods").fetchall()
        row = next((row for row in rows if decode(row["object"])["metadata"]["name"] == pod), None)
        noted = records.processes_of(connection, row["job"]) if row is not None else []
    if row is None:
        raise NotFound(f'no pod "{pod}" at local://{store.root}', status=404)
    statuses = {status["name"]: status for status in _statuses(decode(row["object"]))}
    if container not in statuses:
        raise NotFound(f'pod "{pod}" has no container "{container}"; it has {", ".join(statuses)}', status=404)
    # The first that was noted: later ones with this marker are commands such as this one.
    marker = f"{row['uid']}/{container}/{statuses[container]['restartCount']}"
    for pid, start in noted:
        first = processes.process(pid)
        if first is not None and first.start == start and processes.marker_of(pid, ENV_POD) == marker:
            return _Room(row["job"], first, _environment(pid), _folder(pid))
    raise NotFound(f'container "{container}" of pod "{pod}" does not run', status=404)


def _statuses(pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (*pod["status"]["initContainerStatuses"], *pod["status"]["containerStatuses"])


def _environment(pid: int) -> dict[str, str]:
    if not processes.ON_LINUX:
        import psutil

        return dict(psutil.Process(pid).environ())
    with open(f"/proc/{pid}/environ", "rb") as file:
        entries = os.fsdecode(file.read()).split("\0")
    return dict(entry.partition("=")[::2] for entry in entries if "=" in entry)


def _folder(pid: int) -> str:
    if not processes.ON_LINUX:
        import psutil

        return str(psutil.Process(pid).cwd())
    return os.readlink(f"/proc/{pid}/cwd")


@contextlib.contextmanager
def _started(room: _Room, argv: Sequence[str], streams: Streams) -> Iterator[_Command]:
    """The command, running; after an error nothing of it is left."""
    own, its = pty.openpty() if streams.terminal is not None else (None, None)
    env = room.env if its is None else {**room.env, "TERM": os.environ.get("TERM", "xterm")}
    stdin = streams.stdin if streams.stdin is not None else subprocess.DEVNULL
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BECOME, "" if its is None else "terminal", *argv],
            env=env,
            cwd=room.folder,
            stdin=stdin if its is None else its,
            stdout=streams.stdout if its is None else its,
            stderr=streams.stderr if its is None else its,
            start_new_session=True,
        )
    except OSError as error:
        _close(own)
        raise NotFound(f"cannot enter {room.folder}: {error.strerror}") from error
    finally:
        _close(its)
    command = _Command(room, child, own)
    try:
        yield command
    finally:
        command.end()


def _close(fd: int | None) -> None:
    if fd is not None:
        os.close(fd)


class _Command:
    """A command that was started; towards ``pump`` the other side of its terminal.

    Without a terminal it has the caller's own descriptors, and nothing is to be moved.
    """

    def __init__(self, room: _Room, child: subprocess.Popen[bytes], terminal: int | None) -> None:
        self._room, self._child, self._terminal = room, child, terminal
        self._unsent = b""
        self._hung_up = terminal is None
        if terminal is not None:
            os.set_blocking(terminal, False)

    @property
    def pid(self) -> int:
        """Also the number of its session."""
        return self._child.pid

    def run(self, streams: Streams) -> int:
        """Until its end; its exit code."""
        if not self._hung_up:
            pump(self, streams, period=_PERIOD)
        while self._child.returncode is None:
            self.tick()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_PERIOD)
        self._drain(streams)
        code = self._child.returncode
        return code if code >= 0 else 128 - code

    def _drain(self, streams: Streams) -> None:
        """What it printed in its last moment; bounded, because what it left in the background may print on."""
        for _ in range(_LAST_PIECES):
            for _, data in () if self._hung_up else self.take():
                write_all(streams.stdout, data)

    def interrupt(self) -> None:
        """Ctrl-C where it has no terminal that would tell it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGINT)

    def end(self) -> None:
        """Let go of it: a command that still runs hears it as from a terminal that is closed, and must end."""
        if self._terminal is not None:
            os.close(self._terminal)
        if self._child.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGHUP)
        try:
            self._child.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._kill()

    # -- the other side of its terminal --------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """It has ended, or has closed its terminal."""
        return self._hung_up or self._child.returncode is not None

    @property
    def waiting(self) -> bool:
        """It has not read all that was typed."""
        return bool(self._unsent)

    def fileno(self) -> int:
        """Our side of the terminal."""
        assert self._terminal is not None
        return self._terminal

    def take(self) -> Iterator[tuple[int, bytes]]:
        """What it has printed; a piece at a time, so that a Ctrl-C gets through to one that prints without end."""
        try:
            data = os.read(self.fileno(), 1 << 16)
        except BlockingIOError:
            return
        except OSError:  # Linux: nobody has the other side any more
            data = b""
        self._hung_up = not data
        if data:
            yield STDOUT, data

    def put(self, data: bytes) -> None:
        """Type this; the end of stdin is typed as Ctrl-D."""
        self._unsent += data or b"\x04"
        self.send()

    def send(self) -> None:
        """Type as much as the terminal takes."""
        try:
            self._unsent = self._unsent[os.write(self.fileno(), self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = b""

    def resize(self, columns: int, rows: int) -> None:
        """Set the terminal's size; the kernel tells the command."""
        with contextlib.suppress(OSError):
            fcntl.ioctl(self.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def tick(self) -> None:
        """A command ends with its container."""
        if self._child.poll() is None and self._room.closed:
            self._kill()

    def _kill(self) -> None:
        processes.kill_all(self._below)
        self._child.kill()
        self._child.wait()
        processes.kill_all(self._below)

    def _below(self) -> list[Process]:
        """What it has started, and what else is in its session; not its first process, which is ours to wait for."""
        everything = processes.snapshot()
        found = {p.pid for p in processes.descendants(self.pid, everything)}
        return [p for p in everything.values() if p.pid != self.pid and (p.session == self.pid or p.pid in found)]
