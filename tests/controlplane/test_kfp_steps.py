"""KFP steps in the real cluster, as a service account that has the printed Role and nothing else.

The steps are processes as KFP starts them, with a pod's service account; kfp itself is not needed for them.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster
from tests.controlplane.kfpsteps import POD, Steps, allowed, apply, steps
from tests.controlplane.plane import wait_until

__all__ = ["allowed", "steps"]

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

DIGITS = Path(__file__).parents[2] / "dags/scripts/train_digits.py"


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
