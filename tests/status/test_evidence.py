"""Who failed first, who only fell with it, and when restarts are used up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.status.wait import Sleep, Stop, Wait

if TYPE_CHECKING:
    from tests.status.conftest import Scene

Look = Callable[["Scene"], Observation]
ACTIVE = {"node": "active=1"}


def pods(*make: Callable[[Scene], dict[str, Any]], at: float = 60) -> Look:
    return lambda s: s.look(s.job(rows=ACTIVE), *(pod(s) for pod in make), at=at)


def failed(s: Scene) -> Observation:
    return s.look(s.job(s.condition("Failed", reason="FailedJobs"), rows={"node": "failed=1"}), at=200)


CULPRITS: dict[str, tuple[list[Look], str]] = {
    "the only one that failed": (
        [pods(lambda s: s.pod("node-0", s.running()), lambda s: s.pod("node-1", s.ended(3), phase="Failed"))],
        "node-1",
    ),
    "the first to fail, though the other was seen first": (
        [
            pods(lambda s: s.pod("node-0", s.ended(1, at=31), phase="Failed")),
            pods(
                lambda s: s.pod("node-0", s.ended(1, at=31), phase="Failed"),
                lambda s: s.pod("node-1", s.ended(3, at=30), phase="Failed"),
            ),
        ],
        "node-1",
    ),
    "of the same second the one that was not killed": (
        [
            pods(
                lambda s: s.pod("node-0", s.ended(143, at=30), phase="Failed"),
                lambda s: s.pod("node-1", s.ended(3, at=30), phase="Failed"),
            )
        ],
        "node-1",
    ),
    "the sibling that is told to stop is not it: SIGTERM": (
        [
            pods(
                lambda s: s.pod("node-0", s.ended(143, at=20), deleting=True, phase="Failed"),
                lambda s: s.pod("node-1", s.ended(3, at=30), phase="Failed"),
            )
        ],
        "node-1",
    ),
    "nor when it had to be killed": (
        [
            pods(
                lambda s: s.pod("node-0", s.ended(137, at=20), deleting=True, phase="Failed"),
                lambda s: s.pod("node-1", s.ended(3, at=30), phase="Failed"),
            )
        ],
        "node-1",
    ),
    "nor when its handler left with a code of its own": (
        [
            pods(
                lambda s: s.pod("node-0", s.ended(1, at=20), deleting=True, phase="Failed"),
                lambda s: s.pod("node-1", s.ended(3, at=30), phase="Failed"),
            )
        ],
        "node-1",
    ),
    "its pod was deleted, and nobody has asked the training to stop": (
        [pods(lambda s: s.pod("node-0", s.ended(143), deleting=True, phase="Failed"))],
        "node-0",
    ),
    "it was in back-off when it was deleted": (
        [
            pods(
                lambda s: s.pod("node-0", s.waiting("CrashLoopBackOff"), restarts=6, last=s.ended(3), deleting=True),
            )
        ],
        "node-0",
    ),
    "it was seen failing, then restarted, then its pod was deleted": (
        [
            pods(lambda s: s.pod("node-0", s.ended(3), phase="Running", restarts=5), at=31),
            pods(lambda s: s.pod("node-0", s.running(32), restarts=6, last=s.ended(3)), at=33),
            pods(lambda s: s.pod("node-0", s.ended(137, at=34), restarts=6, deleting=True, phase="Failed"), at=35),
            pods(at=36),
        ],
        "node-0",
    ),
    "it restarted between two looks": (
        [pods(lambda s: s.pod("node-1", s.running(58), restarts=1, last=s.ended(3)))],
        "node-1",
    ),
    "who has run again for a minute has recovered": (
        [
            pods(lambda s: s.pod("node-1", s.ended(3, at=10), phase="Running"), at=11),
            pods(lambda s: s.pod("node-1", s.running(20), restarts=1, last=s.ended(3, at=10)), at=80),
            pods(
                lambda s: s.pod("node-0", s.ended(9, at=99), phase="Failed"),
                lambda s: s.pod("node-1", s.running(20), restarts=1, last=s.ended(3, at=10)),
                at=100,
            ),
        ],
        "node-0",
    ),
    "who ended well in the end has recovered too": (
        [
            pods(
                lambda s: s.pod("node-0", s.ended(0, at=30), restarts=1, last=s.ended(7, at=10)),
                lambda s: s.pod("node-1", s.ended(3, at=40), phase="Failed"),
            )
        ],
        "node-1",
    ),
    "all have recovered: the latest": (
        [
            pods(
                lambda s: s.pod("node-0", s.running(20), restarts=1, last=s.ended(3, at=10)),
                lambda s: s.pod("node-1", s.running(20), restarts=1, last=s.ended(3, at=15)),
                at=90,
            )
        ],
        "node-1",
    ),
    "evicted": (
        [pods(lambda s: s.pod("node-0", s.running()), lambda s: s.pod("node-1", phase="Failed", reason="Evicted"))],
        "node-1",
    ),
    "an init container": (
        [
            pods(
                lambda s: s.pod(
                    "node-0", s.waiting("PodInitializing"), init=[{"name": "i", "state": s.ended(2), "restartCount": 0}]
                )
            )
        ],
        "node-0",
    ),
    "a step of its own with several pods": (
        [pods(lambda s: s.pod("worker-0", s.running()), lambda s: s.pod("worker-2", s.ended(3), phase="Failed"))],
        "worker-2",
    ),
    "an earlier pod that the Job kept": (
        [
            pods(
                lambda s: s.pod("node-0", s.ended(3, at=10), phase="Failed"),
                lambda s: s.pod("node-0", s.running(50), suffix="bbbbb", created=40),
            )
        ],
        "node-0",
    ),
}


@pytest.mark.parametrize(("looks", "node"), CULPRITS.values(), ids=CULPRITS.keys())
def test_culprit(scene: Scene, looks: list[Look], node: str) -> None:
    wait, _ = scene.see(scene.begin(), *(look(scene) for look in looks), failed(scene))
    culprit = wait.evidence.culprit
    assert (culprit.node if culprit else "") == node


def backoff(restarts: int, code: int = 3) -> Look:
    return pods(
        lambda s: s.pod("node-0", s.running()),
        lambda s: s.pod(
            "node-1", s.waiting("CrashLoopBackOff"), phase="Running", restarts=restarts, last=s.ended(code)
        ),
    )


RESTARTS: dict[str, tuple[list[Look], int | None, bool]] = {
    "no limit": ([backoff(9)], None, False),
    "below": ([backoff(1)], 2, False),
    "used up, and failing again": ([backoff(2)], 2, True),
    "used up, running": ([pods(lambda s: s.pod("node-1", s.running(), restarts=2, last=s.ended(3)))], 2, False),
    "beyond, running": ([pods(lambda s: s.pod("node-1", s.running(), restarts=3, last=s.ended(3)))], 2, True),
    "none allowed, the first failure": ([pods(lambda s: s.pod("node-1", s.ended(3), phase="Running"))], 0, True),
    "the command cannot be started": (
        [pods(lambda s: s.pod("node-1", s.waiting("RunContainerError"), restarts=1, last=s.ended(128, "StartError")))],
        1,
        True,
    ),
    "a pod that is not restarted in place: the Job decides": (
        [pods(lambda s: s.pod("node-1", s.ended(3), phase="Failed"))],
        0,
        False,
    ),
    "the same in the second before its phase follows": (
        [
            pods(
                lambda s: s.pod(
                    "node-1", s.ended(3), phase="Running", conditions=[s.condition("Ready", "False", "PodFailed")]
                )
            )
        ],
        0,
        False,
    ),
    "the Job made another pod: that was the restart": (
        [
            pods(lambda s: s.pod("node-1", s.ended(3), phase="Failed")),
            pods(
                lambda s: s.pod("node-1", s.ended(3), phase="Failed"),
                lambda s: s.pod("node-1", s.running(50), suffix="bbbbb", created=40),
            ),
        ],
        0,
        True,
    ),
    "found late: two failed pods beside the third": (
        [
            pods(
                lambda s: s.pod("node-1", s.ended(3, at=10), phase="Failed", created=1),
                lambda s: s.pod("node-1", s.ended(3, at=20), phase="Failed", suffix="bbbbb", created=11),
                lambda s: s.pod("node-1", s.running(30), suffix="ccccc", created=21),
            )
        ],
        1,
        True,
    ),
    "a JobSet restart is a restart of each node": (
        [
            pods(lambda s: s.pod("node-1", s.running())),
            pods(lambda s: s.pod("node-1", s.ended(3), phase="Running", attempt=1, suffix="bbbbb")),
        ],
        1,
        True,
    ),
    "restarts in a pod and of the JobSet add up": (
        [
            pods(lambda s: s.pod("node-1", s.running(), restarts=2, last=s.ended(3))),
            pods(lambda s: s.pod("node-1", s.running(), attempt=1, suffix="bbbbb")),
        ],
        2,
        True,
    ),
    "a pod made anew after a suspension is no restart": (
        [
            pods(lambda s: s.pod("node-1", s.ended(143), deleting=True, phase="Failed")),
            pods(lambda s: s.pod("node-1", s.running(), suffix="bbbbb")),
        ],
        0,
        False,
    ),
    "nor after an eviction": (
        [
            pods(lambda s: s.pod("node-1", phase="Failed", reason="Evicted")),
            pods(lambda s: s.pod("node-1", s.running(), suffix="bbbbb", created=50)),
        ],
        0,
        False,
    ),
    "being told to stop is no failure": (
        [pods(lambda s: s.pod("node-1", s.ended(143), deleting=True, phase="Running"))],
        0,
        False,
    ),
    "an initializer counts too": (
        [pods(lambda s: s.pod("dataset-initializer", s.waiting("CrashLoopBackOff"), restarts=1, last=s.ended(1)))],
        1,
        True,
    ),
}


@pytest.mark.parametrize(("looks", "limit", "stop"), RESTARTS.values(), ids=RESTARTS.keys())
def test_max_restarts(scene: Scene, looks: list[Look], limit: int | None, stop: bool) -> None:
    wait: Wait = scene.begin(Limits(max_restarts=limit))
    *early, last = (look(scene) for look in looks)
    wait, _ = scene.see(wait, *early)
    assert not wait.ended
    wait, step = scene.see(wait, last)
    assert isinstance(step, Stop if stop else Sleep)


def test_the_same_look_twice_counts_once(scene: Scene) -> None:
    look = RESTARTS["found late: two failed pods beside the third"][0][0](scene)
    wait, _ = scene.see(scene.begin(), look, look, look)
    assert wait.evidence.nodes["node-1"].restarts == 2


def test_a_healthy_thousand_is_not_carried_along(scene: Scene) -> None:
    many = [scene.pod(f"node-{i}", scene.running(), attempt=1) for i in range(1000)]
    wait, _ = scene.see(scene.begin(), scene.look(scene.job(rows={"node": "active=1 ready=1"}), *many))
    assert wait.evidence.nodes == {}


def test_of_many_failures_the_first_are_kept(scene: Scene) -> None:
    many = [scene.pod(f"node-{i}", scene.ended(1, at=50 - i % 40), phase="Failed") for i in range(100)]
    wait, _ = scene.see(scene.begin(), scene.look(scene.job(rows=ACTIVE), *many))
    assert len(wait.evidence.nodes) == 16
    assert wait.evidence.culprit is not None
    assert wait.evidence.culprit.node == "node-39"


def test_messages_are_bounded_and_keep_their_end(scene: Scene) -> None:
    pod = scene.pod("node-0", scene.ended(1, message="x" * 5000 + "the end"), phase="Failed")
    wait, _ = scene.see(scene.begin(), scene.look(scene.job(rows=ACTIVE), pod))
    failure = wait.evidence.nodes["node-0"].failure
    assert failure is not None
    assert len(failure.message) == 1000
    assert failure.message.endswith("the end")


def test_started_at_is_the_first_start_of_a_node_that_trains(scene: Scene) -> None:
    first = scene.look(
        scene.job(rows=ACTIVE),
        scene.pod("dataset-initializer", scene.ended(0, start=1), container="dataset-initializer"),
        scene.pod(
            "node-0", scene.waiting("RunContainerError"), last=scene.ended(128, "StartError", start=-1_800_000_000)
        ),
    )
    wait, _ = scene.see(scene.begin(), first)
    assert wait.evidence.started_at is None
    again = scene.pod("node-0", scene.running(50), restarts=1, last=scene.ended(3, start=20))
    wait, _ = scene.see(wait, scene.look(scene.job(rows=ACTIVE), again, scene.pod("node-1", scene.running(21))))
    assert wait.evidence.started_at == scene.zero + 20
