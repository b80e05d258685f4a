"""Hands reach into a training that is waited for: it is deleted, made again, suspended, or its JobSet is removed."""

from __future__ import annotations

from typing import Any

from tests.controlplane.row_cases import STOCK, TRAINED, manifest, stuck
from tests.controlplane.scenes import Case, Ends, Scene
from trainer_ops.lifecycle.submit import submit
from trainer_ops.model.outcome import Category
from trainer_ops.model.phase import Phase

__all__ = ["CASES", "HOMELESS"]

MONTH = 30 * 86400.0
DELETED = Ends(Phase.DELETED, Category.DELETED, ("was deleted before it ended",), remedy="start it again", alive=False)
REPLACED = Ends(
    Phase.REPLACED, Category.SUPERSEDED, ("is gone", "another TrainJob"), remedy="not touched", alive=False, other=True
)


def runs(scene: Scene) -> Any:
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    return pod


def is_deleted(scene: Scene) -> None:
    runs(scene)
    scene.delete()


def loses_its_jobset(scene: Scene) -> None:
    before = runs(scene)
    scene.delete("JobSet")
    scene.wait_for("a new pod", lambda: _uids(scene) - {before["metadata"]["uid"]} != set())
    (pod,) = [pod for pod in scene.pods() if pod["metadata"]["uid"] != before["metadata"]["uid"]]
    scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    scene.hand.ended(pod, 0)


def _uids(scene: Scene) -> set[str]:
    return {pod["metadata"]["uid"] for pod in scene.cluster.pods(scene.namespace, scene.job)}


def loses_its_pod(scene: Scene) -> None:
    scene.now(Phase.RUNNING)
    (pod,) = scene.pods()
    scene.api.delete("Pod", pod["metadata"]["name"], namespace=scene.namespace)


def _made_anew(scene: Scene, made: dict[str, Any]) -> None:
    """While the wait does not look, the TrainJob is deleted and another takes its name."""
    scene.story.halt(scene.clock)
    scene.delete()
    scene.wait_for("its end", lambda: scene.api.get("TrainJob", scene.job, namespace=scene.namespace) is None)
    scene.api.create(made)
    scene.story.go_on()


def is_made_again(scene: Scene) -> None:
    runs(scene)
    stored = scene.api.get("TrainJob", scene.job, namespace=scene.namespace)
    kept = {key: stored["metadata"].get(key) for key in ("name", "namespace", "labels", "annotations")}
    _made_anew(scene, {**stored, "metadata": kept, "status": {}})


def is_replaced(scene: Scene) -> None:
    runs(scene)
    _made_anew(scene, manifest(scene, scene.job))


def is_suspended_for_a_month(scene: Scene) -> None:
    runs(scene)
    scene.suspend(True)
    scene.now(Phase.SUSPENDED)
    scene.wait_for("no pods", lambda: not scene.cluster.pods(scene.namespace, scene.job))
    looks = scene.story.looks
    scene.clock.move(MONTH)
    scene.story.until("a look after a month", lambda story: story.looks > looks)
    scene.suspend(False)
    scene.hand.ended(runs(scene), 0)


def is_superseded(scene: Scene) -> None:
    runs(scene)
    newer = submit(scene.backend, scene.request, scene.key(generation=1), clock=scene.clock)
    assert newer.superseded == (scene.job,)


CASES = {
    "deleted": Case("kubectl delete trainjob", (18, 2), DELETED, is_deleted, held=True),
    "headless": Case(
        "kubectl delete jobset: Trainer makes it again, and all starts anew",
        (18, 4),
        TRAINED,
        loses_its_jobset,
        held=True,
    ),
    "podless": Case(
        "kubectl delete pod, with a runtime that makes no other",
        (18, 5),
        Ends(Phase.FAILED, Category.EVICTED, ("the pod of node-0 was deleted",), remedy="who deletes pods"),
        loses_its_pod,
    ),
    "again": Case("deleted and made again as it was", (18, 3), REPLACED, is_made_again, held=True, own_thread=True),
    "others": Case(
        "deleted, and somebody else takes the name", (18, 3), REPLACED, is_replaced, held=True, own_thread=True
    ),
    "paused": Case("suspended for a month, then resumed", (18, 9, 4), TRAINED, is_suspended_for_a_month, held=True),
    "forgotten": Case(
        "created suspended and never resumed, with a queue_timeout",
        (9,),
        stuck(Category.QUEUED_TOO_LONG, "suspended", phase=Phase.SUSPENDED, remedy="Resume it"),
        lambda scene: scene.outlast(Phase.SUSPENDED),
        {"suspend": True, "queue_timeout": 3600},
    ),
    "cleared": Case(
        "the same task is submitted anew, which deletes it",
        (18, 2),
        Ends(Phase.DELETED, Category.SUPERSEDED, ("took its place",), remedy="instead", alive=False),
        is_superseded,
        held=True,
    ),
}


def loses_its_namespace(scene: Scene) -> None:
    runs(scene)
    scene.api.delete("Namespace", scene.namespace)


HOMELESS = {
    # With a stock runtime the Job tries to replace its pods, in vain: the TrainJob goes before it has failed.
    "homeless": Case("kubectl delete namespace", (18, 2), DELETED, loses_its_namespace, {"runtime": STOCK}, held=True),
}
