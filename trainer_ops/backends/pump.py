"""Moves bytes between a caller's descriptors and one peer, in one thread, for commands that run elsewhere.

Nothing here blocks but writing to the caller: what a peer cannot take yet waits, and only then is more of stdin read.
So a command that prints much and reads nothing, or the reverse, cannot stop the other direction. May import: ``base``.
"""

from __future__ import annotations

import os
import selectors
import sys
from collections.abc import Iterable
from typing import Protocol

from trainer_ops.backends.base import Streams

__all__ = ["STDERR", "STDOUT", "Peer", "pump", "write_all"]

STDOUT, STDERR = 1, 2

_CHUNK = 16 * 1024


class Peer(Protocol):
    """The side where the command runs."""

    @property
    def over(self) -> bool:
        """Nothing more comes from it."""

    @property
    def waiting(self) -> bool:
        """Something that it was given could not be sent yet."""

    def fileno(self) -> int:
        """What to wait for."""

    def take(self) -> Iterable[tuple[int, bytes]]:
        """What has come since, as (``STDOUT`` or ``STDERR``, bytes); never blocks."""

    def send(self) -> None:
        """Send more of what waits; never blocks."""

    def put(self, data: bytes) -> None:
        """Give it some of stdin; b"" is the end of stdin."""

    def resize(self, columns: int, rows: int) -> None:
        """Its terminal has this size from now on."""

    def tick(self) -> None:
        """Called after every turn, and at least once a period."""


def pump(peer: Peer, streams: Streams, *, period: float) -> None:
    """Move bytes until the peer is over.

    Args:
        peer: the side where the command runs.
        streams: the caller's side.
        period: seconds after which ``tick`` is called even though nothing has moved.

    Raises:
        BrokenPipeError: nobody reads what the command prints.
    """
    # epoll refuses files and /dev/null, poll refuses a Mac's terminals.
    kind = selectors.PollSelector if sys.platform.startswith("linux") else selectors.SelectSelector
    terminal = streams.terminal
    if terminal is not None:
        peer.resize(*terminal.size())
    with kind() as selector:
        turns = _Turns(selector, peer, streams)
        while not peer.over:
            turns.run(period)
            peer.tick()


class _Turns:
    """The state between two turns: whether stdin has ended, and what is being waited for."""

    def __init__(self, selector: selectors.BaseSelector, peer: Peer, streams: Streams) -> None:
        self._selector, self._peer, self._streams = selector, peer, streams
        self._stdin = streams.stdin
        self._changed = streams.terminal.changed if streams.terminal is not None else None
        if self._stdin is None:
            peer.put(b"")
        self._forward()  # what a TLS socket has decrypted already, no selector sees

    def run(self, period: float) -> None:
        waiting = self._peer.waiting
        self._watch(self._peer.fileno(), selectors.EVENT_READ | (selectors.EVENT_WRITE if waiting else 0))
        self._watch(self._stdin, 0 if waiting else selectors.EVENT_READ)
        self._watch(self._changed, selectors.EVENT_READ)
        ready = {key.fd: events for key, events in self._selector.select(period)}
        if self._changed in ready:
            self._resize()
        if ready.get(self._peer.fileno(), 0) & selectors.EVENT_WRITE:
            self._peer.send()
        if self._peer.fileno() in ready:
            self._forward()
        if self._stdin in ready:
            self._read()

    def _watch(self, fd: int | None, events: int) -> None:
        if fd is None:
            return
        known = fd in self._selector.get_map()
        if known and not events:
            self._selector.unregister(fd)
        elif known:
            self._selector.modify(fd, events)
        elif events:
            self._selector.register(fd, events)

    def _forward(self) -> None:
        for stream, data in self._peer.take():
            write_all(self._streams.stderr if stream == STDERR else self._streams.stdout, data)

    def _read(self) -> None:
        assert self._stdin is not None
        try:
            data = os.read(self._stdin, _CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a terminal that is gone
            data = b""
        if not data:
            self._watch(self._stdin, 0)
            self._stdin = None
        self._peer.put(data)

    def _resize(self) -> None:
        terminal = self._streams.terminal
        assert terminal is not None
        assert terminal.changed is not None
        if not os.read(terminal.changed, 1024):
            self._watch(self._changed, 0)
            self._changed = None
        self._peer.resize(*terminal.size())


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, also where others have made the descriptor non-blocking."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            with selectors.DefaultSelector() as selector:
                selector.register(fd, selectors.EVENT_WRITE)
                selector.select()
