"""The kubelet's own server: container logs and exec for the API server, and the levers that tests pull.

``GET /containerLogs/{namespace}/{pod}/{container}`` and ``/exec/…`` answer as a kubelet of 1.36 does.
``POST /test/VERB`` with a JSON body is ours. All want a client certificate of the control plane's CA.
"""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from tests.controlplane.kubelet_clock import rfc3339_nano
from tests.controlplane.kubelet_exec import accept, protocol, serve
from tests.controlplane.kubelet_logs import LogFile, LogQuery
from tests.controlplane.kubelet_pod import LogError
from tests.controlplane.kubelet_run import Process

__all__ = ["Source", "make_server", "query_of"]


class Source(Protocol):
    """Whatever knows the pods."""

    @property
    def contained(self) -> bool:
        """Whether containers have namespaces of their own."""

    def process(self, namespace: str, pod: str, container: str) -> Process | None:
        """The process of a container; None when it does not run.

        Raises:
            KeyError: no such pod here.
        """

    def log(self, namespace: str, pod: str, container: str, *, previous: bool) -> LogFile:
        """A container's log.

        Raises:
            KeyError: no such pod here.
            LogError: there is no log, with the reason.
            LookupError: it is collected.
        """


def query_of(query: Mapping[str, list[str]], now: float) -> LogQuery:
    """The options of a log request."""
    one = {key: values[-1] for key, values in query.items()}
    since = ""
    if "sinceSeconds" in one:
        since = rfc3339_nano(int((now - float(one["sinceSeconds"])) * 1e9))
    elif "sinceTime" in one:
        whole, _, fraction = one["sinceTime"].rstrip("Z").partition(".")
        since = f"{whole}.{fraction:0<9}Z"
    return LogQuery(
        follow=one.get("follow") == "true",
        timestamps=one.get("timestamps") == "true",
        since=since,
        tail=int(one["tailLines"]) if "tailLines" in one else None,
        limit=int(one["limitBytes"]) if "limitBytes" in one else None,
    )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512
    tls: ssl.SSLContext
    handler: type[BaseHTTPRequestHandler]

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the connection's thread: a peer that is slow to greet holds up nobody."""
        request.settimeout(30)
        try:
            wrapped = self.tls.wrap_socket(request, server_side=True)
        except (OSError, ssl.SSLError):
            return
        wrapped.settimeout(None)
        try:
            self.handler(wrapped, client_address, self)
        finally:
            wrapped.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        exc = sys.exc_info()[1]
        if not isinstance(exc, OSError):
            print(f"server: {exc!r}", file=sys.stderr, flush=True)


def make_server(
    source: Source,
    levers: Callable[[str, Mapping[str, Any]], Any],
    now: Callable[[], float],
    *,
    ca: str,
    certificate: str,
    key: str,
) -> _Server:
    """A server on a free port of loopback, not yet serving.

    Args:
        source: where logs and processes are found.
        levers: called with the verb and the body of ``POST /test/VERB``; its result is sent back.
        now: the clock.
        ca: file of the authority that client certificates must come from.
        certificate: file of its own certificate.
        key: file of its key.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            parts = url.path.strip("/").split("/")
            if len(parts) == 4 and parts[0] == "exec":
                return self._exec(parts[1:], parse_qs(url.query))
            if len(parts) != 4 or parts[0] != "containerLogs":
                return self._text(404, "404 page not found")
            query = parse_qs(url.query)
            try:
                log = source.log(*parts[1:], previous=query.get("previous") == ["true"])
            except LogError as exc:
                return self._text(400, str(exc))
            except KeyError:
                return self._text(404, f'pod "{parts[2]}" not found')
            except LookupError as exc:
                return self._text(200, f"unable to retrieve container logs for {exc}")
            return self._stream(log.read(query_of(query, now())))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            try:
                result = levers(self.path.rpartition("/")[2], body)
            except (KeyError, ValueError) as exc:
                return self._text(400, repr(exc))
            return self._text(200, json.dumps(result))

        def _exec(self, names: list[str], query: Mapping[str, list[str]]) -> None:
            try:
                process = source.process(*names)
            except KeyError:
                return self._text(404, "pod does not exist")
            if process is None:
                return self._text(500, f'container not found ("{names[2]}")')
            chosen = protocol(self.headers.get("Sec-WebSocket-Protocol", ""))
            if not chosen:
                return self._text(403, "this kubelet speaks websocket only")
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", accept(self.headers["Sec-WebSocket-Key"]))
            self.send_header("Sec-WebSocket-Protocol", chosen)
            self.end_headers()
            self.close_connection = True
            return serve(self.connection, process, query, contained=source.contained)

        def _text(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, pieces: Iterable[bytes]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in pieces:
                if piece:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = _Server(("127.0.0.1", 0), Handler)
    server.handler = Handler
    server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.tls.load_cert_chain(certificate, key)
    server.tls.load_verify_locations(ca)
    server.tls.verify_mode = ssl.CERT_REQUIRED
    return server
