"""The bytes of an exec connection: websocket frames (RFC 6455), and in each message one channel of the command.

``v4.channel.k8s.io``: the first byte of a message is its channel: 0 stdin, 1 stdout, 2 stderr, 3 how it ended (a Status
as JSON), 4 the terminal's size (JSON). ``v5`` adds 255, which closes the channel that its second byte names: without
it nobody can tell a command that its stdin has ended. Pure: bytes in, bytes out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainer_ops.backends.kubernetes.failures import failure
from trainer_ops.errors import BackendError, NotFound

__all__ = [
    "PING",
    "PONG",
    "PROTOCOLS",
    "Ending",
    "Inbox",
    "close_stdin",
    "ending",
    "frame",
    "refusal",
    "resize",
    "typed",
]

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")

_STDIN, _ERROR, _RESIZE, _CLOSE_CHANNEL = 0, 3, 4, 255

_CONTINUATION, _TEXT, _BINARY, _CLOSE = 0, 1, 2, 8
PING, PONG = 9, 10

# What a runtime says of a command that it cannot start, as a shell's exit codes.
_CANNOT_START = re.compile(r'exec failed|unable to start container process|exec: "')
_RUNC = "unable to start container process: "
_NOT_THERE = re.compile(r"executable file not found|no such file or directory|not a directory")
_NO_CONTAINER = re.compile(
    r"container not found|is not valid for pod|container .* is not running|container is in CONTAINER_"
)


def frame(opcode: int, payload: bytes, mask: bytes) -> bytes:
    """One frame of a client.

    Args:
        opcode: its kind.
        payload: at most 2**63 bytes.
        mask: four random bytes.
    """
    size = len(payload)
    head = bytes([0x80 | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return head + mask + _masked(payload, mask)


def _masked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


def typed(data: bytes, mask: bytes) -> bytes:
    """Some of stdin."""
    return frame(_BINARY, bytes([_STDIN]) + data, mask)


def close_stdin(mask: bytes) -> bytes:
    """The end of stdin (``v5`` only)."""
    return frame(_BINARY, bytes([_CLOSE_CHANNEL, _STDIN]), mask)


def resize(columns: int, rows: int, mask: bytes) -> bytes:
    """The terminal's size."""
    return frame(_BINARY, bytes([_RESIZE]) + json.dumps({"Width": columns, "Height": rows}).encode(), mask)


class Inbox:
    """Takes what comes over the connection apart.

    Attributes:
        pings: payloads that are to be answered.
        closed: the server has said goodbye.
        status: what came over the channel that says how the command ended.
    """

    def __init__(self) -> None:
        self.pings: list[bytes] = []
        self.closed = False
        self.status = b""
        self._unread = bytearray()
        self._message = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """(channel, bytes) of stdout and stderr, as they are complete."""
        self._unread += data
        while (found := self._frame()) is not None:
            opcode, final, payload = found
            if opcode in (_TEXT, _BINARY, _CONTINUATION):
                self._message += payload
                if final:
                    message, self._message = bytes(self._message), bytearray()
                    yield from self._read(message)
            elif opcode == PING:
                self.pings.append(payload)
            elif opcode == _CLOSE:
                self.closed = True

    def _frame(self) -> tuple[int, bool, bytes] | None:
        """The next whole frame: opcode, whether it ends its message, payload. A server masks nothing."""
        unread = self._unread
        if len(unread) < 2:
            return None
        size, start = unread[1] & 0x7F, 2
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(unread) < start:
                return None
            size = int.from_bytes(unread[2:start], "big")
        if len(unread) < start + size:
            return None
        found = unread[0] & 0x0F, bool(unread[0] & 0x80), bytes(unread[start : start + size])
        del unread[: start + size]
        return found

    def _read(self, message: bytes) -> Iterator[tuple[int, bytes]]:
        channel, data = message[:1], message[1:]
        if not data:
            return  # each channel begins with an empty message
        if channel[0] == _ERROR:
            self.status += data
        elif channel[0] in (1, 2):
            yield channel[0], data


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended. ``text`` is for stderr, of one that could not be started."""

    code: int
    text: str = ""


def ending(what: str, status: bytes) -> Ending:
    """Read the Status that ends a command.

    Args:
        what: for the error's message: ``running a command in pod x``.
        status: the JSON.

    Raises:
        BackendError: it is about the connection or the container, not about the command.
    """
    raw = _object(status)
    if raw.get("status") == "Success":
        return Ending(0)
    causes = (raw.get("details") or {}).get("causes") or ()
    code = next((c.get("message") for c in causes if c.get("reason") == "ExitCode"), "")
    if str(code).isdigit():
        return Ending(int(code))
    message = str(raw.get("message") or status.decode("utf-8", "replace")).strip()
    if _CANNOT_START.search(message):
        return Ending(127 if _NOT_THERE.search(message) else 126, message.rpartition(_RUNC)[2])
    raise refusal(what, int(raw.get("code") or 500), status)


def refusal(what: str, status: int | None, body: bytes | str | None, reason: str = "") -> BackendError:
    """The error for a connection that did not come about, or a command that was not run; see ``failure``."""
    error = failure(what, status, body, reason)
    if _NO_CONTAINER.search(error.message):
        return NotFound(error.message, status=404)
    return error


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, Mapping) else {}
