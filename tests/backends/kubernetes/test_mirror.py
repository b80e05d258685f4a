from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.backends.kubernetes.failures import Gone
from trainer_ops.backends.kubernetes.kinds import EVENTS, JOBSETS, PODS, TRAINJOBS, WORKLOADS, subject_of
from trainer_ops.backends.kubernetes.mirror import Mirror
from trainer_ops.errors import Unreachable
from trainer_ops.model.observed import ObservedPod


def pod(name: str, owner: str = "x", version: str = "1", **status: Any) -> dict[str, Any]:
    labels = {"jobset.sigs.k8s.io/jobset-name": owner} if owner else {}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": version, "labels": labels}
    return {"metadata": meta, "spec": {"containers": [{"name": "node", "image": "i"}]}, "status": status}


def event(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "e", "uid": "u"}, "involvedObject": {"kind": kind, "name": name}, **more}


@pytest.fixture
def mirror() -> Mirror:
    mirror = Mirror(PODS)
    mirror.replace([pod("a"), pod("b"), pod("c", "y")], "10")
    return mirror


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def test_a_list_gives_each_owner_its_own(mirror: Mirror) -> None:
    assert names(mirror.of("x")) == ["a", "b"]
    assert names(mirror.of("y")) == ["c"]
    assert mirror.of("z") == []
    assert (mirror.version, len(mirror), mirror.owners()) == ("10", 3, {"x", "y"})


def test_changes(mirror: Mirror) -> None:
    assert mirror.apply({"type": "ADDED", "object": pod("d", version="11")}) == ("x",)
    assert mirror.apply({"type": "MODIFIED", "object": pod("a", version="12", phase="Running")}) == ("x",)
    assert mirror.apply({"type": "DELETED", "object": pod("b", version="13")}) == ("x",)
    assert names(mirror.of("x")) == ["a", "d"]
    assert mirror.of("x")[0]["status"] == {"phase": "Running"}
    assert mirror.version == "13"
    found = mirror.get("a")
    assert found is not None
    assert found["spec"]["containers"] == [{"name": "node"}]


def test_a_bookmark_moves_the_version_only(mirror: Mirror) -> None:
    assert mirror.apply({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "99"}}}) == ()
    assert (mirror.version, len(mirror)) == ("99", 3)


def test_an_object_that_changes_its_owner(mirror: Mirror) -> None:
    mirror.apply({"type": "MODIFIED", "object": pod("a", "y", "11")})
    assert (names(mirror.of("x")), names(mirror.of("y"))) == (["b"], ["a", "c"])
    mirror.apply({"type": "MODIFIED", "object": pod("a", "", "12")})
    mirror.apply({"type": "DELETED", "object": pod("a", "", "13")})
    assert (names(mirror.of("x")), names(mirror.of("y"))) == (["b"], ["c"])


def test_the_next_list_tells_whose_changed(mirror: Mirror) -> None:
    assert mirror.replace([pod("a"), pod("b", version="2"), pod("c", "y")], "20") == {"x"}
    assert mirror.replace([pod("a"), pod("b", version="2")], "21") == {"y"}
    assert mirror.replace([pod("a", "y"), pod("b", version="2")], "22") == set()
    assert mirror.replace([], "23") == {"x", "y"}
    assert mirror.owners() == set()


@pytest.mark.parametrize(
    ("status", "kind", "version"),
    [
        ({"code": 410, "reason": "Expired", "message": "too old"}, Gone, ""),
        ({"reason": "Gone"}, Gone, ""),
        ({"code": 500, "message": "etcd"}, Unreachable, "10"),
        ({}, Unreachable, "10"),
    ],
)
def test_an_error_inside_the_stream(
    mirror: Mirror, status: dict[str, Any], kind: type[Exception], version: str
) -> None:
    with pytest.raises(kind):
        mirror.apply({"type": "ERROR", "object": status})
    assert mirror.version == version
    assert names(mirror.of("x")) == ["a", "b"]


@pytest.mark.parametrize("line", [{}, {"type": "ADDED"}, {"type": "NOVEL", "object": pod("z")}, {"kind": "Status"}])
def test_what_is_no_event(mirror: Mirror, line: dict[str, Any]) -> None:
    with pytest.raises(Unreachable, match="not an event"):
        mirror.apply(line)


def test_what_nobody_owns_is_not_kept() -> None:
    mirror = Mirror(PODS)
    kept = mirror.keep([pod("a"), pod("stranger", "")])
    mirror.replace(kept, "1")
    mirror.apply({"type": "ADDED", "object": pod("another", "")})
    assert (names(kept), len(mirror)) == (["a"], 1)


@pytest.mark.parametrize(
    ("subject", "owners"),
    [
        (("TrainJob", "x"), ("x",)),
        (("JobSet", "x"), ("x",)),
        (("Job", "x-node-0"), ("x", "x-node-0")),
        (("Pod", "x-node-0-1-abcde"), ("x", "x-node-0-1-abcde")),
        (("Pod", "my-job-node-0-1-abcde"), ("my", "my-job", "my-job-node-0-1-abcde")),
        (("PersistentVolumeClaim", "initializer-x"), ("initializer-x", "x")),
        (("Pod", "web-7d9f8b-abcde"), ("web-7d9f8b-abcde",)),
        (("Node", "x"), ()),
        (("Deployment", "x-node-0"), ()),
        (("Pod", ""), ()),
    ],
)
def test_an_event_may_be_about(subject: tuple[str, str], owners: tuple[str, ...]) -> None:
    raw = event(*subject)
    assert EVENTS.owners(raw) == owners
    assert EVENTS.owners(EVENTS.trim(raw)) == owners


@pytest.mark.parametrize(
    ("subject", "steps", "about"),
    [
        ("x-node-0-1-abcde", {"node"}, True),
        ("x-node-0", {"node"}, True),
        ("x-y-node-0", {"node"}, False),
        ("x-y-node-0", None, True),
        ("x-dataset-initializer-0", {"dataset-initializer", "node"}, True),
        ("xy-node-0", {"node"}, False),
        ("x-node-0-1", {"node"}, False),
    ],
)
def test_steps_tell_a_longer_name_apart(subject: str, steps: set[str] | None, about: bool) -> None:
    found = subject_of(event("Pod", subject), "x", frozenset(steps) if steps else None)
    assert found is about


def test_what_is_big_is_not_kept() -> None:
    job = {
        "metadata": {
            "name": "x",
            "managedFields": [1],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "trainer-ops/limits": "{}"},
        },
        "spec": {
            "trainer": {"command": ["python3", "-c", "code"], "numNodes": 2},
            "runtimePatches": [1],
            "suspend": True,
        },
        "status": {"conditions": []},
    }
    kept = TRAINJOBS.trim(job)
    assert kept["spec"] == {"trainer": {"numNodes": 2}, "suspend": True}
    assert kept["metadata"] == {"name": "x", "annotations": {"trainer-ops/limits": "{}"}}
    assert job["spec"]["trainer"]["command"]  # type: ignore[index]


def test_of_a_pod_is_kept_what_is_asked_for_gpus_among_it() -> None:
    limits = {"nvidia.com/gpu": "4", "cpu": "8"}
    main = {"name": "node", "image": "i", "env": [1], "resources": {"limits": limits, "requests": {"cpu": "1"}}}
    pod = {"metadata": {"name": "x"}, "spec": {"nodeName": "n", "containers": [main, {"name": "side"}], "volumes": [1]}}
    kept = PODS.trim(pod)
    assert kept["spec"] == {
        "nodeName": "n",
        "schedulingGates": None,
        "containers": [{"name": "node", "resources": {"limits": limits}}, {"name": "side"}],
    }
    assert ObservedPod.from_raw(kept).gpus == 4


@pytest.mark.parametrize("kind", [JOBSETS, WORKLOADS])
def test_what_a_trainjob_owns(kind: Any) -> None:
    owned = {"metadata": {"name": "n", "ownerReferences": [{"kind": "TrainJob", "name": "x"}]}, "spec": {}}
    other = {"metadata": {"name": "n", "ownerReferences": [{"kind": "RayJob", "name": "x"}]}, "spec": {}}
    assert kind.owners(kind.trim(owned)) == ("x",)
    assert kind.owners(other) == ()
    assert kind.owners({"metadata": {"name": "n"}}) == ()
