"""One training in memory, and the verbs with which a script moves it on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.times import rfc3339
from trainer_ops.testing import objects
from trainer_ops.testing.objects import Raw

__all__ = ["Log", "Training"]

Place = tuple[str, int]
Node = int | str


@dataclass(slots=True)
class Log:
    """What one run of one container printed."""

    lines: list[str] = field(default_factory=list)
    ended: bool = False


class Training:
    """A TrainJob in memory with its pods, events and logs.

    A script's change is a function of one of these. Every method leaves objects as the cluster shows them; times are
    the clock's. A node is its index (``1``) or its name (``"node-1"``, ``"launcher"``, ``"dataset-initializer"``).

    Attributes:
        job: the raw TrainJob.
        pods: the raw pods that exist.
        events: the raw events, oldest first.
        workload: the raw Kueue Workload, or None.
        jobset: the raw JobSet, or None.
        logs: (pod uid, run) to what was printed.
        script: what moves it.
    """

    def __init__(
        self, job: Raw, *, launcher: bool, num_nodes: int, numbers: Iterator[int], now: Callable[[], float]
    ) -> None:
        self.job = job
        self.pods: list[Raw] = []
        self.events: list[Raw] = []
        self.workload: Raw | None = None
        self.jobset: Raw | None = None
        self.logs: dict[tuple[str, int], Log] = {}
        self.script: Sequence[tuple[float, Callable[[Training], object]]] = ()
        self._now = now
        self._numbers = numbers
        self._jobset_attempt = 0
        spec = job["spec"]
        num_nodes = int((spec.get("trainer") or {}).get("numNodes") or num_nodes)
        self._places: list[Place] = [(keys.STEP_LAUNCHER, 0)] if launcher else []
        self._places += [(keys.STEP_NODE, index) for index in range(num_nodes)]
        self._initializers: list[Place] = [
            (f"{kind}-initializer", 0) for kind in ("dataset", "model") if (spec.get("initializer") or {}).get(kind)
        ]

    @property
    def name(self) -> str:
        """The TrainJob's name."""
        return str(self.job["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.job["metadata"]["uid"])

    @property
    def finished(self) -> bool:
        """Whether Complete or Failed holds."""
        conditions = self._status().get("conditions") or ()
        return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)

    # What keeps it from running

    def queued(self, message: str = "couldn't assign flavors to pod set node: insufficient unused quota") -> None:
        """Wait for quota: a Workload that is not admitted, no pods."""
        self.workload = objects.workload(self.job, message, now=self._now(), admitted=False)

    def blocked(self, message: str) -> None:
        """The controller cannot create the JobSet: nothing in the status, one warning."""
        self.event(keys.KIND, self.name, "TrainJobResourcesCreationFailed", message, warning=True)

    def initializing(self) -> None:
        """The initializers run; the nodes do not exist yet."""
        for place in self._initializers:
            self._start(self._pod(place))
        self._counts(**{step: {"active": 1, "ready": 1} for step, _ in self._initializers})

    def pending(self, reason: str = "ContainerCreating", message: str = "", node: Node | None = None) -> None:
        """Pods exist and wait, all of them or one, for a reason such as ``ImagePullBackOff``."""
        self._admit()
        for place in self._places:
            pod = self._pod(place)
            if node is None or self._place(node) == place:
                _container(pod)["state"] = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        self._counts(**{step: {"active": 1} for step, _ in self._places})

    def image_pull_error(self, image: str = "example.com/none:1", node: Node = 0) -> None:
        """An image that is not there."""
        text = f'Back-off pulling image "{image}": ErrImagePull: failed to pull and unpack image: not found'
        self.pending()
        self.pending("ImagePullBackOff", text, node)
        name = self._pod(self._place(node))["metadata"]["name"]
        self.event("Pod", name, "Failed", f'Failed to pull image "{image}": not found', warning=True)

    def unschedulable(self, message: str = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.") -> None:
        """No node of the cluster has room."""
        self._admit()
        for place in self._places:
            pod = self._pod(place)
            pod["status"] = {"phase": "Pending"}
            scheduled = objects.condition("PodScheduled", "Unschedulable", message, self._now(), holds=False)
            objects.set_condition(pod["status"], scheduled)
            self.event("Pod", pod["metadata"]["name"], "FailedScheduling", message, warning=True)
        self._counts(**{step: {"active": 1} for step, _ in self._places})

    # Running

    def running(self) -> None:
        """All nodes run; initializers, if any, are done."""
        self._admit()
        for place in self._initializers:
            if self._find(place) is not None:
                self._end(place, 0, "Completed", "")
        for place in self._places:
            self._start(self._pod(place))
        done = {step: {"succeeded": 1} for step, _ in self._initializers}
        self._counts(**done, **{step: {"active": 1, "ready": 1} for step, _ in self._places})

    def say(self, *lines: str, node: Node | None = None) -> None:
        """Print lines, on one node or on all that run."""
        places = self._places if node is None else [self._place(node)]
        for place in places:
            self._log(self._pod(place)).lines.extend(lines)

    def progress(
        self, percentage: int, *, eta_seconds: int | None = None, metrics: Mapping[str, object] | None = None
    ) -> None:
        """Report progress as the training code does, metrics as text."""
        report: Raw = {"progressPercentage": percentage, "lastUpdatedTime": rfc3339(self._now())}
        if eta_seconds is not None:
            report["estimatedRemainingSeconds"] = eta_seconds
        if metrics:
            report["metrics"] = [{"name": name, "value": str(value)} for name, value in metrics.items()]
        self._status()["trainerStatus"] = report

    def crash(self, node: Node = 0, exit_code: int = 1, *, reason: str = "Error", message: str = "") -> None:
        """A container ends with that code and will be restarted in its pod."""
        pod = self._pod(self._place(node))
        self._log(pod).ended = True
        container = _container(pod)
        container["state"] = {"terminated": self._terminated(container, exit_code, reason, message)}
        container["ready"] = False

    def restart(self, node: Node = 0, exit_code: int = 1, *, reason: str = "Error", message: str = "") -> None:
        """A container ends with that code and runs again in the same pod."""
        pod = self._pod(self._place(node))
        if "terminated" not in _container(pod)["state"]:
            self.crash(node, exit_code, reason=reason, message=message)
        container = _container(pod)
        container["lastState"] = container["state"]
        container["restartCount"] += 1
        self._start(pod)

    def restart_all(self, max_restarts: int = 3) -> None:
        """The JobSet starts all over: new pods under new names."""
        self._jobset_attempt += 1
        self.stop(0)
        self.jobset = {
            "metadata": {"name": self.name},
            "spec": {"failurePolicy": {"maxRestarts": max_restarts}},
            "status": {"restarts": self._jobset_attempt, "conditions": []},
        }
        self.running()

    # The end

    def complete(self, result: Mapping[str, Any] | None = None) -> None:
        """All nodes end well; rank 0 leaves ``result`` (metrics, model_uri, artifacts)."""
        if not self.pods:
            self.running()
        first = self._places[0]
        for place in self._places:
            self._end(place, 0, "Completed", json.dumps(result) if result is not None and place == first else "")
        self._counts(**{step: {"succeeded": 1} for step, _ in (*self._initializers, *self._places)})
        self._finish("Complete", "AllJobsCompleted", "jobset completed successfully")

    def fail(
        self,
        node: Node = 0,
        exit_code: int = 1,
        *,
        reason: str = "Error",
        message: str = "",
        keep_pods: bool = True,
    ) -> None:
        """A node ends with that code, and the training with it.

        Args:
            node: which one.
            exit_code: its exit code; over 128 for a signal.
            reason: ``Error`` or ``OOMKilled``.
            message: its termination message.
            keep_pods: False deletes the pods with their logs, as a stock runtime does when its restarts are used up.
        """
        if not self.pods:
            self.running()
        place = self._place(node)
        self._end(place, exit_code, reason, message)
        self._counts(**{step: {"failed": int(step == place[0])} for step, _ in self._places})
        job = f"{self.name}-{place[0]}-0"
        self.event("Job", job, "BackoffLimitExceeded", "Job has reached the specified backoff limit", warning=True)
        # The other nodes get SIGTERM and their pods are deleted; the failed one stays only without restarts.
        failed = self._find(place)
        self.pods = [pod for pod in self.pods if keep_pods and pod is failed]
        text = f"jobset failed due to one or more job failures (first failed job: {job})"
        self._finish("Failed", "FailedJobs", text)

    def out_of_memory(self, node: Node = 0, *, keep_pods: bool = True) -> None:
        """A node is killed for memory, and the training ends."""
        self.fail(node, 137, reason="OOMKilled", keep_pods=keep_pods)

    def deadline_exceeded(self) -> None:
        """``activeDeadlineSeconds`` ran out: pods are deleted, ``jobsStatus`` stays as it was."""
        self.stop(0)
        self._finish("Failed", "DeadlineExceeded", "TrainJob exceeded its active deadline")

    def forget_failure(self) -> None:
        """Lose the Failed condition and run again, as Trainer up to 2.3.0 may (trainer #3737)."""
        status = self._status()
        status["conditions"] = [c for c in status.get("conditions") or () if c["type"] != "Failed"]
        self.running()

    # What the backend does

    def suspended(self) -> None:
        """Its spec was set to suspend."""
        self.job["spec"]["suspend"] = True
        self._condition("Suspended", "Suspended", "TrainJob is suspended")
        self._counts(**{step: {"suspended": 1} for step, _ in self._places})

    def resumed(self) -> None:
        """Its spec was set to run."""
        self.job["spec"]["suspend"] = False
        self._condition("Suspended", "Resumed", "TrainJob is resumed", holds=False)

    def stop(self, grace: float) -> list[Raw]:
        """Delete all pods; those returned still run for ``grace`` seconds."""
        stopped, self.pods = self.pods, []
        for pod in stopped:
            pod["metadata"]["deletionTimestamp"] = rfc3339(self._now() + grace)
            pod["metadata"]["deletionGracePeriodSeconds"] = int(grace)
        return stopped if grace > 0 else []

    def event(self, kind: str, name: str, reason: str, message: str, *, warning: bool = False) -> None:
        """Something is reported about it."""
        new = objects.event(self.job, kind, name, reason, message, now=self._now(), warning=warning)
        self.events = [*self.events, new][-200:]

    def _status(self) -> Raw:
        status: Raw = self.job.setdefault("status", {})
        return status

    def _condition(self, type_: str, reason: str, message: str, *, holds: bool = True) -> None:
        new = objects.condition(type_, reason, message, self._now(), holds=holds)
        objects.set_condition(self._status(), new)

    def _finish(self, type_: str, reason: str, message: str) -> None:
        self._condition(type_, reason, message)
        for log in self.logs.values():
            log.ended = True

    def _counts(self, **rows: Mapping[str, int]) -> None:
        zero = {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
        self._status()["jobsStatus"] = [{"name": name, **zero, **row} for name, row in rows.items()]

    def _admit(self) -> None:
        if self.workload is not None:
            self.workload = objects.workload(self.job, "Quota reserved", now=self._now(), admitted=True)

    def _place(self, node: Node) -> Place:
        if isinstance(node, int):
            return keys.STEP_NODE, node
        step, _, index = node.rpartition("-")
        return (step, int(index)) if step == keys.STEP_NODE and index.isdigit() else (node, 0)

    def _find(self, place: Place) -> Raw | None:
        step, index = place
        for pod in self.pods:
            labels = pod["metadata"]["labels"]
            if labels[keys.LABEL_REPLICATED_JOB] == step and labels[keys.COMPLETION_INDEX] == str(index):
                return pod
        return None

    def _pod(self, place: Place) -> Raw:
        found = self._find(place)
        if found is not None:
            return found
        number = next(self._numbers)
        new = objects.pod(
            self.job,
            *place,
            uid=objects.uid(number),
            suffix=f"{number:05}"[-5:],
            now=self._now(),
            attempt=self._jobset_attempt,
        )
        self.pods.append(new)
        return new

    def _start(self, pod: Raw) -> None:
        container = _container(pod)
        if "running" in container["state"]:
            return
        container["state"] = {"running": {"startedAt": rfc3339(self._now())}}
        container["ready"] = True
        pod["status"]["phase"] = "Running"
        pod["spec"]["nodeName"] = "memory"
        objects.set_condition(pod["status"], objects.condition("PodScheduled", "", "", self._now()))
        self._log(pod)

    def _end(self, place: Place, exit_code: int, reason: str, message: str) -> None:
        pod = self._pod(place)
        self._log(pod).ended = True
        container = _container(pod)
        container["state"] = {"terminated": self._terminated(container, exit_code, reason, message)}
        container["ready"] = False
        pod["status"]["phase"] = "Failed" if exit_code else "Succeeded"

    def _terminated(self, container: Raw, exit_code: int, reason: str, message: str) -> Raw:
        started = (container["state"].get("running") or {}).get("startedAt") or rfc3339(self._now())
        end: Raw = {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": rfc3339(self._now())}
        return {**end, "message": message} if message else end

    def _log(self, pod: Raw) -> Log:
        run = _container(pod)["restartCount"]
        return self.logs.setdefault((pod["metadata"]["uid"], run), Log())


def _container(pod: Raw) -> Raw:
    """The status of its one container."""
    statuses = pod["status"].setdefault("containerStatuses", [])
    if not statuses:
        name = pod["spec"]["containers"][0]["name"]
        statuses.append({"name": name, "state": {"waiting": {}}, "lastState": {}, "restartCount": 0, "ready": False})
    first: Raw = statuses[0]
    return first
