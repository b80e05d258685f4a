"""One pod: its containers in their order, restarts in place, stopping, and what of this is shown."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainer_ops.local import processes
from trainer_ops.local.containers import START_ERROR, ContainerRun, StartFailure
from trainer_ops.local.loop import Loop, Timer
from trainer_ops.local.objects import new_pod, new_uid, settle_pod
from trainer_ops.local.plan_values import PodPlan, StepPlan
from trainer_ops.local.processes import Process
from trainer_ops.local.recorder import Recorder
from trainer_ops.model.times import rfc3339

__all__ = ["PodHost", "PodRun"]

Raw = dict[str, Any]

READY_PERIOD = 0.05
GONE_PERIOD = 0.05
BACKOFF_LIMIT = 30


@dataclass(frozen=True, slots=True)
class PodHost:
    """What a pod needs from the supervisor that runs it.

    Attributes:
        may_restart: whether a container of this pod that failed may run again; counts it.
        moved: called when the pod became ready, succeeded or failed, or has ended for good.
        own: the processes below the supervisor.
    """

    loop: Loop
    recorder: Recorder
    job_uid: str
    cwd: str
    hostname: str
    namespace: str
    log_path: Callable[[str, str, int], str]
    own: Callable[[], list[Process]]
    may_restart: Callable[[PodRun], bool]
    moved: Callable[[], None]


class PodRun:
    """A pod from its creation to the end of its last process."""

    def __init__(self, host: PodHost, step: StepPlan, plan: PodPlan) -> None:
        self.step, self.plan, self.uid = step, plan, new_uid()
        self._host = host
        self.object = new_pod(
            plan,
            step,
            uid=self.uid,
            job_uid=host.job_uid,
            now=time.time(),
            host=host.hostname,
            namespace=host.namespace,
        )
        status = self.object["status"]
        entries = {s["name"]: s for s in (*status["initContainerStatuses"], *status["containerStatuses"])}
        self.containers = [
            ContainerRun(c, entries[c.name], job_uid=host.job_uid, pod_uid=self.uid, cwd=host.cwd)
            for c in plan.containers
        ]
        self._init = [c for c in self.containers if c.plan.init]
        self._plain = [c for c in self.containers if not c.plan.init]
        self._failed = False
        self.stopping = False
        self.gone = False
        self._kill_at = math.inf
        self._timers: list[Timer] = []
        self._save()
        job = plan.hostname.rpartition("-")[0]
        host.recorder.event("Job", job, "SuccessfulCreate", f"Created pod: {plan.name}")

    @property
    def phase(self) -> str:
        """The pod's phase."""
        return str(self.object["status"]["phase"])

    @property
    def ready(self) -> bool:
        """All containers are ready."""
        return self.phase == "Running" and all(c.status["ready"] for c in self._plain)

    # -- starting ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the first containers."""
        while self._init and not self.stopping:
            container = self._init[0]
            if container.plan.role != "sidecar":
                self._launch(container)
                return
            self._init.pop(0)
            self._launch(container)
        for container in self._plain:
            if not self.stopping and not self._failed:
                self._launch(container)

    def _launch(self, container: ContainerRun) -> None:
        host, name = self._host, container.plan.name
        try:
            container.start(host.log_path(self.plan.name, name, container.restarts))
        except StartFailure as failure:
            self._event("Failed", f"Error: {failure}", warning=True)
            container.set_terminated(START_ERROR, reason="StartError", message=str(failure))
            self._after_exit(container, START_ERROR)
            return
        host.recorder.process(container.pid, processes.start_mark(container.pid))
        self._event("Started", "Container started")
        if not container.plan.init:
            self.object["status"]["phase"] = "Running"
        self._look_ready(container)
        self._save()

    def _look_ready(self, container: ContainerRun) -> None:
        path = container.plan.ready_path
        if container.running and path and not os.path.exists(path):
            self._later(READY_PERIOD, lambda: self._look_ready(container))
            return
        if container.running and not container.status["ready"]:
            container.set_ready(True)
            self._save()
            self._host.moved()

    # -- ending ------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """A child has ended: see whether it was one of ours."""
        for container in self.containers:
            if container.poll() is not None:
                self._exited(container)
        if self.stopping and not self.gone:
            self._look_gone()

    def _exited(self, container: ContainerRun) -> None:
        if self.stopping:
            # What it leaves behind has the rest of the grace period: a shell may be gone before the training below it.
            for process in container.leftovers(self._host.own()):
                processes.send(process.pid, signal.SIGTERM)
            return
        processes.kill_all(lambda: container.leftovers(self._host.own()))
        code = container.exit_code or 0
        container.set_terminated(code)
        self._after_exit(container, code)

    def _after_exit(self, container: ContainerRun, code: int) -> None:
        if code == 0:
            self._succeeded(container)
        elif container.plan.role == "sidecar" and container.plan.init:
            pass  # its end decides nothing
        elif self.step.restart_policy == "OnFailure" and self._host.may_restart(self):
            self._restart_later(container, code)
        else:
            self._fail()
        self._save()

    def _succeeded(self, container: ContainerRun) -> None:
        if container.plan.init:
            if self._init and self._init[0] is container:
                self._init.pop(0)
                container.set_ready(True)
                self.begin()
        elif all(c.exit_code == 0 for c in self._plain):
            self._end()

    def _restart_later(self, container: ContainerRun, code: int) -> None:
        delay = min(2**container.restarts, BACKOFF_LIMIT)
        text = f"back-off {delay}s restarting failed container={container.plan.name} pod={self.plan.name}"
        start_error = code == START_ERROR and container.status["state"]["terminated"]["reason"] == "StartError"
        message = container.status["state"]["terminated"].get("message", "")
        if start_error:
            container.set_waiting("RunContainerError", message)
        else:
            container.set_waiting("CrashLoopBackOff", text)
        self._event("BackOff", f"Back-off restarting failed container {container.plan.name}", warning=True)
        self._later(delay, lambda: self._restart(container))

    def _restart(self, container: ContainerRun) -> None:
        container.next_run()
        self._launch(container)
        self._host.moved()

    def _fail(self) -> None:
        self._failed = True
        self._end()

    def _end(self) -> None:
        """The pod is over by itself: what still runs in it (sidecars, sisters) is stopped."""
        if any(c.running for c in self.containers):
            self._stop(self.step.grace_seconds)
        else:
            self._finish()

    def stop(self, grace: float) -> None:
        """Delete the pod: SIGTERM to its containers, SIGKILL to all of it after that many seconds."""
        if self.gone:
            return
        if "deletionTimestamp" not in self.object["metadata"]:
            self.object["metadata"]["deletionTimestamp"] = rfc3339(time.time() + grace)
            self.object["metadata"]["deletionGracePeriodSeconds"] = int(grace)
            if any(c.running for c in self.containers):
                self._event("Killing", f"Stopping container {self.plan.main.name}")
            self._save()
        self._stop(grace)

    def _stop(self, grace: float) -> None:
        until = time.monotonic() + grace
        if until >= self._kill_at:
            return  # a second stop may shorten the grace period, not lengthen it
        self._kill_at = until
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if not self.stopping:
            self.stopping = True
            for container in self.containers:
                container.terminate()
        self._later(grace, self._kill)
        self._later(0.0, self._look_gone)

    def _look_gone(self) -> None:
        """While stopping: finished once neither the containers nor anything they started is left."""
        if self.gone or any(c.running for c in self.containers):
            return
        own = self._host.own()
        if any(c.leftovers(own) for c in self.containers if c.pid):
            self._later(GONE_PERIOD, self._look_gone)
            return
        self._finish()

    def _kill(self) -> None:
        for container in self.containers:
            container.terminate(signal.SIGKILL)
        processes.kill_all(self._leftovers)
        self._later(0.0, self.look)

    def _leftovers(self) -> list[Process]:
        own = self._host.own()
        return [p for c in self.containers if c.pid for p in c.leftovers(own)]

    def _finish(self) -> None:
        for timer in self._timers:
            timer.cancel()
        for container in self.containers:
            if "running" in container.status["state"]:
                container.set_terminated(container.exit_code or 0)
            container.settle()
        good = not self._failed and all(c.exit_code == 0 for c in self._plain)
        self.object["status"]["phase"] = "Succeeded" if good else "Failed"
        self.gone = True
        self._save()
        self._host.moved()

    # -- showing -----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        settle_pod(self.object, time.time())
        self._host.recorder.pod(self.object)

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self._host.recorder.event("Pod", self.plan.name, reason, message, warning=warning)

    def _later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._timers = [t for t in self._timers if not t.cancelled]
        self._timers.append(self._host.loop.later(seconds, callback))
