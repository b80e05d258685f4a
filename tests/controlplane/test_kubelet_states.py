"""The states that a pod passes through here are those that it passed through on a real node, in the same order.

The real ones were recorded (``tests/status/evidence``). What is compared: phase, deletion, state, last state, restart
count, readiness and the reasons of the conditions; not times, and not whether the sandbox is up.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster
from tests.controlplane.plane import wait_until

pytestmark = pytest.mark.cluster

EVIDENCE = Path(__file__).parents[1] / "status" / "evidence"
Signature = tuple[Any, ...]


def signature(pod: Mapping[str, Any]) -> Signature:
    status = pod.get("status") or {}
    conditions = {c["type"]: (c["status"], c.get("reason", "")) for c in status.get("conditions") or ()}
    containers = tuple(
        (_state(c.get("state")), _state(c.get("lastState")), c["restartCount"], c["ready"])
        for c in status.get("containerStatuses") or ()
    )
    deleting = bool(pod["metadata"].get("deletionTimestamp"))
    names = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    return status.get("phase"), deleting, containers, tuple(conditions.get(name) for name in names)


def _state(state: Mapping[str, Any] | None) -> tuple[Any, ...]:
    for kind, detail in (state or {}).items():
        return kind, detail.get("reason", ""), detail.get("exitCode"), _text(detail.get("message", ""))
    return ()


def _text(message: str) -> str:
    """Without the pod's own name, which a back-off message ends with."""
    return message.partition(" pod=")[0].partition("host")[0]


def distinct(changes: Sequence[Mapping[str, Any]]) -> list[Signature]:
    found: list[Signature] = []
    for pod in changes:
        now = signature(pod)
        if not found or found[-1] != now:
            found.append(now)
    return found


def recorded(case: str, pod: str) -> list[Signature]:
    changes = json.loads((EVIDENCE / f"{case}.watch.json").read_text())
    mine = [c["obj"] for c in changes if c["kind"].startswith("pod ") and c["obj"]["metadata"]["name"].startswith(pod)]
    first = mine[0]["metadata"]["name"]
    return distinct([obj for obj in mine if obj["metadata"]["name"] == first])


@dataclass
class Watched:
    """Every change of the pods of a namespace, by pod."""

    changes: list[dict[str, Any]] = field(default_factory=list)

    def of(self, name: str) -> list[Signature]:
        return distinct([obj for obj in self.changes if obj["metadata"]["name"].startswith(name)])


@contextlib.contextmanager
def watching(cluster: Cluster, namespace: str) -> Iterator[Watched]:
    path = f"/api/v1/namespaces/{namespace}/pods?watch=true&timeoutSeconds=110"
    connection, answer = cluster.api.stream(path, timeout=120)
    watched = Watched()

    def read() -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := answer.readline():
                watched.changes.append(json.loads(line)["object"])

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield watched
    finally:
        connection.sock.shutdown(socket.SHUT_RDWR)
        thread.join()
        answer.close()
        connection.close()


NEVER = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "torch-never", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {
                                "backoffLimit": 0,
                                "template": {
                                    "spec": {
                                        "restartPolicy": "Never",
                                        "containers": [{"name": "node", "image": "registry.example/python:1"}],
                                    }
                                },
                            },
                        },
                    }
                ]
            }
        },
    },
}

SAY = "open('/dev/termination-log', 'w').write"
LATER = "import time; time.sleep(0.3)\n"
FAIL = f"{LATER}{SAY}('%s')\nraise SystemExit(%d)"
SLEEP = "import signal, time\ntime.sleep(100)"
SAVE = f"""
import signal, sys, time
def end(*_):
    {SAY}('%s')
    sys.exit(%d)
signal.signal(signal.SIGTERM, end)
print('ready', flush=True)
time.sleep(100)
"""
FLAKY = f"""
import os, pathlib
{LATER}
seen = pathlib.Path('/claim/seen')
if seen.exists():
    {SAY}('attempt 1')
else:
    seen.touch()
    {SAY}('attempt 0')
    raise SystemExit(7)
"""


def job(namespace: str, *command: str, nodes: int = 1, runtime: str = "", **trainer: Any) -> dict[str, Any]:
    ref = {"name": "torch-never", "kind": "TrainingRuntime"} if runtime == "never" else {"name": "torch-distributed"}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {"runtimeRef": ref, "trainer": {"numNodes": nodes, "command": list(command), **trainer}},
    }


def volume(namespace: str, manifest: dict[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """The job with one volume mounted at ``/claim``."""
    container = {"name": "node", "volumeMounts": [{"name": "c", "mountPath": "/claim"}]}
    pod = {"volumes": [{"name": "c", **source}], "containers": [container]}
    patch = {
        "template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]}}
    }
    manifest["spec"]["runtimePatches"] = [{"manager": "example.com/test", "trainingRuntimeSpec": patch}]
    return manifest


def python(code: str) -> tuple[str, ...]:
    return ("python3", "-c", code)


@pytest.fixture
def space(control_plane: Cluster, cluster_namespace: str) -> str:
    if control_plane.kubelet.mode != "contained":
        pytest.skip("only containers behave as containers")
    control_plane.api.create(NEVER, namespace=cluster_namespace)
    return cluster_namespace


ABSENT_SECRET = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "absent-secret", "key": "k"}}}]

# case -> (TrainJob of a namespace, how many distinct states of the recording to reach)
CASES: dict[str, tuple[Any, int]] = {
    "never": (lambda ns: job(ns, *python(FAIL % ('{"error": "boom", "step": 1}', 3)), runtime="never"), 6),
    "slowfail": (lambda ns: job(ns, *python(FAIL % ('{"error": "boom"}', 3))), 12),
    "badcmd": (lambda ns: job(ns, "/no/such/binary"), 7),
    "nocm": (lambda ns: volume(ns, job(ns, *python(SLEEP)), {"configMap": {"name": "absent-cm"}}), 3),
    "flaky": (lambda ns: volume(ns, job(ns, *python(FLAKY)), {"emptyDir": {}}), 8),
}


@pytest.mark.parametrize("case", CASES)
def test_it_passes_through_the_recorded_states(case: str, control_plane: Cluster, space: str) -> None:
    make, count = CASES[case]
    expected = recorded(case, case)[:count]
    with watching(control_plane, space) as watched:
        control_plane.api.create(make(space))
        wait_until(f"{count} states", lambda: len(watched.of("job")) >= count, seconds=40)
    assert watched.of("job")[:count] == expected


def test_out_of_memory_is_seen_as_it_was(control_plane: Cluster, space: str) -> None:
    with watching(control_plane, space) as watched:
        control_plane.api.create(job(space, *python(SLEEP), runtime="never"))
        wait_until("it runs", lambda: any(s[0] == "Running" for s in watched.of("job")))
        assert control_plane.kubelet.oom(space, watched.changes[-1]["metadata"]["name"])
        wait_until("it failed", lambda: any(s[0] == "Failed" for s in watched.of("job")))
    assert watched.of("job") == recorded("never-oom", "never-oom")


# case -> what the process does at SIGTERM, and the pod of the recording to compare with
ENDINGS = {
    "del-background": (SAVE % ("saved", 143), "del-background-node-0-0"),
    "del-plain": (SLEEP, "del-plain-node-0-0"),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_deleted_while_it_runs(case: str, control_plane: Cluster, space: str) -> None:
    code, pod = ENDINGS[case]
    with watching(control_plane, space) as watched:
        control_plane.api.create(job(space, *python(code)))
        wait_until("it runs", lambda: any(s[0] == "Running" for s in watched.of("job")))
        if case == "del-background":
            wait_for_handler(control_plane, space)
        control_plane.api.delete("TrainJob", "job", namespace=space)
        wait_until("it is gone", lambda: not control_plane.pods(space, "job"))
    assert watched.of("job") == recorded(case, pod)


def test_suspended_and_resumed(control_plane: Cluster, space: str) -> None:
    with watching(control_plane, space) as watched:
        control_plane.api.create(job(space, *python(SAVE % ("stopped", 0)), nodes=2))
        wait_until("both run", lambda: all(states(watched, f"job-node-0-{i}", "Running") for i in (0, 1)))
        wait_for_handler(control_plane, space, count=2)
        control_plane.api.patch("TrainJob", "job", {"spec": {"suspend": True}}, namespace=space)
        wait_until("both are gone", lambda: not control_plane.pods(space, "job"))
        suspended = list(watched.changes)
        control_plane.api.patch("TrainJob", "job", {"spec": {"suspend": False}}, namespace=space)
        wait_until("new pods run", lambda: len(running(control_plane, space)) == 2)
    # The recording begins with the second pod, whose every state was caught.
    assert Watched(suspended).of("job-node-0-1") == recorded("suspend", "susp-node-0-1")
    conditions = control_plane.api.get("TrainJob", "job", namespace=space)["status"]["conditions"]
    assert [(c["type"], c["status"], c["reason"]) for c in conditions] == [("Suspended", "False", "Resumed")]


def test_of_two_nodes_one_fails_and_the_healthy_one_is_ended(control_plane: Cluster, space: str) -> None:
    code = (
        f"""
import os
if os.environ["PET_NODE_RANK"] == "1":
    import time
    time.sleep(1)
    {SAY}('{{"error": "boom"}}')
    raise SystemExit(3)
"""
        + SAVE % ("sigterm seen", 0)
    )
    with watching(control_plane, space) as watched:
        control_plane.api.create(job(space, *python(code), nodes=2, runtime="never"))
        assert control_plane.ended("job", space) == "Failed"
        wait_until("one is left", lambda: len(control_plane.pods(space, "job")) == 1)
    assert watched.of("job-node-0-1") == recorded("never-one", "never-one-node-0-1")
    assert watched.of("job-node-0-0") == recorded("never-one", "never-one-node-0-0")


@pytest.mark.slow
def test_at_the_back_off_limit_the_pod_is_deleted_with_its_exit_code(control_plane: Cluster, space: str) -> None:
    with watching(control_plane, space) as watched:
        # The seventh run is caught running, as on the real node.
        code = "import os, time; time.sleep(1.5)\n" + FAIL % ('{"error": "boom"}', 3)
        control_plane.api.create(job(space, *python(code)))
        assert control_plane.ended("job", space, seconds=100) == "Failed"
        wait_until("the pod is gone", lambda: not control_plane.pods(space, "job"))
    seen, real = watched.of("job"), recorded("slowfail", "slowfail")
    restarts = [pod[2][0][2] for pod in seen if pod[2]]
    assert seen[:12] == real[:12]
    assert max(restarts) == 6
    events = {e["reason"] for e in control_plane.api.list("Event", namespace=space)}
    assert {"BackOff", "SuccessfulDelete", "BackoffLimitExceeded", "FailedJobs"} <= events


def states(watched: Watched, pod: str, phase: str) -> bool:
    return any(s[0] == phase for s in watched.of(pod))


def running(cluster: Cluster, namespace: str) -> list[str]:
    pods = cluster.pods(namespace, "job")
    return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]


def wait_for_handler(cluster: Cluster, namespace: str, *, count: int = 1) -> None:
    """Until so many processes have said that they handle SIGTERM."""

    def said() -> bool:
        names = running(cluster, namespace)
        path = f"/api/v1/namespaces/{namespace}/pods"
        return len([n for n in names if "ready" in cluster.api.call("GET", f"{path}/{n}/log")]) >= count

    wait_until("the handlers are there", said)
