"""Stands in for sshd and ssh in the pods of MPI trainings: their images cannot run here, and sshd may not be there.

A program. ``rshd.py sshd`` listens on port 2222, where Trainer's MPI images listen, and runs what it is sent in a shell
with an environment of a login (not the container's, as with the real one). ``rshd.py ssh [OPTIONS] HOST COMMAND…``
sends a command there, passes its streams on and ends with its exit code. No key is checked and nothing is encrypted:
the network is the pods' own. The test kubelet mounts both over ``/usr/sbin/sshd`` and ``/usr/bin/ssh``.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
from typing import IO

PORT = 2222
OPTIONS_WITH_VALUE = "bcDEeFIiJLlmOopQRSWw"
LOGIN = ("PATH", "HOME", "HOSTNAME")


def receive(stream: IO[bytes]) -> tuple[bytes, bytes]:
    head = stream.read(5)
    return head[:1], stream.read(int.from_bytes(head[1:], "big"))


class Session(socketserver.StreamRequestHandler):
    """One command: frames of a letter (o, e: output; x: exit code), a length and data go back."""

    def handle(self) -> None:
        command = json.loads(self.rfile.readline())
        env = {name: os.environ[name] for name in LOGIN if name in os.environ}
        child = subprocess.Popen(
            ["/bin/sh", "-c", command],
            env={**env, "SHELL": "/bin/sh"},
            cwd=env.get("HOME") if os.access(env.get("HOME", ""), os.X_OK) else "/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        lock = threading.Lock()
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdin is not None
        pumps = [
            threading.Thread(target=self._pump, args=(stream, letter, lock), daemon=True)
            for stream, letter in ((child.stdout, b"o"), (child.stderr, b"e"))
        ]
        threading.Thread(target=self._feed, args=(child.stdin,), daemon=True).start()
        for pump in pumps:
            pump.start()
        code = child.wait()
        for pump in pumps:
            pump.join(timeout=1)  # a daemon that was left behind may hold them open
        self._send(b"x", str(code if code >= 0 else 128 - code).encode(), lock)

    def _send(self, letter: bytes, data: bytes, lock: threading.Lock) -> None:
        try:
            with lock:
                self.wfile.write(letter + len(data).to_bytes(4, "big") + data)
        except OSError:
            pass

    def _pump(self, stream: IO[bytes], letter: bytes, lock: threading.Lock) -> None:
        while data := os.read(stream.fileno(), 65536):
            self._send(letter, data, lock)

    def _feed(self, stream: IO[bytes]) -> None:
        try:
            while data := self.rfile.read1(65536):
                stream.write(data)
                stream.flush()
            stream.close()
        except OSError:
            pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def sshd() -> None:
    with Server(("0.0.0.0", PORT), Session) as server:
        print(f"stand-in for sshd on port {PORT}", flush=True)
        server.serve_forever()


def destination(words: list[str]) -> tuple[str, str]:
    """The host and the command of ssh's arguments."""
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if len(option) == 2 and option[1] in OPTIONS_WITH_VALUE:
            words.pop(0)
    return words[0].rpartition("@")[2], " ".join(words[1:])


def connect(host: str) -> socket.socket:
    for _ in range(50):
        try:
            return socket.create_connection((host, PORT), timeout=10)
        except OSError as exc:
            last = exc
            time.sleep(0.2)
    raise SystemExit(f"ssh: connect to host {host} port {PORT}: {last.strerror or last}")


def ssh() -> int:
    host, command = destination(sys.argv[2:])
    peer = connect(host)
    peer.settimeout(None)
    peer.sendall(json.dumps(command).encode() + b"\n")
    threading.Thread(target=send_input, args=(peer,), daemon=True).start()
    with peer.makefile("rb") as stream:
        while True:
            letter, data = receive(stream)
            if letter in (b"x", b""):
                return int(data or b"255")
            os.write(1 if letter == b"o" else 2, data)


def send_input(peer: socket.socket) -> None:
    while data := os.read(0, 65536):
        peer.sendall(data)
    peer.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    if sys.argv[1] == "sshd":
        sshd()
    sys.exit(ssh())
