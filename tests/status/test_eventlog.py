"""Which events are kept, and that the same one is kept once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainer_ops.status.eventlog import EVENTS_LIMIT

if TYPE_CHECKING:
    from tests.status.conftest import Scene

ACTIVE = {"node": "active=1"}


def kept(scene: Scene, *looks: list[Any]) -> list[dict[str, Any]]:
    pods = [scene.pod(f"node-{i}", scene.running()) for i in range(3)]
    wait = scene.begin()
    for at, events in enumerate(looks):
        wait, _ = scene.see(wait, scene.look(scene.job(rows=ACTIVE), *pods, events=events, at=at + 60))
    return [dict(event) for event in wait.outcome().events]


def test_what_an_event_says(scene: Scene) -> None:
    event = scene.event("Pod/train-node-0-1-aaaaa", "BackOff", "restarting\n  failed   container", at=30)
    assert kept(scene, [event]) == [
        {
            "at": scene.at(30),
            "object": "Pod/train-node-0-1-aaaaa",
            "node": "node-1",
            "reason": "BackOff",
            "message": "restarting failed container",
            "warning": True,
            "count": 1,
        }
    ]


def test_the_same_again_moves_on_and_keeps_its_node(scene: Scene) -> None:
    first = scene.event("Pod/train-node-0-1-aaaaa", "BackOff", "x", at=30)
    later = {**scene.event("Pod/train-node-0-1-aaaaa", "BackOff", "x", at=300), "count": 7}
    other = scene.event("Pod/train-node-0-2-aaaaa", "BackOff", "x", at=60)
    found = kept(scene, [first, other], [later, other], [other])
    assert [(e["node"], e["count"], e["at"]) for e in found] == [
        ("node-2", 1, scene.at(60)),
        ("node-1", 7, scene.at(300)),
    ]


def test_events_that_the_cluster_forgot_are_kept(scene: Scene) -> None:
    assert [e["reason"] for e in kept(scene, [scene.event("TrainJob/train", "A", at=1)], [])] == ["A"]


def test_few_that_are_alike(scene: Scene) -> None:
    normal = [scene.event(f"Pod/p{i}", "Started", "Started container", at=i, type_="Normal") for i in range(64)]
    warnings = [scene.event(f"Pod/p{i}", "FailedMount", "no such secret", at=i) for i in range(64)]
    created = scene.event("TrainJob/train", "JobSetCreated", at=0, type_="Normal")
    found = kept(scene, [created, *normal, *warnings])
    assert [e["reason"] for e in found].count("Started") == 4
    assert [e["reason"] for e in found].count("FailedMount") == 12
    assert found[0]["reason"] == "JobSetCreated"


def test_over_the_limit_the_newest_stay_and_warnings_before_others(scene: Scene) -> None:
    normal = [scene.event("TrainJob/train", f"Normal{i}", at=100 + i, type_="Normal") for i in range(60)]
    warnings = [scene.event("TrainJob/train", f"Warning{i}", at=i) for i in range(20)]
    found = kept(scene, warnings + normal)
    assert len(found) == EVENTS_LIMIT
    assert [e["reason"] for e in found] == [f"Warning{i}" for i in range(20)] + [f"Normal{i}" for i in range(30, 60)]


def test_an_event_without_a_time_is_the_oldest(scene: Scene) -> None:
    timeless = {"object": "Pod/p", "reason": "Odd", "message": "", "type": "Normal"}
    assert [(e["reason"], e["at"]) for e in kept(scene, [scene.event("Pod/p", "A", at=1), timeless])] == [
        ("Odd", None),
        ("A", scene.at(1)),
    ]
