"""The decision table, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from trainer_ops.model.observed import Observation
from trainer_ops.model.phase import Phase, State
from trainer_ops.status.classify import classify
from trainer_ops.status.wait import Done

if TYPE_CHECKING:
    from tests.status.conftest import Scene

Look = Callable[["Scene"], Observation]


def test_row_0_a_terminal_state_is_never_left(scene: Scene) -> None:
    failed = scene.look(scene.job(scene.condition("Failed", reason="FailedJobs"), rows={"node": "failed=1"}))
    # Trainer up to 2.3 drops Failed when the JobSet is gone, and trains again (trainer #3737).
    again = scene.look(scene.job(rows={"node": "active=1 ready=1"}), at=90)
    done = scene.look(scene.job(scene.condition("Complete"), rows={"node": "succeeded=1"}), at=120)
    wait, step = scene.see(scene.begin(), failed, again, done)
    assert step == Done()
    assert wait.state.phase is Phase.FAILED


def test_row_1_not_observed_within_the_grace(scene: Scene) -> None:
    look = scene.look(None, at=29.9)
    assert classify(look, seen=False, created_at=scene.zero).phase is Phase.NOT_OBSERVED
    assert classify(look, seen=False).phase is Phase.NOT_OBSERVED


def test_row_2_gone(scene: Scene) -> None:
    assert classify(scene.look(None, at=1)).phase is Phase.DELETED
    at_the_end_of_the_grace = scene.look(None, at=30)
    assert classify(at_the_end_of_the_grace, seen=False, created_at=scene.zero).phase is Phase.DELETED


def test_row_3_another_of_the_same_name(scene: Scene) -> None:
    other = scene.look(scene.job(scene.condition("Complete"), uid="uid-2"))
    state = classify(other, uid="uid-1")
    assert state.phase is Phase.REPLACED
    assert "uid-2" in state.detail
    assert classify(other, uid="").phase is Phase.SUCCEEDED


QUOTA = "couldn't assign flavors to pod set node: insufficient unused quota for cpu in flavor f, 200m more needed"
BLOCKED = "TrainJob resources reconciliation failed: JobSet is invalid: too long"

ROWS: dict[str, tuple[Look, State]] = {
    "4 complete": (
        lambda s: s.look(s.job(s.condition("Complete", reason="AllJobsCompleted", message="done"))),
        State(Phase.SUCCEEDED, "AllJobsCompleted", "done"),
    ),
    "5 failed": (
        lambda s: s.look(s.job(s.condition("Failed", reason="FailedJobs", message="no"))),
        State(Phase.FAILED, "FailedJobs", "no"),
    ),
    "6 deleting": (
        lambda s: s.look(s.job(rows={"node": "active=1 ready=1"}, deleting=True)),
        State(Phase.DELETING, "", "being deleted"),
    ),
    "7 elsewhere": (
        lambda s: s.look(s.job(managedBy="kueue.x-k8s.io/multikueue")),
        State(Phase.EXTERNAL, "", "handed to MultiKueue, no word from the other cluster yet"),
    ),
    "8 queued": (
        lambda s: s.look(
            s.job(s.condition("Suspended"), rows={"node": "suspended=1"}, suspend=True, queue="lq"),
            workload=s.workload(s.condition("QuotaReserved", "False", "Pending", QUOTA)),
        ),
        State(Phase.QUEUED, "Pending", "waiting for quota: 200m cpu more needed in flavor f (Kueue, queue lq)"),
    ),
    "8 queued, the Workload may not be read": (
        lambda s: s.look(s.job(s.condition("Suspended"), suspend=True, queue="lq")),
        State(Phase.QUEUED, "", "waiting in queue lq (Kueue)"),
    ),
    "8 being evicted": (
        lambda s: s.look(
            s.job(rows={"node": "active=1 ready=1"}, suspend=True, queue="lq"),
            s.pod("node-0", s.running()),
            workload=s.workload(s.condition("Admitted"), s.condition("Evicted", "True", "Preempted", "by another")),
        ),
        State(Phase.QUEUED, "Preempted", "preempted; its nodes are being stopped (Kueue, queue lq)"),
    ),
    "8 being evicted, or suspended by hand: the Workload says nothing yet": (
        lambda s: s.look(
            s.job(rows={"node": "active=1 ready=1"}, suspend=True, queue="lq"),
            s.pod("node-0", s.running()),
            workload=s.workload(s.condition("Admitted")),
        ),
        State(Phase.QUEUED, "Suspended", "suspended, its nodes are being stopped (Kueue, queue lq)"),
    ),
    "9 suspended": (
        lambda s: s.look(s.job(s.condition("Suspended"), rows={"node": "suspended=1"}, suspend=True)),
        State(Phase.SUSPENDED, "Suspended", "suspended by hand"),
    ),
    "10 resuming": (
        lambda s: s.look(s.job(s.condition("Suspended"), rows={"node": "suspended=1"})),
        State(Phase.RESUMING, "", "being resumed"),
    ),
    "11 JobSet restarts": (
        lambda s: s.look(s.job(rows={"node": ""}), jobset=s.jobset(1, 3, restarting=True)),
        State(Phase.RESTARTING, "RestartingJobSet", "restart 1 of 3"),
    ),
    "11 a node restarts in place": (
        lambda s: s.look(
            s.job(rows={"node": "active=1"}),
            s.pod("node-0", s.running()),
            s.pod(
                "node-1", s.waiting("CrashLoopBackOff", "back-off 20s"), phase="Running", restarts=2, last=s.ended(3)
            ),
        ),
        State(Phase.RESTARTING, "CrashLoopBackOff", "node-1: exit code 3, restart 2, next try after back-off"),
    ),
    "12 blocked": (
        lambda s: s.look(s.job(), events=[s.event("TrainJob/train", "TrainJobResourcesCreationFailed", BLOCKED)]),
        State(
            Phase.BLOCKED,
            "TrainJobResourcesCreationFailed",
            "the controller cannot create it: JobSet is invalid: too long",
        ),
    ),
    "13 no status": (lambda s: s.look(s.job(), at=5), State(Phase.SUBMITTED, "", "waiting for the controller")),
    "13 no status, but its pods run": (
        lambda s: s.look(s.job(), s.pod("node-0", s.running()), at=60),
        State(Phase.SUBMITTED, "", "its nodes have started"),
    ),
    "13 no status for long": (
        lambda s: s.look(s.job(), at=60),
        State(Phase.SUBMITTED, "NotReconciled", "no controller has taken it up for 60 s"),
    ),
    "14 dataset initializer": (
        lambda s: s.look(
            s.job(rows={"dataset-initializer": "active=1 ready=1", "node": ""}),
            s.pod("dataset-initializer", s.running(), container="dataset-initializer"),
        ),
        State(Phase.INITIALIZING, "", "dataset-initializer: running"),
    ),
    "15 model initializer, the dataset is there": (
        lambda s: s.look(
            s.job(rows={"dataset-initializer": "succeeded=1", "model-initializer": "active=1", "node": ""})
        ),
        State(Phase.INITIALIZING, "", "model-initializer: running"),
    ),
    "14 and 15 side by side": (
        lambda s: s.look(s.job(rows={"dataset-initializer": "active=1", "model-initializer": "active=1", "node": ""})),
        State(Phase.INITIALIZING, "", "dataset-initializer and model-initializer: running"),
    ),
    "16 failing by the counts": (
        lambda s: s.look(s.job(rows={"node": "failed=1"})),
        State(Phase.FAILING, "", "node: failed"),
    ),
    "16 failing by a pod": (
        lambda s: s.look(s.job(rows={"node": "active=1"}), s.pod("node-1", s.ended(3), phase="Failed")),
        State(Phase.FAILING, "Error", "node-1: exit code 3"),
    ),
    "16 failing, its machine is lost and its pod cannot go": (
        lambda s: s.look(
            s.job(rows={"node": ""}),
            s.pod("node-0", s.running(), deleting=True, reason="NodeLost", message="Node a is unresponsive"),
        ),
        State(Phase.FAILING, "NodeLost", "node-0: ended from outside (NodeLost): Node a is unresponsive"),
    ),
    "17 pending, a pod waits": (
        lambda s: s.look(
            s.job(rows={"node": "active=1"}),
            s.pod("node-0", s.running()),
            s.pod("node-1", s.waiting()),
            events=[s.event("Pod/train-node-0-1-aaaaa", "Pulling", type_="Normal")],
        ),
        State(Phase.PENDING, "Pulling", "node-1: pulling image"),
    ),
    "17 pending, pods may not be read": (
        lambda s: s.look(s.job(rows={"node": "active=1"}), unreadable=frozenset({"pods"})),
        State(Phase.PENDING, "", "waiting for its pods"),
    ),
    "18 running by the counts": (
        lambda s: s.look(s.job(rows={"node": "active=1 ready=1"})),
        State(Phase.RUNNING),
    ),
    "18 running by the pods, the counts lag": (
        lambda s: s.look(s.job(rows={"node": "active=1"}), s.pod("node-0", s.running())),
        State(Phase.RUNNING),
    ),
    "19 completing": (
        lambda s: s.look(s.job(rows={"node": "succeeded=1"})),
        State(Phase.COMPLETING, "", "all nodes have ended"),
    ),
    "20 else": (lambda s: s.look(s.job(rows={"node": ""})), State(Phase.SUBMITTED, "", "no node is running")),
}


@pytest.mark.parametrize(("look", "state"), ROWS.values(), ids=ROWS.keys())
def test_row(scene: Scene, look: Look, state: State) -> None:
    assert classify(look(scene), uid=scene.uid) == state


ORDER: dict[str, tuple[Look, Phase]] = {
    "4 before 5: both conditions": (
        lambda s: s.look(s.job(s.condition("Failed"), s.condition("Complete"))),
        Phase.SUCCEEDED,
    ),
    "4 before 6: complete and being deleted": (
        lambda s: s.look(s.job(s.condition("Complete"), deleting=True)),
        Phase.SUCCEEDED,
    ),
    "5 before 6: failed and being deleted": (
        lambda s: s.look(s.job(s.condition("Failed"), deleting=True)),
        Phase.FAILED,
    ),
    "6 before 8: deleted while queued": (
        lambda s: s.look(s.job(s.condition("Suspended"), suspend=True, queue="lq", deleting=True)),
        Phase.DELETING,
    ),
    "7 only without a status: the other cluster's is copied": (
        lambda s: s.look(s.job(rows={"node": "active=1 ready=1"}, managedBy="kueue.x-k8s.io/multikueue")),
        Phase.RUNNING,
    ),
    "8 before 9: a queue's suspension": (
        lambda s: s.look(s.job(s.condition("Suspended"), suspend=True, queue="lq")),
        Phase.QUEUED,
    ),
    "9 before 11: suspended while a node was in back-off": (
        lambda s: s.look(
            s.job(s.condition("Suspended"), rows={"node": "active=1"}, suspend=True),
            s.pod("node-0", s.waiting("CrashLoopBackOff"), restarts=1, last=s.ended(3)),
        ),
        Phase.SUSPENDED,
    ),
    "16 before 17: what failed is not just slow": (
        lambda s: s.look(
            s.job(rows={"node": "active=1"}),
            s.pod("node-0", s.ended(1), phase="Failed"),
            s.pod("node-1", s.waiting()),
        ),
        Phase.FAILING,
    ),
}


@pytest.mark.parametrize(("look", "phase"), ORDER.values(), ids=ORDER.keys())
def test_the_first_row_that_applies_decides(scene: Scene, look: Look, phase: Phase) -> None:
    assert classify(look(scene), uid=scene.uid).phase is phase
