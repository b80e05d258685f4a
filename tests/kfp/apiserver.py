"""A stand-in for an API server on loopback: TLS, TrainJobs in memory, every request with its time."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme

__all__ = ["ApiServer", "Request"]

NAMESPACE = "team-a"
_JOBS = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{NAMESPACE}/trainjobs"
_LISTS = ("pods", "events", "jobsets", "workloads", "trainingruntimes", "clustertrainingruntimes", "apis", "")
_RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "plain", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "x"}]}}},
                        },
                    }
                ]
            }
        },
    },
}


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    at: float
    verb: str
    path: str
    query: dict[str, list[str]]
    body: Any
    token: str
    connection: int


@dataclass
class ApiServer:
    """It answers what a submission and a wait ask for; everything else is an empty list.

    Attributes:
        jobs: TrainJobs by name.
        pods: other pods by name.
        requests: all of them, in order.
        deleted: names, in order.
        hold: waits before the answer of a create, after the TrainJob is stored.
        refuse: gives (status, message) for a request that is to be refused.
    """

    folder: Path
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    hold: Callable[[str], None] = lambda when: None
    refuse: Callable[[Request], tuple[int, str] | None] = lambda request: None

    def __post_init__(self) -> None:
        self.closed = threading.Event()
        self.sockets: list[Any] = []
        authority = trustme.CA()
        self.folder.mkdir(parents=True, exist_ok=True)
        authority.cert_pem.write_to_path(str(self.folder / "ca.crt"))
        (self.folder / "token").write_text("token-1")
        (self.folder / "namespace").write_text(NAMESPACE)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.api = self
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def env(self) -> dict[str, str]:
        """What a pod of this cluster has in its environment."""
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.port),
            "KFP_POD_NAME": "digits-x7-1",
            "KFP_POD_UID": "p1",
        }

    def finish(self, name: str, condition: str = "Complete", message: str = "done") -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        made = {"type": condition, "status": "True", "reason": "x", "message": message, "lastTransitionTime": stamp}
        self.jobs[name]["status"] = {"conditions": [made]}

    def seen(self, verb: str, ending: str = "") -> list[Request]:
        return [one for one in list(self.requests) if one.verb == verb and one.path.endswith(ending)]

    def cut(self) -> None:
        """Close every connection, as a load balancer does with idle ones."""
        while self.sockets:
            with contextlib.suppress(OSError):
                self.sockets.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.closed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)

    def answer(self, request: Request) -> tuple[int, Any]:
        refused = self.refuse(request)
        if refused is not None:
            return refused[0], {"kind": "Status", "message": refused[1], "reason": "x", "details": {"name": "x"}}
        path = request.path
        if path.startswith(_JOBS):
            return self._job(request, path[len(_JOBS) :].strip("/"))
        if path.endswith("/clustertrainingruntimes/plain"):
            return 200, _RUNTIME
        if path == "/version":
            return 200, {"major": "1"}
        pod = re.fullmatch(rf"/api/v1/namespaces/{NAMESPACE}/pods/([^/]+)", path)
        if pod:
            found = self.pods.get(pod[1])
            return (200, found) if found else _missing(pod[1])
        if path.rsplit("/", 1)[-1] in _LISTS:
            return 200, {"items": [], "metadata": {"resourceVersion": "1"}}
        return _missing(path)

    def _job(self, request: Request, name: str) -> tuple[int, Any]:
        if request.verb == "POST":
            return self._create(request.body)
        if not name:
            wanted = dict(pair.split("=", 1) for pair in request.query.get("labelSelector", [""])[0].split(",") if pair)
            found = [
                job
                for job in list(self.jobs.values())
                if all(job["metadata"]["labels"].get(key) == value for key, value in wanted.items())
            ]
            return 200, {"items": found, "metadata": {"resourceVersion": "1"}}
        job = self.jobs.get(name)
        if job is None:
            return _missing(name)
        if request.verb == "DELETE":
            wanted_uid = ((request.body or {}).get("preconditions") or {}).get("uid")
            if wanted_uid not in (None, job["metadata"]["uid"]):
                return 409, {"kind": "Status", "message": "Precondition failed"}
            del self.jobs[name]
            self.deleted.append(name)
            return 200, {"kind": "Status", "status": "Success"}
        return 200, job

    def _create(self, body: dict[str, Any]) -> tuple[int, Any]:
        name = body["metadata"]["name"]
        if name in self.jobs:
            return 409, {"kind": "Status", "reason": "AlreadyExists", "message": "exists"}
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        meta = {**body["metadata"], "uid": str(uuid.uuid4()), "namespace": NAMESPACE, "creationTimestamp": stamp}
        self.hold("before")
        self.jobs[name] = {**body, "metadata": meta}
        self.hold("after")
        return 201, self.jobs[name]


def _missing(name: str) -> tuple[int, Any]:
    return 404, {"kind": "Status", "reason": "NotFound", "message": f"{name} not found", "details": {"name": name}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    api: ApiServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed: what these tests do."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        # In this thread: a client that connects and says nothing must not keep others waiting.
        self.request.do_handshake()
        self.server.api.sockets.append(self.request)  # type: ignore[attr-defined]
        super().setup()

    def _serve(self) -> None:
        api: ApiServer = self.server.api  # type: ignore[attr-defined]
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        parts = urlsplit(self.path)
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        query = parse_qs(parts.query)
        request = Request(time.monotonic(), self.command, parts.path, query, body, token, self.client_address[1])
        api.requests.append(request)
        if query.get("watch"):
            return self._watch(api, request.path == _JOBS)
        status, answer = api.answer(request)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        return None

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _serve

    def _watch(self, api: ApiServer, jobs: bool) -> None:
        """Changes of TrainJobs as they come; of all other kinds there are none."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        told: dict[str, Any] = {}
        while not api.closed.wait(0.02):
            now = {name: json.dumps(job) for name, job in list(api.jobs.items())} if jobs else {}
            for name in set(told) - set(now):
                self._event("DELETED", told[name])
            for name in now:
                if told.get(name) != now[name]:
                    self._event("MODIFIED" if name in told else "ADDED", now[name])
            told = now

    def _event(self, kind: str, job: str) -> None:
        raw = json.loads(job)
        raw["metadata"].setdefault("resourceVersion", "2")
        data = (json.dumps({"type": kind, "object": raw}) + "\n").encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the test's own output is what counts."""
