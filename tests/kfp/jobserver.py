"""The stand-in API server with Jobs, their pods and claims: what a snapshot on a cluster asks for."""

from __future__ import annotations

import json
import re
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from tests.kfp.apiserver import NAMESPACE, ApiServer, Request

__all__ = ["JobServer"]

_JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
_CLAIM = re.compile(rf"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/([^/]+)")
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass
class JobServer(ApiServer):
    """Every claim is there; no Job runs until it is told to have ended.

    Attributes:
        batch: Jobs by name.
        answers: pods of Jobs that have ended, by the Job's uid.
    """

    batch: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def end(self, name: str, message: dict[str, Any], *, code: int = 0) -> None:
        """The Job's program has written its termination message and ended."""
        kind, phase = ("Failed", "Failed") if code else ("Complete", "Succeeded")
        job = self.batch[name]
        ended = {"exitCode": code, "message": json.dumps(message), "reason": "Completed" if not code else "Error"}
        self.answers[job["metadata"]["uid"]] = {
            "metadata": {"name": f"{name}-x", "uid": "pod", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "snapshot"}]},
            "status": {"phase": phase, "containerStatuses": [{"name": "snapshot", "state": {"terminated": ended}}]},
        }
        job["status"] = {"conditions": [{"type": kind, "status": "True", "reason": "x", "message": "x"}]}

    def answer(self, request: Request) -> tuple[int, Any]:
        """Jobs here, the rest as before."""
        refused = self.refuse(request)
        if refused is None and request.path.startswith(_JOBS):
            return self._batch(request, request.path[len(_JOBS) :].strip("/"))
        claim = _CLAIM.fullmatch(request.path)
        if refused is None and claim:
            return 200, {"metadata": {"name": claim[1]}, "spec": {"accessModes": ["ReadWriteMany"]}}
        selector = request.query.get("labelSelector", [""])[0]
        if refused is None and request.path == _PODS and selector.startswith("batch.kubernetes.io/controller-uid="):
            found = self.answers.get(selector.partition("=")[2])
            return 200, {"items": [found] if found else [], "metadata": {}}
        return super().answer(request)

    def _batch(self, request: Request, name: str) -> tuple[int, Any]:
        if request.verb == "POST":
            meta = {**request.body["metadata"], "uid": str(uuid.uuid4()), "namespace": NAMESPACE}
            meta["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self.hold("before")
            self.batch[meta["name"]] = {**request.body, "metadata": meta}
            self.hold("after")
            return 201, self.batch[meta["name"]]
        if not name:
            wanted = dict(pair.split("=", 1) for pair in request.query.get("labelSelector", [""])[0].split(",") if pair)
            found = [job for job in list(self.batch.values()) if wanted.items() <= job["metadata"]["labels"].items()]
            return 200, {"items": found, "metadata": {}}
        job = self.batch.get(name)
        if job is None:
            return 404, {"kind": "Status", "reason": "NotFound", "message": "x", "details": {"name": name}}
        if request.verb == "DELETE":
            if request.body["preconditions"]["uid"] != job["metadata"]["uid"]:
                return 409, {"kind": "Status", "message": "Precondition failed"}
            del self.batch[name]
            self.deleted.append(name)
            return 200, {"kind": "Status", "status": "Success"}
        return 200, job
