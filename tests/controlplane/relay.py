"""Run a program in a network of its own in which nothing is but one port of this machine's loopback.

A program: ``python -I -S relay.py PORT COMMAND…``, allowed to make a network namespace. For programs that listen on a
fixed port. Ends with the command's exit code; SIGTERM is handed on; the command does not outlive it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import threading

NEW_NET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def loopback_up() -> None:
    with socket.socket() as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def die_with_parent() -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Inside(threading.Thread):
    """The thread that is in the other network; what it starts and opens is too. It lives as long as the command."""

    def __init__(self, port: int, command: list[str]) -> None:
        super().__init__()
        self._port = port
        self._command = command
        self.ready = threading.Event()
        self.listener: socket.socket | None = None
        self.child: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        code = 125
        try:
            if libc.unshare(NEW_NET):
                raise OSError(ctypes.get_errno(), "unshare")
            loopback_up()
            self.listener = socket.create_server(("127.0.0.1", self._port))
            self.child = subprocess.Popen(self._command, preexec_fn=die_with_parent)
            self.ready.set()
            code = self.child.wait()
        finally:
            sys.stderr.flush()
            os._exit(128 - code if code < 0 else code)


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            end.close()


def serve(listener: socket.socket, port: int) -> None:
    """Accept there, connect here."""
    while True:
        peer, _ = listener.accept()
        try:
            out = socket.create_connection(("127.0.0.1", port), timeout=10)
        except OSError:
            peer.close()
            continue
        out.settimeout(None)
        for pair in ((peer, out), (out, peer)):
            threading.Thread(target=pump, args=pair, daemon=True).start()


def main() -> None:
    port = int(sys.argv[1])
    inside = Inside(port, sys.argv[2:])
    inside.start()
    inside.ready.wait()
    child, listener = inside.child, inside.listener
    assert child is not None
    assert listener is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: child.send_signal(number))
    serve(listener, port)


if __name__ == "__main__":
    main()
