"""Observations for the tests: recorded ones in the shape in which a backend hands them over, and made ones."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.model.times import rfc3339
from trainer_ops.status.wait import Done, Step, Wait

Raw = dict[str, Any]

EVIDENCE = Path(__file__).parent / "evidence"
POD_NAME = re.compile(r"-([a-z-]+)-0-(\d+)-[a-z0-9]{5}$")


def read(case: str) -> Any:
    return json.loads((EVIDENCE / f"{case}.json").read_text())


def labelled(pod: Raw, job: str) -> Raw:
    """The pod with the labels that JobSet puts on it; a recorded watch has none."""
    meta = pod["metadata"]
    found = POD_NAME.search(meta["name"].removeprefix(job))
    if found and not meta.get("labels"):
        labels = {
            "jobset.sigs.k8s.io/replicatedjob-name": found[1],
            "batch.kubernetes.io/job-completion-index": found[2],
        }
        pod = {**pod, "metadata": {**meta, "labels": labels}}
    return pod


def suspended(job: Raw) -> Raw:
    """The TrainJob with the ``spec.suspend`` that its condition tells of; a recorded watch has no spec."""
    if "spec" in job:
        return job
    conditions = (job.get("status") or {}).get("conditions") or []
    return {**job, "spec": {"suspend": any(c["type"] == "Suspended" and c["status"] == "True" for c in conditions)}}


class Replay:
    """Plays the changes of a recorded watch, one observation after each."""

    def __init__(self, case: str, job: str | None = None) -> None:
        self.changes = read(case)
        first = next(
            c for c in self.changes if c["kind"] == "trainjob ADDED" and job in (None, c["obj"]["metadata"]["name"])
        )
        self.name: str = first["obj"]["metadata"]["name"]
        self.uid: str = first["obj"]["metadata"]["uid"]
        born = Observation.from_raw(0, suspended(first["obj"])).job
        assert born is not None
        assert born.created_at is not None
        self.zero = born.created_at - first["t"]

    def observations(self) -> Iterator[Observation]:
        job: Raw | None = None
        pods: dict[str, Raw] = {}
        for change in self.changes:
            kind, what = change["kind"].split()
            obj = copy.deepcopy(change["obj"])
            name = obj["metadata"]["name"]
            if kind == "trainjob" and name == self.name:
                job = None if what == "DELETED" else suspended(obj)
            elif kind == "pod" and re.fullmatch(rf"{self.name}-[a-z]+-0-\d+-\w+", name):
                pods.pop(name, None)
                if what != "DELETED":
                    pods[name] = labelled(obj, self.name)
            else:
                continue
            yield Observation.from_raw(self.zero + change["t"], job, list(pods.values()))


def last_state(case: str, job: str | None = None) -> Observation:
    data = read(case)
    data = data[job] if job else data
    raw = data.get("trainjob")
    found = Observation.from_raw(0, raw, data.get("pods") or [], data.get("events") or [])
    times = [t for t in (found.job.created_at if found.job else None, *(e.at for e in found.events)) if t is not None]
    jobset = data.get("jobset")
    return Observation.from_raw(
        max(times, default=0.0) + 1,
        raw,
        data.get("pods") or [],
        data.get("events") or [],
        jobset if isinstance(jobset, dict) else None,
        data.get("workload"),
    )


class Scene:
    """Makes observations of a TrainJob called ``train`` from raw objects; times are seconds since its creation."""

    uid = "uid-1"
    zero = 1_800_000_000.0

    def at(self, seconds: float) -> str:
        return rfc3339(self.zero + seconds)

    def job(self, *conditions: Raw, rows: dict[str, str] | None = None, **more: Any) -> Raw:
        """A TrainJob; ``rows`` is ``{"node": "active=1"}``; ``more`` goes to spec, but for uid, queue, deleting."""
        meta: Raw = {"name": "train", "uid": more.pop("uid", self.uid), "creationTimestamp": self.at(0)}
        if queue := more.pop("queue", None):
            meta["labels"] = {"kueue.x-k8s.io/queue-name": queue}
        if more.pop("deleting", False):
            meta["deletionTimestamp"] = self.at(1)
        status: Raw = {}
        if progress := more.pop("progress", None):
            status["trainerStatus"] = progress
        if conditions:
            status["conditions"] = list(conditions)
        if rows is not None:
            status["jobsStatus"] = [{"name": name, **self.counts(text)} for name, text in rows.items()]
        return {"metadata": meta, "spec": more, "status": status}

    def counts(self, text: str) -> dict[str, int]:
        found = {"active": 0, "ready": 0, "succeeded": 0, "failed": 0, "suspended": 0}
        return {**found, **{k: int(v) for k, v in (pair.split("=") for pair in text.split())}}

    def condition(self, type_: str, status: str = "True", reason: str = "", message: str = "", at: float = 60) -> Raw:
        return {
            "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": self.at(at)
        }  # fmt: skip

    def waiting(self, reason: str = "ContainerCreating", message: str = "") -> Raw:
        return {"waiting": {"reason": reason, "message": message}}

    def running(self, at: float = 5) -> Raw:
        return {"running": {"startedAt": self.at(at)}}

    def ended(self, code: int, reason: str = "", message: str = "", at: float = 30, start: float = 5) -> Raw:
        return {
            "terminated": {
                "exitCode": code, "reason": reason or ("Error" if code else "Completed"), "message": message,
                "startedAt": self.at(start), "finishedAt": self.at(at),
            }
        }  # fmt: skip

    def pod(self, node: str = "node-0", state: Raw | None = None, **more: Any) -> Raw:
        """A pod; ``node`` is ``node-1`` or a step's name; phase follows from the state where it is not given."""
        found = re.fullmatch(r"(.+)-(\d+)", node)
        step, index = (found[1], found[2]) if found else (node, "0")
        suffix = more.pop("suffix", "aaaaa")
        name = f"train-{step}-0-{index}-{suffix}"
        attempt = more.pop("attempt", 0)
        meta: Raw = {
            "name": name,
            "uid": name,
            "creationTimestamp": self.at(more.pop("created", 1)),
            "labels": {
                "jobset.sigs.k8s.io/replicatedjob-name": step,
                "batch.kubernetes.io/job-completion-index": index,
                "jobset.sigs.k8s.io/restart-attempt": str(attempt),
            },
        }
        if more.pop("deleting", False):
            meta["deletionTimestamp"] = self.at(40)
        phase = more.pop("phase", None) or ("Pending" if state is None or "waiting" in state else "Running")
        status: Raw = {"phase": phase, "conditions": more.pop("conditions", [self.condition("PodScheduled")])}
        status.update({key: more.pop(key) for key in ("reason", "message") if key in more})
        if state is not None:
            main = {"name": more.pop("container", "node"), "state": state, "restartCount": more.pop("restarts", 0)}
            main["ready"] = more.pop("ready", "running" in state)
            main["lastState"] = more.pop("last", {})
            status["containerStatuses"] = [main]
        status["initContainerStatuses"] = more.pop("init", [])
        return {"metadata": meta, "spec": more, "status": status}

    def event(self, about: str, reason: str, message: str = "", at: float = 10, type_: str = "Warning") -> Raw:
        return {"object": about, "reason": reason, "message": message, "type": type_, "eventTime": self.at(at)}

    def jobset(self, restarts: int = 0, limit: int | None = None, restarting: bool = False) -> Raw:
        conditions = [self.condition("RestartingJobSet")] if restarting else []
        policy = {} if limit is None else {"failurePolicy": {"maxRestarts": limit}}
        return {"spec": policy, "status": {"restarts": restarts, "conditions": conditions}}

    def workload(self, *conditions: Raw, active: bool = True, admitted: str = "") -> Raw:
        status: Raw = {"conditions": list(conditions)}
        if admitted:
            status["admission"] = {"clusterQueue": admitted}
        return {"metadata": {"name": "trainjob-train-1"}, "spec": {"active": active}, "status": status}

    def look(self, job: Raw | None, *pods: Raw, at: float = 60, **more: Any) -> Observation:
        return Observation.from_raw(self.zero + at, job, pods, **more)

    def begin(self, limits: Limits | None = None, at: float = 0, **more: Any) -> Wait:
        ref = JobRef("memory://t", "default", "train", self.uid)
        return Wait.begin(ref, limits or Limits(), now=self.zero + at, **more)

    def see(self, wait: Wait, *looks: Observation) -> tuple[Wait, Step]:
        """Show all of these, each at its own time."""
        step: Step = Done()
        for obs in looks:
            wait, step = wait.see(obs, obs.at)
        return wait, step


@pytest.fixture(scope="session")
def scene() -> Scene:
    return Scene()


@pytest.fixture(scope="session")
def replay() -> Callable[..., Replay]:
    return Replay


@pytest.fixture(scope="session")
def last() -> Callable[..., Observation]:
    return last_state


@pytest.fixture(scope="session")
def evidence_cases() -> set[str]:
    return {path.name.removesuffix(".json") for path in EVIDENCE.glob("*.json")}


@pytest.fixture(scope="session")
def recorded_logs() -> Callable[[str], dict[str, list[str]]]:
    """Log lines by node, as a waiter would have them; answers that are no log (HTTP 400) left out."""

    def logs(case: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for pod, text in (read(case).get("logs") or {}).items():
            name = re.search(r"-([a-z]+)-0-(\d+)-[a-z0-9]{5}$", pod)
            if name and isinstance(text, str) and not text.startswith("<4"):
                found[f"{name[1]}-{name[2]}"] = text.splitlines()
        return found

    return logs


@pytest.fixture(scope="session")
def trainings() -> Callable[[str], set[str]]:
    """The TrainJobs in a file that holds several."""
    return lambda case: {name for name, part in read(case).items() if "trainjob" in part}
