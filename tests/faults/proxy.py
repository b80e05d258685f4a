"""A proxy between a client and a real API server that does what networks and servers do on bad days.

It speaks plain HTTP to the client and TLS to the server, notes every request, and follows rules that a test gives it:

    proxy.when("GET", "trainjobs", watch=True, times=1).answer(410)
    proxy.when("POST", "trainjobs", times=1).lose_reply()

What no rule is for goes through as it is.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["FaultProxy", "Request"]


@dataclass
class Request:
    """One request as the client sent it.

    Attributes:
        plural: the resource: ``trainjobs``, ``pods``, ``log``.
        received: bytes of the answer that went to the client.
    """

    method: str
    path: str
    query: Mapping[str, str]
    token: str
    body: bytes = field(default=b"", repr=False)
    received: int = 0

    @property
    def watch(self) -> bool:
        """Whether it is a watch."""
        return self.query.get("watch") in ("true", "True", "1")

    @property
    def plural(self) -> str:
        """The last word of the path that is a resource."""
        words = self.path.strip("/").split("/")
        if words[-1] == "log":
            return "log"
        after = words.index("namespaces") + 2 if "namespaces" in words else 2 if words[0] == "api" else 3
        return words[after] if after < len(words) else words[-1]


class _Rule:
    def __init__(self, method: str, plural: str, watch: bool | None, times: int | None) -> None:
        self._wanted = (method, plural, watch)
        self._left = times
        self.act: Callable[[_Handler, Request], None] | None = None

    def take(self, request: Request) -> bool:
        method, plural, watch = self._wanted
        fits = method in ("*", request.method) and plural in ("*", request.plural)
        if not fits or self.act is None or (watch is not None and watch is not request.watch) or self._left == 0:
            return False
        if self._left is not None:
            self._left -= 1
        return True

    # -- what it does -----------------------------------------------------------------------------------------------

    def answer(self, status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> None:
        """Answer in the server's place."""
        given = body if body is not None else {"kind": "Status", "code": status, "message": f"fault {status}"}
        data = given if isinstance(given, bytes) else json.dumps(given).encode()
        self.act = lambda handler, request: handler.reply(status, data, dict(headers or {}))

    def reset(self) -> None:
        """Break the connection before anything is sent on."""
        self.act = lambda handler, request: handler.reset()

    def lose_reply(self) -> None:
        """Let the server do it, and break the connection instead of saying so."""

        def act(handler: _Handler, request: Request) -> None:
            with handler.upstream(request) as response:
                response.read()
            handler.reset()

        self.act = act

    def reset_midway(self, after: int) -> None:
        """Break the connection after so many bytes of the answer's body."""

        def act(handler: _Handler, request: Request) -> None:
            with handler.upstream(request) as response:
                handler.relay(request, response, most=after)
            handler.reset()

        self.act = act

    def silent(self) -> None:
        """Take the request and never answer."""
        self.act = lambda handler, request: handler.proxy.wait_for_end()

    def hush(self, after: int = 0) -> None:
        """Go silent after so many lines of the answer, and stay connected."""

        def act(handler: _Handler, request: Request) -> None:
            with handler.upstream(request) as response:
                handler.relay(request, response, lines=after, end=False)
                handler.proxy.wait_for_end()

        self.act = act

    def cut(self, after: int = 0) -> None:
        """End the answer, in good order, after so many lines."""

        def act(handler: _Handler, request: Request) -> None:
            with handler.upstream(request) as response:
                handler.relay(request, response, lines=after)

        self.act = act

    def say(self, *events: Mapping[str, Any]) -> None:
        """Answer 200 with these lines and end."""
        data = b"".join(json.dumps(event).encode() + b"\n" for event in events)
        self.act = lambda handler, request: handler.reply(200, data, {"Content-Type": "application/json"})


class FaultProxy:
    """The proxy.

    Attributes:
        port: where it listens, on 127.0.0.1.
        requests: all requests so far.
        tokens: what the client's bearer tokens become; a token that is not here is answered with 401. None: all go
            through as they are.
        most_open: per resource the most watches that were open at the same time.
    """

    def __init__(self, port: int, ca_file: str) -> None:
        """Start it.

        Args:
            port: the API server's, on 127.0.0.1.
            ca_file: who has signed its certificate.
        """
        self.requests: list[Request] = []
        self.tokens: dict[str, str] | None = None
        self.most_open: Counter[str] = Counter()
        self._open: Counter[str] = Counter()
        self._upstream = (port, ssl.create_default_context(cafile=ca_file))
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._sockets: set[socket.socket] = set()
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="fault-proxy")
        self._thread.start()

    def when(
        self, method: str = "*", plural: str = "*", *, watch: bool | None = None, times: int | None = None
    ) -> _Rule:
        """A rule for requests like this, for so many of them; an earlier rule goes before a later one."""
        rule = _Rule(method, plural, watch, times)
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Let everything through again."""
        with self._lock:
            self._rules.clear()

    def seen(self, method: str = "*", plural: str = "*", *, watch: bool | None = None) -> list[Request]:
        """The requests so far that are like this."""
        with self._lock:
            requests = list(self.requests)
        return [
            r
            for r in requests
            if method in ("*", r.method) and plural in ("*", r.plural) and (watch is None or watch is r.watch)
        ]

    def cut_all(self) -> None:
        """Break every connection that is open now."""
        with self._lock:
            sockets = list(self._sockets)
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it and everything that hangs on it."""
        self._ended.set()
        self._server.shutdown()
        self.cut_all()
        self._server.server_close()
        self._thread.join()

    # -- for the handler --------------------------------------------------------------------------------------------

    def wait_for_end(self) -> None:
        self._ended.wait(120)

    def rule_for(self, request: Request) -> _Rule | None:
        with self._lock:
            self.requests.append(request)
            return next((rule for rule in self._rules if rule.take(request)), None)

    @contextlib.contextmanager
    def counted(self, request: Request) -> Iterator[None]:
        if not request.watch:
            yield
            return
        with self._lock:
            self._open[request.plural] += 1
            self.most_open[request.plural] = max(self.most_open[request.plural], self._open[request.plural])
        try:
            yield
        finally:
            with self._lock:
                self._open[request.plural] -= 1

    @contextlib.contextmanager
    def tracked(self, one: socket.socket) -> Iterator[None]:
        with self._lock:
            self._sockets.add(one)
        try:
            yield
        finally:
            with self._lock:
                self._sockets.discard(one)

    def connect(self) -> HTTPSConnection:
        port, tls = self._upstream
        return HTTPSConnection("127.0.0.1", port, context=tls, timeout=600)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is an ordinary day here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultProxy

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        url = urlsplit(self.path)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, url.path, dict(parse_qsl(url.query)), token, body)
        rule = self.proxy.rule_for(request)
        with self.proxy.counted(request), self.proxy.tracked(self.connection):
            if self.proxy.tokens is not None and token not in self.proxy.tokens:
                self.reply(401, b'{"kind":"Status","message":"Unauthorized","code":401}', {})
            elif rule is not None and rule.act is not None:
                rule.act(self, request)
            else:
                with self.upstream(request) as response:
                    self.relay(request, response)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    @contextlib.contextmanager
    def upstream(self, request: Request) -> Iterator[HTTPResponse]:
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "authorization")}
        token = (self.proxy.tokens or {}).get(request.token, request.token)
        connection = self.proxy.connect()
        try:
            connection.connect()
            with self.proxy.tracked(connection.sock):
                connection.request(
                    self.command, self.path, request.body or None, {**headers, "Authorization": f"Bearer {token}"}
                )
                yield connection.getresponse()
        finally:
            connection.close()

    def relay(
        self,
        request: Request,
        response: HTTPResponse,
        *,
        most: int | None = None,
        lines: int | None = None,
        end: bool = True,
    ) -> None:
        """Pass an answer on, in chunks; at most so many bytes, or so many lines."""
        self.send_response(response.status)
        for name in ("Content-Type", "Retry-After", "Warning"):
            if response.getheader(name):
                self.send_header(name, str(response.getheader(name)))
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while lines is None or lines > 0:
            piece = response.read1(1 << 16) if lines is None else response.readline()
            if not piece:
                break
            if lines is not None:
                lines -= 1
            if most is not None:
                piece, most = piece[:most], most - len(piece)
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
            request.received += len(piece)
            if most is not None and most <= 0:
                return
        if end and most is None:
            self.wfile.write(b"0\r\n\r\n")

    def reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """An answer of the proxy's own."""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def reset(self) -> None:
        """Break the connection as a machine does that has forgotten it."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wfile.flush()
        self.connection.close()
