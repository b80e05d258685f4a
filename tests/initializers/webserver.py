"""A web server of the standard library, on loopback or where it is told, that does what servers do to a download."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True)
class Question:
    """One request, as the server saw it."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def range(self) -> tuple[int, int | None] | None:
        """(first, last) of a Range header."""
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        return None if found is None else (int(found[1]), int(found[2]) if found[2] else None)


@dataclass
class Reply:
    """What to answer.

    Attributes:
        status: of HTTP.
        body: bytes, or a file.
        headers: besides the length.
        cut: end the connection after so many bytes of the body.
        length: "" for Content-Length, "chunked", or "close" for no sign of the end but the closed connection.
        start: of a file: the first byte sent.
        count: of a file: how many are sent.
    """

    status: int = 200
    body: bytes | Path = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    length: str = ""
    start: int = 0
    count: int | None = None

    @property
    def size(self) -> int:
        whole = self.body.stat().st_size if isinstance(self.body, Path) else len(self.body)
        return whole - self.start if self.count is None else self.count


def serve(
    question: Question, body: bytes | Path, *, etag: str = "", date: str = "", ranges: bool = True, **more: Any
) -> Reply:
    """A file as a good server gives it: ranges, If-Match, validators."""
    headers = {"ETag": etag} if etag else {}
    if date:
        headers["Last-Modified"] = date
    if etag and question.headers.get("if-match", etag) != etag:
        return Reply(412, b"", headers)
    size = body.stat().st_size if isinstance(body, Path) else len(body)
    asked = question.range if ranges and question.method == "GET" else None
    if asked is None:
        return Reply(200, body, headers, **more)
    first, last = asked
    if first >= size:
        return Reply(416, b"", {**headers, "Content-Range": f"bytes */{size}"})
    stop = size if last is None else min(size, last + 1)
    headers["Content-Range"] = f"bytes {first}-{stop - 1}/{size}"
    return Reply(206, body, headers, start=first, count=stop - first, **more)


class WebServer:
    """Runs in a thread until closed; ``answer`` decides, ``asked`` remembers."""

    def __init__(
        self,
        answer: Callable[[Question], Reply] | None = None,
        *,
        remember: bool = True,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.asked: list[Question] = []
        self.answer = answer or (lambda _: Reply(404))
        self.connections = 0
        self._remember = remember
        web = self

        class Handler(_Handler):
            server_of_test = web

        self._server = _Server((host, 0), Handler)
        self._host = host
        self._tls = tls
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self.port}" if self._tls is None else f"https://localhost:{self.port}"

    def of(self, method: str, path: str = "") -> list[Question]:
        """What was asked by this method (of this path)."""
        return [each for each in self.asked if each.method == method and (not path or each.path == path)]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> WebServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def decide(self, question: Question) -> Reply:
        if self._remember:
            self.asked.append(question)
        return self.answer(question)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_test: WebServer
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def setup(self) -> None:
        super().setup()
        self.server_of_test.connections += 1

    def do_GET(self) -> None:
        self._serve("GET")

    def do_HEAD(self) -> None:
        self._serve("HEAD")

    def do_POST(self) -> None:
        self._serve("POST", self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    do_PUT = do_POST

    def log_message(self, format: str, *args: object) -> None:
        """Tests look at ``asked``."""

    def _serve(self, method: str, body: bytes = b"") -> None:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = parse_qs(parts.query, keep_blank_values=True)
        reply = self.server_of_test.decide(Question(method, unquote(parts.path), query, headers, body))
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.length == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        elif reply.length == "close":
            self.send_header("Connection", "close")
        elif "Content-Length" not in reply.headers:
            self.send_header("Content-Length", str(reply.size))
        self.end_headers()
        if method != "HEAD":
            self._send(reply)
        self.wfile.flush()
        self.close_connection = self.close_connection or reply.length == "close" or reply.cut is not None

    def _send(self, reply: Reply) -> None:
        count = reply.size if reply.cut is None else min(reply.cut, reply.size)
        if isinstance(reply.body, Path):
            self.wfile.flush()
            with reply.body.open("rb") as file:
                self.connection.sendfile(file, reply.start, count)
            return
        data = reply.body[reply.start : reply.start + count]
        if reply.length != "chunked":
            self.wfile.write(data)
            return
        for begin in range(0, len(data), 65536):
            piece = data[begin : begin + 65536]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if reply.cut is None:
            self.wfile.write(b"0\r\n\r\n")
