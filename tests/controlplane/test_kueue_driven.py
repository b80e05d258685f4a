"""Queues without Kueue: its Workloads are written by hand, and come out in words through the API server and the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.api import path_of
from tests.controlplane.build import kueue_crds
from tests.controlplane.fixtures import Cluster
from tests.controlplane.kueue_hand import MORE_NEEDED, PREEMPTED, Hand
from tests.controlplane.kueue_jobs import ENDLESS, Jobs
from tests.controlplane.kueue_waits import Waiting
from tests.controlplane.plane import wait_until
from trainer_ops.backends.kubernetes.hub import end_idle
from trainer_ops.model.outcome import Category
from trainer_ops.model.phase import Phase

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

Q, RUNNING, SUCCEEDED = Phase.QUEUED, Phase.RUNNING, Phase.SUCCEEDED
TWO_HOURS = 7200.0
CRD = "workloads.kueue.x-k8s.io"
CRDS = path_of("CustomResourceDefinition")
WAITING = "waiting for quota: 200m cpu more needed in flavor default-flavor (Kueue, queue lq)"


@pytest.fixture
def jobs(control_plane: Cluster, cluster_namespace: str, tmp_path: Path) -> Jobs:
    return Jobs(control_plane, cluster_namespace, tmp_path)


@pytest.fixture(scope="module", params=["v1beta2"])
def version(request: pytest.FixtureRequest, control_plane: Cluster) -> Iterator[str]:
    """Serve Workloads in this version alone; afterwards not at all, as most clusters."""
    (file,) = (path for path in kueue_crds() if path.stem.endswith("_workloads"))
    crd = yaml.safe_load(file.read_text())
    for served in crd["spec"]["versions"]:
        served["served"] = served["storage"] = served["name"] == request.param
    control_plane.api.create(crd)
    where = f"/apis/kueue.x-k8s.io/{request.param}/workloads"
    wait_until("Workloads are served", lambda: bool(control_plane.api.call("GET", where)))
    yield request.param
    assert end_idle()
    control_plane.api.delete("CustomResourceDefinition", CRD)
    control_plane.wait("CustomResourceDefinition", CRD, "", lambda found: found is None)


@pytest.fixture
def submit(jobs: Jobs, version: str) -> Callable[..., tuple[Any, Hand]]:
    """Submit as Kueue's webhook leaves a TrainJob: suspended, with a Workload."""

    def submit(name: str, **fields: Any) -> tuple[Any, Hand]:
        ref = jobs.submit(name, suspend=True, **fields).ref
        return ref, Hand(jobs.cluster.api, ref, version=version)

    return submit


Submit = Callable[..., tuple[Any, Hand]]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"], indirect=True, scope="module")
def test_queued_then_admitted_and_trained(submit: Submit) -> None:
    ref, kueue = submit("one", startup_timeout=300, max_restarts=0)
    with Waiting(ref) as waiting:
        waiting.state(Q, "waiting to be looked at (Kueue, queue lq)")
        kueue.pend(MORE_NEEDED)
        assert waiting.state(Q, "quota").detail == WAITING
        # Time in the queue is not time of a slow start.
        waiting.put_forward(TWO_HOURS)
        kueue.admit()
        outcome = waiting.outcome()
    assert (outcome.phase, outcome.metrics) == (SUCCEEDED, {"accuracy": 0.97})
    assert waiting.phases.count(Q) == 1
    assert not {Phase.SUSPENDED, Phase.BLOCKED} & set(waiting.phases)


def test_preempted_then_readmitted_and_trained(submit: Submit, jobs: Jobs) -> None:
    ref, kueue = submit("low", pace=ENDLESS, startup_timeout=300, max_restarts=0)
    with Waiting(ref) as waiting:
        waiting.state(Q)
        kueue.admit()
        waiting.state(RUNNING)
        jobs.set_pace("low", 0)
        kueue.evict("Preempted", PREEMPTED)
        assert waiting.state(Q, "preempted").reason == "Preempted"
        kueue.complain()
        wait_until("its pods are gone", lambda: not jobs.cluster.pods(jobs.namespace, ref.name))
        waiting.state(Q, "preempted; its nodes are being stopped")
        kueue.requeue(MORE_NEEDED)
        assert waiting.state(Q, "quota").detail == f"preempted; {WAITING}"
        waiting.put_forward(TWO_HOURS)
        kueue.admit()
        outcome = waiting.outcome()
    assert (outcome.phase, outcome.attempt) == (SUCCEEDED, 1)
    assert not {Phase.SUSPENDED, Phase.BLOCKED, Phase.FAILING} & set(waiting.phases)


NEVER = (
    "couldn't assign flavors to pod set node: insufficient quota for cpu in flavor default-flavor, previously "
    "considered podsets requests (0) + current podset request (2) > maximum capacity (1)"
)
LACKS = "couldn't assign flavors to pod set node: resource memory unavailable in ClusterQueue"
ENDS: dict[str, tuple[str, str, Category, str]] = {
    "full": (MORE_NEEDED, "Pending", Category.QUEUED_TOO_LONG, WAITING),
    "too big": (NEVER, "Pending", Category.QUOTA, "asks for 2 cpu, flavor default-flavor has at most 1"),
    "a resource that the queue lacks": (LACKS, "Pending", Category.QUOTA, "the ClusterQueue has no quota for memory"),
    "no such queue": (
        "LocalQueue lq doesn't exist", "Inadmissible", Category.QUEUED_TOO_LONG, "LocalQueue lq does not exist",
    ),
    "closed": (
        "ClusterQueue cq is inactive", "Inadmissible", Category.QUEUED_TOO_LONG, "ClusterQueue cq is inactive",
    ),
}  # fmt: skip


def test_queue_timeout_ends_each_with_its_words_and_leaves_it_alone(submit: Submit, jobs: Jobs) -> None:
    for name, (message, reason, category, words) in ENDS.items():
        ref, kueue = submit(name.replace(" ", "-"), queue_timeout=3600)
        kueue.pend(message, reason)
        with Waiting(ref) as waiting:
            waiting.state(Q, words)
            waiting.put_forward(TWO_HOURS)
            outcome = waiting.outcome()
        assert outcome.phase is Q, name
        assert outcome.diagnosis is not None
        assert outcome.diagnosis.category is category, name
        assert words in outcome.diagnosis.summary
        assert "left alone" in outcome.diagnosis.summary
        assert message in outcome.diagnosis.evidence
        raw = jobs.trainjob(ref.name)
        assert raw is not None
        assert "deletionTimestamp" not in raw["metadata"]


def test_a_deactivated_workload_is_a_pause(submit: Submit, jobs: Jobs) -> None:
    ref, kueue = submit("paused", pace=ENDLESS, max_restarts=0)
    kueue.admit()
    with Waiting(ref) as waiting:
        waiting.state(RUNNING)
        jobs.set_pace("paused", 0)
        kueue.set_active(False)
        kueue.evict("Deactivated", "The workload is deactivated")
        state = waiting.state(Q, "deactivated")
        assert (state.reason, state.detail) == ("Deactivated", "paused: its workload is deactivated (Kueue, queue lq)")
        kueue.requeue("The workload is deactivated")
        wait_until("its pods are gone", lambda: not jobs.cluster.pods(jobs.namespace, ref.name))
        kueue.set_active(True)
        assert waiting.state(Q, "looked at").reason == "Pending"
        kueue.admit()
        assert waiting.outcome().phase is SUCCEEDED


def test_a_queue_label_alone_is_a_queue(jobs: Jobs) -> None:
    """Kueue is not there, or its Workload has not been made yet: the label says what it waits for."""
    ref = jobs.submit("alone", suspend=True).ref
    with Waiting(ref) as waiting:
        assert waiting.state(Q).detail == "waiting in queue lq (Kueue)"
    assert end_idle()
