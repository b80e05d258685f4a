"""The operators that Trainer replaces: what they admit, and that several planes may have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.api import ApiError, path_of
from tests.controlplane.fixtures import Cluster, second_plane
from tests.controlplane.plane import wait_until
from tests.controlplane.v1ops import KINDS, V1Operators

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

CODE = {"PyTorchJob": "pytorch", "TFJob": "tensorflow", "XGBoostJob": "xgboost", "PaddleJob": "paddle", "JAXJob": "jax"}
MASTERS = ["PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob"]


def role(kind: str, name: str = "", replicas: int = 1) -> dict[str, Any]:
    container = {"name": name or CODE[kind], "image": "none.example/image", "command": ["train"]}
    return {"replicas": replicas, "template": {"spec": {"containers": [container]}}}


def refusal(cluster: Cluster, kind: str, roles: dict[str, Any], **policy: Any) -> str:
    """Why a job is not admitted, "" when it is."""
    spec = {KINDS[kind]: roles, "runPolicy": policy}
    job = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "asked"}, "spec": spec}
    try:
        cluster.api.call("POST", f"{path_of(kind)}?dryRun=All", job)
    except ApiError as error:
        return error.body
    return ""


@pytest.mark.parametrize("kind", KINDS)
class TestAdmission:
    def test_workers_of_any_number(self, kind: str, control_plane: Cluster, v1_operators: V1Operators) -> None:
        master = {"Master": role(kind)} if kind in MASTERS else {}
        assert refusal(control_plane, kind, {**master, "Worker": role(kind, replicas=3)}) == ""

    def test_a_master_is_needed(self, kind: str, control_plane: Cluster, v1_operators: V1Operators) -> None:
        found = refusal(control_plane, kind, {"Worker": role(kind)})
        assert ("must be present" in found) == (kind == "XGBoostJob")

    def test_two_masters(self, kind: str, control_plane: Cluster, v1_operators: V1Operators) -> None:
        found = refusal(control_plane, kind, {"Master": role(kind, replicas=2), "Worker": role(kind)})
        said = {"PyTorchJob": "must be 1", "XGBoostJob": "must be 1", "JAXJob": "supported values"}.get(kind, "")
        assert bool(found) == bool(said)
        assert said in found

    def test_other_spellings_of_roles(self, kind: str, control_plane: Cluster, v1_operators: V1Operators) -> None:
        """Only TFJobs may have them since the webhooks came: they stand in front of what sets the names right."""
        master = {"master": role(kind)} if kind in MASTERS else {}
        found = refusal(control_plane, kind, {**master, "worker": role(kind)})
        assert ("Unsupported value" in found) == (kind != "TFJob")

    def test_the_name_of_the_container(self, kind: str, control_plane: Cluster, v1_operators: V1Operators) -> None:
        found = refusal(control_plane, kind, {"Worker": role(kind, "main")})
        assert "must have at least one container with name" in found

    def test_managed_by(self, kind: str, control_plane: Cluster, v1_operators: V1Operators) -> None:
        found = refusal(control_plane, kind, {"Worker": role(kind)}, managedBy="somebody/else")
        assert ("spec.runPolicy.managedBy: Unsupported value" in found) == (kind != "JAXJob")


def test_on_two_planes_at_once(v1_operators: V1Operators) -> None:
    """Both programs have something fixed on a machine: a folder for certificates, a port."""
    with second_plane("second-plane-") as plane:
        job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "second"}}
        plane.api.create({**job, "spec": {"tfReplicaSpecs": {"Worker": role("TFJob", replicas=2)}}})
        wait_until("its pods", lambda: len(plane.api.list("Pod")) == 2)
    assert not Path("/tmp/k8s-webhook-server").exists()
