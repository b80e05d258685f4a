"""Rows of the decision table for which a controller has to stand still or a machine to go: not beside other tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster, unused_name
from tests.controlplane.paused_cases import JOBSET, NODE_LOST, STALLED, WITHOUT_JOBSET, WITHOUT_TRAINER
from tests.controlplane.scene_runtimes import make_runtimes
from tests.controlplane.scenes import Scene, check, play
from tests.controlplane.story import Movable
from trainer_ops.lifecycle.submit import submit
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model import keys
from trainer_ops.model.identity import RunKey
from trainer_ops.model.request import TrainRequest

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

HOOKS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")


@pytest.fixture(scope="module")
def namespace(control_plane: Cluster) -> Iterator[str]:
    name = control_plane.plane.namespace(unused_name("paused"))
    make_runtimes(control_plane, name)
    yield name
    control_plane.api.delete("Namespace", name)


@pytest.fixture(scope="module")
def without_jobset(control_plane: Cluster, namespace: str) -> dict[str, Scene]:
    plane = control_plane.plane
    JOBSET.pause, JOBSET.resume = (lambda: plane.pause("jobset")), (lambda: plane.resume("jobset"))
    try:
        return play(control_plane, namespace, WITHOUT_JOBSET)
    finally:
        plane.resume("jobset")


@pytest.mark.parametrize("case", WITHOUT_JOBSET)
def test_jobset_stands_still(without_jobset: dict[str, Scene], case: str) -> None:
    check(without_jobset[case])


@contextmanager
def trainer_hooks(cluster: Cluster) -> Iterator[list[tuple[str, str, Any]]]:
    """Trainer's webhooks (kind, name, hooks), to be changed; put back afterwards."""
    stored = [
        (kind, str(config["metadata"]["name"]), config["webhooks"])
        for kind in HOOKS
        for config in cluster.api.list(kind)
        if config["metadata"]["name"].startswith("trainer-")
    ]
    assert stored
    yield stored
    for kind, name, hooks in stored:
        cluster.api.delete(kind, name)
        config = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
        cluster.api.create({**config, "webhooks": hooks})


def test_trainer_stands_still(control_plane: Cluster, namespace: str) -> None:
    """Its webhook is taken away, as if the TrainJob had been made just before the controller went."""
    with trainer_hooks(control_plane) as stored:
        for kind, name, _ in stored:
            control_plane.api.delete(kind, name)
        control_plane.plane.pause("trainer")
        try:
            scenes = play(control_plane, namespace, WITHOUT_TRAINER)
        finally:
            control_plane.plane.resume("trainer")
    check(scenes["no-trainer"])


def test_create_is_tried_again_until_the_webhook_answers(control_plane: Cluster, namespace: str) -> None:
    plane, clock, pauses = control_plane.plane, Movable(), []

    def back() -> None:
        pauses.append(1)
        plane.resume("trainer")

    clock.on_pause = back
    backend = open_backend(f"kubernetes:///{namespace}?kubeconfig={control_plane.kubeconfig}")
    key = RunKey.of("test", {"namespace": namespace}, slug="hooked")
    request = TrainRequest(name="hooked", runtime="torch-distributed", command=["true"])
    with trainer_hooks(control_plane) as stored:
        for kind, name, hooks in stored:
            short = [{**hook, "timeoutSeconds": 1} for hook in hooks]
            control_plane.api.patch(kind, name, {"webhooks": short}, namespace="")
        plane.pause("trainer")
        try:
            submitted = submit(backend, request, key, clock=clock)
        finally:
            plane.resume("trainer")
    assert pauses, "it was never refused"
    assert (submitted.how, submitted.attempt) == ("created", 1)
    made = backend.list({keys.LABEL_RUN_KEY: key.digest})
    assert [job["metadata"]["uid"] for job in made] == [submitted.ref.uid]
    backend.delete(submitted.ref.name)
    backend.close()


def test_api_server_stands_still_for_a_while(control_plane: Cluster, namespace: str) -> None:
    check(play(control_plane, namespace, STALLED)["stalled"])


def test_node_is_lost(control_plane: Cluster, namespace: str) -> None:
    check(play(control_plane, namespace, NODE_LOST)["node-lost"])
