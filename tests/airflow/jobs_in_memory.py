"""A cluster's Jobs and claims in memory, for steps that are no trainings."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

from trainer_ops.backends.steps import StepView
from trainer_ops.errors import AlreadyExists, BackendError
from trainer_ops.testing import VirtualClock

SNAPSHOT: dict[str, Any] = {
    "kind": "dataset", "uri": "hf://datasets/org/digits", "revision": "9d3c", "key": "4f2a0c1b2d3e4f5a6b7c8d9e0f1a2b3c",
    "location": "pvc://data/4f2a0c1b2d3e4f5a6b7c8d9e0f1a2b3c/data", "digest": "sha256:d", "files": 2, "bytes": 10,
    "hit": False,
}  # fmt: skip


class JobsInMemory:
    """``backends.steps.Steps`` of which each Job runs and ends by itself.

    Attributes:
        answers: what a new Job says at its end, and whether it succeeds; the last one stays. None: it runs for ever.
        calls: names of methods, in order.
        fail: errors that the next calls raise.
        before: called before each call, with its name.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._number = itertools.count(1)
        self.jobs: dict[str, dict[str, Any]] = {}
        self._pods: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, Any] = {"data": {"metadata": {"name": "data"}, "status": {"phase": "Bound"}}}
        self.answers: list[Any] = [(SNAPSHOT, True)]
        self.calls: list[str] = []
        self.fail: list[BackendError] = []
        self.before: Callable[[str], None] = lambda name: None

    def _called(self, name: str) -> None:
        self.before(name)
        self.calls.append(name)
        if self.fail:
            raise self.fail.pop(0)

    def find(self, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        self._called("find")
        found = [job for job in self.jobs.values() if labels.items() <= job["metadata"]["labels"].items()]
        return copy.deepcopy(found)

    def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        self._called("create")
        job = copy.deepcopy(dict(manifest))
        name = job["metadata"]["name"]
        if name in self.jobs:
            raise AlreadyExists(name)
        job["metadata"]["uid"] = uid = f"uid-{next(self._number)}"
        job["status"] = {}
        self.jobs[name] = job
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self._pods[uid] = _pod(name, "Pending")
        self._clock.after(3, lambda: self._set(uid, "Running"))
        if answer is not None:
            self._clock.after(20, lambda: self._end(name, uid, *answer))
        return copy.deepcopy(job)

    def get(self, name: str) -> dict[str, Any] | None:
        self._called("get")
        return copy.deepcopy(self.jobs.get(name))

    def look(self, name: str, *, uid: str, claim: str = "") -> StepView:
        self._called("look")
        job = self.jobs.get(name)
        if job is None or job["metadata"]["uid"] != uid:
            return StepView(None)
        return copy.deepcopy(StepView(job, (self._pods[uid],), (), self.claims.get(claim)))

    def delete(self, name: str, *, uid: str) -> bool:
        self._called("delete")
        job = self.jobs.get(name)
        if job is None or job["metadata"]["uid"] != uid:
            return False
        del self.jobs[name]
        return True

    def claim(self, name: str) -> Any:
        self._called("claim")
        return self.claims.get(name)

    def create_claim(self, manifest: Mapping[str, Any]) -> Any:
        self._called("create_claim")
        self.claims[manifest["metadata"]["name"]] = manifest
        return manifest

    def _set(self, uid: str, phase: str, message: str = "", code: int = 0) -> None:
        pod = self._pods[uid]
        state = {"running": {}} if phase == "Running" else {"terminated": {"exitCode": code, "message": message}}
        pod["status"] = {"phase": phase, "containerStatuses": [{"name": "snapshot", "state": state}]}

    def _end(self, name: str, uid: str, answer: Mapping[str, Any], succeeds: bool) -> None:
        if name in self.jobs and self.jobs[name]["metadata"]["uid"] == uid:
            self._set(uid, "Succeeded" if succeeds else "Failed", json.dumps(answer), 0 if succeeds else 1)
            kind = "Complete" if succeeds else "Failed"
            self.jobs[name]["status"] = {
                "conditions": [{"type": kind, "status": "True", "reason": "x", "message": "x"}]
            }


def _pod(job: str, phase: str) -> dict[str, Any]:
    meta = {"name": f"{job}-abcde", "uid": f"pod-of-{job}", "labels": {}}
    return {"metadata": meta, "spec": {"containers": [{"name": "snapshot"}]}, "status": {"phase": phase}}
