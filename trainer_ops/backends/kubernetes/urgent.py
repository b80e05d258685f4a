"""Deleting within milliseconds: for whoever has less than a second to live.

A terminated KFP step has about 0.7 s between SIGTERM and the kill. So one connection is open before it comes, it is
kept from falling asleep, the token is fresh, and what is to be sent is ready. Nothing here waits for a lock that the
interrupted thread may hold, tries again with pauses, or prints.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal
from urllib.parse import urlencode

from trainer_ops.backends.kubernetes.access import Access
from trainer_ops.model import keys

__all__ = ["Resource", "Urgent"]

# The API server closes a connection that was idle for 90 s; load balancers before it do sooner.
_WARM_SECONDS: Final = 20.0
_TIMEOUT: Final = 0.5
_POLL_SECONDS: Final = 0.04
_JSON: Final = {"Content-Type": "application/json"}


# What can be deleted so: TrainJobs, and the Jobs of other steps.
Resource = Literal["trainjobs", "jobs"]
_GROUPS: Final[Mapping[str, str]] = {keys.PLURAL: keys.API_VERSION, "jobs": "batch/v1"}


class Urgent:
    """Deletes TrainJobs of one namespace, at once; what ``prepare`` gives, and ``sweep``, also from a signal handler.

    ``warm`` opens the connection; until then, and after it broke, one is made when it is needed.
    """

    def __init__(self, access: Access, namespace: str, resource: Resource = "trainjobs") -> None:
        """Make it; nothing is sent yet.

        Args:
            access: to the API server.
            namespace: of what is to be deleted.
            resource: what that is.
        """
        self._access = access
        self._path = f"/apis/{_GROUPS[resource]}/namespaces/{namespace}/{resource}"
        self._line: _Line | None = None
        self._headers: Mapping[str, str] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def warm(self) -> None:
        """Open the connection and keep it open, from a thread of its own. An API server that is away is no error."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_warm, name="urgent", daemon=True)
            self._thread.start()

    def prepare(self, name: str, *, uid: str) -> Callable[[], bool]:
        """A call that deletes that very object; it says whether it is deleted, or was gone. At most a second."""
        path = f"{self._path}/{name}"
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        body = json.dumps({**options, "preconditions": {"uid": uid}}).encode()
        # 409: another uid has the name now.
        return lambda: self._send("DELETE", path, body)[0] in (200, 202, 404, 409)

    def sweep(
        self, labels: Mapping[str, str], *, seconds: float, annotations: Mapping[str, str] = MappingProxyType({})
    ) -> bool:
        """Delete all objects with these labels that have not ended; whether there were any.

        Args:
            labels: which.
            seconds: for so long one that is not there yet is waited for (a create that is under way).
            annotations: of those only the ones that have these too.
        """
        until = time.monotonic() + seconds
        selector = urlencode({"labelSelector": ",".join(f"{name}={value}" for name, value in labels.items())})
        while True:
            found = [
                meta
                for meta in self._running(f"{self._path}?{selector}")
                if annotations.items() <= (meta.get("annotations") or {}).items()
            ]
            for meta in found:
                self.prepare(meta["name"], uid=meta["uid"])()
            if found or time.monotonic() >= until:
                return bool(found)
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Let go of the connection; the thread ends by itself."""
        self._stopped.set()

    def _running(self, path: str) -> Iterator[Mapping[str, Any]]:
        status, text = self._send("GET", path)
        if status != 200:
            return
        for job in json.loads(text).get("items") or ():
            conditions = (job.get("status") or {}).get("conditions") or ()
            ended = any(c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in conditions)
            if not ended and not job["metadata"].get("deletionTimestamp"):
                yield job["metadata"]

    def _send(self, verb: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """(status, body); status 0 for no answer. An idle connection that was cut is replaced once."""
        for _ in range(2):
            with contextlib.suppress(Exception):
                line = self._line or self._connected()
                return line.send(verb, path, {**self._headers, **(_JSON if body else {})}, body)
            self._line = None
        return 0, b""

    def _connected(self) -> _Line:
        self._line = line = _Line.to(self._access)
        self._headers = line.headers()
        return line

    def _keep_warm(self) -> None:
        while not self._stopped.is_set():
            # Any answer will do, a refusal too: it is the connection that is wanted, and the token.
            with contextlib.suppress(Exception):
                line = self._line or self._connected()
                self._headers = line.headers()
                line.send("GET", "/version", self._headers, None)
            self._stopped.wait(_WARM_SECONDS)


class _Line:
    """Connections to the API server, made with the client's own credentials and certificates."""

    def __init__(self, host: str, pool: Any, headers: Callable[[], Mapping[str, str]]) -> None:
        self._host = host
        self._pool = pool
        self.headers = headers

    @classmethod
    def to(cls, access: Access) -> _Line:
        """Open it; nothing is sent yet."""
        if access.lean is not None:
            lean = access.lean()
            return cls(lean.host, lean.pool, lean.headers)
        made = access.connect()

        def headers() -> Mapping[str, str]:
            given = dict(made.default_headers)
            # Asks the credentials' own hook first, which renews a token that is about to expire.
            for auth in made.configuration.auth_settings().values():
                if auth["in"] == "header" and auth["value"]:
                    given[auth["key"]] = auth["value"]
            return given

        return cls(made.configuration.host, made.rest_client.pool_manager, headers)

    def send(self, verb: str, path: str, headers: Mapping[str, str], body: bytes | None) -> tuple[int, bytes]:
        """One request, on the connection that is open, or on another while that one is in use."""
        answer = self._pool.urlopen(
            verb, self._host + path, headers=headers, body=body, retries=False, redirect=False, timeout=_TIMEOUT
        )
        return answer.status, answer.data
