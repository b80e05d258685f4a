"""KFP's data steps in the real cluster: a snapshot on a claim, a training that reads it, what is left is cleaned up."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster
from tests.controlplane.kfpsteps import RUN_ID, Steps, allowed, steps
from tests.controlplane.plane import wait_until
from trainer_ops.model import keys

__all__ = ["allowed", "steps"]

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

# On the source's claim, imported by the Job's Python before anything else: it waits while a file is there.
HOLD = """
import os, time
while os.path.exists("/claims/raw/held"):
    time.sleep(0.05)
"""


@pytest.fixture
def raw(control_plane: Cluster, cluster_namespace: str) -> Path:
    """The folder of a claim ``raw`` with a dataset on it."""
    if control_plane.kubelet.mode == "plain":
        pytest.skip("it needs containers: what a Job mounts is at paths of its own")
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "raw"}, "spec": spec}
    control_plane.api.create(claim, namespace=cluster_namespace)
    folder = control_plane.kubelet.claim(cluster_namespace, "raw")
    (folder / "digits").mkdir(parents=True)
    (folder / "digits" / "train.csv").write_text("1\n2\n3\n")
    (folder / "sitecustomize.py").write_text(HOLD)
    return folder


def finished(process: subprocess.Popen[str], code: int = 0) -> str:
    out, err = process.communicate(timeout=200)
    assert process.returncode == code, f"{out}\n{err}"
    return f"{out}\n{err}"


def test_a_snapshot_as_an_artifact_is_what_the_training_reads(allowed: Steps, raw: Path) -> None:
    ask: dict[str, Any] = {"uri": "pvc://raw/digits", "to": "pvc://store/team", "storage": "1Gi"}
    finished(allowed.start("initialize_dataset", task="data", **ask))
    written = allowed.written("data")
    (artifact,) = written["artifacts"]["dataset"]["artifacts"]
    assert artifact["uri"] == written["parameterValues"]["snapshot"]["location"]
    assert artifact["uri"].startswith("pvc://store/team/")
    assert artifact["metadata"]["files"] == 1

    command = ["bash", "-c", "cat $TRAINER_OPS_DATASET_DIR/train.csv"]
    said = finished(
        allowed.start(
            "train_job", task="train", given={"dataset": artifact}, runtime="torch-distributed", command=command
        )
    )
    assert "[node-0] 3" in said
    (job,) = allowed.trainjobs()
    assert job["metadata"]["labels"][keys.LABEL_PIPELINE_RUN] == RUN_ID

    # Another task that asks for the same: a Job of its own, which finds the files there.
    finished(allowed.start("initialize_dataset", task="again", **ask))
    assert allowed.written("again")["parameterValues"]["snapshot"]["hit"] is True


def test_sigterm_deletes_the_snapshot_s_job(allowed: Steps, raw: Path) -> None:
    (raw / "held").touch()
    ask: dict[str, Any] = {"to": "pvc://store", "storage": "1Gi", "env": {"PYTHONPATH": "/claims/raw"}}
    step = allowed.start("initialize_dataset", uri="pvc://raw/digits", **ask)

    def phases() -> list[str]:
        return [p["status"].get("phase") for p in allowed.cluster.pods(allowed.namespace)]

    try:
        wait_until("its pod runs", lambda: phases() == ["Running"])
        assert step.stdout is not None
        step.stdout.close()
        step.send_signal(signal.SIGTERM)
        try:
            code = step.wait(timeout=0.7)
        except subprocess.TimeoutExpired:
            step.kill()
            code = step.wait()
        assert code == 143
        api = allowed.cluster.api
        wait_until("the Job is gone", lambda: not api.list("Job", namespace=allowed.namespace), seconds=30)
        wait_until("its pod is gone", lambda: phases() == [], seconds=60)
    finally:
        (raw / "held").unlink()
        step.kill()
        step.communicate()


def test_what_a_run_has_left_is_cleaned_up(allowed: Steps, control_plane: Cluster) -> None:
    for task in ("a", "b"):
        begun = allowed.start("submit_train_job", task=task, runtime="torch-distributed", command=["sleep", "600"])
        finished(begun)
    job = allowed.trainjobs()[0]
    other = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {"name": "of-another-run", "labels": {keys.LABEL_PIPELINE_RUN: "other"}},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "suspend": True},
    }
    control_plane.api.create(other, namespace=allowed.namespace)
    said = finished(allowed.start("cleanup_train_jobs", task="exit"))
    assert "trainings cleaned up: 2" in said
    assert {row["how"] for row in allowed.written("exit")["parameterValues"]["cleaned"]} == {"deleted"}
    wait_until(
        "the other one is left",
        lambda: [job["metadata"]["name"] for job in allowed.trainjobs()] == ["of-another-run"],
        seconds=60,
    )
    assert "nothing to clean up" in finished(allowed.start("cleanup_train_jobs", task="exit"))


def test_applying_a_runtime_takes_a_right_of_its_own(allowed: Steps) -> None:
    runtime = {"kind": "TrainingRuntime", "metadata": {"name": "own"}, "spec": RUNTIME_SPEC}
    said = finished(allowed.start("apply_runtime", task="r", runtime=runtime), code=1)
    assert "# applying them" in said
    assert "--runtimes" in said.strip().splitlines()[-1]


RUNTIME_SPEC = {
    "mlPolicy": {"numNodes": 1},
    "template": {
        "spec": {
            "replicatedJobs": [
                {
                    "name": "node",
                    "template": {
                        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                        "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "x"}]}}},
                    },
                }
            ]
        }
    },
}
