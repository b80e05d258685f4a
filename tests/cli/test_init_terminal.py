"""``trainer-ops init`` as a process in a real terminal: the live line, Ctrl-C, and going on from there."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_terminal import Terminal

pytestmark = pytest.mark.slow

SIZE = 3_000_000
HALF = 1_500_000


class Server(ThreadingHTTPServer):
    """One file; its second half comes when ``go_on`` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.go_on = threading.Event()
        self.ranges: list[str] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_HEAD(self) -> None:
        self._head(0)

    def do_GET(self) -> None:
        asked = self.headers.get("Range") or ""
        self.server.ranges.append(asked)
        begin = int(asked.removeprefix("bytes=").split("-")[0]) if asked else 0
        self._head(begin)
        try:
            if begin < HALF:
                self.wfile.write(b"x" * (HALF - begin))
                self.wfile.flush()
                self.server.go_on.wait(20)
            self.wfile.write(b"x" * (SIZE - max(begin, HALF)))
        except OSError:
            self.close_connection = True

    def _head(self, begin: int) -> None:
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{SIZE - 1}/{SIZE}")
        for name, value in (("Content-Length", SIZE - begin), ("ETag", '"v1"'), ("Accept-Ranges", "bytes")):
            self.send_header(name, str(value))
        self.end_headers()

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            """Whoever asked has gone."""

    def log_message(self, *_: Any) -> None:
        """Nothing on stderr."""


def words(terminal: Terminal) -> str:
    """What was shown, without colours and movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.shown)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.go_on.set()
    made.shutdown()
    thread.join()
    made.server_close()


def test_the_line_moves_and_ctrl_c_keeps_what_is_there(server: Server, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{server.server_port}/digits.parquet"
    argv = ["init", "dataset", url, "--target", f"local://{tmp_path}/engine"]
    first = Terminal(argv)
    try:
        modes = first.modes()
        first.until(r"50 %")
        assert re.search(r"digits.parquet  \d:\d\d  ━+─+   50 %  1.5 of 3.0 MB", words(first))
        first.press(b"\x03")
        assert first.end() == 130
        assert "interrupted: no snapshot of digits.parquet yet; what was fetched is kept." in words(first)
        assert f"again   trainer-ops init dataset {url}" in words(first)
        assert "^C" not in words(first)
        assert first.modes() == modes
    finally:
        first.close()
    server.go_on.set()
    second = Terminal(argv, columns=100)
    try:
        assert second.end() == 0
        assert re.search(r"\d\.\d MB are here from an earlier try", words(second))
        assert "✔ dataset " in words(second)
        assert re.match(r"bytes=[1-9]\d+-", server.ranges[-1])
    finally:
        second.close()
