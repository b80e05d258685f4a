"""HTTP for ``progress_server``: apart, because http.server is slow to import and most trainings never post."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer_ops.local.progress_server import ProgressServer

__all__ = ["handler_class"]


def handler_class(server: ProgressServer) -> Any:
    """A request handler that asks that server."""
    from trainer_ops.local.progress_server import LIMIT_BYTES

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdigit():
                self.close_connection = True
                self._send(411, {"message": "Content-Length is missing"})
            elif int(length) > LIMIT_BYTES:
                self.close_connection = True  # what follows is not read
                self._send(413, {"message": f"the body has more than {LIMIT_BYTES} bytes"})
            else:
                body = self.rfile.read(int(length))
                self._send(*server.answer(self.path, self.headers.get("Authorization", ""), body))

        def do_GET(self) -> None:
            self._send(405, {"message": "only POST"})

        def _send(self, code: int, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: the supervisor's log is for what goes wrong."""

    return Handler
