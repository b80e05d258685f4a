"""What has fooled others: conditions that are there but not true, pods that are not read, MPI, Kueue's noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from trainer_ops.model.observed import Observation
from trainer_ops.model.phase import Phase, State
from trainer_ops.status.classify import classify

if TYPE_CHECKING:
    from tests.status.conftest import Scene

Look = Callable[["Scene"], Observation]

NULL = (
    'TrainJob resources reconciliation failed: JobSet.jobset.x-k8s.io "k2" is invalid: '
    '[spec.replicatedJobs[0].template.spec.template.metadata: Invalid value: "null": must be of type object: "null"]'
)
CREATION = "TrainJobResourcesCreationFailed"

TRAPS: dict[str, tuple[Look, Phase]] = {
    'a condition with status "False" is not true': (
        lambda s: s.look(s.job(s.condition("Failed", "False"), rows={"node": "active=1 ready=1"})),
        Phase.RUNNING,
    ),
    'nor one with status "Unknown"': (
        lambda s: s.look(s.job(s.condition("Complete", "Unknown"), rows={"node": "active=1 ready=1"})),
        Phase.RUNNING,
    ),
    "Suspended=False stays for good": (
        lambda s: s.look(s.job(s.condition("Suspended", "False", "Resumed"), rows={"node": "active=1 ready=1"})),
        Phase.RUNNING,
    ),
    "the last condition is not the state": (
        lambda s: s.look(s.job(s.condition("Complete"), s.condition("Suspended", "False", "Resumed"))),
        Phase.SUCCEEDED,
    ),
    "a short job is over before it is seen to run": (
        lambda s: s.look(s.job(s.condition("Complete"), rows={"node": "succeeded=1"}), at=1),
        Phase.SUCCEEDED,
    ),
    "DeadlineExceeded, the counts say active for ever": (
        lambda s: s.look(
            s.job(s.condition("Failed", reason="DeadlineExceeded"), rows={"node": "active=1 ready=1"}),
            s.pod("node-0", s.running(), deleting=True),
        ),
        Phase.FAILED,
    ),
    "a Failed reason that no version knew": (
        lambda s: s.look(s.job(s.condition("Failed", reason="SomethingNew"))),
        Phase.FAILED,
    ),
    "pods ended well: success is the controller's word alone": (
        lambda s: s.look(s.job(rows={"node": "active=1"}), s.pod("node-0", s.ended(0), phase="Succeeded")),
        Phase.COMPLETING,
    ),
    "a container restarts for the first time: not decided": (
        lambda s: s.look(s.job(rows={"node": "active=1"}), s.pod("node-0", s.ended(3), phase="Running")),
        Phase.FAILING,
    ),
    "restarted and running": (
        lambda s: s.look(s.job(rows={"node": "active=1"}), s.pod("node-0", s.running(), restarts=1, last=s.ended(3))),
        Phase.RUNNING,
    ),
    "a failed pod has a successor": (
        lambda s: s.look(
            s.job(rows={"node": "active=1"}),
            s.pod("node-0", s.ended(3), phase="Failed"),
            s.pod("node-0", s.running(), suffix="bbbbb", created=40),
        ),
        Phase.RUNNING,
    ),
    "custom names of replicatedJobs": (
        lambda s: s.look(s.job(rows={"dataset-initializer": "succeeded=1", "worker": "active=1 ready=1"})),
        Phase.RUNNING,
    ),
    "custom names, initializing": (
        lambda s: s.look(s.job(rows={"dataset-initializer": "active=1", "worker": ""})),
        Phase.INITIALIZING,
    ),
    "one of several custom jobs is not ready": (
        lambda s: s.look(s.job(rows={"leader": "active=1 ready=1", "worker": "active=1"})),
        Phase.PENDING,
    ),
    "a failed initializer is about to be decided upon": (
        lambda s: s.look(s.job(rows={"dataset-initializer": "failed=1", "node": ""})),
        Phase.FAILING,
    ),
    "JobSet restarted before, and runs now": (
        lambda s: s.look(s.job(rows={"node": "active=1 ready=1"}), jobset=s.jobset(2, 3)),
        Phase.RUNNING,
    ),
    "JobSets may not be read: the counts go on": (
        lambda s: s.look(s.job(rows={"node": ""}), unreadable=frozenset({"jobsets"})),
        Phase.SUBMITTED,
    ),
    "MPI: the launcher is all zero until the nodes are ready": (
        lambda s: s.look(s.job(rows={"launcher": "", "node": "active=1"}), s.pod("node-0", s.waiting())),
        Phase.PENDING,
    ),
    "MPI: nodes are ready, there is no launcher yet": (
        lambda s: s.look(s.job(rows={"launcher": "", "node": "active=1 ready=1"}), s.pod("node-0", s.running())),
        Phase.PENDING,
    ),
    "MPI: running is the launcher's": (
        lambda s: s.look(s.job(rows={"launcher": "active=1 ready=1", "node": "active=1 ready=1"})),
        Phase.RUNNING,
    ),
    "MPI: the end of the workers is no success": (
        lambda s: s.look(s.job(rows={"launcher": "active=1 ready=1", "node": "succeeded=1"})),
        Phase.RUNNING,
    ),
    "MPI: the launcher ended, the nodes' sshd goes on": (
        lambda s: s.look(s.job(rows={"launcher": "succeeded=1", "node": "active=1 ready=1"})),
        Phase.COMPLETING,
    ),
    "MPI: Complete while the nodes are still active": (
        lambda s: s.look(s.job(s.condition("Complete"), rows={"launcher": "succeeded=1", "node": "active=1 ready=1"})),
        Phase.SUCCEEDED,
    ),
    "the engine's queue needs no label": (
        lambda s: s.look(s.job(rows={"node": ""}), workload=s.workload(s.condition("QuotaReserved", "False"))),
        Phase.QUEUED,
    ),
    "the engine's queue, before the first status": (
        lambda s: s.look(s.job(), workload=s.workload(s.condition("QuotaReserved", "False"))),
        Phase.QUEUED,
    ),
    "admitted by the engine": (
        lambda s: s.look(s.job(rows={"node": "active=1 ready=1"}), workload=s.workload(s.condition("QuotaReserved"))),
        Phase.RUNNING,
    ),
    "Kueue's passing event does not block": (
        lambda s: s.look(s.job(), events=[s.event("TrainJob/train", CREATION, NULL)], at=20),
        Phase.SUBMITTED,
    ),
    "the event of an earlier job of that name does not block": (
        lambda s: s.look(s.job(), events=[s.event("TrainJob/train", CREATION, "no", at=-100)], at=20),
        Phase.SUBMITTED,
    ),
    "the event of another job does not block": (
        lambda s: s.look(s.job(), events=[s.event("TrainJob/train2", CREATION, "no")], at=20),
        Phase.SUBMITTED,
    ),
    "a later attempt of the controller worked": (
        lambda s: s.look(s.job(rows={"node": "active=1 ready=1"}), events=[s.event("TrainJob/train", CREATION, "no")]),
        Phase.RUNNING,
    ),
    "pods that are being deleted do not run": (
        lambda s: s.look(s.job(rows={"node": ""}), s.pod("node-0", s.running(), deleting=True)),
        Phase.SUBMITTED,
    ),
}


@pytest.mark.parametrize(("look", "phase"), TRAPS.values(), ids=TRAPS.keys())
def test_trap(scene: Scene, look: Look, phase: Phase) -> None:
    assert classify(look(scene), uid=scene.uid).phase is phase


def test_jobset_restarts_by_number_until_it_runs_again(scene: Scene) -> None:
    look = scene.look(
        scene.job(rows={"node": "active=1"}),
        scene.pod("node-0", scene.waiting(), attempt=1),
        jobset=scene.jobset(1, 3),
    )
    assert classify(look, restarts_seen=0) == State(
        Phase.RESTARTING, "RestartingJobSet", "restart 1 of 3: node-0: preparing the container"
    )
    assert classify(look, restarts_seen=1).phase is Phase.PENDING


def test_running_but_not_ready_says_so(scene: Scene) -> None:
    look = scene.look(scene.job(rows={"node": "active=1"}), scene.pod("node-0", scene.running(), ready=False))
    assert classify(look) == State(Phase.RUNNING, "", "node-0: running, but not ready yet")


def test_an_initializer_in_back_off_is_named(scene: Scene) -> None:
    pod = scene.pod(
        "model-initializer",
        scene.waiting("CrashLoopBackOff"),
        container="model-initializer",
        restarts=2,
        last=scene.ended(1),
        phase="Running",
    )
    look = scene.look(scene.job(rows={"model-initializer": "active=1", "node": ""}), pod)
    assert classify(look) == State(
        Phase.INITIALIZING, "CrashLoopBackOff", "model-initializer: exit code 1, restart 2, next try after back-off"
    )
