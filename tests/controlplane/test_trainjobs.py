"""TrainJobs through Trainer, JobSet, the Job controller and the test kubelet, to their end."""

from __future__ import annotations

from pathlib import Path
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


# What Trainer's xgboost runtime gives its nodes; rank 0's pod is found by its name.
_TRACKER = """
import os, socket
names = ("DMLC_NUM_WORKER", "DMLC_TASK_ID", "DMLC_TRACKER_PORT")
print(*[os.environ[name] for name in names], socket.gethostbyname(os.environ["DMLC_TRACKER_URI"]))
"""


def test_xgboost_nodes_know_their_tracker(control_plane: Cluster, cluster_namespace: str) -> None:
    job = trainjob("xgb", cluster_namespace, _TRACKER, nodes=2, runtime="xgboost-distributed")
    control_plane.api.create(job)
    assert control_plane.ended("xgb", cluster_namespace) == "Complete"
    pods = sorted(control_plane.pods(cluster_namespace, "xgb"), key=lambda pod: str(pod["metadata"]["name"]))
    lines = [
        str(control_plane.api.call("GET", path_of("Pod", cluster_namespace, p["metadata"]["name"], "log")))
        for p in pods
    ]
    first, second = (line.split() for line in lines)
    assert [first[:2], second[:2]] == [["2", "0"], ["2", "1"]]
    assert first[2:] == second[2:] == [first[2], pods[0]["status"]["podIP"]]


def fetching_runtime() -> Any:
    """A runtime with a dataset initializer before the node, as torchtune's are."""

    def step(name: str, label: str, after: list[Any], command: list[str]) -> Any:
        mounts = [{"name": "initializer", "mountPath": "/workspace"}]
        container = {"name": name, "image": "registry.example/x:1", "volumeMounts": mounts}
        spec = {
            "containers": [{**container, **({"command": command} if command else {})}],
            "volumes": [{"name": "initializer", "persistentVolumeClaim": {"claimName": "initializer"}}],
        }
        labels = {"trainer.kubeflow.org/trainjob-ancestor-step": label}
        template = {"metadata": {"labels": labels}, "spec": {"template": {"spec": spec}}}
        return {"name": name, "template": template, **({"dependsOn": after} if after else {})}

    fetch = step("dataset-initializer", "dataset-initializer", [], [])
    train = step("node", "trainer", [{"name": "dataset-initializer", "status": "Complete"}], ["true"])
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "fetching", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": [fetch, train]}},
        },
    }


def test_a_dataset_is_fetched_before_the_training(
    control_plane: Cluster, cluster_namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "part").write_text("some data")
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": "initializer", "namespace": cluster_namespace}
    control_plane.api.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim})
    control_plane.api.create(fetching_runtime(), namespace=cluster_namespace)
    job = trainjob("fetch", cluster_namespace, "print(open('/workspace/dataset/part').read())")
    job["spec"]["runtimeRef"] = {"name": "fetching", "kind": "TrainingRuntime"}
    job["spec"]["initializer"] = {"dataset": {"storageUri": f"file://{tmp_path}"}}
    if control_plane.kubelet.mode == "plain":
        job["spec"]["trainer"]["command"] = ["cat", "/workspace/dataset/part"]
    control_plane.api.create(job)
    assert control_plane.ended("fetch", cluster_namespace) == "Complete"
    pods = {pod["spec"]["containers"][0]["name"]: pod for pod in control_plane.pods(cluster_namespace, "fetch")}
    path = path_of("Pod", cluster_namespace, pods["node"]["metadata"]["name"], "log")
    assert str(control_plane.api.call("GET", path)).strip() == "some data"


_RANKS = """
import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
print("rank", world.rank, "of", world.size, socket.gethostname(), "sum", world.allreduce(world.rank), flush=True)
"""


def test_mpi_ranks_on_launcher_and_node(control_plane: Cluster, cluster_namespace: str) -> None:
    pytest.importorskip("mpi4py")
    if control_plane.kubelet.mode == "plain":
        pytest.skip("mpirun reaches no other node where all are one machine")
    job = trainjob("mpi", cluster_namespace, "", nodes=2, runtime="deepspeed-distributed")
    job["spec"]["trainer"]["command"] = ["mpirun", "python3", "-c", _RANKS]
    control_plane.api.create(job)
    try:
        assert control_plane.ended("mpi", cluster_namespace) == "Complete"
    finally:
        logs = {}
        for pod in control_plane.pods(cluster_namespace, "mpi"):
            path = path_of("Pod", cluster_namespace, pod["metadata"]["name"], "log")
            logs[pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"]] = str(
                control_plane.api.call("GET", path)
            )
        print(logs)
    assert sorted(logs["launcher"].splitlines()) == [
        "rank 0 of 2 mpi-launcher-0-0 sum 1",
        "rank 1 of 2 mpi-node-0-0 sum 1",
    ]
