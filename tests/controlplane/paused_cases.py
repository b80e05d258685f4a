"""Cases of rows for which a controller has to stand still or a machine to go; ``test_rows_paused`` plays them."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable

from tests.controlplane.manual import Hand
from tests.controlplane.row_cases import TRAINED, manifest, stuck
from tests.controlplane.scenes import Case, Ends, Scene
from trainer_ops.model.identity import JobRef
from trainer_ops.model.outcome import Category
from trainer_ops.model.phase import Phase

__all__ = ["JOBSET", "NODE_LOST", "STALLED", "WITHOUT_JOBSET", "WITHOUT_TRAINER"]


class Standstill:
    """One controller that stops when all acts are ready, and goes on when each has seen what it came for."""

    def __init__(self, parties: int) -> None:
        self.pause: Callable[[], None] = lambda: None
        self.resume: Callable[[], None] = lambda: None
        self._begin = threading.Barrier(parties, lambda: self.pause(), timeout=90)
        self._end = threading.Barrier(parties, lambda: self.resume(), timeout=90)

    def begin(self) -> None:
        self._begin.wait()

    def end(self) -> None:
        self._end.wait()


JOBSET = Standstill(3)


def completes(scene: Scene) -> None:
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    JOBSET.begin()
    scene.hand.ended(pod, 0)
    scene.now(Phase.COMPLETING)
    JOBSET.end()


def is_resumed(scene: Scene) -> None:
    scene.now(Phase.SUSPENDED)
    JOBSET.begin()
    scene.suspend(False)
    scene.now(Phase.RESUMING)
    JOBSET.end()
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.hand.ended(pod, 0)


def made_while_jobset_is_away(scene: Scene) -> JobRef:
    JOBSET.begin()
    made = scene.api.create(manifest(scene, "no-jobset"))
    return JobRef(scene.backend.target, scene.namespace, "no-jobset", made["metadata"]["uid"])


def is_blocked(scene: Scene) -> None:
    try:
        scene.outlast(Phase.BLOCKED, "failed calling webhook")
    finally:
        JOBSET.end()


WITHOUT_JOBSET = {
    "completing": Case("JobSet's controller stands still while the pods end", (19, 4), TRAINED, completes, held=True),
    "resuming": Case(
        "JobSet's controller stands still while it is resumed",
        (9, 10, 4),
        TRAINED,
        is_resumed,
        {"suspend": True},
        held=True,
    ),
    "no-jobset": Case(
        "JobSet's webhook does not answer: the controller cannot create the JobSet",
        (12,),
        stuck(Category.NOT_RECONCILED, phase=Phase.BLOCKED, remedy="JobSet"),
        is_blocked,
        {"startup_timeout": 900},
        begin=made_while_jobset_is_away,
    ),
}


def is_not_reconciled(scene: Scene) -> None:
    scene.now(Phase.SUBMITTED, "waiting for the controller")
    scene.clock.move(61)
    scene.outlast(Phase.SUBMITTED, "no controller has taken it up")


def made_by_hand(scene: Scene) -> JobRef:
    made = scene.api.create(manifest(scene, "no-trainer"))
    return JobRef(scene.backend.target, scene.namespace, "no-trainer", made["metadata"]["uid"])


WITHOUT_TRAINER = {
    "no-trainer": Case(
        "Trainer's controller stands still",
        (13,),
        stuck(
            Category.NOT_RECONCILED,
            "no controller has taken it up",
            phase=Phase.SUBMITTED,
            remedy="controllers run",
        ),
        is_not_reconciled,
        {"startup_timeout": 900},
        begin=made_by_hand,
    ),
}


def loses_its_node(scene: Scene) -> None:
    scene.now(Phase.RUNNING)
    (pod,) = scene.pods()
    node = pod["spec"]["nodeName"]
    try:
        Hand(scene.cluster, scene.namespace, "none").node_lost(node)
        scene.now(Phase.FAILING)
    finally:
        scene.cluster.kubelet.return_node(node)


NODE_LOST = {
    "node-lost": Case(
        "the node goes silent, and the node controller deletes its pod",
        (18, 16, 5),
        Ends(
            Phase.FAILED,
            Category.NODE_LOST,
            ("node-0 was lost with its machine",),
            remedy="Start it again; with checkpoint_dir it resumes",
        ),
        loses_its_node,
    ),
}


def _is_silent(port: int, ca_file: str) -> bool:
    tls = ssl.create_default_context(cafile=ca_file)
    with socket.create_connection(("127.0.0.1", port), timeout=2) as raw:
        try:
            tls.wrap_socket(raw, server_hostname="127.0.0.1").close()
        except TimeoutError:
            return True
    return False


def ends_while_nobody_answers(scene: Scene) -> None:
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    plane = scene.cluster.plane
    plane.pause("kube-apiserver")
    try:
        scene.wait_for("silence", lambda: _is_silent(plane.port, plane.file("ca.crt")))
    finally:
        plane.resume("kube-apiserver")
    scene.hand.ended(pod, 0)


STALLED = {
    "stalled": Case("the API server stands still for seconds", (18, 4), TRAINED, ends_while_nobody_answers, held=True)
}
