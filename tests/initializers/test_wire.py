"""Connections: kept, renewed, through proxies, trusted or not; what is meant for one host stays there."""

from __future__ import annotations

import base64
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from tests.initializers.webserver import Question, Reply, WebServer
from trainer_ops.initializers.patience import Patience, retry_after
from trainer_ops.initializers.wire import Answer, LineCut, NotTrusted, Wire

trustme: Any = pytest.importorskip("trustme")


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer(lambda q: Reply(200, b"hello")) as server:
        yield server


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def body(answer: Answer) -> bytes:
    view = memoryview(bytearray(100))
    found = b""
    with answer:
        while count := answer.readinto(view):
            found += bytes(view[:count])
    return found


def test_a_connection_serves_again(web: WebServer) -> None:
    wire = Wire()
    for _ in range(5):
        assert body(wire.ask(f"{web.url}/x")) == b"hello"
    assert web.connections == 1
    wire.ask(f"{web.url}/x").close()
    assert body(wire.ask(f"{web.url}/x")) == b"hello"
    assert web.connections == 2
    wire.close()
    wire.close()


def test_a_connection_that_the_server_has_closed_is_no_failure() -> None:
    served = 0
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        nonlocal served
        for _ in range(3):
            connection, _address = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                served += 1

    thread = threading.Thread(target=serve)
    thread.start()
    wire = Wire()
    for _ in range(3):
        assert body(wire.ask(f"http://127.0.0.1:{listener.getsockname()[1]}/")) == b"ok"
    thread.join()
    wire.close()
    listener.close()
    assert served == 3


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"])
def test_what_is_no_answer_is_a_cut_line(answer: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _address = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    wire = Wire()
    with pytest.raises(LineCut):
        body(wire.ask(f"http://127.0.0.1:{listener.getsockname()[1]}/"))
    thread.join()
    wire.close()
    listener.close()


def test_silence_is_a_cut_line() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    wire = Wire(timeout=0.05)
    with pytest.raises(LineCut, match="no answer within the time-out"):
        wire.ask(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    wire.close()
    listener.close()


class TestCertificates:
    @pytest.fixture
    def authority(self) -> Any:
        return trustme.CA()

    @pytest.fixture
    def secure(self, authority: Any) -> Iterator[WebServer]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        with WebServer(lambda q: Reply(200, b"secret"), tls=context) as server:
            yield server

    def test_one_that_nobody_here_knows(self, secure: WebServer) -> None:
        wire = Wire()
        with pytest.raises(NotTrusted, match=r"unable to get local issuer certificate|self-signed"):
            wire.ask(secure.url)
        wire.close()

    def test_one_that_is_given(self, secure: WebServer, authority: Any, tmp_path: Path) -> None:
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        wire = Wire(verify=str(tmp_path / "ca.pem"))
        assert body(wire.ask(secure.url)) == b"secret"
        wire.close()

    def test_one_of_the_environment(
        self, secure: WebServer, authority: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        wire = Wire()
        assert body(wire.ask(secure.url)) == b"secret"
        wire.close()

    def test_none_is_wanted(self, secure: WebServer) -> None:
        wire = Wire(verify=False)
        assert body(wire.ask(secure.url)) == b"secret"
        wire.close()

    def test_through_a_proxy(self, secure: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[bytes] = []
        listener = socket.create_server(("127.0.0.1", 0))

        def proxy() -> None:
            client, _address = listener.accept()
            asked.append(client.recv(65536))
            far = socket.create_connection(("127.0.0.1", secure.port))
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=pump, args=(far, client))
            back.start()
            pump(client, far)
            back.join()
            client.close()
            far.close()

        thread = threading.Thread(target=proxy)
        thread.start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:p%40ss@127.0.0.1:{listener.getsockname()[1]}")
        wire = Wire(verify=False)
        assert body(wire.ask(f"https://not-resolved.example:{secure.port}/")) == b"secret"
        wire.close()
        thread.join()
        listener.close()
        assert asked[0].startswith(f"CONNECT not-resolved.example:{secure.port} ".encode())
        assert base64.b64encode(b"user:p@ss") in asked[0]


def pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)


def test_plain_http_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with WebServer(lambda q: Reply(200, q.path.encode())) as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:pass@127.0.0.1:{proxy.port}")
        wire = Wire()
        for _ in range(2):
            assert body(wire.ask("http://not-resolved.example/x")) == b"/x"
        wire.close()
    assert [q.headers["host"] for q in proxy.asked] == ["not-resolved.example"] * 2
    assert all("proxy-authorization" in q.headers for q in proxy.asked)


def test_a_host_that_needs_no_proxy(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    wire = Wire()
    assert body(wire.ask(web.url)) == b"hello"
    wire.close()


def test_nothing_is_logged_and_no_error_repeats_a_url(caplog: pytest.LogCaptureFixture) -> None:
    def answer(question: Question) -> Reply:
        return Reply(302, b"", {"Location": "http://user:pass@127.0.0.1:9/?sig=verysecret"})

    with WebServer(answer) as web, caplog.at_level(logging.DEBUG):
        wire = Wire()
        with pytest.raises(LineCut) as told:
            wire.ask(f"{web.url}/?sig=verysecret", {"Authorization": "Bearer verysecret"})
        wire.close()
    assert "verysecret" not in str(told.value) + repr(told.value) + caplog.text


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("", None), ("7", 7.0), (" 0 ", 0.0), ("Mon, 30 Nov 2026 10:00:30 GMT", 30.0), ("yesterday", None), ("-4", None)],
)
def test_retry_after(said: str, seconds: float | None) -> None:
    headers = Message()
    if said:
        headers["Retry-After"] = said
    assert retry_after(headers, now=lambda: 1796032800.0) == seconds


def test_pauses_grow_and_end() -> None:
    paused: list[float] = []
    patience = Patience(tries=8, first=1, most=10, asked=60, sleep=paused.append)
    assert all(patience.pause(nth) for nth in range(1, 8))
    assert not patience.pause(8)
    assert [round(pause / 1.25, 6) <= min(10, 2**n) <= round(pause / 0.75, 6) for n, pause in enumerate(paused)] == [
        True
    ] * 7
    assert not patience.pause(1, after=61)
    assert patience.pause(1, after=59)
    assert paused[-1] == 59
