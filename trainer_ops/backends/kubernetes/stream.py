"""Answers that go on and on: a watch's JSON lines, a log's bytes; and how to end them from another thread."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

from trainer_ops.errors import Unreachable

__all__ = ["chunks", "interrupt", "json_lines"]

_PIECE = 1 << 16


def chunks(response: Any, what: str) -> Iterator[bytes]:
    """The bytes of an answer as they come.

    Raises:
        Unreachable: the connection broke, or was silent for longer than its read time-out.
    """
    from urllib3.exceptions import HTTPError

    try:
        if getattr(response, "chunked", False):
            yield from response.stream(_PIECE, decode_content=True)
            return
        # Behind an old proxy the answer may be one that ends with its connection; ``stream`` would wait for 64 KiB.
        read = getattr(response, "read1", response.read)
        while piece := read(_PIECE):
            yield piece
    except (HTTPError, OSError, ValueError, AttributeError) as exc:
        # ValueError and AttributeError: urllib3's words for a response that another thread has shut down.
        raise Unreachable(f"{what}: {type(exc).__name__}: {exc}"[:300]) from exc


def json_lines(response: Any, what: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a watch's stream.

    Raises:
        Unreachable: the connection broke, fell silent, or sent something else.
    """
    rest = b""
    for piece in chunks(response, what):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield _parsed(line, what)


def _parsed(line: bytes, what: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except ValueError as exc:
        raise Unreachable(f"{what}: a line is no JSON") from exc
    if not isinstance(parsed, dict):
        raise Unreachable(f"{what}: a line is no object")
    return parsed


def interrupt(response: Any) -> None:
    """End an answer that another thread is blocked in reading; that thread gets an error or the end."""
    connection = getattr(response, "_connection", None) or getattr(response, "connection", None)
    try:
        if hasattr(response, "shutdown"):
            response.shutdown()  # urllib3 2.3 and newer
        else:
            connection.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
    except (OSError, ValueError, RuntimeError, AttributeError):
        # It has ended by itself, or ends with the watch's own time-out.
        return
