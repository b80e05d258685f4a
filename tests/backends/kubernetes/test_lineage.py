from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.backends.kubernetes.lineage import MAX_EVENTS, Lineage, events_of, newest, pods_of, telling
from trainer_ops.model import keys

OLD, NEW = "uid-old", "uid-new"


def at(second: int) -> str:
    return f"2026-11-30T12:00:{second:02}Z"


def job(uid: str = NEW, second: int = 10, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": uid, "creationTimestamp": at(second)}, "status": status}


def jobset(uid: str, owner: str, **status: Any) -> dict[str, Any]:
    owners = [{"kind": keys.KIND, "name": "x", "uid": owner}] if owner else []
    return {"metadata": {"name": "x", "uid": uid, "ownerReferences": owners}, "status": status}


def pod(name: str, jobset_uid: str, second: int) -> dict[str, Any]:
    labels = {keys.LABEL_JOBSET_NAME: "x", keys.LABEL_JOBSET_UID: jobset_uid}
    return {"metadata": {"name": name, "uid": name, "labels": labels, "creationTimestamp": at(second)}}


@pytest.mark.parametrize(
    ("uid", "standing", "known", "mine"),
    [
        pytest.param(NEW, job(), {"js-old": OLD, "js-new": NEW}, ["new"], id="both JobSets were seen"),
        pytest.param(OLD, job(), {"js-old": OLD, "js-new": NEW}, ["old"], id="the earlier one's while they end"),
        pytest.param(OLD, None, {"js-old": OLD, "js-new": NEW}, ["old"], id="both are deleted"),
        pytest.param(NEW, job(), {"js-new": NEW}, ["new"], id="the earlier JobSet was never seen"),
        pytest.param(NEW, job(), {}, ["new"], id="no JobSet may be read: told by time"),
        pytest.param(OLD, job(), {}, ["old"], id="the earlier one's by time"),
        pytest.param(NEW, None, {}, ["old", "new"], id="nothing is known: none is denied"),
        pytest.param("uid-third", job(), {"js-old": OLD, "js-new": NEW}, [], id="another uid"),
    ],
)
def test_pods_of_one_name(uid: str, standing: dict[str, Any] | None, known: dict[str, str], mine: list[str]) -> None:
    lineage = Lineage()
    for name, owner in known.items():
        lineage.learn(jobset(name, owner))
    pods = [pod("old", "js-old", 5), pod("new", "js-new", 12)]
    found, others = pods_of(uid, pods, lineage, standing=standing)
    assert [p["metadata"]["name"] for p in found] == mine
    assert len(found) + len(others) == 2


def test_a_jobset_that_was_made_again_is_the_same_trainings() -> None:
    lineage = Lineage()
    lineage.learn(jobset("js-1", NEW))
    lineage.learn(jobset("js-2", NEW))
    found, _ = pods_of(NEW, [pod("a", "js-1", 12), pod("b", "js-2", 20)], lineage, standing=job())
    assert len(found) == 2


def test_what_is_remembered_is_bounded() -> None:
    lineage = Lineage(limit=2)
    for number in range(3):
        lineage.learn(jobset(f"js-{number}", f"uid-{number}"))
    lineage.learn(None)
    lineage.learn(jobset("js-9", ""))
    assert [lineage.of_pod(pod("p", f"js-{number}", 0)) for number in range(3)] == [None, "uid-1", "uid-2"]


def event(kind: str, name: str, second: int, uid: str = "", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}.{second}"},
        "involvedObject": {"kind": kind, "name": name, "uid": uid},
        "lastTimestamp": at(second),
        **more,
    }


ROWS: dict[str, Any] = {"jobsStatus": [{"name": "node"}]}


@pytest.mark.parametrize(
    ("subject", "counts"),
    [
        pytest.param(("TrainJob", "x", 12, NEW), True, id="about it"),
        pytest.param(("TrainJob", "x", 12, OLD), False, id="about an earlier one"),
        pytest.param(("JobSet", "x", 12), True, id="about its JobSet"),
        pytest.param(("JobSet", "x", 5), False, id="from before it was made"),
        pytest.param(("Job", "x-node-0", 12), True, id="about its Job"),
        pytest.param(("Job", "x-y-node-0", 12), False, id="about another's Job"),
        pytest.param(("Pod", "x-node-0-0-abcde", 12, "pod"), True, id="about its pod"),
        pytest.param(("Pod", "x-node-0-0-vwxyz", 12, "foreign"), False, id="about an earlier one's pod that ends now"),
        pytest.param(("PersistentVolumeClaim", "initializer-x", 12), True, id="about its claim"),
        pytest.param(("PersistentVolumeClaim", "initializer-xx", 12), False, id="about another claim"),
    ],
)
def test_events_of_one_trainjob(subject: tuple[Any, ...], counts: bool) -> None:
    assert len(events_of(job(**ROWS), [event(*subject)], {"foreign"})) == counts


def test_the_newest_events_in_order_of_time() -> None:
    events = [event("Job", "x-node-0", second) for second in (50, 20, 30)]
    events.append({**event("TrainJob", "x", 0, NEW), "lastTimestamp": None, "eventTime": at(40)})
    found = events_of(job(), events)
    assert [e.get("lastTimestamp") or e["eventTime"] for e in found] == [at(20), at(30), at(40), at(50)]
    many = [event("Job", "x-node-0", 11 + i % 40) for i in range(MAX_EVENTS + 50)]
    assert len(events_of(job(), many)) == MAX_EVENTS


@pytest.mark.parametrize(
    ("status", "owner", "tells"),
    [
        ({}, NEW, False),
        ({"conditions": [{"type": "Completed", "status": "True"}]}, NEW, False),
        ({"restarts": 1}, NEW, True),
        ({"restarts": 1}, OLD, False),
        ({"conditions": [{"type": "RestartingJobSet", "status": "True"}]}, NEW, True),
        ({"conditions": [{"type": "RestartingJobSet", "status": "False"}]}, NEW, False),
    ],
)
def test_a_jobset_tells_of_restarts(status: dict[str, Any], owner: str, tells: bool) -> None:
    assert (telling(jobset("js", owner, **status), NEW) is not None) is tells
    assert telling(None, NEW) is None


def test_the_newest() -> None:
    assert newest([]) is None
    assert newest([job("a", 1), job("b", 9), job("c", 5)]) == job("b", 9)
