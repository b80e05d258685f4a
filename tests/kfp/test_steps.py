"""Whole steps as processes: in a cluster, on the engine, with what KFP gives them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kfp.apiserver import ApiServer, Request
from trainer_ops.kfp.taskconfig import PATCH_MANAGER
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model import keys

pytestmark = [pytest.mark.kfp, pytest.mark.slow]

INPUTS: dict[str, Any] = {"runtime": "plain", "command": ["true"]}
WORKFLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "digits-x7", "uid": "w1"}
POD = {"metadata": {"name": "digits-x7-1", "uid": "p1", "ownerReferences": [{**WORKFLOW, "controller": True}]}}
ACCOUNT = "system:serviceaccount:kubeflow:pipeline-runner"


def denied(verb: str, resource: str, group: str = "") -> tuple[int, str]:
    what = f'cannot {verb} resource "{resource}" in API group "{group}" in the namespace "team-a"'
    return 403, f'{resource} is forbidden: User "{ACCOUNT}" {what}'


def submitted(cluster: ApiServer, step: Callable[..., Any], **inputs: Any) -> tuple[dict[str, Any], str]:
    one = step("submit_train_job", **INPUTS, **inputs)
    process = one.start_in(cluster, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    (job,) = cluster.jobs.values()
    return job, said


class TestInACluster:
    def test_the_target_is_the_cluster_around_the_pod(self, cluster: ApiServer, step: Callable[..., Any]) -> None:
        _, said = submitted(cluster, step)
        assert "created on kubernetes://in-cluster/team-a, attempt 1" in said

    def test_the_workflow_owns_the_training(self, cluster: ApiServer, step: Callable[..., Any]) -> None:
        cluster.pods["digits-x7-1"] = POD
        job, _ = submitted(cluster, step)
        assert job["metadata"]["ownerReferences"] == [{**WORKFLOW, "controller": False, "blockOwnerDeletion": False}]

    def test_who_may_not_read_pods_gets_a_note(self, cluster: ApiServer, step: Callable[..., Any]) -> None:
        cluster.refuse = lambda request: denied("get", "pods") if "/pods/" in request.path else None
        job, said = submitted(cluster, step)
        assert "ownerReferences" not in job["metadata"]
        assert "deleting the workflow will not delete the training: not allowed: reading pods" in said
        assert "trainer-ops rbac --namespace team-a --service-account kubeflow:pipeline-runner" in said

    def test_who_may_not_create_gets_the_role(self, cluster: ApiServer, step: Callable[..., Any]) -> None:
        def refuse(request: Request) -> tuple[int, str] | None:
            return denied("create", "trainjobs", keys.GROUP) if request.verb == "POST" else None

        cluster.refuse = refuse
        one = step("train_job", **INPUTS)
        process = one.start_in(cluster, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "Traceback" not in said
        *_, last = said.strip().splitlines()
        assert last.startswith(f"not allowed: creating trainjobs in namespace team-a as {ACCOUNT}. Missing is a Role")
        role = next(yaml.safe_load_all(said.partition("\n\n")[2].rpartition("\n\n")[0]))
        assert role["metadata"] == {"name": "trainer-ops", "namespace": "team-a"}
        assert not (one.folder / "output.json").exists()

    def test_what_is_set_on_the_task_is_the_training_s(self, cluster: ApiServer, step: Callable[..., Any]) -> None:
        config = {"resources": {"limits": {"cpu": "2"}}, "nodeSelector": {"pool": "gpu"}, "volumes": None}
        job, _ = submitted(cluster, step, task_config=config)
        assert job["spec"]["trainer"]["resourcesPerNode"] == {"limits": {"cpu": "2"}}
        (patch,) = job["spec"]["runtimePatches"]
        assert patch["manager"] == PATCH_MANAGER
        (row,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        assert row["template"]["spec"]["template"]["spec"] == {"nodeSelector": {"pool": "gpu"}}

    def test_a_wait_for_what_is_over(self, cluster: ApiServer, step: Callable[..., Any]) -> None:
        job, _ = submitted(cluster, step)
        cluster.finish(job["metadata"]["name"])
        waits = step("wait_train_job", task="b", name=job["metadata"]["name"])
        assert waits.start_in(cluster, stdout=subprocess.DEVNULL).wait(timeout=60) == 0
        assert waits.written["outcome"]["phase"] == "succeeded"
        assert waits.written["outcome"]["target"] == "kubernetes://in-cluster/team-a"

    def test_nothing_heavy_is_imported(self, cluster: ApiServer, step: Callable[..., Any]) -> None:
        heavy = "print(sorted({'kfp', 'kubernetes'} & set(sys.modules)))"
        patch = f"import atexit, sys\n@atexit.register\ndef told():\n    {heavy}\n"
        patch += "import pathlib; from trainer_ops.backends.kubernetes import access\n"
        patch += f"access._ACCOUNT = pathlib.Path({str(cluster.folder)!r})\n"
        one = step("submit_train_job", **INPUTS)
        process = one.start(patch, stdout=subprocess.PIPE, env={**os.environ, **cluster.env})
        assert process.communicate(timeout=60)[0].endswith("[]\n")


SCRIPT = """
import os, sys
path = os.environ["TRAINER_OPS_CHECKPOINT_DIR"]
os.makedirs(path, exist_ok=True)
with open(path + "/starts", "a") as file:
    file.write(os.environ["TRAINER_OPS_ATTEMPT"])
print("starts:", open(path + "/starts").read(), flush=True)
sys.exit(0 if os.environ["TRAINER_OPS_ATTEMPT"] == sys.argv[1] else 7)
"""
QUICK = "from trainer_ops.kfp import launch; launch._FIRST_PAUSE = launch._LONGEST_PAUSE = 0.05\n"


class TestRetries:
    def run(self, step: Callable[..., Any], engine: str, tmp_path: Path, good: int, **inputs: Any) -> Any:
        script = tmp_path / "train.py"
        script.write_text(SCRIPT)
        one = step(
            "train_job",
            runtime="plain",
            script_uri=str(script),
            args=[str(good)],
            checkpoint_dir=str(tmp_path / "checkpoints"),
            target=engine,
            **inputs,
        )
        process = one.start(QUICK, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=90)
        backend = open_backend(engine)
        attempts = [job["metadata"]["labels"][keys.LABEL_ATTEMPT] for job in backend.list()]
        backend.close()
        return process.returncode, out, err, attempts

    def test_the_next_attempt_has_the_checkpoint_folder_of_the_last(
        self, step: Callable[..., Any], engine: str, tmp_path: Path
    ) -> None:
        code, out, _, attempts = self.run(step, engine, tmp_path, 3, retries=2.0)
        assert code == 0, out
        assert attempts == ["1", "2", "3"]
        assert "starts: 123" in out
        assert "trying again in 0.05 s, 2 of 2 retries left" in out

    def test_when_all_are_used_up_it_has_failed(self, step: Callable[..., Any], engine: str, tmp_path: Path) -> None:
        code, _, err, attempts = self.run(step, engine, tmp_path, 9, retries=1)
        assert (code, attempts) == (1, ["1", "2"])
        assert "exit code 7" in err

    def test_none_are_the_default(self, step: Callable[..., Any], engine: str, tmp_path: Path) -> None:
        code, _, _, attempts = self.run(step, engine, tmp_path, 9)
        assert (code, attempts) == (1, ["1"])

    def test_a_step_started_again_has_them_anew(self, step: Callable[..., Any], engine: str, tmp_path: Path) -> None:
        assert self.run(step, engine, tmp_path, 4, retries=1)[3] == ["1", "2"]
        code, _, _, attempts = self.run(step, engine, tmp_path, 4, retries=1)
        assert (code, attempts) == (0, ["1", "2", "3", "4"])


def test_a_log_that_nobody_reads_ends_no_training(step: Callable[..., Any], engine: str) -> None:
    """KFP's launcher may die before the step, which then writes into a broken pipe."""
    read, write = os.pipe()
    command = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done"]
    one = step("train_job", runtime="plain", command=command, target=engine)
    process = one.start(stdout=write, stderr=write)
    os.close(write)
    os.read(read, 10)
    os.close(read)
    assert process.wait(timeout=60) == 0
    assert one.written["outcome"]["phase"] == "succeeded"


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        pytest.param({}, "Give ref, or name", id="neither"),
        pytest.param({"name": "a", "ref": {"name": "a"}}, "Give the output ref of submit_train_job", id="no ref"),
        pytest.param({"name": "absent"}, 'no TrainJob "absent"', id="not there"),
        pytest.param({"name": "a", "on_terminate": "stop"}, "neither delete nor keep", id="on_terminate"),
        pytest.param({"name": "a", "wait_timeout": 0}, "wait_timeout: 0 is not at least 1", id="a limit"),
    ],
)
def test_a_wait_that_cannot_be(step: Callable[..., Any], engine: str, inputs: dict[str, Any], says: str) -> None:
    process = step("wait_train_job", target=engine, **inputs).start(stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert says in said
    assert "Traceback" not in said


def test_a_wait_that_runs_out_leaves_the_training_alone(step: Callable[..., Any], engine: str) -> None:
    submit = step("submit_train_job", task="a", runtime="plain", command=["sleep", "60"], target=engine)
    assert submit.start(stdout=subprocess.DEVNULL).wait(timeout=60) == 0
    began = time.monotonic()
    wait = step("wait_train_job", task="b", ref=submit.written["ref"], wait_timeout=1.0)
    process = wait.start(stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "(deadline)" in said
    assert time.monotonic() - began < 60
    backend = open_backend(engine)
    (job,) = backend.list()
    backend.close()
    assert job["metadata"]["uid"] == submit.written["ref"]["uid"]
