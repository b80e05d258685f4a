"""One node of an MPI job: the stand-in for its sshd. A program of its own; the standard library and psutil only.

``python mpi_node.py SOCKET [NAME …]`` listens for ``mpi_agent`` and starts the ranks that it hands over as its own
children, in its own process group: whoever kills the node kills its ranks. The variables NAME … are the node's own,
and so are the engine's marks, by which it finds what belongs to a pod; all others a rank takes from the launcher, and
what the launcher does not have from the node.

The agent sends its three streams, then a line ``{"argv", "env", "cwd"}``, then lines ``{"signal"}``. It is answered by
one line, ``{"ended": code}`` (negative: a signal, as subprocess counts) or ``{"failed": text}``. When its connection
breaks, its rank is killed. SIGTERM ends the ranks, then the node, with 143.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Node", "main"]

_STOPPED = 128 + signal.SIGTERM
_REQUEST_SECONDS = 30.0
_MARKS = "TRAINER_OPS_ENGINE_"


@dataclass(slots=True)
class _Rank:
    name: str
    process: subprocess.Popen[bytes]
    unread: bytes = b""


class Node:
    """The server.

    Args:
        path: of the socket; it appears once the node listens.
        own: names of the variables that ranks take from this process.
    """

    def __init__(self, path: str, own: Sequence[str]) -> None:
        self._folder, self._name = os.path.split(os.path.abspath(path))
        self._own = {k: v for k, v in os.environ.items() if k in own or k.startswith(_MARKS)}
        self._ranks: dict[socket.socket, _Rank] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._wake, self._woken = socket.socketpair()
        self._stopping = False

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; returns the exit code."""
        self._listen()
        self._heed_signals()
        while not (self._stopping and not self._ranks):
            for key, _ in self._selector.select():
                self._serve(key.fileobj)
            self._reap()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._name)
        return _STOPPED

    def _listen(self) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        os.chdir(self._folder)  # a socket's path may have about 100 characters; its name always fits
        for name in (self._name, f"{self._name}.new"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
        self._listener.bind(f"{self._name}.new")
        self._listener.listen()
        os.rename(f"{self._name}.new", self._name)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def _heed_signals(self) -> None:
        for side in (self._wake, self._woken):
            side.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        self._stopping = True
        for rank in self._ranks.values():
            rank.process.terminate()

    def _serve(self, source: Any) -> None:
        if source is self._woken:
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(4096)
        elif source is self._listener:
            self._accept()
        elif source in self._ranks:
            self._hear(source)

    # -------------------------------------------------------------------------------------------------- one rank

    def _accept(self) -> None:
        agent, _ = self._listener.accept()
        agent.settimeout(_REQUEST_SECONDS)
        try:
            rank = self._start(agent)
        except (OSError, ValueError) as exc:
            _answer(agent, {"failed": getattr(exc, "strerror", None) or str(exc)})
            agent.close()
            return
        self._ranks[agent] = rank
        self._selector.register(agent, selectors.EVENT_READ)
        if self._stopping:
            rank.process.terminate()

    def _start(self, agent: socket.socket) -> _Rank:
        _, streams, _, _ = socket.recv_fds(agent, 1, 3)
        try:
            line, _, unread = _line(agent).partition(b"\n")
            request = json.loads(line)
            env = {**os.environ, **request["env"], **self._own}
            name = f"rank {env.get('OMPI_COMM_WORLD_RANK') or env.get('PMIX_RANK') or '?'}"
            stdin, stdout, stderr = streams
            process = subprocess.Popen(
                request["argv"], env=env, cwd=request["cwd"], stdin=stdin, stdout=stdout, stderr=stderr
            )
        finally:
            for stream in streams:
                os.close(stream)
        _say(f"{name} started")
        return _Rank(name, process, unread)

    def _hear(self, agent: socket.socket) -> None:
        rank = self._ranks[agent]
        try:
            data = agent.recv(4096)
        except OSError:
            data = b""
        if not data:
            # Its mpirun is gone. The rank is reaped later; nobody waits for the answer.
            self._selector.unregister(agent)
            _kill_tree(rank.process)
            return
        *lines, rank.unread = (rank.unread + data).split(b"\n")
        for line in lines:
            rank.process.send_signal(json.loads(line)["signal"])

    def _reap(self) -> None:
        for agent, rank in list(self._ranks.items()):
            code = rank.process.poll()
            if code is None:
                continue
            _say(f"{rank.name} ended with {f'exit code {code}' if code >= 0 else f'signal {-code}'}")
            _answer(agent, {"ended": code})
            with contextlib.suppress(KeyError):
                self._selector.unregister(agent)
            agent.close()
            del self._ranks[agent]


def _line(agent: socket.socket) -> bytes:
    """What came up to and with the first line end."""
    found = b""
    while b"\n" not in found:
        part = agent.recv(1 << 16)
        if not part:
            raise ValueError("the agent went away")
        found += part
    return found


def _answer(agent: socket.socket, message: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        agent.sendall(json.dumps(message).encode() + b"\n")


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for a rank and what it started (its data loaders share the node's process group)."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()


def _say(text: str) -> None:
    print(text, flush=True)


def main(argv: Sequence[str]) -> int:
    """Serve at ``argv[0]``; the rest are the node's own variables."""
    return Node(argv[0], argv[1:]).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
