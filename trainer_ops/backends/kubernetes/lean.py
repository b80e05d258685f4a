"""The few requests that a wait makes, without the generated client.

Importing ``kubernetes`` costs a process 80 MB and more than a second (version 30), most of what a pod that only
waits for a training costs. Inside a cluster the credentials are a token and a certificate in two files, so there the
requests of ``client.Apis`` are made here, by urllib3, which the client itself uses. Its methods have the client's names
and arguments; one that is not known here is the real client's, imported then.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

__all__ = ["ApiError", "Connection", "LeanApis", "in_cluster"]

_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
# A projected token is renewed by the kubelet long before it expires; the client reads it anew as often.
_TOKEN_SECONDS: Final = 60.0
_POOL: Final = 64
_PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_VERBS: Final = {
    "get": "GET",
    "read": "GET",
    "list": "GET",
    "create": "POST",
    "replace": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
# The kinds of core/v1 that are asked for.
_CORE: Final = {
    "pod": "pods",
    "event": "events",
    "persistent_volume_claim": "persistentvolumeclaims",
    "secret": "secrets",
    "config_map": "configmaps",
}
_CORE_CALL: Final = re.compile(rf"(?P<verb>{'|'.join(_VERBS)})_namespaced_(?P<kind>{'|'.join(_CORE)})(?P<log>_log)?")
_CUSTOM_CALL: Final = re.compile(rf"(?P<verb>{'|'.join(_VERBS)})_(?P<scope>namespaced|cluster)_custom_object")


class ApiError(Exception):
    """An answer that is no success, with the attributes of the client's ``ApiException`` that are read."""

    def __init__(self, status: int, reason: str, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(f"({status}) {reason}")
        self.status = status
        self.reason = reason
        self.body = body
        self.headers = headers


class Connection:
    """One API server as one user. Safe for threads.

    Attributes:
        host: the server's URL.
        pool: urllib3's ``PoolManager``.
    """

    def __init__(self, host: str, ca_file: str, token: Callable[[], str]) -> None:
        """Open it; no request is sent yet.

        Args:
            host: ``https://10.0.0.1:443``.
            ca_file: certificates of who may have signed the server's.
            token: gives the bearer token to use now.
        """
        import urllib3

        self.host = host
        self.pool: Any = urllib3.PoolManager(num_pools=4, maxsize=_POOL, cert_reqs="CERT_REQUIRED", ca_certs=ca_file)
        self._token = token

    def headers(self) -> dict[str, str]:
        """Those of every request."""
        return {"Accept": "application/json", "Authorization": f"Bearer {self._token()}", "User-Agent": "trainer-ops"}

    def send(self, verb: str, path: str, *, body: Any = None, _request_timeout: Any = None, **options: Any) -> Any:
        """One request; the answer, unread.

        Args:
            verb: of HTTP.
            path: from the root.
            body: JSON data.
            _request_timeout: (connect, read) seconds.
            options: more of the query, named as in the client (``label_selector``).

        Raises:
            ApiError: the status is no success.
            urllib3.exceptions.HTTPError: no answer.
        """
        import urllib3

        headers = self.headers()
        data = None
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json" if verb == "PATCH" else "application/json"
            data = json.dumps(body).encode()
        connect, read = _request_timeout or (None, None)
        query = urlencode(_query(options))
        answer = self.pool.urlopen(
            verb,
            f"{self.host}{path}?{query}" if query else self.host + path,
            headers=headers,
            body=data,
            preload_content=False,
            retries=False,
            redirect=False,
            timeout=urllib3.Timeout(connect=connect, read=read),
        )
        if not 200 <= answer.status <= 299:
            text = answer.read()
            answer.release_conn()
            raise ApiError(answer.status, str(answer.reason or ""), text, answer.headers)
        return answer

    def close(self) -> None:
        """Close what is idle; idempotent."""
        self.pool.clear()


def _query(options: Mapping[str, Any]) -> dict[str, str]:
    """``label_selector`` is ``labelSelector`` in a URL, and ``_continue`` (a word of Python) ``continue``."""
    made = {}
    for name, value in options.items():
        if name == "_preload_content" or value is None:
            continue
        head, *rest = name.lstrip("_").split("_")
        text = json.dumps(value) if isinstance(value, bool) else str(value)
        made[head + "".join(part.title() for part in rest)] = text
    return made


class LeanApis:
    """In place of ``client.Apis``."""

    def __init__(self, connection: Connection, otherwise: Callable[[], Any]) -> None:
        """Make it.

        Args:
            connection: where to.
            otherwise: makes the real ``Apis``, for what is not known here.
        """
        self.connection = connection
        self._otherwise = otherwise
        self._real: Any = None
        self.custom = _Api(self, "custom", _custom)
        self.core = _Api(self, "core", _core)
        self.groups = _Api(self, "groups", _groups)

    @property
    def real(self) -> Any:
        """The client's own."""
        if self._real is None:
            self._real = self._otherwise()
        return self._real

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "real":
            raise AttributeError(name)
        return getattr(self.real, name)

    def close(self) -> None:
        """Close all connections."""
        self.connection.close()
        if self._real is not None:
            self._real.close()


_Call = Callable[..., Any]


class _Api:
    """One group of methods, each found by its name."""

    def __init__(self, apis: LeanApis, name: str, find: Callable[[Connection, str], _Call | None]) -> None:
        self._apis, self._name, self._find = apis, name, find

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._find(self._apis.connection, name)
        return getattr(getattr(self._apis.real, self._name), name) if found is None else found


def _custom(connection: Connection, name: str) -> _Call | None:
    match = _CUSTOM_CALL.fullmatch(name)
    if match is None:
        return None
    verb, within = match["verb"], match["scope"] == "namespaced"

    def call(group: str, version: str, *where: str, body: Any = None, **options: Any) -> Any:
        names = list(where)
        if verb in ("patch", "replace", "create") and body is None:
            body = names.pop()
        path = f"/apis/{group}/{version}"
        if within:
            path += f"/namespaces/{names.pop(0)}"
        return connection.send(_VERBS[verb], "/".join((path, *names)), body=body, **options)

    return call


def _core(connection: Connection, name: str) -> _Call | None:
    match = _CORE_CALL.fullmatch(name)
    if match is None or (match["log"] and name != "read_namespaced_pod_log"):
        return None
    verb, plural = match["verb"], _CORE[match["kind"]]

    def call(*where: Any, body: Any = None, **options: Any) -> Any:
        names = list(where)
        if verb in ("patch", "replace", "create") and body is None:
            body = names.pop()
        # The client's order: the name before the namespace.
        path = f"/api/v1/namespaces/{names[-1]}/{plural}" + "".join(f"/{one}" for one in names[:-1])
        return connection.send(_VERBS[verb], path + ("/log" if match["log"] else ""), body=body, **options)

    return call


def _groups(connection: Connection, name: str) -> _Call | None:
    if name != "get_api_versions":
        return None
    return lambda **options: connection.send("GET", "/apis/", **options)


def in_cluster(account: Path) -> Callable[[], Connection] | None:
    """What opens the API server of the cluster around this pod; None where the client has to (a proxy is set).

    Args:
        account: folder of the pod's service account.

    Raises:
        ValueError: this is no pod, or it has no service account; says which.
    """
    host, port = os.environ.get(_HOST), os.environ.get(_PORT)
    if not host or not port:
        raise ValueError(f"{_HOST} and {_PORT} are not set: this is no pod of a cluster")
    token, ca = account / "token", account / "ca.crt"
    for file in (token, ca):
        if not file.is_file() or not file.stat().st_size:
            raise ValueError(f"{file} is missing or empty: the pod has no service account")
    if any(os.environ.get(name) for name in _PROXIES):
        return None
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return lambda: Connection(url, str(ca), _Token(token))


class _Token:
    """The token in a file, read anew once a minute."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._text = file.read_text().strip()
        self._until = time.monotonic() + _TOKEN_SECONDS

    def __call__(self) -> str:
        now = time.monotonic()
        if now >= self._until:
            self._text, self._until = self._file.read_text().strip() or self._text, now + _TOKEN_SECONDS
        return self._text
