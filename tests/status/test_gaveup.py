"""Why a wait was given up; each summary says that the training was left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Category, Ending
from trainer_ops.status.wait import GaveUp

if TYPE_CHECKING:
    from tests.status.conftest import Scene

Look = Callable[["Scene"], Observation]
ACTIVE = {"node": "active=1"}
STARTUP, QUEUE, WAIT = Limits(startup_timeout=60), Limits(queue_timeout=60), Limits(wait_timeout=60)
NEVER = "insufficient quota for cpu in flavor f, (0) + current podset request (2) > maximum capacity (1)"


def container(reason: str, message: str = "") -> Look:
    return lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.waiting(reason, message)))


def pod_event(reason: str, message: str) -> Look:
    return lambda s: s.look(
        s.job(rows=ACTIVE), s.pod("node-0", s.waiting()), events=[s.event("Pod/train-node-0-0-aaaaa", reason, message)]
    )


def unplaced(reason: str, message: str) -> Look:
    return lambda s: s.look(
        s.job(rows=ACTIVE), s.pod("node-0", conditions=[s.condition("PodScheduled", "False", reason, message)])
    )


def refused(message: str) -> Look:
    return lambda s: s.look(s.job(rows={"node": ""}), events=[s.event("Job/train-node-0", "FailedCreate", message)])


def blocked(message: str) -> Look:
    return lambda s: s.look(s.job(), events=[s.event("TrainJob/train", "TrainJobResourcesCreationFailed", message)])


def queued(message: str, reason: str = "Pending") -> Look:
    return lambda s: s.look(
        s.job(s.condition("Suspended"), suspend=True, queue="lq"),
        workload=s.workload(s.condition("QuotaReserved", "False", reason, message)),
    )


CASES: dict[str, tuple[Look, Limits, Category, str]] = {
    "image": (container("ImagePullBackOff", 'image "x": not found'), STARTUP, Category.IMAGE, "image"),
    "image name": (container("InvalidImageName", "invalid reference format"), STARTUP, Category.IMAGE, "Correct image"),
    "secret": (
        container("CreateContainerConfigError", 'secret "s" not found'),
        STARTUP,
        Category.CONFIG,
        "Make what is missing",
    ),
    "mount": (pod_event("FailedMount", 'x : configmap "c" not found'), STARTUP, Category.CONFIG, "what is missing"),
    "no claim": (
        unplaced("Unschedulable", '0/1 nodes are available: persistentvolumeclaim "c" not found.'),
        STARTUP,
        Category.CONFIG,
        "Make the PersistentVolumeClaim",
    ),
    "no volume for the claim": (
        unplaced("Unschedulable", "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
        STARTUP,
        Category.CONFIG,
        "it is bound",
    ),
    "a scheduling gate": (
        unplaced("SchedulingGated", "Scheduling is blocked"),
        STARTUP,
        Category.UNSCHEDULABLE,
        "scheduling gate",
    ),
    "no room": (
        lambda s: s.look(
            s.job(rows=ACTIVE),
            s.pod("node-0", conditions=[s.condition("PodScheduled", "False", "Unschedulable", "0/1 nodes")]),
        ),
        STARTUP,
        Category.UNSCHEDULABLE,
        "resources_per_node",
    ),
    "namespace quota": (refused('pods "x" is forbidden: exceeded quota: q'), STARTUP, Category.QUOTA, "quota"),
    "pod security": (refused("violates PodSecurity restricted"), STARTUP, Category.ADMISSION, "securityContext"),
    "service account": (refused('serviceaccount "x" not found'), STARTUP, Category.CONFIG, "ServiceAccount"),
    "JobSet's webhook is away": (
        blocked('failed calling webhook "mjobset.kb.io": context deadline exceeded'),
        STARTUP,
        Category.NOT_RECONCILED,
        "JobSet controller runs",
    ),
    "another webhook": (refused("admission webhook denied"), STARTUP, Category.ADMISSION, "admission"),
    "JobSet refused": (blocked("JobSet is invalid: name too long"), STARTUP, Category.ADMISSION, "shorter name"),
    "object quota": (blocked("jobsets is forbidden: exceeded quota: q"), STARTUP, Category.QUOTA, "object quota"),
    "the controller may not": (
        blocked('jobsets is forbidden: User "trainer" cannot create resource "jobsets"'),
        STARTUP,
        Category.PERMISSION,
        "ClusterRole",
    ),
    "no controller": (lambda s: s.look(s.job()), STARTUP, Category.NOT_RECONCILED, "controllers run"),
    "never visible": (
        lambda s: s.look(None),
        Limits(startup_timeout=60, missing_grace=999),
        Category.NOT_RECONCILED,
        "controllers run",
    ),
    "initializing": (
        lambda s: s.look(s.job(rows={"dataset-initializer": "active=1 ready=1", "node": ""})),
        STARTUP,
        Category.INITIALIZER,
        "download",
    ),
    "merely slow": (container("ContainerCreating"), STARTUP, Category.UNKNOWN, "slow"),
    "queued": (queued("insufficient unused quota for cpu in flavor f, 1 more needed"), QUEUE,
               Category.QUEUED_TOO_LONG, "queue_timeout"),
    "can never be admitted": (queued(NEVER), QUEUE, Category.QUOTA, "Ask for less"),
    "a resource that the queue lacks": (queued("resource memory unavailable in ClusterQueue"), QUEUE, Category.QUOTA,
                                        "Leave that resource out"),
    "a limit of Kueue's is used up": (
        lambda s: s.look(
            s.job(suspend=True, queue="lq"),
            workload=s.workload(
                s.condition("Evicted", "True", "DeactivatedDueToRequeuingLimitExceeded",
                            "The workload is deactivated due to exceeding the maximum number of re-queuing retries"),
                active=False,
            ),
        ),
        QUEUE,
        Category.QUEUED_TOO_LONG,
        "Raise the limit",
    ),
    "no such queue": (queued("LocalQueue lq doesn't exist", "Inadmissible"), QUEUE,
                      Category.QUEUED_TOO_LONG, "LocalQueue that exists"),
    "admitted, but not resumed": (
        lambda s: s.look(s.job(suspend=True, queue="lq"), workload=s.workload(s.condition("Admitted"), admitted="cq")),
        QUEUE,
        Category.QUEUED_TOO_LONG,
        "Kueue admitted it",
    ),
    "suspended": (lambda s: s.look(s.job(suspend=True)), QUEUE, Category.QUEUED_TOO_LONG, "Resume it"),
    "the engine's queue": (
        lambda s: s.look(s.job(), workload=s.workload(s.condition("QuotaReserved", "False", "Pending", "2 of 2"))),
        QUEUE,
        Category.QUEUED_TOO_LONG,
        "queue_timeout",
    ),
    "not ended in time": (
        lambda s: s.look(s.job(rows={"node": "active=1 ready=1"})),
        WAIT,
        Category.DEADLINE,
        "Raise wait_timeout",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("look", "limits", "category", "remedy"), CASES.values(), ids=CASES.keys())
def test_given_up(scene: Scene, look: Look, limits: Limits, category: Category, remedy: str) -> None:
    seen = look(scene)
    wait, _ = scene.begin(limits).see(seen, scene.zero)
    wait, step = wait.see(seen, scene.zero + 60)
    assert step == GaveUp()
    outcome = wait.outcome()
    assert outcome.ending is Ending.GAVE_UP
    assert outcome.diagnosis is not None
    assert outcome.diagnosis.category is category
    assert "the training was left alone" in outcome.diagnosis.summary
    assert "1:00" in outcome.diagnosis.summary or category is Category.QUOTA
    assert remedy in outcome.diagnosis.remedy


def test_the_original_text_is_in_the_evidence(scene: Scene) -> None:
    text = 'Back-off pulling image "reg/x:1": ErrImagePull: failed to resolve image: reg/x:1: not found'
    look = container("ImagePullBackOff", text)(scene)
    wait, _ = scene.begin(STARTUP).see(look, scene.zero + 60)
    found = wait.outcome().diagnosis
    assert found is not None
    assert found.summary.startswith(
        'train did not start within startup_timeout=1:00: node-0: image "reg/x:1" cannot be pulled: not found'
    )
    assert found.evidence == ('node-0: image "reg/x:1" cannot be pulled: not found', text)


def test_unreachable_names_the_error_and_the_last_state(scene: Scene) -> None:
    look = scene.look(scene.job(rows={"node": "active=1 ready=1"}), at=0)
    wait, _ = scene.see(scene.begin(Limits(unreachable_timeout=1800)), look)
    wait, _ = wait.unreachable("503 from https://api: etcd is down", scene.zero + 1800)
    found = wait.outcome().diagnosis
    assert found is not None
    assert found.category is Category.UNREACHABLE
    assert found.summary == "the target gave no answer for 30:00; the training was left alone and may well go on"
    assert found.evidence == ("503 from https://api: etcd is down", "last seen: running")
    assert found.remedy.endswith(f"trainer-ops wait train --target {wait.ref.target}")
