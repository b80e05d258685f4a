"""One API server as one user: the only module that imports ``kubernetes``.

Connections, credentials and retries live here. Nothing is global: two clusters in one process do not see each other.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay

from trainer_ops.backends.kubernetes.address import IN_CLUSTER, Address
from trainer_ops.backends.kubernetes.failures import failure, retry_after
from trainer_ops.errors import BackendError, InvalidRequest, Unreachable

__all__ = ["READ_TIMEOUT", "Apis", "Cluster"]

# (connect, read) seconds of an ordinary call: a connection that died must not hang a wait.
TIMEOUT = (10.0, 30.0)
# A watch answers at least with a bookmark about once a minute; silence for longer is a dead connection.
READ_TIMEOUT = 90.0
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Apis:
    """The generated APIs on one connection pool."""

    def __init__(self, connection: Any) -> None:
        from kubernetes import client

        self.connection = connection
        self.core = client.CoreV1Api(connection)
        self.custom = client.CustomObjectsApi(connection)


class Cluster:
    """Calls to one API server.

    Attributes:
        address: with context and namespace filled in.
    """

    def __init__(self, address: Address, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Open it; no request is sent yet.

        Raises:
            InvalidRequest: field ``target``: no such context, no kubeconfig, not in a cluster.
        """
        self.address, self._open = _opener(address)
        self._sleep = sleep
        self._lock = threading.Lock()
        self._apis: Apis | None = None

    def call(self, what: str, send: Callable[[Apis], Any], *, tries: int = 5) -> Any:
        """Send one request and decode the JSON of its answer.

        A passing failure (429, 5xx, a reset, a time-out, an expired token) is tried again with growing, jittered
        pauses, or after what ``Retry-After`` says; then it is ``Unreachable``, and the caller decides how long to wait.

        Args:
            what: for the error's message.
            send: calls one generated method with ``_preload_content=False`` and ``_request_timeout``.
            tries: at most so many.

        Raises:
            BackendError: see ``failures``.
        """
        answer = self.send(what, send, tries=tries)
        try:
            return json.loads(answer.data)
        except ValueError as exc:
            raise Unreachable(f"{what}: the answer is no JSON") from exc
        finally:
            answer.release_conn()

    def send(self, what: str, send: Callable[[Apis], Any], *, tries: int = 5) -> Any:
        """``call`` without decoding: the response, to be read and released by the caller."""
        retrying = Retrying(
            retry=retry_if_exception_type(Unreachable),
            stop=stop_after_attempt(tries) | stop_after_delay(30),
            wait=_pause,
            sleep=self._sleep,
            reraise=True,
        )
        return retrying(self._once, what, send)

    def _once(self, what: str, send: Callable[[Apis], Any]) -> Any:
        from kubernetes.client import ApiException
        from kubernetes.config import ConfigException
        from urllib3.exceptions import HTTPError

        apis = self._connected()
        try:
            return send(apis)
        except ApiException as exc:
            if exc.status == 401:
                self._forget(apis)
            error = failure(what, exc.status, exc.body)
            error.__dict__["retry_after"] = retry_after(exc.headers)
            raise error from exc
        except (HTTPError, OSError, ConfigException) as exc:
            raise Unreachable(f"{what}: {_short(exc)}") from exc

    def _connected(self) -> Apis:
        with self._lock:
            if self._apis is None:
                self._apis = Apis(self._open())
            return self._apis

    def _forget(self, apis: Apis) -> None:
        """Read the credentials anew before the next call: a token or an exec plugin's answer has expired."""
        with self._lock:
            if self._apis is apis:
                self._apis = None

    def close(self) -> None:
        """Close the connections; idempotent."""
        with self._lock:
            apis, self._apis = self._apis, None
        if apis is not None:
            apis.connection.close()


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


def _opener(address: Address) -> tuple[Address, Callable[[], Any]]:
    from kubernetes import client, config

    def connection(configuration: Any) -> Any:
        configuration.connection_pool_maxsize = 64
        configuration.retries = False
        return client.ApiClient(configuration)

    if address.context == IN_CLUSTER:

        def in_cluster() -> Any:
            configuration = client.Configuration()
            config.load_incluster_config(client_configuration=configuration)
            return connection(configuration)

        _check(address, in_cluster)
        own = _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else "default"
        return replace(address, namespace=address.namespace or own), in_cluster

    file = address.kubeconfig or None
    context = _context(address, file)

    def from_file() -> Any:
        configuration = client.Configuration()
        config.load_kube_config(
            config_file=file, context=context["name"], client_configuration=configuration, persist_config=False
        )
        return connection(configuration)

    _check(address, from_file)
    namespace = address.namespace or context["context"].get("namespace") or "default"
    return replace(address, context=context["name"], namespace=namespace), from_file


def _context(address: Address, file: str | None) -> dict[str, Any]:
    from kubernetes import config

    try:
        known, current = config.list_kube_config_contexts(config_file=file)
    except (config.ConfigException, OSError) as exc:
        raise InvalidRequest(
            "target", f"{address}: no usable kubeconfig: {exc}", "Set KUBECONFIG, or use kubernetes://in-cluster"
        ) from exc
    if not address.context:
        return dict(current)
    for context in known:
        if context["name"] == address.context:
            return dict(context)
    names = ", ".join(sorted(c["name"] for c in known))
    raise InvalidRequest("target", f'no context "{address.context}" in the kubeconfig', f"Known: {names}")


def _check(address: Address, opener: Callable[[], Any]) -> None:
    """Fail now, with the field's name, rather than at the first call."""
    from kubernetes import config

    try:
        opener().close()
    except (config.ConfigException, OSError, BackendError) as exc:
        raise InvalidRequest("target", f"{address}: {exc}", "Check the kubeconfig or where this runs") from exc
