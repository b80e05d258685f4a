"""Commands in a pod's container, through the API server.

The Kubernetes client makes the connection, as it does for its own ``stream``: credentials, TLS, proxy. It does so with
an ``ApiClient`` of this command alone, because it swaps the client's ``request`` meanwhile. What goes over the
connection is read and written here: the client's own reader has no end of stdin before version 36, mixes up a channel
with an incomplete character, and waits for the network while TLS has bytes ready.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trainer_ops.backends.base import Streams
from trainer_ops.backends.kubernetes import channels
from trainer_ops.backends.kubernetes.access import Access
from trainer_ops.backends.kubernetes.channels import PROTOCOLS, Inbox, ending, refusal
from trainer_ops.backends.pump import pump, write_all
from trainer_ops.errors import Unreachable

__all__ = ["execute"]

_PERIOD = 1.0
# A connection on which nothing moves is pinged: load balancers cut idle ones, and a dead one must not hang.
_PING_SECONDS = 20.0
_DEAD_SECONDS = 60.0
# The server closes after it has said how the command ended; what it printed may be on the way until then.
_LINGER_SECONDS = 2.0


def execute(access: Access, namespace: str, pod: str, container: str, argv: Sequence[str], streams: Streams) -> int:
    """See ``Backend.exec``."""
    what = f"running a command in pod {namespace}/{pod}"
    tty = streams.terminal is not None
    options = {"stdin": streams.stdin is not None, "stdout": True, "stderr": not tty, "tty": tty}
    peer = _connect(what, access, namespace, pod, command=list(argv), container=container, **options)
    try:
        pump(peer, streams, period=_PERIOD)
    finally:
        peer.close()
    if not peer.status:
        raise Unreachable(
            f"{what}: the connection broke off", remedy="The command may go on in the pod; look before running it again"
        )
    end = ending(what, peer.status)
    if end.text:
        write_all(streams.stdout if tty else streams.stderr, end.text.encode() + (b"\r\n" if tty else b"\n"))
    return end.code


def _connect(what: str, access: Access, namespace: str, pod: str, **options: Any) -> _Connection:
    from kubernetes import client
    from kubernetes.client import ApiException
    from kubernetes.config import ConfigException
    from kubernetes.stream import stream

    try:
        connection = access.connect()
        connection.set_default_header("sec-websocket-protocol", ",".join(PROTOCOLS))
        call = client.CoreV1Api(connection).connect_get_namespaced_pod_exec
        made = stream(call, pod, namespace, _preload_content=False, **options)
    except (ApiException, AttributeError) as exc:
        raise _refused(what, exc) from exc
    except (OSError, ConfigException) as exc:
        raise Unreachable(f"{what}: {type(exc).__name__}: {exc}"[:300]) from exc
    return _Connection(what, made, stdin=bool(options["stdin"]))


def _refused(what: str, exc: BaseException) -> BaseException:
    """The client makes one error of all that goes wrong while it connects, interrupts too; the first one is in it.

    (An AttributeError: the client decodes the body of its own error, which has none when this call fails.)
    """
    cause = exc
    while cause.__context__ is not None and not hasattr(cause, "status_code"):
        cause = cause.__context__
    if isinstance(cause, (KeyboardInterrupt, SystemExit)):
        return cause
    status, body = getattr(cause, "status_code", None), getattr(cause, "resp_body", None)
    if status is None and isinstance(exc, AttributeError) and cause is exc:
        return exc
    return refusal(what, status, body, f"{type(cause).__name__}: {cause}")


class _Connection:
    """``pump.Peer`` over a websocket.

    Args:
        what: for errors.
        made: the client's ``WSClient``, connected.
        stdin: whether the command was asked for with a stdin.
        now: seconds of any steady clock.
    """

    def __init__(self, what: str, made: Any, *, stdin: bool, now: Callable[[], float] = time.monotonic) -> None:
        self._what, self._made, self._now = what, made, now
        self._socket: socket.socket = made.sock.sock
        self._socket.setblocking(False)
        self._closes_stdin = stdin and made.sock.getheaders().get("sec-websocket-protocol") == PROTOCOLS[0]
        self._inbox = Inbox()
        self._unsent = bytearray()
        self._heard = self._spoke = now()
        self._pinged: float | None = None
        self._ended: float | None = None
        self._broken = False

    @property
    def status(self) -> bytes:
        """How the command ended; b"" as long as nobody has said so."""
        return self._inbox.status

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
        self._made.close()

    # -- pump.Peer ---------------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """The server has closed, or has said how the command ended a while ago."""
        late = self._ended is not None and self._now() - self._ended > _LINGER_SECONDS
        return self._broken or self._inbox.closed or late

    @property
    def waiting(self) -> bool:
        """The network has not taken all yet."""
        return bool(self._unsent)

    def fileno(self) -> int:
        """The socket."""
        return self._socket.fileno()

    def take(self) -> Iterator[tuple[int, bytes]]:
        """Read what has come."""
        for data in self._received():
            self._heard, self._pinged = self._now(), None
            yield from self._inbox.feed(data)
        for payload in self._inbox.pings:
            self._say(channels.frame(channels.PONG, payload, os.urandom(4)))
        self._inbox.pings.clear()
        if self._inbox.status and self._ended is None:
            self._ended = self._now()
            self._unsent.clear()  # what was typed for a command that has ended

    def _received(self) -> Iterator[bytes]:
        """One read, and what TLS has decrypted beside it, which no selector would see."""
        more = True
        while more and not self._broken:
            try:
                data = self._socket.recv(1 << 16)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError:
                data = b""
            self._broken = not data
            more = isinstance(self._socket, ssl.SSLSocket) and not self._broken and self._socket.pending() > 0
            if data:
                yield data

    def send(self) -> None:
        """Write what the network takes."""
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            self._unsent.clear()  # reading tells that it is broken, after what came before

    def put(self, data: bytes) -> None:
        """Some of stdin. Its end cannot be told to servers before Kubernetes 1.30."""
        if self._ended is not None:
            return
        if data:
            self._say(channels.typed(data, os.urandom(4)))
        elif self._closes_stdin:
            self._say(channels.close_stdin(os.urandom(4)))

    def resize(self, columns: int, rows: int) -> None:
        """The terminal's size."""
        self._say(channels.resize(columns, rows, os.urandom(4)))

    def tick(self) -> None:
        """Ping a connection on which nothing moves.

        Raises:
            Unreachable: no answer to a ping.
        """
        now = self._now()
        if self._pinged is not None and now - self._pinged > _DEAD_SECONDS:
            raise Unreachable(
                f"{self._what}: no answer for {now - self._heard:.0f} s", remedy="The command may go on in the pod"
            )
        if self._pinged is None and now - max(self._heard, self._spoke) > _PING_SECONDS:
            self._pinged = now
            self._say(channels.frame(channels.PING, b"", os.urandom(4)))

    def _say(self, data: bytes) -> None:
        self._spoke = self._now()
        self._unsent += data
        self.send()
