"""Why it is not running: the right source, a short line for a person, the long text kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from trainer_ops.model.observed import Observation
from trainer_ops.status.why import clues, why

if TYPE_CHECKING:
    from tests.status.conftest import Scene

Look = Callable[["Scene"], Observation]
ACTIVE = {"node": "active=1"}


def waiting(reason: str, message: str = "", *events: tuple[str, str, float]) -> Look:
    """One pod whose container waits, and events about it (reason, message, second)."""

    def look(s: Scene) -> Observation:
        told = [s.event("Pod/train-node-0-0-aaaaa", name, text, at) for name, text, at in events]
        return s.look(s.job(rows=ACTIVE), s.pod("node-0", s.waiting(reason, message)), events=told)

    return look


def unscheduled(message: str, reason: str = "Unschedulable", gated: bool = False) -> Look:
    def look(s: Scene) -> Observation:
        conditions = [s.condition("PodScheduled", "False", reason, message)]
        more: dict[str, Any] = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]} if gated else {}
        return s.look(s.job(rows=ACTIVE), s.pod("node-0", conditions=conditions, **more))

    return look


def queued(message: str, *more: tuple[str, str, str], queue: str = "lq", reason: str = "Pending") -> Look:
    def look(s: Scene) -> Observation:
        extra = [s.condition(type_, "True", why_, text) for type_, why_, text in more]
        load = s.workload(s.condition("QuotaReserved", "False", reason, message), *extra)
        return s.look(s.job(s.condition("Suspended"), suspend=True, queue=queue), workload=load)

    return look


def refused(message: str) -> Look:
    return lambda s: s.look(s.job(rows={"node": ""}), events=[s.event("Job/train-node-0", "FailedCreate", message)])


BACK = 'Back-off pulling image "reg/x:1": '
CASES: dict[str, tuple[Look, str, str]] = {
    "image not found": (
        waiting("ImagePullBackOff", f'{BACK}ErrImagePull: failed to resolve image: reg/x:1: not found'),
        "ImagePullBackOff",
        'node-0: image "reg/x:1" cannot be pulled: not found',
    ),
    "image not allowed": (
        waiting("ErrImagePull", 'failed to pull and unpack image "reg/x:1": pull access denied, repository does not '
                "exist or may require authorization: authorization failed: no basic auth credentials"),
        "ErrImagePull",
        'node-0: image "reg/x:1" cannot be pulled: the registry refuses it (no such repository, or no credentials)',
    ),
    "image, no cause yet": (
        waiting("ImagePullBackOff", 'Back-off pulling image "reg/x:1"'),
        "ImagePullBackOff",
        'node-0: image "reg/x:1" cannot be pulled',
    ),
    "image, before Kubernetes 1.32 the cause is in the event": (
        waiting(
            "ImagePullBackOff", 'Back-off pulling image "reg/x:1"',
            ("Failed", 'Failed to pull image "reg/x:1": toomanyrequests: slow down', 9), ("Failed", "Error: x", 10),
        ),
        "ImagePullBackOff",
        'node-0: image "reg/x:1" cannot be pulled: the registry\'s rate limit is reached',
    ),
    "image, a cause without a pattern": (
        waiting("ErrImagePull", 'failed to pull image "reg/x:1": layers: something odd'),
        "ErrImagePull",
        'node-0: image "reg/x:1" cannot be pulled: something odd',
    ),
    "image name": (
        waiting("InvalidImageName", 'Failed to apply default image tag "UPPER/Case:1": couldn\'t parse image name '
                '"UPPER/Case:1": invalid reference format: repository name (Case) must be lowercase'),
        "InvalidImageName",
        'node-0: image "UPPER/Case:1" is not a valid image name: repository name (Case) must be lowercase',
    ),
    "secret missing": (
        waiting("CreateContainerConfigError", 'secret "absent-secret" not found'),
        "CreateContainerConfigError",
        'node-0: secret "absent-secret" not found',
    ),
    "configmap missing: only the event tells": (
        waiting("ContainerCreating", "",
                ("FailedMount", 'MountVolume.SetUp failed for volume "c" : configmap "absent-cm" not found', 9)),
        "FailedMount",
        'node-0: configmap "absent-cm" not found',
    ),
    "the mount worked since": (
        waiting("ContainerCreating", "", ("FailedMount", 'x : configmap "c" not found', 9), ("Pulling", "Pulling", 12)),
        "Pulling",
        "node-0: pulling image",
    ),
    "a mount failure that passes": (
        waiting("ContainerCreating", "",
                ("FailedMount", 'failed for volume "k" : object "d"/"kube-root-ca.crt" not registered', 9)),
        "ContainerCreating",
        "node-0: preparing the container",
    ),
    "volume not attached": (
        waiting("ContainerCreating", "", ("FailedAttachVolume", "Multi-Attach error for volume", 9)),
        "FailedAttachVolume",
        "node-0: Multi-Attach error for volume",
    ),
    "pulling": (
        waiting("ContainerCreating", "", ("Scheduled", "", 8), ("Pulling", 'Pulling image "x"', 9)),
        "Pulling",
        "node-0: pulling image",
    ),
    "pulled": (
        waiting("ContainerCreating", "", ("Pulling", "", 9), ("Pulled", "", 12)),
        "Pulled",
        "node-0: image pulled, starting",
    ),
    "no room": (
        unscheduled("0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes "
                    "are available: 1 Preemption is not helpful for scheduling."),
        "Unschedulable",
        "node-0: 0/1 nodes are available: 1 Insufficient cpu",
    ),
    "no room, several causes": (
        unscheduled("0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint(s). "
                    "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."),
        "Unschedulable",
        "node-0: 0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint(s)",
    ),
    "gated": (
        unscheduled("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated", gated=True),
        "SchedulingGated",
        "node-0: held back by a scheduling gate",
    ),
    "quota": (
        queued("couldn't assign flavors to pod set node: insufficient unused quota for cpu in flavor default-flavor, "
               "200m more needed"),
        "Pending",
        "waiting for quota: 200m cpu more needed in flavor default-flavor (Kueue, queue lq)",
    ),
    "quota that can never be": (
        queued("couldn't assign flavors to pod set node: insufficient quota for cpu in flavor f, previously considered "
               "podsets requests (0) + current podset request (2) > maximum capacity (1)"),
        "NeverAdmitted",
        "can never be admitted: asks for 2 cpu, flavor f has at most 1 (Kueue, queue lq)",
    ),
    "a resource that the queue lacks": (
        queued("couldn't assign flavors to pod set node: resource memory unavailable in ClusterQueue"),
        "NeverAdmitted",
        "can never be admitted: the ClusterQueue has no quota for memory (Kueue, queue lq)",
    ),
    "no such queue": (
        queued("LocalQueue absent doesn't exist", queue="absent", reason="Inadmissible"),
        "Inadmissible",
        "LocalQueue absent does not exist (Kueue, queue absent)",
    ),
    "preempted": (
        queued("insufficient unused quota for cpu in flavor f, 1 more needed", ("Evicted", "Preempted", "by another")),
        "Preempted",
        "preempted; waiting for quota: 1 cpu more needed in flavor f (Kueue, queue lq)",
    ),
    "room is being made": (
        queued("couldn't assign flavors to pod set node: insufficient unused quota for cpu in flavor f, 1 more needed. "
               "Pending the preemption of 2 workload(s)"),
        "Pending",
        ("waiting for quota: 1 cpu more needed in flavor f, 2 of lower priority are being stopped for it "
         "(Kueue, queue lq)"),
    ),
    "a flavor that does not fit": (
        queued("couldn't assign flavors to pod set node: flavor f doesn't match node affinity"),
        "Pending",
        "flavor f doesn't match node affinity (Kueue, queue lq)",
    ),
    "a queue that was closed": (
        queued("ClusterQueue cq is stopped", reason="Inadmissible"),
        "Inadmissible",
        "ClusterQueue cq is stopped (Kueue, queue lq)",
    ),
    "right after an eviction the same text stands twice": (
        queued("Preempted to accommodate a workload", ("Evicted", "Preempted", "Preempted to accommodate a workload")),
        "Preempted",
        "preempted; waiting to be looked at (Kueue, queue lq)",
    ),
    "drained": (
        queued("ClusterQueue cq is inactive", ("Evicted", "ClusterQueueStopped", "The ClusterQueue is stopped")),
        "ClusterQueueStopped",
        "stopped with its ClusterQueue; ClusterQueue cq is inactive (Kueue, queue lq)",
    ),
    "evicted for a reason that no version knew": (
        queued("", ("Evicted", "ByMoonlight", "x")),
        "ByMoonlight",
        "stopped (ByMoonlight); waiting to be looked at (Kueue, queue lq)",
    ),
    "activated again, which Kueue has yet to notice": (
        queued("The workload is deactivated", ("Evicted", "Deactivated", "The workload is deactivated")),
        "Pending",
        "waiting to be looked at (Kueue, queue lq)",
    ),
    "a limit of Kueue's is used up": (
        lambda s: s.look(
            s.job(suspend=True, queue="lq"),
            workload=s.workload(
                s.condition("Evicted", "True", "DeactivatedDueToMaximumExecutionTimeExceeded",
                            "The workload is deactivated due to exceeding the maximum execution time"),
                active=False,
            ),
        ),
        "DeactivatedByKueue",
        "stopped by Kueue for good: exceeding the maximum execution time (Kueue, queue lq)",
    ),
    "preempted, then paused by hand": (
        lambda s: s.look(
            s.job(suspend=True, queue="lq"),
            workload=s.workload(s.condition("Evicted", "True", "Preempted", "by another"), active=False),
        ),
        "Deactivated",
        "paused: its workload is deactivated (Kueue, queue lq)",
    ),
    "the engine's queue": (
        queued("2 of 2 trainings run on this machine; 1 ahead", queue=""),
        "Pending",
        "2 of 2 trainings run on this machine; 1 ahead",
    ),
    "deactivated": (
        lambda s: s.look(s.job(suspend=True, queue="lq"), workload=s.workload(active=False)),
        "Deactivated",
        "paused: its workload is deactivated (Kueue, queue lq)",
    ),
    "quota reserved, admission checks to come": (
        lambda s: s.look(
            s.job(suspend=True, queue="lq"),
            workload=s.workload(s.condition("QuotaReserved"), s.condition("Admitted", "False")),
        ),
        "QuotaReserved",
        "quota reserved, waiting for admission checks (Kueue, queue lq)",
    ),
    "pods refused by a quota": (
        refused('Error creating: pods "train-node-0-0-" is forbidden: exceeded quota: q, requested: cpu=1'),
        "FailedCreate",
        "pods cannot be created: exceeded quota: q, requested: cpu=1",
    ),
    "pods refused for want of a ServiceAccount": (
        refused('Error creating: pods "train-node-0-0-" is forbidden: error looking up service account d/x: '
                'serviceaccount "x" not found'),
        "FailedCreate",
        'pods cannot be created: error looking up service account d/x: serviceaccount "x" not found',
    ),
    "JobSet cannot make its Jobs": (
        lambda s: s.look(
            s.job(rows={"node": ""}), events=[s.event("JobSet/train", "JobCreationFailed", "webhook denied")]
        ),
        "JobCreationFailed",
        "JobSet: webhook denied",
    ),
    "volume cannot be provided": (
        lambda s: s.look(
            s.job(rows={"node": ""}),
            events=[s.event("PersistentVolumeClaim/initializer-train", "ProvisioningFailed", "no such class")],
        ),
        "ProvisioningFailed",
        "volume initializer-train: no such class",
    ),
    "an init container comes first": (
        lambda s: s.look(
            s.job(rows=ACTIVE),
            s.pod("node-0", s.waiting("PodInitializing"), init=[{"name": "i", "state": s.ended(2), "restartCount": 1}]),
        ),
        "Error",
        "node-0: exit code 2, restart 1, next try after back-off",
    ),
    "evicted": (
        lambda s: s.look(
            s.job(rows=ACTIVE),
            s.pod("node-0", phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
        ),
        "Evicted",
        "node-0: evicted: The node was low on resource: memory.",
    ),
    "the worst of several pods": (
        lambda s: s.look(
            s.job(rows=ACTIVE),
            s.pod("node-0", s.waiting()),
            s.pod("node-1", s.waiting("CreateContainerConfigError", 'configmap "c" not found')),
        ),
        "CreateContainerConfigError",
        'node-1: configmap "c" not found',
    ),
    "killed, in back-off": (
        lambda s: s.look(
            s.job(rows=ACTIVE),
            s.pod("node-0", s.waiting("CrashLoopBackOff"), phase="Running", restarts=1, last=s.ended(139)),
        ),
        "CrashLoopBackOff",
        "node-0: SIGSEGV (exit code 139), restart 1, next try after back-off",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("look", "reason", "detail"), CASES.values(), ids=CASES.keys())
def test_why(scene: Scene, look: Look, reason: str, detail: str) -> None:
    cause = why(look(scene))
    assert cause is not None
    assert (cause.reason, cause.detail) == (reason, detail)


NOTHING: dict[str, Look] = {
    "all run": lambda s: s.look(s.job(rows={"node": "active=1 ready=1"}), s.pod("node-0", s.running())),
    "admitted": lambda s: s.look(s.job(rows=ACTIVE), workload=s.workload(s.condition("Admitted"))),
    "finished workload": lambda s: s.look(
        s.job(rows=ACTIVE), workload=s.workload(s.condition("Finished"), s.condition("Admitted", "False"))
    ),
    "pods were made since the Job was refused": lambda s: s.look(
        s.job(rows=ACTIVE), s.pod("node-0", s.running()), events=[s.event("Job/train-node-0", "FailedCreate", "quota")]
    ),
    "another job whose name begins alike": lambda s: s.look(
        s.job(rows=ACTIVE), events=[s.event("Job/train-node-0-node-0", "FailedCreate", "quota")]
    ),
    "gone": lambda s: s.look(None),
}


@pytest.mark.parametrize("look", NOTHING.values(), ids=NOTHING.keys())
def test_nothing_speaks_against_running(scene: Scene, look: Look) -> None:
    assert why(look(scene)) is None


def test_clues_keep_the_original_text(scene: Scene) -> None:
    text = f'{BACK}ErrImagePull: failed to pull and unpack image "reg/x:1": reg/x:1: not found'
    assert text in clues(waiting("ImagePullBackOff", text)(scene))


def test_clues_are_bounded_and_about_this_job_only(scene: Scene) -> None:
    events = [scene.event("JobSet/train", "Strange", f"{i} " + "x" * 5000, at=i) for i in range(50)]
    events.append(scene.event("JobSet/train2", "Strange", "not ours", at=99))
    events.append(scene.event("JobSet/train", "BackOff", "again and again", at=99))
    found = clues(scene.look(scene.job(rows={"node": "failed=1"}), events=events))
    assert len(found) == 6
    assert max(map(len, found)) <= 1000
    assert found[0].startswith("Strange: 49 ")


def test_a_long_message_is_one_short_line(scene: Scene) -> None:
    cause = why(waiting("CreateContainerError", "first\nsecond " + "x" * 500)(scene))
    assert cause is not None
    assert "\n" not in cause.detail
    assert len(cause.detail) <= len("node-0: ") + 200
    assert cause.detail.endswith("…")
    assert len(cause.original) > 500
