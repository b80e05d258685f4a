"""KFP steps in the real cluster, as a service account that has the printed Role and nothing else.

The steps are processes as KFP starts them, with a pod's service account; kfp itself is not needed for them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.fixtures import Cluster
from tests.controlplane.plane import wait_until
from tests.controlplane.trainings import token_of

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

DIGITS = Path(__file__).parents[2] / "dags/scripts/train_digits.py"
ACCOUNT = "pipeline-runner"
POD = "digits-x7-1"
RUN = """
import pathlib, sys
from trainer_ops.backends.kubernetes import access
access._ACCOUNT = pathlib.Path(sys.argv[1])
from trainer_ops.kfp.executor import main
sys.exit(main(sys.argv[2:]))
"""


@dataclass
class Steps:
    """Starts steps in a namespace of a cluster."""

    cluster: Cluster
    namespace: str
    folder: Path
    pod_uid: str = ""

    def start(self, component: str, *, task: str = "5f0c", **inputs: Any) -> subprocess.Popen[str]:
        uri = f"minio://mlpipeline/v2/artifacts/p/run/{component}/{task}"
        artifacts = {
            name: {"artifacts": [{"name": name, "uri": f"{uri}/{name}", "customPath": str(self.folder / task / name)}]}
            for name in ("model", "metrics", "report", "trainjob")
        }
        outputs = {"artifacts": artifacts, "outputFile": str(self.folder / task / "output.json")}
        given = json.dumps({"inputs": {"parameterValues": inputs}, "outputs": outputs})
        argv = [sys.executable, "-c", RUN, str(self.folder / "account"), "--executor_input", given]
        env = {
            **{name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "TRAINER_OPS_TARGET")},
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.cluster.plane.port),
            "KFP_POD_NAME": POD,
            "KFP_POD_UID": self.pod_uid,
        }
        argv += ["--function_to_execute", component]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(argv, env=env, **pipes)

    def written(self, task: str = "5f0c") -> Any:
        return json.loads((self.folder / task / "output.json").read_text())

    def trainjobs(self) -> list[dict[str, Any]]:
        return self.cluster.api.list("TrainJob", namespace=self.namespace)


def apply(cluster: Cluster, text: str) -> list[tuple[str, str]]:
    made = []
    for raw in yaml.safe_load_all(text):
        cluster.api.create(raw, namespace=raw["metadata"].get("namespace") or "")
        made.append((raw["kind"], raw["metadata"]["name"]))
    return made


@pytest.fixture
def steps(control_plane: Cluster, cluster_namespace: str, tmp_path: Path) -> Steps:
    """A service account without any rights."""
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(token_of(control_plane, cluster_namespace, ACCOUNT))
    (account / "namespace").write_text(cluster_namespace)
    (account / "ca.crt").write_bytes(Path(control_plane.plane.file("ca.crt")).read_bytes())
    return Steps(control_plane, cluster_namespace, tmp_path)


@pytest.fixture
def allowed(control_plane: Cluster, cluster_namespace: str, steps: Steps, capsys: Any) -> Iterator[Steps]:
    """The same with what ``trainer-ops rbac`` prints."""
    from trainer_ops.cli.app import run

    assert run(["rbac", "--namespace", cluster_namespace, "--service-account", ACCOUNT]) == 0
    made = apply(control_plane, capsys.readouterr().out)
    yield steps
    for kind, name in made:
        if kind.startswith("Cluster"):
            control_plane.api.delete(kind, name, namespace="")


def test_a_403_prints_the_role_that_makes_it_work(steps: Steps, control_plane: Cluster) -> None:
    ask: dict[str, Any] = {"runtime": "torch-distributed", "command": ["true"]}
    refused = steps.start("submit_train_job", **ask)
    _, said = refused.communicate(timeout=60)
    assert refused.returncode == 1
    assert said.strip().splitlines()[-1].startswith("not allowed: ")
    made = apply(control_plane, said.partition("\n\n")[2].rpartition("\n\n")[0])
    again = steps.start("submit_train_job", **ask)
    _, said = again.communicate(timeout=60)
    assert again.returncode == 0, said
    assert len(steps.trainjobs()) == 1
    for kind, name in made:
        if kind.startswith("Cluster"):
            control_plane.api.delete(kind, name, namespace="")


def test_it_trains_on_two_nodes(allowed: Steps) -> None:
    config = {"resources": {"limits": {"cpu": "1"}}, "env": [{"name": "ROUNDS", "value": "4"}]}
    step = allowed.start(
        "train_job",
        runtime="xgboost-distributed",
        script_uri=str(DIGITS),
        num_nodes=2.0,
        checkpoint_dir="/tmp/checkpoints",
        max_restarts=0,
        wait_timeout=200,
        task_config=config,
    )
    out, err = step.communicate(timeout=240)
    assert step.returncode == 0, f"{out}\n{err}"
    assert "[node-1] round" in out
    written = allowed.written()
    outcome = written["parameterValues"]["outcome"]
    assert outcome["metrics"]["accuracy"] > 0.85
    (job,) = allowed.trainjobs()
    assert job["spec"]["trainer"]["resourcesPerNode"] == {"limits": {"cpu": "1"}}
    model = written["artifacts"]["model"]["artifacts"][0]["metadata"]
    assert (model["framework"], model["trainjob_uid"]) == ("xgboost", job["metadata"]["uid"])
    assert "accuracy" in (allowed.folder / "5f0c" / "report").read_text()


def test_sigterm_deletes_the_training_before_the_kill(allowed: Steps) -> None:
    step = allowed.start("train_job", runtime="torch-distributed", command=["sleep", "600"])
    try:
        wait_until(
            "it runs",
            lambda: any(p["status"].get("phase") == "Running" for p in allowed.cluster.pods(allowed.namespace)),
        )
        assert step.stdout is not None
        step.stdout.close()
        step.send_signal(signal.SIGTERM)
        try:
            code = step.wait(timeout=0.7)
        except subprocess.TimeoutExpired:
            step.kill()
            code = step.wait()
        assert code == 143
        wait_until("it is gone", lambda: not allowed.trainjobs(), seconds=30)
        wait_until("its pods are gone", lambda: not allowed.cluster.pods(allowed.namespace), seconds=60)
    finally:
        step.kill()
        step.communicate()


def test_two_starts_are_one_training(allowed: Steps) -> None:
    ask: dict[str, Any] = {"runtime": "torch-distributed", "command": ["sleep", "600"]}
    first = allowed.start("train_job", **ask)
    wait_until("it is there", lambda: len(allowed.trainjobs()) == 1)
    first.kill()
    first.communicate()
    second = allowed.start("train_job", **ask)
    assert second.stdout is not None
    assert "adopted on kubernetes://in-cluster/" in second.stdout.readline()
    second.kill()
    second.communicate()
    assert len(allowed.trainjobs()) == 1


@pytest.fixture
def workflow(control_plane: Cluster, cluster_namespace: str) -> Iterator[Callable[[], dict[str, Any]]]:
    """Argo's kind with one Workflow, and the pod of a step that it owns; gives what deletes the Workflow."""
    api, group = control_plane.api, "argoproj.io"
    names = {"plural": "workflows", "singular": "workflow", "kind": "Workflow", "listKind": "WorkflowList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"workflows.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}],
        },
    }
    api.create(crd, namespace="")
    path = f"/apis/{group}/v1alpha1/namespaces/{cluster_namespace}/workflows"

    def made() -> dict[str, Any] | None:
        from tests.controlplane.api import ApiError

        body = {"apiVersion": f"{group}/v1alpha1", "kind": "Workflow", "metadata": {"name": "digits-x7"}}
        try:
            found: dict[str, Any] = api.call("POST", path, body)
        except ApiError:
            return None
        return found

    found: list[dict[str, Any]] = []

    def served() -> bool:
        one = made()
        found.extend([one] if one is not None else [])
        return one is not None

    wait_until("the kind is served", served)
    meta = found[0]["metadata"]
    owner = {"apiVersion": f"{group}/v1alpha1", "kind": "Workflow", "name": meta["name"], "uid": meta["uid"]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD, "ownerReferences": [{**owner, "controller": True}]},
        # A gate: it is not to run, only to be there.
        "spec": {"schedulingGates": [{"name": "tests/never"}], "containers": [{"name": "main", "image": "none"}]},
    }
    api.create(pod, namespace=cluster_namespace)
    yield lambda: api.call("DELETE", f"{path}/{meta['name']}")
    api.delete("CustomResourceDefinition", f"workflows.{group}", namespace="")


def test_a_training_goes_with_its_workflow(
    allowed: Steps, control_plane: Cluster, workflow: Callable[[], dict[str, Any]]
) -> None:
    allowed.pod_uid = control_plane.api.get("Pod", POD, namespace=allowed.namespace)["metadata"]["uid"]
    step = allowed.start("submit_train_job", runtime="torch-distributed", command=["sleep", "600"])
    _, said = step.communicate(timeout=60)
    assert step.returncode == 0, said
    (job,) = allowed.trainjobs()
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Workflow", "digits-x7", False)
    # The garbage collector learns of a new kind within half a minute, and must not take the training meanwhile.
    time.sleep(1.0)
    assert len(allowed.trainjobs()) == 1
    workflow()
    wait_until("it is collected", lambda: not allowed.trainjobs(), seconds=120)
