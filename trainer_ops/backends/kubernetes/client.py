"""Calls to one API server as one user: connections, retries, pages. Nothing is global.

Two clusters in one process do not see each other, and neither does other code that uses the Kubernetes client.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, stop_after_delay

from trainer_ops.backends.kubernetes.access import Access
from trainer_ops.backends.kubernetes.failures import Gone, failure, retry_after
from trainer_ops.backends.kubernetes.lean import ApiError, LeanApis
from trainer_ops.errors import BackendError, Forbidden, Unreachable

__all__ = ["TIMEOUT", "Apis", "Cluster"]

# (connect, read) seconds of an ordinary call: a connection that died must not hang a wait.
TIMEOUT = (10.0, 30.0)
_PATIENCE_SECONDS = 30.0
# So often a list may start anew because its continue token became too old while its pages were read.
_LISTS = 3
# An operator that is installed later is noticed after so long.
_GROUPS_SECONDS = 300.0

Send = Callable[["Apis"], Any]


class Apis:
    """The generated APIs on one connection pool."""

    def __init__(self, connection: Any) -> None:
        from kubernetes import client

        self.connection = connection
        self.core = client.CoreV1Api(connection)
        self.custom = client.CustomObjectsApi(connection)
        self.groups = client.ApisApi(connection)

    def close(self) -> None:
        """Close all connections."""
        self.connection.close()
        self.connection.rest_client.pool_manager.clear()


def _apis(access: Access) -> Any:
    """The client's, or the few requests of ours where they are enough."""

    def real() -> Apis:
        return Apis(access.connect())

    return real() if access.lean is None else LeanApis(access.lean(), real)


def _refusals() -> tuple[type[BaseException], ...]:
    """The errors that an answer other than a success is raised as: ours, and the client's where it was imported."""
    real = sys.modules.get("kubernetes.client.exceptions")
    return (ApiError,) if real is None else (ApiError, real.ApiException)


def _breaks() -> tuple[type[BaseException], ...]:
    """The errors of no answer, and of no credentials."""
    from urllib3.exceptions import HTTPError

    real = sys.modules.get("kubernetes.config.config_exception")
    return (HTTPError, OSError) if real is None else (HTTPError, OSError, real.ConfigException)


class Cluster:
    """Calls to one API server. Safe for threads; connects at the first call.

    A passing failure (429, 5xx, a reset, a time-out, an expired token) is tried again with growing, jittered pauses, or
    after what ``Retry-After`` says; then it is raised, and the caller decides how long to wait. At 401 the credentials
    are read anew before the next try: a token file that was rotated, an exec plugin that is asked again.
    """

    def __init__(self, access: Access, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._access = access
        self._sleep = sleep
        self._lock = threading.Lock()
        self._apis: Any = None
        self._pid = os.getpid()
        self._groups: frozenset[str] = frozenset()
        self._groups_until = 0.0

    def call(self, what: str, send: Send, *, tries: int = 5) -> Any:
        """Send one request and decode the JSON of its answer.

        Args:
            what: for the error's message: ``reading trainjob team-a/x``.
            send: calls one generated method with ``_preload_content=False`` and ``_request_timeout``.
            tries: at most so many.

        Raises:
            BackendError: see ``failures``.
        """
        return self._persist(lambda: _decoded(what, self._once(what, send)), tries)

    def send(self, what: str, send: Send, *, tries: int = 5) -> Any:
        """``call`` without decoding: the response, to be read and closed by the caller."""
        return self._persist(lambda: self._once(what, send), tries)

    def items(
        self, what: str, send: Callable[..., Any], *, page: int = 500, tries: int = 5, keep: Callable[[Any], Any] = list
    ) -> tuple[list[Any], str]:
        """List in pages: (objects, resource version of the list).

        Args:
            what: for the error's message.
            send: takes ``limit`` and ``_continue`` beside the Apis.
            page: objects a page.
            tries: of each page.
            keep: what to keep of a page's objects, so that big ones need not all be in memory at once.
        """
        for _ in range(_LISTS):
            try:
                return self._pages(what, send, page, tries, keep)
            except Gone as exc:
                error = exc
        raise Unreachable(f"{what}: changes faster than it can be read: {error.message}", status=410)

    def serves(self, group: str) -> bool:
        """Whether an API group is there; True when that cannot be found out.

        Who may not read a kind is told so whether the kind exists or not; which groups exist everybody may read.
        """
        now = time.monotonic()
        with self._lock:
            known = self._groups if now < self._groups_until else None
        if known is None:
            try:
                answer = self.call(
                    "listing API groups",
                    lambda apis: apis.groups.get_api_versions(_preload_content=False, _request_timeout=TIMEOUT),
                    tries=2,
                )
            except BackendError:
                return True
            known = frozenset(str(entry["name"]) for entry in answer.get("groups") or ())
            with self._lock:
                self._groups, self._groups_until = known, now + _GROUPS_SECONDS
        return group in known

    def _pages(
        self, what: str, send: Callable[..., Any], limit: int, tries: int, keep: Callable[[Any], Any]
    ) -> tuple[list[Any], str]:
        found: list[Any] = []
        options: dict[str, Any] = {"limit": limit}
        while True:
            answer = self.call(what, partial(send, **options), tries=tries)
            found += keep(answer.get("items") or [])
            meta = answer.get("metadata") or {}
            if not meta.get("continue"):
                return found, str(meta.get("resourceVersion") or "")
            options = {"limit": limit, "_continue": meta["continue"]}

    def _persist(self, call: Callable[[], Any], tries: int) -> Any:
        retrying = Retrying(
            retry=retry_if_exception(_passing),
            stop=stop_after_attempt(tries) | stop_after_delay(_PATIENCE_SECONDS),
            wait=_pause,
            sleep=self._sleep,
            reraise=True,
        )
        return retrying(call)

    def _once(self, what: str, send: Send) -> Any:
        apis: Any = None
        try:
            apis = self._connected()
            return send(apis)
        except _refusals() as refused:
            exc: Any = refused
            error = failure(what, exc.status, exc.body, str(exc.reason or ""))
            if error.status == 401 and apis is not None:
                self._forget(apis)
            error.__dict__["retry_after"] = retry_after(exc.headers)
            raise error from exc
        except _breaks() as broken:
            raise Unreachable(f"{what}: {_short(broken)}") from broken

    def _connected(self) -> Any:
        with self._lock:
            if self._pid != os.getpid():
                # A forked process must not write into its parent's connections.
                self._apis, self._pid = None, os.getpid()
            if self._apis is None:
                self._apis = _apis(self._access)
            return self._apis

    def _forget(self, apis: Any) -> None:
        with self._lock:
            if self._apis is apis:
                self._apis = None

    def close(self) -> None:
        """Close the connections; idempotent. A call after it connects again."""
        with self._lock:
            apis, self._apis = self._apis, None
        if apis is not None:
            apis.close()


def _decoded(what: str, answer: Any) -> Any:
    from urllib3.exceptions import HTTPError

    try:
        data = answer.data
        answer.release_conn()
        return json.loads(data)
    except (HTTPError, OSError) as exc:
        answer.close()
        raise Unreachable(f"{what}: the answer broke off: {_short(exc)}") from exc
    except ValueError as exc:
        raise Unreachable(f"{what}: the answer is no JSON") from exc


def _passing(error: BaseException) -> bool:
    return isinstance(error, Unreachable) or (isinstance(error, Forbidden) and error.status == 401)


def _pause(state: RetryCallState) -> float:
    """Retry-After where the server gave one, else 0.25 s doubled each time up to 8 s, each with full jitter."""
    error = state.outcome.exception() if state.outcome else None
    asked = getattr(error, "retry_after", None)
    if asked is not None:
        return float(asked) + random.uniform(0, 1)
    return random.uniform(0.1, min(8.0, 0.25 * 2**state.attempt_number))


def _short(exc: BaseException) -> str:
    reason = getattr(exc, "reason", None) or exc
    return f"{type(reason).__name__}: {reason}"[:300]
