"""Real trainings through Trainer 2.3, JobSet and the Job controller, their pods run as processes of this machine."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trainer_ops
from tests.controlplane.fixtures import Cluster, unused_name
from tests.controlplane.manual import Hand
from tests.controlplane.plane import wait_until
from tests.controlplane.trainings import SSH_AGENT, Heard, fetching_runtime, mpi_runtime
from trainer_ops.cli import main

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

DIGITS = Path(__file__).parents[2] / "dags/scripts/train_digits.py"
LIMITS: dict[str, Any] = {"max_restarts": 0, "wait_timeout": 200}


@pytest.fixture
def runtime(control_plane: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A runtime of the test's own, made by the function that parametrizes it."""
    make, options = request.param
    name = unused_name("own")
    control_plane.api.create(make(name, **options))
    yield name
    control_plane.api.delete("ClusterTrainingRuntime", name)


def claim(cluster: Cluster, namespace: str, name: str) -> None:
    """A volume that all pods of a namespace share."""
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    obj = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
    cluster.api.create(obj, namespace=namespace)


def mounted(claim: str, path: str) -> dict[str, Any]:
    """A runtimePatches entry that mounts a claim into every node."""
    pod = {
        "volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}}],
        "containers": [{"name": "node", "volumeMounts": [{"name": claim, "mountPath": path}]}],
    }
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
    spec = {"template": {"spec": {"replicatedJobs": jobs}}}
    return {"manager": "tests.example/volumes", "trainingRuntimeSpec": spec}


def test_digits_train_as_well_as_on_the_engine(
    control_plane: Cluster, cluster_namespace: str, cluster_target: str, local_trainer: Any
) -> None:
    claim(control_plane, cluster_namespace, "models")
    asked: dict[str, Any] = {"runtime": "xgboost-distributed", "script": str(DIGITS), "num_nodes": 2, **LIMITS}
    asked["env"] = {"ROUNDS": 6}
    heard = Heard()
    there = trainer_ops.run(
        **asked,
        target=cluster_target,
        listener=heard,
        checkpoint_dir="/models",
        runtime_patches=[mounted("models", "/models")],
    )
    assert there.succeeded, f"{there.diagnosis}\n{heard.text()}"
    here = trainer_ops.run(**asked, target=local_trainer.target)
    assert here.succeeded, str(here.diagnosis)
    assert there.metrics == here.metrics
    assert there.metrics["accuracy"] > 0.9  # type: ignore[operator]
    assert {(node, line) for node, line in heard.lines if line.startswith("round  6")} == {
        (node, f"round  6  mlogloss {there.metrics['mlogloss']:.3f}") for node in ("node-0", "node-1")
    }
    # The model is where its URI says, in the volume that outlives the pods.
    assert there.model_uri is not None
    assert there.model_uri.startswith("file:///models/")
    volume = control_plane.kubelet.folder / "claims" / cluster_namespace / "models"
    assert (volume / there.model_uri.removeprefix("file:///models/")).stat().st_size > 1000


TORCH = """
import os
import torch
import torch.distributed as dist
from trainer_ops import report

dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
rank, world, node = dist.get_rank(), dist.get_world_size(), os.environ["GROUP_RANK"]
print(f"rank {rank} of {world} on node {node} sum {value.item():g}", flush=True)
report({"sum": value.item(), "world": world})
dist.destroy_process_group()
"""


def test_torchrun_on_two_nodes_of_two_processes(cluster_target: str, tmp_path: Path) -> None:
    found = shutil.which("torchrun", path="/usr/bin:/usr/local/bin")
    python = found and Path(found).with_name("python3")
    if not found or subprocess.run([str(python), "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip("PyTorch is not installed on this machine (Debian: python3-torch)")
    script = tmp_path / "train.py"
    script.write_text(TORCH)
    heard = Heard()
    outcome = trainer_ops.run(
        runtime="torch-distributed",
        script=str(script),
        num_nodes=2,
        num_proc_per_node=2,
        # What the image would say; and Debian's torchrun 1.13 needs the two others on Python 3.11.
        env={"PATH": f"{Path(found).parent}:/usr/bin:/bin", "PET_REDIRECTS": 1, "PET_TEE": 1},
        target=cluster_target,
        listener=heard,
        **LIMITS,
    )
    assert outcome.succeeded, f"{outcome.diagnosis}\n{heard.text()}"
    assert outcome.metrics == {"sum": 10.0, "world": 4.0}
    for rank in range(4):
        assert any(
            node == f"node-{rank // 2}" and line.endswith(f"rank {rank} of 4 on node {rank // 2} sum 10")
            for node, line in heard.lines
        ), heard.text()


MPI = """
import os
from mpi4py import MPI
import trainer_ops

world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
print(f"rank {world.rank} of {world.size} on {os.uname().nodename} sum {total}", flush=True)
trainer_ops.report({"sum": total, "world": world.size}, model_uri="file:///models/1")
"""
RUNTIMES = {
    "the launcher is a node": ((mpi_runtime, {"launcher_is_node": True}), ["launcher-0-0", "node-0-0", "node-0-1"]),
    "the launcher only starts": (
        (mpi_runtime, {"launcher_is_node": False}),
        ["node-0-0", "node-0-1", "node-0-2"],
    ),
}


@pytest.mark.parametrize(("runtime", "hosts"), RUNTIMES.values(), ids=RUNTIMES.keys(), indirect=["runtime"])
def test_mpi_over_ssh(
    runtime: str, hosts: list[str], control_plane: Cluster, cluster_namespace: str, cluster_target: str, tmp_path: Path
) -> None:
    if control_plane.kubelet.mode == "plain" or not Path("/usr/sbin/sshd").exists():
        pytest.skip("it needs containers and an sshd (Debian: openssh-server)")
    control_plane.api.create(SSH_AGENT, namespace=cluster_namespace)
    script = tmp_path / "hello.py"
    script.write_text(MPI)
    heard = Heard()
    outcome = trainer_ops.run(
        runtime=runtime, script=str(script), num_nodes=3, target=cluster_target, listener=heard, **LIMITS
    )
    assert outcome.succeeded, f"{outcome.diagnosis}\n{heard.text()}"
    # Rank 0 is on a node, whose pod is gone when the training is over: its report came through the launcher's.
    assert outcome.metrics == {"sum": 6.0, "world": 3.0}
    assert outcome.model_uri == "file:///models/1"
    ranks = [line for node, line in heard.lines if node == "launcher" and line.startswith("rank ")]
    assert sorted(line.split(" on ")[1].split()[0].removeprefix(f"{outcome.name}-") for line in ranks) == hosts
    assert any("Accepted publickey for root" in line for node, line in heard.lines if node == "node-0")


def test_mpi_on_the_shipped_runtime(control_plane: Cluster, cluster_target: str, tmp_path: Path) -> None:
    """Its image cannot run here: the test kubelet stands in for its ssh and sshd (``rshd``)."""
    if control_plane.kubelet.mode == "plain":
        pytest.skip("mpirun reaches no other node where all are one machine")
    script = tmp_path / "hello.py"
    script.write_text(MPI)
    heard = Heard()
    outcome = trainer_ops.run(
        runtime="deepspeed-distributed",
        script=str(script),
        num_nodes=2,
        num_proc_per_node=2,
        target=cluster_target,
        listener=heard,
        **LIMITS,
    )
    assert outcome.succeeded, f"{outcome.diagnosis}\n{heard.text()}"
    assert (outcome.metrics, outcome.model_uri) == ({"sum": 10.0, "world": 4.0}, "file:///models/1")


def count(data: str = "/workspace/dataset", model: str = "/workspace/model") -> dict[str, Any]:
    import os

    print("dataset:", sorted(os.listdir(data)), "at", os.environ["TRAINER_OPS_DATASET_DIR"], flush=True)
    with open(os.path.join(data, "train.csv")) as table, open(os.path.join(model, "weight")) as weight:
        rows, start = table.read().split(), float(weight.read())
    return {"metrics": {"mean": start + sum(map(float, rows)) / len(rows)}, "artifacts": {"rows": len(rows)}}


@pytest.mark.parametrize("runtime", [(fetching_runtime, {})], indirect=True, ids=["a claim at /workspace"])
def test_a_dataset_and_a_model_are_there_before_the_nodes(
    runtime: str, control_plane: Cluster, cluster_namespace: str, cluster_target: str, tmp_path: Path
) -> None:
    claim(control_plane, cluster_namespace, "fetched")
    for name, text in {"org/data/train.csv": "1\n2\n3\n", "bucket/base/weight": "10"}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    heard, hub = Heard(), {"TRAINER_OPS_TEST_HUB": str(tmp_path)}
    outcome = trainer_ops.run(
        runtime=runtime,
        python_callable=count,
        num_nodes=2,
        dataset={"storage_uri": "hf://org/data", "env": hub},
        model={"storage_uri": "s3://bucket/base", "env": hub},
        target=cluster_target,
        listener=heard,
        **LIMITS,
    )
    assert outcome.succeeded, f"{outcome.diagnosis}\n{heard.text()}"
    assert (outcome.metrics, outcome.artifacts) == ({"mean": 12.0}, {"rows": 3})
    said = {node: [line for who, line in heard.lines if who == node] for node in dict(heard.lines)}
    assert said["dataset-initializer"][-1] == "Dataset has been downloaded: 1 files"
    assert said["model-initializer"][-1] == "Model has been downloaded: 1 files"
    assert said["node-0"] == said["node-1"] == ["dataset: ['train.csv'] at /workspace/dataset"]


@pytest.mark.parametrize("runtime", [(fetching_runtime, {})], indirect=True, ids=["a claim at /workspace"])
def test_a_dataset_that_is_not_there(
    runtime: str, control_plane: Cluster, cluster_namespace: str, cluster_target: str, tmp_path: Path
) -> None:
    claim(control_plane, cluster_namespace, "fetched")
    outcome = trainer_ops.run(
        runtime=runtime,
        command=["true"],
        dataset={"storage_uri": "hf://org/none", "env": {"TRAINER_OPS_TEST_HUB": str(tmp_path)}},
        model={"storage_uri": "hf://org/none", "env": {"TRAINER_OPS_TEST_HUB": str(tmp_path)}},
        target=cluster_target,
        **LIMITS,
    )
    assert outcome.diagnosis is not None
    assert outcome.diagnosis.category.value == "initializer"
    assert "hf://org/none not found" in str(outcome.diagnosis)


def test_progress_is_followed_and_kept(control_plane: Cluster, cluster_namespace: str, cluster_target: str) -> None:
    """``trainerStatus`` by hand, through the status subresource as Trainer's progress server writes it."""
    hand, heard = Hand(control_plane, cluster_namespace), Heard()
    submitted = trainer_ops.submit(runtime="torch-distributed", command=["true"], target=cluster_target)
    outcomes: list[trainer_ops.Outcome] = []
    waiting = threading.Thread(
        target=lambda: outcomes.append(trainer_ops.wait(submitted.ref, target=cluster_target, listener=heard))
    )
    waiting.start()
    [pod] = hand.pods()
    hand.running(pod)
    for percent in (40, 90):
        status = {
            "progressPercentage": percent,
            "estimatedRemainingSeconds": 100 - percent,
            "metrics": [{"name": "loss", "value": f"0.{percent}"}],
            "lastUpdatedTime": f"2026-01-01T00:00:{percent // 2}Z",
        }
        control_plane.api.patch(
            "TrainJob",
            submitted.ref.name,
            {"status": {"trainerStatus": status}},
            namespace=cluster_namespace,
            sub="status",
        )
        wait_until(f"{percent} % is seen", lambda percent=percent: percent in heard.progress)  # type: ignore[misc]
    hand.ended(pod, 0)
    waiting.join(60)
    [outcome] = outcomes
    assert outcome.succeeded
    assert [point["percentage"] for point in outcome.progress] == [40, 90]
    assert outcome.metrics == {"loss": 0.9}  # nothing came through the termination message


def test_the_logs_of_all_nodes_afterwards(
    cluster_target: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "say.py"
    script.write_text("import os\nfor i in range(2): print('line', i, 'of', os.environ['DMLC_TASK_ID'], flush=True)\n")
    outcome = trainer_ops.run(
        runtime="xgboost-distributed", script=str(script), num_nodes=2, target=cluster_target, **LIMITS
    )
    assert outcome.succeeded, str(outcome.diagnosis)
    assert main(["logs", outcome.name, "--target", cluster_target]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == [f"[node-{n}] line {i} of {n}" for n in range(2) for i in range(2)]
    assert main(["logs", outcome.name, "--node", "1", "--target", cluster_target]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_python_callable_gets_its_arguments(cluster_target: str) -> None:
    outcome = trainer_ops.run(
        runtime="xgboost-distributed",
        python_callable=scaled,
        python_kwargs={"rate": 0.5, "names": ["a", "b"]},
        num_nodes=2,
        target=cluster_target,
        **LIMITS,
    )
    assert outcome.succeeded, str(outcome.diagnosis)
    assert outcome.metrics == {"a": 0.5, "b": 1.0, "world": 2.0}


def scaled(rate: float, names: list[str]) -> dict[str, Any]:
    import os

    assert os.getpid() != 1  # the launcher is process 1, and forwards signals
    found = {name: rate * (i + 1) for i, name in enumerate(names)}
    return {**found, "world": int(os.environ["DMLC_NUM_WORKER"])}
