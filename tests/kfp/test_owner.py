"""Whose the training is: the Workflow of this very pod, or nobody's."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.build.manifest import build
from trainer_ops.errors import BackendError, Forbidden, Unreachable
from trainer_ops.kfp.owner import workflow_of
from trainer_ops.model.identity import RunKey
from trainer_ops.model.request import TrainRequest

pytestmark = pytest.mark.kfp

WORKFLOW = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "name": "digits-x7",
    "uid": "w1",
    "controller": True,
    "blockOwnerDeletion": True,
}
ENVIRON = {"KFP_POD_NAME": "digits-x7-1", "KFP_POD_UID": "p1"}


class Cluster:
    def __init__(self, found: dict[str, Any] | BackendError | None) -> None:
        self.found = found

    def pod(self, name: str) -> dict[str, Any] | None:
        assert name == "digits-x7-1"
        if isinstance(self.found, BackendError):
            raise self.found
        return self.found


def pod(uid: str = "p1", *owners: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "digits-x7-1", "uid": uid, "ownerReferences": list(owners)}}


def test_the_workflow_of_this_pod() -> None:
    backend: Any = Cluster(pod("p1", WORKFLOW))
    owner = workflow_of(backend, pytest.fail, ENVIRON)
    assert owner == {**WORKFLOW, "controller": False, "blockOwnerDeletion": False}


@pytest.mark.parametrize(
    ("backend", "environ"),
    [
        pytest.param(Cluster(pod("p1", WORKFLOW)), {}, id="no step of KFP"),
        pytest.param(Cluster(None), ENVIRON, id="the training is in another namespace"),
        pytest.param(Cluster(pod("p2", WORKFLOW)), ENVIRON, id="a pod of that name in another cluster"),
        pytest.param(Cluster(pod("p1")), ENVIRON, id="nobody's pod"),
        pytest.param(Cluster(pod("p1", {**WORKFLOW, "kind": "Job"})), ENVIRON, id="of something else"),
        pytest.param(object(), ENVIRON, id="a target without pods of KFP"),
    ],
)
def test_nobody(backend: Any, environ: dict[str, str]) -> None:
    assert workflow_of(backend, pytest.fail, environ) is None


@pytest.mark.parametrize("error", [Forbidden("not allowed: reading pods", status=403), Unreachable("away")])
def test_what_cannot_be_read_is_a_note(error: BackendError) -> None:
    notes: list[str] = []
    backend: Any = Cluster(error)
    assert workflow_of(backend, notes.append, ENVIRON) is None
    assert notes == [f"deleting the workflow will not delete the training: {error}"]


def test_it_is_the_training_s_owner_and_no_part_of_what_is_trained() -> None:
    key = RunKey.of("kfp", {"output": "x"})
    for request in (
        TrainRequest(runtime="plain", command=["true"]),
        TrainRequest(manifest={"spec": {"runtimeRef": {"name": "plain"}}}),
    ):
        owned = build(request, key, 1, runtime=None, version="0", owner={"uid": "w1"})
        free = build(request, key, 1, runtime=None, version="0")
        assert owned.manifest["metadata"].pop("ownerReferences") == [{"uid": "w1"}]
        assert owned == free
