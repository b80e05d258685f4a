"""One run of a whole TrainJob: its steps in the order of their dependencies, until it succeeds, fails or is stopped.

What JobSet and the Job controller do on a cluster. It stores nothing but through the recorder and decides nothing about
suspension, deadlines or deletion: that is the supervisor's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from trainer_ops.local.containers import ContainerRun
from trainer_ops.local.objects import jobs_status
from trainer_ops.local.plan_values import JobPlan, PodPlan, StepPlan
from trainer_ops.local.pods import PodHost, PodRun

__all__ = ["JobRun", "StepRun", "random_suffix"]

Raw = dict[str, Any]
# Kubernetes' own: no vowels, so no words.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def random_suffix() -> str:
    """Five characters for the end of pod names, as Kubernetes adds."""
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(5))


@dataclass(slots=True)
class StepRun:
    """One replicatedJob and its pods: the current one of each index, and those they replaced."""

    plan: StepPlan
    pods: dict[int, PodRun] = field(default_factory=dict)
    replaced: list[PodRun] = field(default_factory=list)
    started: bool = False
    retries: int = 0
    retries_of: dict[int, int] = field(default_factory=dict)
    failed: bool = False

    @property
    def complete(self) -> bool:
        """All pods have succeeded."""
        return self.started and all(p.phase == "Succeeded" for p in self.pods.values())

    @property
    def ready(self) -> bool:
        """As many pods as there should be are ready or have succeeded."""
        return self.started and all(p.ready or p.phase == "Succeeded" for p in self.pods.values())

    def counts(self, suspended: bool) -> dict[str, int]:
        """Its row of ``jobsStatus``: the counters that are not 0."""
        if suspended:
            return {"suspended": 1}
        if not self.started:
            return {}
        if self.failed:
            return {"failed": 1}
        if self.complete:
            return {"succeeded": 1}
        active = any(not p.gone for p in self.pods.values())
        return {"active": int(active), "ready": int(self.ready)}


class JobRun:
    """The steps of one plan, run.

    Args:
        plan: what to run.
        host: what pods need; ``may_restart`` and ``moved`` are set here.
        on_complete: called once when the success steps have succeeded; others may still run.
        on_failed: called once with the first step that has failed for good; others may still run.
    """

    def __init__(
        self, plan: JobPlan, host: PodHost, *, on_complete: Callable[[], None], on_failed: Callable[[str], None]
    ) -> None:
        self.plan = plan
        self.steps = {step.name: StepRun(step) for step in plan.steps}
        self._host = replace(host, may_restart=self._may_restart, moved=self._moved)
        self._on_complete, self._on_failed = on_complete, on_failed
        self._stopping: Callable[[], None] | None = None
        self.suspended = False
        self.decided = False

    # -- life --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the files and folders that the plan wants and start the first steps."""
        for folder in self.plan.folders:
            os.makedirs(folder, exist_ok=True)
        for path, text in self.plan.files:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        self._advance()

    def look(self) -> None:
        """Some child has ended."""
        for pod in self.pods:
            if not pod.gone:
                pod.look()

    def stop(self, then: Callable[[], None], *, grace: float | None = None) -> None:
        """Stop all that runs and call ``then`` when nothing is left; a later call replaces an earlier one's ``then``.

        Args:
            then: what to do after that.
            grace: seconds between SIGTERM and SIGKILL; None is each step's own.
        """
        self.decided, self._stopping = True, then
        for step in self.steps.values():
            for pod in step.pods.values():
                pod.stop(step.plan.grace_seconds if grace is None else grace)
        self._host.loop.later(0.0, self._look_stopped)

    def _look_stopped(self) -> None:
        if self._stopping is not None and all(p.gone for p in self.pods):
            then, self._stopping = self._stopping, None
            then()

    def _moved(self) -> None:
        self._host.recorder.changed()
        # Not at once: the pod that calls may be in the middle of something.
        self._host.loop.later(0.0, self._advance)

    def _advance(self) -> None:
        if self.decided:
            self._look_stopped()
            return
        for step in self.steps.values():
            self._replace_failed(step)
        failed = next((s.plan.name for s in self.steps.values() if s.failed), None)
        if failed is not None:
            self.decided = True
            self._on_failed(failed)
            return
        if self._succeeded():
            self.decided = True
            self._on_complete()
            return
        self._start_steps()

    def _succeeded(self) -> bool:
        test = any if self.plan.success_any else all
        return test(self.steps[name].complete for name in self.plan.success_steps)

    def _start_steps(self) -> None:
        for step in self.steps.values():
            if not step.started and all(self._met(name, want) for name, want in step.plan.depends_on):
                step.started = True
                for plan in step.plan.pods:
                    step.pods[plan.index] = PodRun(self._host, step.plan, plan)
                for pod in step.pods.values():
                    pod.begin()

    def _met(self, name: str, want: str) -> bool:
        step = self.steps[name]
        return step.complete or (want == "Ready" and step.ready)

    # -- failures ----------------------------------------------------------------------------------------------

    def _may_restart(self, pod: PodRun) -> bool:
        """In place, within the budget: the pod's own where the request gave one, else the step's."""
        step, index = self.steps[pod.step.name], pod.plan.index
        own, limit = step.plan.restarts_per_pod, step.plan.backoff_limit
        used, limit = (step.retries, limit) if own is None else (step.retries_of.get(index, 0), own)
        if self.decided or used >= limit:
            return False
        step.retries += 1
        step.retries_of[index] = step.retries_of.get(index, 0) + 1
        return True

    def _replace_failed(self, step: StepRun) -> None:
        """``restartPolicy: Never``: a new pod for one that failed, within the budget; the old one stays readable."""
        for index, pod in list(step.pods.items()):
            if not (pod.gone and pod.phase == "Failed"):
                continue
            if step.plan.restart_policy != "Never" or not self._may_restart(pod):
                step.failed = True
                return
            step.replaced.append(pod)
            plan = _renamed(pod.plan, step.retries)
            step.pods[index] = PodRun(self._host, step.plan, plan)
            delay = min(2 ** (step.retries - 1), 30)
            self._host.loop.later(delay, step.pods[index].begin)

    # -- showing -----------------------------------------------------------------------------------------------

    @property
    def pods(self) -> list[PodRun]:
        """All pods so far, the replaced ones too."""
        return [p for s in self.steps.values() for p in (*s.replaced, *s.pods.values())]

    def containers(self) -> dict[int, ContainerRun]:
        """The containers that run, by pid."""
        return {c.pid: c for p in self.pods for c in p.containers if c.running}

    def status(self) -> list[Raw]:
        """``status.jobsStatus``."""
        return jobs_status((name, step.counts(self.suspended)) for name, step in self.steps.items())


def _renamed(plan: PodPlan, retry: int) -> PodPlan:
    """The same pod under a new name, with files of its own for its termination messages."""
    suffix = random_suffix()
    containers = tuple(
        replace(
            c,
            result_path=f"{c.result_path}.{retry}" if c.result_path else "",
            env={k: f"{v}.{retry}" if c.result_path and v == c.result_path else v for k, v in c.env.items()},
        )
        for c in plan.containers
    )
    return replace(plan, name=f"{plan.hostname}-{suffix}", containers=containers)
