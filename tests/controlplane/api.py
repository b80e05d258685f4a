"""The smallest client that the test control plane needs for itself: JSON over TLS with a bearer token.

The code under test never uses it: a test that checks ``backends.kubernetes`` must not look through its own eyes.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.client import HTTPResponse, HTTPSConnection, RemoteDisconnected
from typing import Any
from urllib.parse import quote, urlencode

__all__ = ["Api", "ApiError", "path_of"]

# kind -> (API prefix, plural, namespaced)
KINDS: dict[str, tuple[str, str, bool]] = {
    "Namespace": ("/api/v1", "namespaces", False),
    "Node": ("/api/v1", "nodes", False),
    "Pod": ("/api/v1", "pods", True),
    "Event": ("/api/v1", "events", True),
    "Service": ("/api/v1", "services", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "Secret": ("/api/v1", "secrets", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses", False),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "ResourceQuota": ("/api/v1", "resourcequotas", True),
    "Job": ("/apis/batch/v1", "jobs", True),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "MutatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        False,
    ),
    "ValidatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        False,
    ),
    "JobSet": ("/apis/jobset.x-k8s.io/v1alpha2", "jobsets", True),
    "TrainJob": ("/apis/trainer.kubeflow.org/v1alpha1", "trainjobs", True),
    "TrainingRuntime": ("/apis/trainer.kubeflow.org/v1alpha1", "trainingruntimes", True),
    "ClusterTrainingRuntime": ("/apis/trainer.kubeflow.org/v1alpha1", "clustertrainingruntimes", False),
    **{
        kind: ("/apis/kubeflow.org/v1", f"{kind.lower()}s", True)
        for kind in ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")
    },
    "MPIJob": ("/apis/kubeflow.org/v2beta1", "mpijobs", True),
    "Workload": ("/apis/kueue.x-k8s.io/v1beta2", "workloads", True),
}


class ApiError(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body[:500]}")
        self.status = status
        self.body = body


def path_of(kind: str, namespace: str = "default", name: str = "", sub: str = "") -> str:
    """The URL path of a kind's collection, of one object, or of a subresource."""
    prefix, plural, namespaced = KINDS[kind]
    parts = [prefix, *(["namespaces", namespace] if namespaced and namespace else []), plural]
    return "/".join([*parts, *([quote(name)] if name else []), *([sub] if sub else [])])


class Api:
    """One user of one API server; threads may share it.

    Args:
        port: the API server's port on loopback.
        ca_file: the certificate that it must have been signed with.
        token: the user.
        keep: how many connections to keep open between calls (then call ``close`` at the end). 0: one a call.
    """

    def __init__(self, port: int, ca_file: str, token: str, *, keep: int = 0) -> None:
        self._port = port
        self._token = token
        self._tls = ssl.create_default_context(cafile=ca_file)
        self._keep = keep
        self._idle: list[HTTPSConnection] = []
        self._lock = threading.Lock()

    def call(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Any:
        """Send one request; the decoded JSON of the answer (or its text).

        Raises:
            ApiError: any status of 400 and above.
        """
        data = None if body is None else json.dumps(body)
        connection, used = self._connection()
        try:
            status, text = self._exchange(connection, method, path, data, kind)
        except (RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            connection.close()
            if not used:
                raise
            # The server closed a connection that was kept: the request never reached it.
            connection = self._new_connection()
            status, text = self._exchange(connection, method, path, data, kind)
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        if status >= 400:
            raise ApiError(status, text)
        try:
            return json.loads(text)
        except ValueError:
            return text

    def stream(self, path: str, *, timeout: float) -> tuple[HTTPSConnection, HTTPResponse]:
        """Open a GET whose body is read piece by piece; the caller closes the connection.

        Raises:
            ApiError: any status of 400 and above.
        """
        connection = self._new_connection(timeout)
        try:
            connection.request("GET", path, headers=self._headers("application/json"))
            answer = connection.getresponse()
            if answer.status >= 400:
                raise ApiError(answer.status, answer.read().decode())
        except BaseException:
            connection.close()
            raise
        return connection, answer

    def watch(self, path: str, *, seconds: int = 240) -> Iterator[dict[str, Any]]:
        """The changes of a watch (``path`` carries the resourceVersion), until the server ends it."""
        joint = "&" if "?" in path else "?"
        connection, answer = self.stream(
            f"{path}{joint}watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}", timeout=seconds + 30
        )
        try:
            while line := answer.readline():
                yield json.loads(line)
        finally:
            connection.close()

    def close(self) -> None:
        """Close the connections that were kept."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _headers(self, kind: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "Accept": "application/json"}

    def _exchange(
        self, connection: HTTPSConnection, method: str, path: str, data: str | None, kind: str
    ) -> tuple[int, str]:
        connection.request(method, path, data, self._headers(kind))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def _new_connection(self, timeout: float = 30.0) -> HTTPSConnection:
        return HTTPSConnection("127.0.0.1", self._port, context=self._tls, timeout=timeout)

    def _connection(self) -> tuple[HTTPSConnection, bool]:
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
        return self._new_connection(), False

    def _give_back(self, connection: HTTPSConnection) -> None:
        with self._lock:
            if len(self._idle) < self._keep:
                self._idle.append(connection)
                return
        connection.close()

    def create(self, obj: dict[str, Any], *, namespace: str = "default") -> Any:
        """POST an object where its kind belongs."""
        space = obj.get("metadata", {}).get("namespace") or namespace
        return self.call("POST", path_of(obj["kind"], space), obj)

    def get(self, kind: str, name: str, *, namespace: str = "default") -> Any:
        """One object, or None."""
        try:
            return self.call("GET", path_of(kind, namespace, name))
        except ApiError as exc:
            if exc.status == 404:
                return None
            raise

    def list(self, kind: str, *, namespace: str = "default", **query: str) -> list[dict[str, Any]]:
        """All objects of a kind in a namespace ("" is all of them)."""
        path = path_of(kind, namespace)
        items = self.call("GET", f"{path}?{urlencode(query)}" if query else path)["items"]
        return list(items)

    def delete(self, kind: str, name: str, *, namespace: str = "default", body: Any = None) -> None:
        """DELETE one object; it may be gone already."""
        try:
            self.call("DELETE", path_of(kind, namespace, name), body)
        except ApiError as exc:
            if exc.status != 404:
                raise

    def patch(self, kind: str, name: str, body: Any, *, namespace: str = "default", sub: str = "") -> Any:
        """Merge-patch one object or one of its subresources."""
        return self.call("PATCH", path_of(kind, namespace, name, sub), body, kind="application/merge-patch+json")
