"""Where a training stands: the only code that reads its conditions.

TrainJobs have three conditions (Suspended, Complete, Failed) and no phase; the rest follows from ``jobsStatus``, pods,
events, JobSet and Workload. The rules are the rows of one decision table, evaluated from the top; the first that
applies decides. Row 0, a terminal state seen before, needs memory: ``wait`` keeps it.

What may not be read (``Observation.unreadable``: many users may not read JobSets) is simply not there, and the rows
that would have used it do not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainer_ops.model import keys
from trainer_ops.model.observed import JobCounts, Observation, ObservedPod, ObservedTrainJob
from trainer_ops.model.phase import Phase, State
from trainer_ops.status.exits import ending
from trainer_ops.status.nodes import current_pods, disruption, down, ended_well, is_final, restarts, trainer_pods
from trainer_ops.status.podwhy import pod_cause
from trainer_ops.status.queueing import is_admitted, queue_cause
from trainer_ops.status.why import blocked, why

__all__ = ["ROWS", "classify"]

_UNCLAIMED = 60.0  # seconds without any status, after which a person should look for the controller


@dataclass(frozen=True, slots=True)
class _Look:
    """An observation whose TrainJob exists and is ours, with the parts that several rows ask for."""

    obs: Observation
    job: ObservedTrainJob
    pods: tuple[ObservedPod, ...]
    taken: tuple[ObservedPod, ...]  # being deleted because of a drain, a preemption or a lost machine, not replaced yet
    restarts_seen: int

    @property
    def main(self) -> tuple[JobCounts, ...]:
        """The rows that decide: with MPI only the launcher's; its workers never end by themselves."""
        rows = self.job.trainer_jobs
        launcher = tuple(row for row in rows if row.name == keys.STEP_LAUNCHER)
        return launcher or rows

    @property
    def main_pods(self) -> tuple[ObservedPod, ...]:
        """The pods of those rows."""
        names = {row.name for row in self.main}
        return tuple(p for p in self.pods if p.step in names)


def classify(
    obs: Observation,
    *,
    uid: str = "",
    seen: bool = True,
    created_at: float | None = None,
    grace: float = 30.0,
    restarts_seen: int = 0,
) -> State:
    """The state of a training at the time of an observation.

    Args:
        obs: what was read.
        uid: the uid of the TrainJob that is meant; "" takes any of that name.
        seen: whether it was ever seen; False right after a create, when a replica of the API may lag behind.
        created_at: when it was created by us (seconds since the epoch); None when not known.
        grace: how long (seconds) it may be missing after that.
        restarts_seen: the JobSet's restarts that are over: more than these mean that it is restarting.
    """
    job = obs.job
    if job is None:
        return _missing(obs, seen, created_at, grace)
    if uid and job.uid != uid:
        return State(Phase.REPLACED, "", f"another TrainJob is called {job.name} now (uid {job.uid})")
    pods = trainer_pods(obs)
    look = _Look(
        obs,
        job,
        tuple(p for p in pods if not p.deleting),
        tuple(p for p in pods if p.deleting and disruption(p) is not None),
        restarts_seen,
    )
    found = (row(look) for row in ROWS)
    return next((state for state in found if state is not None), _row_20_else(look))


def _missing(obs: Observation, seen: bool, created_at: float | None, grace: float) -> State:
    """Rows 1 and 2: not there yet, or not there any more."""
    if not seen and (created_at is None or obs.at - created_at < grace):
        return State(Phase.NOT_OBSERVED, "", "not visible yet")
    return State(Phase.DELETED, "", "the TrainJob was deleted while waiting" if seen else "there is no such TrainJob")


def _row_04_complete(look: _Look) -> State | None:
    """Complete, also when Failed is there too, and also when it is being deleted: the work is done."""
    return _terminal(look, "Complete", Phase.SUCCEEDED)


def _row_05_failed(look: _Look) -> State | None:
    """Failed, for whatever reason (also one that no version knew when this was written)."""
    return _terminal(look, "Failed", Phase.FAILED)


def _terminal(look: _Look, type_: str, phase: Phase) -> State | None:
    condition = look.job.condition(type_)
    if condition is None or not condition.holds:
        return None
    return State(phase, condition.reason, condition.message)


def _row_06_deleting(look: _Look) -> State | None:
    return State(Phase.DELETING, "", "being deleted") if look.job.deleting else None


def _row_07_elsewhere(look: _Look) -> State | None:
    """MultiKueue runs it on another cluster and has not copied a status back yet."""
    job = look.job
    if job.managed_by != keys.MULTIKUEUE or job.conditions or job.jobs:
        return None
    cause = queue_cause(look.obs)
    if cause is None:
        return State(Phase.EXTERNAL, "", "handed to MultiKueue, no word from the other cluster yet")
    return State(Phase.EXTERNAL, cause.reason, cause.detail)


def _row_08_queued(look: _Look) -> State | None:
    """Held back by a queue. A person's suspension looks the same under Kueue; only the Workload tells."""
    job, workload = look.job, look.obs.workload
    held = bool(job.queue) and (job.suspend or job.holds("Suspended"))
    # The engine's own queue shows a Workload too, but needs no label and suspends nothing.
    waits = workload is not None and not is_admitted(workload) and not any(not p.deleting for p in look.obs.pods)
    if not held and not waits:
        return None
    cause = queue_cause(look.obs)
    if cause is None:
        return State(Phase.QUEUED, "", f"waiting in queue {job.queue} (Kueue)")
    return State(Phase.QUEUED, cause.reason, cause.detail)


def _row_09_suspended(look: _Look) -> State | None:
    return State(Phase.SUSPENDED, "Suspended", "suspended by hand") if look.job.suspend else None


def _row_10_resuming(look: _Look) -> State | None:
    """No longer suspended, but the controllers lag. ``Suspended=False`` stays for good and says nothing."""
    lagging = look.job.holds("Suspended") or any(row.suspended for row in look.job.jobs)
    return State(Phase.RESUMING, "", "being resumed") if lagging else None


def _row_11_jobset_restarts(look: _Look) -> State | None:
    """JobSet makes all pods anew: not a failure."""
    jobset = look.obs.jobset
    if jobset is None:
        return None
    more = jobset.restarts > look.restarts_seen and not _is_running(look)
    if not jobset.restarting and not more:
        return None
    limit = "" if jobset.max_restarts is None else f" of {jobset.max_restarts}"
    cause = why(look.obs)
    detail = f"restart {jobset.restarts}{limit}" + (f": {cause.detail}" if cause else "")
    return State(Phase.RESTARTING, "RestartingJobSet", detail)


def _row_11_node_restarts(look: _Look) -> State | None:
    """The kubelet restarts a container in place; the TrainJob looks alive all the while."""
    for pod in look.pods:
        if down(pod) is not None and restarts(pod) > 0 and not is_final(pod):
            cause = pod_cause(pod, look.obs.events)
            return State(Phase.RESTARTING, cause.reason if cause else "", cause.detail if cause else "")
    return None


def _row_12_blocked(look: _Look) -> State | None:
    cause = blocked(look.obs)
    return State(Phase.BLOCKED, cause.reason, cause.detail) if cause else None


def _row_13_no_status(look: _Look) -> State | None:
    if look.job.jobs:
        return None
    cause = why(look.obs)
    if cause is not None:
        return State(Phase.SUBMITTED, cause.reason, cause.detail)
    if look.pods:
        return State(Phase.SUBMITTED, "", "its nodes have started")
    age = 0.0 if look.job.created_at is None else look.obs.at - look.job.created_at
    if age >= _UNCLAIMED:
        return State(Phase.SUBMITTED, "NotReconciled", f"no controller has taken it up for {int(age)} s")
    return State(Phase.SUBMITTED, "", "waiting for the controller")


def _row_14_15_initializing(look: _Look) -> State | None:
    """Dataset (14) and model (15) initializers run side by side; nodes are made when both are complete."""
    idle = not any(_touched(row) for row in look.job.trainer_jobs)
    busy = [row.name for row in map(look.job.job, keys.INITIALIZERS) if row is not None and _open(row, idle)]
    if not busy:
        return None
    pods = [p for p in current_pods(look.obs.pods) if p.step in busy and not p.deleting]
    causes = [cause for cause in (pod_cause(p, look.obs.events) for p in pods) if cause is not None]
    if causes:
        first = min(causes, key=lambda cause: cause.rank)
        return State(Phase.INITIALIZING, first.reason, first.detail)
    return State(Phase.INITIALIZING, "", f"{' and '.join(busy)}: running")


def _open(row: JobCounts, idle: bool) -> bool:
    # A failed initializer is row 16's: the JobSet is about to decide.
    return not row.succeeded and not row.failed and (row.active > 0 or idle)


def _touched(row: JobCounts) -> bool:
    return bool(row.active or row.ready or row.succeeded or row.failed or row.suspended)


def _row_16_failing(look: _Look) -> State | None:
    """Something failed, and whether it is tried again is not decided yet."""
    for pod in (*look.taken, *look.pods):
        end = down(pod)
        if end is not None or pod.phase == "Failed" or pod.deleting:
            cause = pod_cause(pod, look.obs.events)
            text = f"{pod.node}: {ending(end)}" if end else f"{pod.node}: failed"
            return State(Phase.FAILING, cause.reason if cause else "", cause.detail if cause else text)
    failed = next((row.name for row in look.job.jobs if row.failed), None)
    return State(Phase.FAILING, "", f"{failed}: failed") if failed else None


def _row_17_pending(look: _Look) -> State | None:
    """There are pods, or there should be, and not all of them run."""
    if not _is_pending(look):
        return None
    cause = why(look.obs)
    if cause is not None:
        return State(Phase.PENDING, cause.reason, cause.detail)
    ready = all(row.ready for row in look.job.trainer_jobs if row not in look.main)
    launcher = ready and not any(_touched(row) for row in look.main)
    return State(Phase.PENDING, "", "nodes are ready, starting the launcher" if launcher else "waiting for its pods")


def _is_pending(look: _Look) -> bool:
    if any(p.phase == "Pending" for p in look.main_pods):
        return True
    if all(row.succeeded for row in look.main):
        return False
    if any(row.active and not row.ready for row in look.main):
        return not _all_started(look)
    # MPI: the launcher is made when the workers are ready.
    workers = any(row.active or row.ready for row in look.job.trainer_jobs if row not in look.main)
    return workers and not any(_touched(row) for row in look.main)


def _all_started(look: _Look) -> bool:
    """Whether the pods, where they can be read, say more than a ``ready`` that lags behind or has gone back to 0."""
    pods = look.main_pods
    return bool(pods) and all(p.main is not None and p.main.state != "waiting" for p in pods)


def _row_18_running(look: _Look) -> State | None:
    return State(Phase.RUNNING, "", _unready(look)) if _is_running(look) else None


def _is_running(look: _Look) -> bool:
    if all(row.succeeded for row in look.main) or (look.main_pods and all(map(ended_well, look.main_pods))):
        return False
    return not _is_pending(look) and (any(row.ready for row in look.main) or _all_started(look))


def _unready(look: _Look) -> str:
    causes = (pod_cause(p, look.obs.events) for p in look.main_pods)
    return next((c.detail for c in causes if c is not None), "")


def _row_19_completing(look: _Look) -> State | None:
    """Every program ended well. Success is the controller's word alone: keep waiting for Complete."""
    jobs = bool(look.main) and all(row.succeeded for row in look.main)
    pods = bool(look.main_pods) and all(map(ended_well, look.main_pods))
    return State(Phase.COMPLETING, "", "all nodes have ended") if jobs or pods else None


def _row_20_else(look: _Look) -> State:
    cause = why(look.obs)
    return State(Phase.SUBMITTED, cause.reason if cause else "", cause.detail if cause else "no node is running")


ROWS: tuple[Callable[[_Look], State | None], ...] = (
    _row_04_complete,
    _row_05_failed,
    _row_06_deleting,
    _row_07_elsewhere,
    _row_08_queued,
    _row_09_suspended,
    _row_10_resuming,
    _row_11_jobset_restarts,
    _row_11_node_restarts,
    _row_12_blocked,
    _row_13_no_status,
    _row_14_15_initializing,
    _row_16_failing,
    _row_17_pending,
    _row_18_running,
    _row_19_completing,
)
