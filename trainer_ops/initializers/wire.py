"""HTTP connections that stay open, shared by threads: one question, one answer, no retries here.

On ``http.client`` rather than a library: a body is read straight into the caller's buffer, nothing is decoded behind
its back, and no log line carries a signed URL.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import re
import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, Final
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

__all__ = ["Answer", "LineCut", "NotTrusted", "Wire", "origin"]

REDIRECTS: Final = (301, 302, 303, 307, 308)
FARTHEST: Final = 10
# What must not reach another host than the one it was meant for.
OURS_ALONE: Final = ("authorization", "cookie")
# More idle connections to one server than files are fetched at once are of no use.
IDLE: Final = 16
# Seconds for a connection to stand, by way of a proxy and with its certificate too: only this cannot be interrupted.
CONNECT: Final = 15.0
# Of an answer that says no, at most so much is read to find out why.
WORDS: Final = 65536


class LineCut(Exception):
    """No answer, or not all of it: asking again may help. ``str()`` says what happened, and names no URL."""


class NotTrusted(Exception):
    """The server's certificate is not one this machine trusts: asking again does not help."""


def origin(url: str) -> tuple[str, str, int]:
    """(scheme, host, port) of a URL."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """A connection; ``by_proxy`` and ``told`` where a proxy has to be given whole URLs and headers of its own."""

    connection: http.client.HTTPConnection
    # http.client forgets it where the server closes after its answer, while that is still being read.
    sock: socket.socket
    by_proxy: bool = False
    told: Mapping[str, str] = field(default_factory=dict, repr=False)

    def send(self, method: str, parts: SplitResult, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        place = parts.netloc.rpartition("@")[2]
        if self.by_proxy:
            target = f"{parts.scheme}://{place}{target}"
        self.connection.request(method, target, headers={**headers, **self.told, "Host": place})
        return self.connection.getresponse()

    def cut(self) -> None:
        """Whoever reads or writes it in another thread gets an end or an error, at once."""
        with contextlib.suppress(OSError):
            # Not SSLSocket's, which takes away what that other thread uses.
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


class Answer:
    """One answer, its body unread. Close it, or use it in ``with``; a body read to its end frees the connection."""

    def __init__(self, url: str, raw: http.client.HTTPResponse, wire: Wire, line: _Line) -> None:
        self.url = url
        self.status = raw.status
        # In any case of letters, as HTTP has it.
        self.headers: Message = raw.headers
        self._raw = raw
        self._wire = wire
        self._line: _Line | None = line
        # http.client forgets what was promised when the line is cut; a cut body must not look like a whole one.
        self.left: int | None = raw.length

    @property
    def delimited(self) -> bool:
        """Whether the end of the body can be told from a cut line."""
        return self._raw.chunked or self.left is not None

    def readinto(self, view: memoryview) -> int:
        """Fill some of ``view``; 0 at the end of the body.

        Raises:
            LineCut: the body ended before its end.
        """
        if self.left is not None and len(view) > self.left:
            view = view[: self.left]
        if not len(view):
            self.release()
            return 0
        try:
            count = self._some(view)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise LineCut(_what(error)) from error
        if self.left is not None:
            if not count:
                self.close()
                raise LineCut(f"the line was cut {self.left} bytes before the end")
            self.left -= count
        if not count or self.left == 0:
            self.release()
        return count

    def _some(self, view: memoryview) -> int:
        """What one reading of the socket gives: were it more, what came before a cut would be lost with it."""
        if not self._raw.chunked:
            return int(self._raw.fp.readinto1(view))
        data = self._raw.read1(len(view))
        view[: len(data)] = data
        return len(data)

    def text(self) -> str:
        """The first words of the body, for an error; never raises."""
        room = memoryview(bytearray(WORDS))
        have = 0
        with contextlib.suppress(LineCut):
            while have < WORDS and (count := self.readinto(room[have:])):
                have += count
        self.close()
        return bytes(room[:have]).decode("utf-8", "replace")

    def release(self) -> None:
        """The body was read: the connection serves the next question."""
        line, self._line = self._line, None
        if line is not None:
            self._raw.close()
            if self._raw.will_close:
                self._wire.drop(line)
            else:
                self._wire.idle(self.url, line)

    def close(self) -> None:
        """Whatever was not read is thrown away with the connection."""
        line, self._line = self._line, None
        if line is not None:
            self._raw.close()
            self._wire.drop(line)

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Wire:
    """Connections by origin. Safe for threads.

    Args:
        timeout: seconds without a byte after which a line counts as cut.
        verify: False for no check of certificates, or the path of a file or folder of those to trust.
    """

    def __init__(self, *, timeout: float = 60.0, verify: bool | str = True) -> None:
        self._timeout = timeout
        self._verify = verify
        self._lock = threading.Lock()
        self._idle: defaultdict[tuple[str, str, int], list[_Line]] = defaultdict(list)
        self._busy: set[_Line] = set()
        self._tls: ssl.SSLContext | None = None
        self._closed = False
        self._stopped = False

    def ask(self, url: str, headers: Mapping[str, str] | None = None, *, method: str = "GET") -> Answer:
        """Send one request and follow redirects; what is meant for the first host is not shown to others.

        Raises:
            LineCut: nobody there, no answer, or one that is not HTTP.
            NotTrusted: the certificate.
        """
        said = dict(headers or {})
        for _ in range(FARTHEST + 1):
            answer = self._once(method, url, said)
            place = answer.headers.get("Location")
            if answer.status not in REDIRECTS or not place:
                return answer
            answer.text()
            nearer = urljoin(url, quote(place, safe="%/:?#[]@!$&'()*+,;=~"))
            if urlsplit(nearer).scheme not in ("http", "https"):
                raise LineCut("redirected to something that is not http(s)")
            if origin(nearer) != origin(url):
                said = {name: value for name, value in said.items() if name.lower() not in OURS_ALONE}
            url = nearer
        raise LineCut(f"redirected more than {FARTHEST} times")

    def idle(self, url: str, line: _Line) -> None:
        """Take back a connection that has nothing left to say."""
        with self._lock:
            self._busy.discard(line)
            waiting = self._idle[origin(url)]
            if not self._closed and len(waiting) < IDLE:
                waiting.append(line)
                return
        line.connection.close()

    def drop(self, line: _Line) -> None:
        """Close a connection that was in use."""
        with self._lock:
            self._busy.discard(line)
        line.connection.close()

    def stop(self) -> None:
        """Cut every connection in use, and make no other: who waits for an answer gets ``LineCut``; idempotent."""
        with self._lock:
            self._stopped = True
            lines = list(self._busy)
        for line in lines:
            line.cut()

    def close(self) -> None:
        """Close what is idle; idempotent."""
        with self._lock:
            self._closed = True
            lines = [line for waiting in self._idle.values() for line in waiting]
            self._idle.clear()
        for line in lines:
            line.connection.close()

    def _once(self, method: str, url: str, headers: Mapping[str, str]) -> Answer:
        parts = urlsplit(url)
        old = self._kept(url)
        if old is not None:
            # A server may close an idle connection at any time: that is no failure, it is a reason for a new one.
            with contextlib.suppress(OSError, http.client.HTTPException):
                return Answer(url, old.send(method, parts, headers), self, old)
            self.drop(old)
        new: _Line | None = None
        try:
            new = self._connect(parts)
            return Answer(url, new.send(method, parts, headers), self, new)
        except (OSError, http.client.HTTPException) as error:
            if new is not None:
                self.drop(new)
            if isinstance(error, ssl.SSLCertVerificationError):
                raise NotTrusted(error.verify_message) from error
            raise LineCut(_what(error)) from error

    def _kept(self, url: str) -> _Line | None:
        """A connection that is idle, in use from now on."""
        with self._lock:
            waiting = self._idle[origin(url)]
            line = waiting.pop() if waiting else None
            if line is not None:
                self._use(line)
            return line

    def _use(self, line: _Line) -> None:
        if self._stopped:
            line.connection.close()
            raise LineCut("it was given up")
        self._busy.add(line)

    def _connect(self, parts: SplitResult) -> _Line:
        connection, by_proxy, told = self._way(parts)
        if self._stopped:
            raise LineCut("it was given up")
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        connection.timeout = self._timeout
        connection.sock.settimeout(self._timeout)
        line = _Line(connection, connection.sock, by_proxy, told)
        with self._lock:
            self._use(line)
        return line

    def _way(self, parts: SplitResult) -> tuple[http.client.HTTPConnection, bool, dict[str, str]]:
        """(a connection to be made, whether a proxy has to be given whole URLs, headers for it)."""
        host, secure = parts.hostname or "", parts.scheme == "https"
        proxy = "" if proxy_bypass(host) else getproxies().get(parts.scheme, "")
        options: dict[str, Any] = {"timeout": min(self._timeout, CONNECT)}
        if secure:
            options["context"] = self._context()
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        if not proxy:
            return kind(host, parts.port, **options), False, {}
        by = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        connection, told = kind(by.hostname or "", by.port or 8080, **options), _basic(by)
        if secure:
            connection.set_tunnel(host, parts.port, headers=told)
            return connection, False, {}
        return connection, True, told

    def _context(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None:
                self._tls = _trust(self._verify)
            return self._tls


def _trust(verify: bool | str) -> ssl.SSLContext:
    from pathlib import Path

    if isinstance(verify, str):
        folder = Path(verify).is_dir()
        return ssl.create_default_context(cafile=None if folder else verify, capath=verify if folder else None)
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath):
        # An interpreter that brings no certificates (python.org's on macOS); most clients bring certifi.
        with contextlib.suppress(ImportError):
            import certifi

            context.load_verify_locations(certifi.where())
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _basic(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def _what(error: BaseException) -> str:
    """An error's words, without the URL that some of them repeat."""
    if isinstance(error, http.client.IncompleteRead):
        return "the line was cut before the end"
    if isinstance(error, TimeoutError):
        return "no answer within the time-out"
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return re.sub(r"https?://\S+", "(an address)", str(words))
