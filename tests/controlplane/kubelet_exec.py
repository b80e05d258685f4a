"""The kubelet's ``exec``: a command in a container that runs, over the websocket that the API server passes through.

Since 1.36 the API server leaves a client's websocket alone when the node declares ``ExtendWebSocketsToKubelet``; of the
channel protocols v5 and v4 are spoken. How a command ends is told as a kubelet does.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import pty
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.controlplane.kubelet_run import Process

__all__ = ["FEATURE", "accept", "protocol", "serve"]

# What the node declares in its status.
FEATURE = "ExtendWebSocketsToKubelet"

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_FULL = 1 << 16

# Becomes the command, or says in runc's words why not.
_BECOME = """\
import os, shutil, sys
status, tty, *argv = sys.argv[1:]
os.set_inheritable(int(status), False)
try:
    if tty:
        import fcntl, termios
        if os.getsid(0) != os.getpid():
            os.setsid()  # nsenter has made a child
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    path = argv[0] if "/" in argv[0] else shutil.which(argv[0])
    if path is None:
        raise RuntimeError("executable file not found in $PATH")
    os.execv(path, argv)
except (OSError, RuntimeError) as error:
    text = getattr(error, "strerror", None) or str(error)
    text = f'stat {argv[0]}: no such file or directory' if isinstance(error, FileNotFoundError) else text.lower()
    text = text if isinstance(error, OSError) else str(error)
    os.write(int(status), f'exec: "{argv[0]}": {text}'.encode())
    os._exit(1)
"""


def protocol(offered: str) -> str:
    """The newest channel protocol that both speak; "" for none."""
    names = [name.strip() for name in offered.split(",")]
    return next((name for name in _PROTOCOLS if name in names), "")


def accept(key: str) -> str:
    """``Sec-WebSocket-Accept`` for a ``Sec-WebSocket-Key``."""
    digest = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
    return base64.b64encode(digest).decode()


def serve(connection: socket.socket, process: Process, query: Mapping[str, Sequence[str]], *, contained: bool) -> None:
    """Run the command of a request whose connection was switched to websocket, until its end.

    Args:
        connection: where frames come and go.
        process: the container's.
        query: ``command`` and, with the value 1, ``input``, ``output``, ``error``, ``tty``.
        contained: the container has namespaces of its own.
    """
    _Session(connection, process, query, contained=contained).run()


def _failure(message: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {}, "status": "Failure", "message": message, **more}


def _status(code: int, error: str) -> dict[str, Any]:
    if error:
        text = (
            "error executing command in container: failed to exec in container: OCI runtime exec failed: exec failed: "
            f"unable to start container process: {error}"
        )
        details = {"causes": [{"message": text}]}
        return _failure(f"Internal error occurred: {text}", reason="InternalError", details=details, code=500)
    if code:
        cause = {"reason": "ExitCode", "message": str(code)}
        text = f"command terminated with non-zero exit code: {code}"
        return _failure(text, reason="NonZeroExitCode", details={"causes": [cause]})
    return {"metadata": {}, "status": "Success"}


class _Session:
    """One command and its connection."""

    def __init__(
        self, connection: socket.socket, process: Process, query: Mapping[str, Sequence[str]], *, contained: bool
    ) -> None:
        self._connection, self._container = connection, process
        self._tty = "tty" in query
        self._inbox = bytearray()
        self._typed = bytearray()
        self._typing = "input" in query
        self._gone = False
        self._reader, writer = os.pipe()
        argv = [sys.executable, "-I", "-S", "-c", _BECOME, str(writer), "tty" if self._tty else "", *query["command"]]
        prefix = ["--target", str(process.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--wd"]
        if contained:
            argv = [str(shutil.which("nsenter")), *prefix, *_user(process.pid), "--", *argv]
        self._child, self._in, self._outs = _start(argv, process.pid, self._tty, contained=contained, pass_fd=writer)
        os.close(writer)

    def run(self) -> None:
        try:
            while self._outs and not self._gone:
                self._turn()
        finally:
            code, error = self._end()
        if not self._gone:
            with contextlib.suppress(OSError):
                self._send(_ERROR, json.dumps(_status(code, error)).encode())
                self._frame(8, struct.pack(">H", 1000))
                self._drain()

    def _drain(self) -> None:
        """To close while the client still types would take back what it has not read yet (TCP resets)."""
        self._connection.settimeout(5)
        while self._connection.recv(1 << 16):
            pass

    def _turn(self) -> None:
        full = len(self._typed) > _FULL
        buffered = isinstance(self._connection, ssl.SSLSocket) and self._connection.pending() > 0 and not full
        readers: list[Any] = [*self._outs, *([] if full else [self._connection])]
        ready, free, _ = select.select(readers, [self._in] if self._typed else [], [], 0 if buffered else 0.2)
        if self._in in free:
            self._type()
        if self._connection in ready or buffered:
            self._hear()
        for fd in [fd for fd in self._outs if fd in ready]:
            self._forward(fd)
        if not ready and (self._child.poll() is not None or not _alive(self._container.pid)):
            self._outs.clear()  # what it left in the background may hold them for ever

    def _forward(self, fd: int) -> None:
        try:
            data = os.read(fd, 1 << 15)
        except OSError:
            data = b""
        if data:
            self._send(self._outs[fd], data)
        else:
            del self._outs[fd]

    def _type(self) -> None:
        try:
            del self._typed[: os.write(self._in, self._typed)]
        except BlockingIOError:
            return
        except OSError:
            self._typed.clear()
            self._typing = False
        self._close_stdin_when_done()

    def _close_stdin_when_done(self) -> None:
        if not self._typing and not self._typed and self._in >= 0 and not self._tty:
            os.close(self._in)
            self._in = -1

    def _end(self) -> tuple[int, str]:
        """The exit code, and why it was not started."""
        if self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
        code = self._child.wait()
        for fd in {self._in, *self._outs} - {-1}:
            with contextlib.suppress(OSError):
                os.close(fd)
        with os.fdopen(self._reader, "rb") as pipe:
            error = pipe.read().decode()
        return (code if code >= 0 else 128 - code), error

    # -- websocket ---------------------------------------------------------------------------------------------------

    def _send(self, channel: int, data: bytes) -> None:
        self._frame(2, bytes([channel]) + data)

    def _frame(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        head = bytes([0x80 | opcode]) + (bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size))
        self._connection.sendall(head + payload)

    def _hear(self) -> None:
        data = self._connection.recv(1 << 16)
        self._gone = not data
        self._inbox += data
        while len(self._inbox) >= 2:
            size, start = self._inbox[1] & 0x7F, 2
            if size >= 126:
                start = 4 if size == 126 else 10
                size = int.from_bytes(self._inbox[2:start], "big")
            if len(self._inbox) < start + 4 + size:
                return
            mask, masked = self._inbox[start : start + 4], self._inbox[start + 4 : start + 4 + size]
            opcode = self._inbox[0] & 0x0F
            del self._inbox[: start + 4 + size]
            self._frame_of(opcode, bytes(byte ^ mask[i % 4] for i, byte in enumerate(masked)))

    def _frame_of(self, opcode: int, payload: bytes) -> None:
        if opcode == 9:
            self._frame(10, payload)
        elif opcode == 8:
            self._gone = True
        elif opcode in (1, 2) and payload:
            self._message(payload[0], payload[1:])

    def _message(self, channel: int, data: bytes) -> None:
        if channel == _STDIN:
            self._typed += data
        elif channel == _CLOSE and data[:1] == bytes([_STDIN]):
            self._typing = False
            self._close_stdin_when_done()
        elif channel == _RESIZE and self._tty:
            size = json.loads(data)
            _set_size(self._in, size["Width"], size["Height"])


def _start(
    argv: Sequence[str], pid: int, tty: bool, *, contained: bool, pass_fd: int
) -> tuple[subprocess.Popen[bytes], int, dict[int, int]]:
    """The child, the descriptor that types to it, and those that it prints to, with their channels."""
    env = dict(entry.partition("=")[::2] for entry in Path(f"/proc/{pid}/environ").read_text().split("\0") if entry)
    options: dict[str, Any] = {"env": env, "pass_fds": (pass_fd,), "start_new_session": True}
    if not contained:
        options["cwd"] = f"/proc/{pid}/cwd"
    if tty:
        own, its = pty.openpty()
        child = subprocess.Popen(
            argv, stdin=its, stdout=its, stderr=its, **{**options, "env": {**env, "TERM": "xterm"}}
        )
        os.close(its)
        os.set_blocking(own, False)
        return child, own, {own: _STDOUT}
    pipe = subprocess.PIPE
    child = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, **options)
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    typing, out, err = (os.dup(stream.fileno()) for stream in (child.stdin, child.stdout, child.stderr))
    for stream in (child.stdin, child.stdout, child.stderr):
        stream.close()
    os.set_blocking(typing, False)
    return child, typing, {out: _STDOUT, err: _STDERR}


def _user(pid: int) -> list[str]:
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    user, group = rows["Uid"].split()[0], rows["Gid"].split()[0]
    return ["--setuid", user, "--setgid", group] if user != "0" else []


def _alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def _set_size(fd: int, columns: int, rows: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
