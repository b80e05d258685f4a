"""A snapshot that is given up does not wait for a server that says nothing."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.initializers.webserver import Question, Reply, WebServer, serve
from trainer_ops.errors import TrainerOpsError
from trainer_ops.initializers import http, hub, objects
from trainer_ops.initializers.pieces import Pieces
from trainer_ops.initializers.provider import Credentials, Provider, RemoteFile
from trainer_ops.initializers.source import parse

# Far below the time-out of a silent line (60 s), far above what stopping takes.
SOON = 20.0
OPTIONS = {"key": "k", "secret": "s", "client_kwargs": {"region_name": "us-east-1"}}


class Silent:
    """Takes questions, says ``words`` to each and then nothing more; never hangs up."""

    def __init__(
        self, words: bytes = b"", wrap: Callable[[socket.socket], socket.socket] = lambda plain: plain
    ) -> None:
        self.words = words
        self.asked = threading.Event()
        self._wrap = wrap
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                self._open.append(plain)
                connection = self._wrap(plain)
                self._open.append(connection)
                connection.recv(65536)
                connection.sendall(self.words)
                self.asked.set()

    def close(self) -> None:
        """No client is left with it, and no thread with a client."""
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)
        self._thread.join(SOON)
        for each in (self._listener, *self._open):
            each.close()


@dataclass
class Case:
    """A fetch that waits.

    Attributes:
        opened: the provider, given the server's URL.
        words: what the server says before it falls silent.
        size: bytes of the file.
    """

    opened: Callable[[str], Provider]
    words: bytes = b""
    size: int = 10
    url: str = "{server}/x"
    version: str = '"e"'
    needs: tuple[str, ...] = field(default=())


def web(url: str) -> Provider:
    return http.open_source(parse(f"{url}/x"), Credentials(), pieces=Pieces(size=1000, at_once=2))


def bucket(url: str, **options: object) -> Provider:
    credentials = Credentials(options={**OPTIONS, "endpoint_url": url, **options})
    return objects.open_source(parse("s3://data"), credentials)


def huggingface(url: str) -> Provider:
    return hub.open_source(parse("hf://datasets/org/digits"), Credentials(options={"endpoint": url}))


BEGUN = b'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 10\r\n\r\nabc'
LAST = b'HTTP/1.1 200 OK\r\nETag: "e"\r\nConnection: close\r\nContent-Length: 10\r\n\r\nabc'
CASES = {
    "no answer": Case(web),
    "within the file": Case(web, BEGUN),
    "within the last answer of a connection": Case(web, LAST),
    "pieces of a large file": Case(web, size=100_000),
    "a pause that the server asked for": Case(
        web, b"HTTP/1.1 429 Slow\r\nRetry-After: 300\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    ),
    "the hub": Case(huggingface, url="x", needs=("huggingface_hub",)),
    "s3 by a signed URL": Case(bucket, url="data/x", needs=("s3fs",)),
    "s3 by its driver": Case(lambda url: bucket(url, requester_pays=True), url="data/x", needs=("s3fs",)),
}


@dataclass
class Fetching:
    """A fetch in a thread, as ``fetch_all`` makes one."""

    provider: Provider
    file: RemoteFile
    part: Path
    problem: BaseException | None = None

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.provider.fetch(self.file, self.part, lambda _: None)
        except BaseException as problem:
            self.problem = problem


def stopped(fetching: Fetching, server: Silent) -> None:
    assert server.asked.wait(SOON)
    provider: Any = fetching.provider
    try:
        provider.stop()
        fetching.thread.join(SOON)
        assert not fetching.thread.is_alive()
        assert isinstance(fetching.problem, TrainerOpsError), fetching.problem
        # Nor does another one begin to wait.
        with pytest.raises(TrainerOpsError):
            provider.fetch(fetching.file, fetching.part.with_name("other"), lambda _: None)
    finally:
        server.close()
        provider.close()


@pytest.mark.parametrize("case", CASES)
def test_a_fetch_that_waits_ends(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = CASES[case]
    for name in given.needs:
        pytest.importorskip(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = Silent(given.words)
    file = RemoteFile("x", given.size, given.version, url=given.url.format(server=server.url))
    stopped(Fetching(given.opened(server.url), file, tmp_path / "part"), server)


def test_an_encrypted_line(tmp_path: Path) -> None:
    trustme: Any = pytest.importorskip("trustme")
    import ssl

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server = Silent(BEGUN, lambda plain: context.wrap_socket(plain, server_side=True))
    url = f"https://localhost:{server.port}/x"
    provider = http.open_source(parse(url), Credentials(options={"verify": str(tmp_path / "ca.pem")}))
    stopped(Fetching(provider, RemoteFile("x", 10, '"e"', url=url), tmp_path / "part"), server)


@pytest.fixture
def holding() -> Iterator[tuple[WebServer, threading.Event]]:
    """A server that says what it has, and does not give it; an event for when it was asked to."""
    asked, over = threading.Event(), threading.Event()
    data = random.Random(1).randbytes(1000)

    def answer(question: Question) -> Reply:
        if question.method == "GET":
            asked.set()
            over.wait()
        return serve(question, data, etag='"e"')

    with WebServer(answer) as server:
        yield server, asked
        over.set()


def test_sigterm_ends_the_step_within_its_grace_period(
    holding: tuple[WebServer, threading.Event], tmp_path: Path
) -> None:
    server, asked = holding
    env = {**os.environ, "TRAINER_OPS_RESULT_PATH": str(tmp_path / "message"), "no_proxy": "127.0.0.1"}
    argv = ["take", "--kind", "dataset", "--uri", f"{server.url}/x", "--store", str(tmp_path / "store")]
    with subprocess.Popen([sys.executable, "-m", "trainer_ops.initializers", *argv], env=env) as process:
        try:
            assert asked.wait(60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(SOON) == 143
        finally:
            process.kill()
