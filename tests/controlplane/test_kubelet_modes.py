"""Many pods at once, processes without namespaces, and that nothing is left when all is closed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.api import path_of
from tests.controlplane.fixtures import Cluster, leftovers, unused_name
from tests.controlplane.kubelet import Kubelet, NodeSpec
from tests.controlplane.plane import ControlPlane, wait_until

pytestmark = pytest.mark.cluster


def bare_pod(namespace: str, name: str, *command: str, node: str = "") -> dict[str, Any]:
    selector = {"kubernetes.io/hostname": node} if node else {}
    container = {"name": "node", "image": "registry.example/python:1", "command": list(command)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"restartPolicy": "Never", "nodeSelector": selector, "containers": [container]},
    }


def phases(cluster: Cluster, namespace: str) -> Counter[str]:
    return Counter(pod["status"]["phase"] for pod in cluster.pods(namespace))


@pytest.mark.slow
def test_five_hundred_pods_of_processes(control_plane: Cluster, cluster_namespace: str) -> None:
    for number in range(500):
        control_plane.api.create(bare_pod(cluster_namespace, f"p-{number}", "true"))
    wait_until("all", lambda: phases(control_plane, cluster_namespace) == {"Succeeded": 500}, seconds=110)


def test_pods_without_processes(control_plane: Cluster, cluster_namespace: str) -> None:
    control_plane.kubelet.instant(cluster_namespace, seconds=5, message='{"metrics": {}}', lines="one\ntwo\n")
    for number in range(50):
        control_plane.api.create(bare_pod(cluster_namespace, f"p-{number}", "true"))
    wait_until("all", lambda: phases(control_plane, cluster_namespace) == {"Succeeded": 50}, seconds=60)
    end = control_plane.pods(cluster_namespace)[0]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (end["exitCode"], end["message"]) == (0, '{"metrics": {}}')
    assert control_plane.api.call("GET", path_of("Pod", cluster_namespace, "p-7", "log")) == "one\ntwo\n"


@pytest.fixture(scope="module")
def plain(control_plane: Cluster) -> Iterator[Cluster]:
    """The same plane with one more node, whose pods are plain processes."""
    kubelet = Kubelet(control_plane.plane, [NodeSpec("node-plain", taints=[PLAIN])], mode="plain")
    yield Cluster(control_plane.plane, kubelet)
    kubelet.close()
    control_plane.api.delete("Node", "node-plain")


PLAIN = {"key": "example.com/plain", "effect": "NoSchedule"}

# Both nodes learn rank 0's address from the environment that Trainer wrote and this kubelet rewrote.
_TALK = """
import os, socket, time
rank, address = os.environ["PET_NODE_RANK"], (os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"]))
if rank == "0":
    with socket.create_server(address) as server:
        print(server.accept()[0].recv(9), flush=True)
else:
    while True:
        try:
            socket.create_connection(address, timeout=5).sendall(b"one")
            break
        except OSError:
            time.sleep(0.1)
with open(os.environ["TRAINER_OPS_RESULT_PATH"], "w") as file:
    file.write(rank)
"""


def test_two_nodes_as_plain_processes(plain: Cluster, cluster_namespace: str) -> None:
    tolerant = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"kubernetes.io/hostname": "node-plain"}}
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": tolerant}}}}]
    patch = {"manager": "example.com/test", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    plain.api.create(
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": "two", "namespace": cluster_namespace},
            "spec": {
                "runtimeRef": {"name": "torch-distributed"},
                "trainer": {"numNodes": 2, "command": ["python3", "-c", _TALK]},
                "runtimePatches": [patch],
            },
        }
    )
    assert plain.ended("two", cluster_namespace) == "Complete"
    ends = [pod["status"]["containerStatuses"][0]["state"]["terminated"] for pod in plain.pods(cluster_namespace)]
    assert sorted(end["message"] for end in ends) == ["0", "1"]


def test_a_plain_process_is_ended_with_its_children(plain: Cluster, cluster_namespace: str, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sleep 300 & echo $! > {pids}; sleep 300"
    manifest = bare_pod(cluster_namespace, "p", "sh", "-c", script, node="node-plain")
    manifest["spec"] |= {"tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 1}
    plain.api.create(manifest)
    wait_until("it runs", lambda: pids.exists() and pids.read_text() != "")
    plain.api.delete("Pod", "p", namespace=cluster_namespace)
    plain.wait("Pod", "p", cluster_namespace, lambda pod: pod is None)
    wait_until("the child is gone", lambda: not alive(int(pids.read_text())))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").exists() else True


def test_a_kubelet_that_is_closed_leaves_nothing(control_plane: Cluster, cluster_namespace: str) -> None:
    kubelet = Kubelet(control_plane.plane, [NodeSpec("node-brief", taints=[PLAIN])])
    manifest = bare_pod(cluster_namespace, "p", "sh", "-c", "sleep 300 & sleep 300", node="node-brief")
    manifest["spec"]["tolerations"] = [{"operator": "Exists"}]
    control_plane.api.create(manifest)
    control_plane.wait("Pod", "p", cluster_namespace, lambda pod: pod["status"].get("phase") == "Running")
    assert leftovers(kubelet.folder, kubelet.network) != []
    kubelet.close()
    wait_until("nothing is left", lambda: leftovers(kubelet.folder, kubelet.network) == [], seconds=10)
    control_plane.api.delete("Node", "node-brief")


def test_a_kubelet_whose_starter_dies_leaves_nothing(control_plane: Cluster, cluster_namespace: str) -> None:
    node = unused_name("node")
    kubelet = Kubelet(control_plane.plane, [NodeSpec(node, taints=[PLAIN])])
    kubelet.let_go()
    wait_until("nothing is left", lambda: leftovers(kubelet.folder, kubelet.network) == [], seconds=10)
    kubelet.close()
    control_plane.api.delete("Node", node)


def test_two_planes_side_by_side(control_plane: Cluster, tmp_path: Path) -> None:
    other = ControlPlane(tmp_path / "plane")
    try:
        kubelet = Kubelet(other)
        try:
            other.api.create(bare_pod("default", "p", "true"))
            there = Cluster(other, kubelet)
            there.wait("Pod", "p", "default", lambda pod: pod["status"].get("phase") == "Succeeded")
            assert control_plane.api.get("Pod", "p") is None
        finally:
            kubelet.close()
    finally:
        other.close()
    assert leftovers(tmp_path, kubelet.network) == []
