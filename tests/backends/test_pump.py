"""Bytes between a caller and a peer, over real descriptors."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from trainer_ops.backends.base import Streams, Terminal
from trainer_ops.backends.pump import STDERR, STDOUT, pump, write_all


class Peer:
    """A peer over a socket: what it is given goes there, what comes from there it says. Ends with the connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.unsent = b""
        self.sizes: list[tuple[int, int]] = []
        self.ends = self.ticks = 0
        self.over = False

    @property
    def waiting(self) -> bool:
        return bool(self.unsent)

    def fileno(self) -> int:
        return self.connection.fileno()

    def take(self) -> Iterator[tuple[int, bytes]]:
        try:
            data = self.connection.recv(1 << 16)
        except BlockingIOError:
            return
        self.over = not data
        if data:
            yield (STDERR if data.startswith(b"!") else STDOUT), data

    def send(self) -> None:
        try:
            self.unsent = self.unsent[self.connection.send(self.unsent) :]
        except BlockingIOError:
            pass

    def put(self, data: bytes) -> None:
        self.unsent += data
        self.ends += not data
        self.send()
        if self.ends and not self.unsent:
            self.connection.shutdown(socket.SHUT_WR)

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    def tick(self) -> None:
        self.ticks += 1
        if self.ends and not self.unsent:
            self.connection.shutdown(socket.SHUT_WR)


@pytest.fixture
def ends() -> Iterator[tuple[Peer, socket.socket]]:
    """A peer and the other side of its connection."""
    near, far = socket.socketpair()
    with near, far:
        yield Peer(near), far


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[int, int, int]]:
    """stdin, stdout and stderr as files."""
    with ExitStack() as opened:
        names = [tmp_path / name for name in ("stdin", "stdout", "stderr")]
        for name in names:
            name.touch()
        one, two, three = (opened.enter_context(name.open("rb+")).fileno() for name in names)
        yield one, two, three


def test_each_stream_to_its_place(
    ends: tuple[Peer, socket.socket], files: tuple[int, int, int], tmp_path: Path
) -> None:
    peer, far = ends
    (tmp_path / "stdin").write_bytes(b"in")
    far.sendall(b"out")
    far.shutdown(socket.SHUT_WR)
    pump(peer, Streams(*files), period=60)
    assert (tmp_path / "stdout").read_bytes() == b"out"
    assert peer.over


def test_without_stdin_it_has_ended(ends: tuple[Peer, socket.socket]) -> None:
    peer, far = ends
    far.shutdown(socket.SHUT_WR)
    pump(peer, Streams(None), period=60)
    assert peer.ends == 1


def test_stderr_is_apart(ends: tuple[Peer, socket.socket], files: tuple[int, int, int], tmp_path: Path) -> None:
    peer, far = ends
    far.sendall(b"!oh")
    far.shutdown(socket.SHUT_WR)
    pump(peer, Streams(*files), period=60)
    assert ((tmp_path / "stdout").read_bytes(), (tmp_path / "stderr").read_bytes()) == (b"", b"!oh")


def test_much_each_way_at_once(tmp_path: Path) -> None:
    """An echo that reads nothing while it prints: whoever waits for one direction only never ends."""
    given = bytes(range(65, 91)) * (1 << 17)
    (tmp_path / "in").write_bytes(given)
    near, far = socket.socketpair()
    child = os.fork()
    if child == 0:
        near.close()
        far.sendall(b"y" * (1 << 22))
        got = b""
        while piece := far.recv(1 << 16):
            got += piece
        far.sendall(got)
        os._exit(0)
    far.close()
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as out, near:
        pump(Peer(near), Streams(stdin.fileno(), out.fileno()), period=0.02)
    os.waitpid(child, 0)
    same = (tmp_path / "out").read_bytes() == b"y" * (1 << 22) + given
    assert same


def test_sizes_are_told_at_first_and_at_each_change(ends: tuple[Peer, socket.socket]) -> None:
    peer, far = ends
    sizes = [(80, 24), (100, 40)]
    reader, writer = os.pipe()
    os.write(writer, b"!")

    def size() -> tuple[int, int]:
        if len(sizes) == 1:
            far.shutdown(socket.SHUT_WR)  # the second was asked for: enough
        return sizes.pop(0)

    try:
        pump(peer, Streams(None, terminal=Terminal(size, reader)), period=60)
    finally:
        os.close(reader)
        os.close(writer)
    assert peer.sizes == [(80, 24), (100, 40)]


def test_nobody_reads_any_more(ends: tuple[Peer, socket.socket]) -> None:
    peer, far = ends
    reader, writer = os.pipe()
    os.close(reader)
    far.sendall(b"out")
    try:
        with pytest.raises(BrokenPipeError):
            pump(peer, Streams(None, stdout=writer), period=60)
    finally:
        os.close(writer)


def test_writing_where_others_do_not_block() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    child = os.fork()
    if child == 0:
        near.close()
        size = 0
        while size < 1 << 21 and (piece := far.recv(1 << 16)):
            size += len(piece)
        os._exit(0 if size == 1 << 21 else 1)
    with near, far:
        write_all(near.fileno(), b"x" * (1 << 21))
    assert os.waitpid(child, 0)[1] == 0
