"""TrainJobs through Trainer, JobSet, the Job controller and the test kubelet, to their end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.api import path_of
from tests.controlplane.fixtures import Cluster

pytestmark = pytest.mark.cluster

# Rank 1 reports to rank 0 by its DNS name; each writes a termination message.
_TALK = """
import os, socket, time
rank, address = os.environ["PET_NODE_RANK"], (os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"]))
if rank == "0":
    with socket.create_server(("0.0.0.0", address[1])) as server:
        peer, _ = server.accept()
        print("heard", peer.recv(100).decode(), flush=True)
else:
    while True:
        try:
            peer = socket.create_connection(address, timeout=5)
            break
        except OSError:
            time.sleep(0.1)
    peer.sendall(b"one")
    print("said one", flush=True)
with open("/dev/termination-log", "w") as file:
    file.write("rank " + rank)
"""


def trainjob(name: str, namespace: str, code: str, *, nodes: int = 1, runtime: str = "torch-distributed") -> Any:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": nodes, "command": ["python3", "-c", code]}},
    }


def test_two_nodes_talk_by_name_and_leave_a_message(control_plane: Cluster, cluster_namespace: str) -> None:
    if control_plane.kubelet.mode == "plain":
        pytest.skip("a plain process has no /dev/termination-log of its own")
    control_plane.api.create(trainjob("two", cluster_namespace, _TALK, nodes=2))
    assert control_plane.ended("two", cluster_namespace) == "Complete"
    pods = sorted(control_plane.pods(cluster_namespace, "two"), key=lambda pod: str(pod["metadata"]["name"]))
    ends = [pod["status"]["containerStatuses"][0]["state"]["terminated"] for pod in pods]
    assert [(end["exitCode"], end["message"]) for end in ends] == [(0, "rank 0"), (0, "rank 1")]
    logs = [
        control_plane.api.call("GET", path_of("Pod", cluster_namespace, pod["metadata"]["name"], "log")) for pod in pods
    ]
    assert logs == ["heard one\n", "said one\n"]
