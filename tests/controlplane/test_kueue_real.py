"""Trainings in queues of a real Kueue, from the public API's side: what is said while they wait, and how waits end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import trainer_ops
from tests.controlplane.fixtures import NODES, Cluster, leftovers, unused_name
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.kueue import ABSENT, Kueue, Queue, unavailable
from tests.controlplane.kueue_jobs import ENDLESS, Jobs
from tests.controlplane.kueue_waits import Waiting
from tests.controlplane.plane import ControlPlane, wait_until
from trainer_ops.backends.kubernetes.hub import end_idle
from trainer_ops.model.outcome import Category, Outcome
from trainer_ops.model.phase import Phase

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(300)]

Q, RUNNING, SUCCEEDED = Phase.QUEUED, Phase.RUNNING, Phase.SUCCEEDED
TWO_HOURS = 7200.0


@pytest.fixture(scope="module")
def with_kueue() -> Iterator[tuple[Cluster, Kueue]]:
    """A control plane of its own: Kueue's webhooks touch every TrainJob."""
    why = unavailable()
    if why:
        pytest.skip(f"Kueue {why}")
    root = Path(tempfile.mkdtemp(prefix="kueue-"))
    plane = ControlPlane(root / "plane")
    try:
        cluster = Cluster(plane, Kubelet(plane, NODES))
        try:
            kueue = Kueue(plane)
            yield cluster, kueue
            assert end_idle()
            kueue.close()
        finally:
            cluster.kubelet.close()
    finally:
        plane.close()
    left = leftovers(root, cluster.kubelet.network)
    shutil.rmtree(root, ignore_errors=True)
    assert not left, "left behind:\n" + "\n".join(left)


@dataclass
class Bench:
    """A namespace with a queue of one CPU."""

    jobs: Jobs
    queue: Queue

    def running(self, name: str, **fields: Any) -> Any:
        """Submit an endless training and wait until it trains."""
        submitted = self.jobs.submit(name, pace=ENDLESS, **fields)
        with Waiting(submitted.ref) as waiting:
            waiting.state(RUNNING)
        return submitted.ref

    def set_active(self, name: str, active: bool) -> None:
        """Pause or go on with a training as Kueue means it."""
        workload = self.jobs.workload(name)
        assert workload is not None
        api, namespace = self.jobs.cluster.api, self.jobs.namespace
        api.patch("Workload", workload["metadata"]["name"], {"spec": {"active": active}}, namespace=namespace)


@pytest.fixture
def bench(with_kueue: tuple[Cluster, Kueue], tmp_path: Path) -> Iterator[Bench]:
    cluster, kueue = with_kueue
    namespace = cluster.plane.namespace(unused_name("queue"))
    yield Bench(Jobs(cluster, namespace, tmp_path), kueue.queue(namespace))
    for raw in cluster.api.list("TrainJob", namespace=namespace):
        cluster.api.delete("TrainJob", raw["metadata"]["name"], namespace=namespace)
    cluster.api.delete("Namespace", namespace)


def trained(outcome: Outcome) -> bool:
    return outcome.phase is SUCCEEDED and outcome.metrics == {"accuracy": 0.97}


def test_queued_behind_another_then_admitted_and_trained(bench: Bench) -> None:
    first = bench.running("first")
    second = bench.jobs.submit("second", startup_timeout=300, max_restarts=0).ref
    with Waiting(second) as waiting:
        state = waiting.state(Q, "waiting for quota")
        assert state.detail == "waiting for quota: 600m cpu more needed in flavor default-flavor (Kueue, queue lq)"
        # Time in the queue is not time of a slow start.
        waiting.put_forward(TWO_HOURS)
        trainer_ops.cancel(first)
        assert trained(waiting.outcome())
    assert waiting.phases.count(Q) == 1
    assert not {Phase.SUSPENDED, Phase.BLOCKED} & set(waiting.phases)


def test_preempted_by_a_higher_class_then_readmitted_and_trained(bench: Bench) -> None:
    # No restart is allowed: that Kueue stops its pods must not count as one.
    low = bench.jobs.submit("low", pace=ENDLESS, priority_class="low", startup_timeout=300, max_restarts=0).ref
    with Waiting(low) as waiting:
        waiting.state(RUNNING)
        high = bench.running("high", priority_class="high")
        state = waiting.state(Q, "waiting for quota")
        assert state.reason == "Preempted"
        assert state.detail == (
            "preempted; waiting for quota: 600m cpu more needed in flavor default-flavor (Kueue, queue lq)"
        )
        waiting.put_forward(TWO_HOURS)
        bench.jobs.set_pace("low", 0)
        trainer_ops.cancel(high)
        outcome = waiting.outcome()
    assert trained(outcome)
    assert outcome.attempt == 1
    assert not {Phase.SUSPENDED, Phase.BLOCKED, Phase.FAILING} & set(waiting.phases)
    # The controller's complaint at every eviction was there, and was not taken for a reason to be blocked.
    events = bench.jobs.cluster.api.list("Event", namespace=bench.jobs.namespace)
    told = [e for e in events if e["involvedObject"]["name"] == low.name]
    assert "TrainJobResourcesCreationFailed" in {e["reason"] for e in told}


NEVER = {
    "more than the queue has": (
        {"cpu": "2"},
        "can never be admitted: asks for 2 cpu, flavor default-flavor has at most 1 (Kueue, queue lq)",
    ),
    "all nodes together count": (
        {"num_nodes": 2},
        "can never be admitted: asks for 1600m cpu, flavor default-flavor has at most 1 (Kueue, queue lq)",
    ),
    "a resource that the queue lacks": (
        {"resources_per_node": {"cpu": "100m", "memory": "64Mi"}},
        "can never be admitted: the ClusterQueue has no quota for memory (Kueue, queue lq)",
    ),
}


@pytest.mark.parametrize(("fields", "detail"), NEVER.values(), ids=NEVER.keys())
def test_what_the_queue_can_never_give_is_a_matter_of_quota(bench: Bench, fields: Any, detail: str) -> None:
    ref = bench.jobs.submit("big", queue_timeout=3600, **fields).ref
    with Waiting(ref) as waiting:
        assert waiting.state(Q, "can never").detail == detail
        waiting.put_forward(TWO_HOURS)
        outcome = waiting.outcome()
    assert outcome.phase is Q
    assert outcome.diagnosis is not None
    assert outcome.diagnosis.category is Category.QUOTA
    assert "asks for more than its queue can ever give" in outcome.diagnosis.summary
    assert "left alone" in outcome.diagnosis.summary
    raw = bench.jobs.trainjob(ref.name)
    assert raw is not None
    assert "deletionTimestamp" not in raw["metadata"]


def test_a_queue_that_is_not_there(bench: Bench) -> None:
    ref = bench.jobs.submit("lost", queue=ABSENT, queue_timeout=3600).ref
    with Waiting(ref) as waiting:
        state = waiting.state(Q, "does not exist")
        assert (state.reason, state.detail) == (
            "Inadmissible",
            "LocalQueue absent does not exist (Kueue, queue absent)",
        )
        waiting.put_forward(TWO_HOURS)
        outcome = waiting.outcome()
    assert outcome.diagnosis is not None
    assert outcome.diagnosis.category is Category.QUEUED_TOO_LONG
    assert "LocalQueue" in outcome.diagnosis.remedy


def test_a_queue_that_takes_no_more_says_so(bench: Bench) -> None:
    bench.queue.stop("Hold")
    ref = bench.jobs.submit("held").ref
    with Waiting(ref) as waiting:
        assert waiting.state(Q, "inactive").reason == "Inadmissible"
        bench.queue.stop("None")
        assert trained(waiting.outcome())


def test_a_queue_that_is_drained_stops_its_trainings_and_readmits_them(bench: Bench) -> None:
    ref = bench.jobs.submit("drained", pace=ENDLESS, max_restarts=0).ref
    with Waiting(ref) as waiting:
        waiting.state(RUNNING)
        bench.jobs.set_pace("drained", 0)
        bench.queue.stop("HoldAndDrain")
        waiting.state(Q, "stopped with its ClusterQueue")
        bench.queue.stop("None")
        assert trained(waiting.outcome())


def test_a_full_queue_gives_up_waiting_and_leaves_the_training_alone(bench: Bench) -> None:
    first = bench.running("first")
    ref = bench.jobs.submit("patient", queue_timeout=3600).ref
    with Waiting(ref) as waiting:
        waiting.state(Q, "waiting for quota")
        waiting.put_forward(TWO_HOURS)
        outcome = waiting.outcome()
    assert outcome.phase is Q
    assert outcome.diagnosis is not None
    assert outcome.diagnosis.category is Category.QUEUED_TOO_LONG
    assert "queue_timeout=1:00:00" in outcome.diagnosis.summary
    assert "left alone" in outcome.diagnosis.summary
    assert any("insufficient unused quota" in line for line in outcome.diagnosis.evidence)
    trainer_ops.cancel(first)
    with Waiting(ref) as again:
        assert trained(again.outcome())


def test_a_deactivated_workload_is_a_pause(bench: Bench) -> None:
    ref = bench.jobs.submit("paused", pace=ENDLESS, max_restarts=0).ref
    with Waiting(ref) as waiting:
        waiting.state(RUNNING)
        bench.jobs.set_pace("paused", 0)
        bench.set_active(ref.name, active=False)
        state = waiting.state(Q, "deactivated")
        assert (state.reason, state.detail) == ("Deactivated", "paused: its workload is deactivated (Kueue, queue lq)")
        bench.set_active(ref.name, active=True)
        assert trained(waiting.outcome())
    assert Phase.FAILING not in waiting.phases


def test_what_has_used_up_its_time_is_stopped_for_good(bench: Bench) -> None:
    limit = {"kueue.x-k8s.io/max-exec-time-seconds": "1"}
    ref = bench.jobs.submit("long", pace=ENDLESS, labels=limit, queue_timeout=3600, max_restarts=0).ref
    with Waiting(ref) as waiting:
        state = waiting.state(Q, "for good")
        assert state.detail == "stopped by Kueue for good: exceeding the maximum execution time (Kueue, queue lq)"
        waiting.put_forward(TWO_HOURS)
        outcome = waiting.outcome()
    assert outcome.diagnosis is not None
    assert outcome.diagnosis.category is Category.QUEUED_TOO_LONG
    assert "will not run by itself" in outcome.diagnosis.summary
    assert "Raise the limit" in outcome.diagnosis.remedy


def test_suspending_by_hand_is_undone_by_kueue_and_restarts_the_training(bench: Bench) -> None:
    ref = bench.jobs.submit("pushed", pace=ENDLESS, max_restarts=0).ref
    with Waiting(ref) as waiting:
        waiting.state(RUNNING)
        bench.jobs.set_pace("pushed", 0)
        trainer_ops.cancel(ref, policy="suspend")
        assert trained(waiting.outcome())
    assert Phase.FAILING not in waiting.phases


def test_resuming_by_hand_does_not_jump_the_queue(bench: Bench) -> None:
    first = bench.running("first")
    ref = bench.jobs.submit("eager", pace=ENDLESS, max_restarts=0).ref
    api, namespace = bench.jobs.cluster.api, bench.jobs.namespace
    with Waiting(ref) as waiting:
        waiting.state(Q, "waiting for quota")
        api.patch("TrainJob", ref.name, {"spec": {"suspend": False}}, namespace=namespace)
        wait_until("Kueue suspends it again", lambda: (bench.jobs.trainjob(ref.name) or {})["spec"]["suspend"] is True)
        waiting.state(Q, "waiting for quota")
        bench.jobs.set_pace("eager", 0)
        trainer_ops.cancel(first)
        assert trained(waiting.outcome())


def test_deleting_a_training_removes_its_workload(bench: Bench) -> None:
    admitted = bench.running("admitted")
    queued = bench.jobs.submit("queued").ref
    with Waiting(queued) as waiting:
        waiting.state(Q, "waiting for quota")
    for ref in (queued, admitted):
        trainer_ops.cancel(ref)
        wait_until(f"the Workload of {ref.name} is gone", lambda ref=ref: bench.jobs.workload(ref.name) is None)  # type: ignore[misc]
