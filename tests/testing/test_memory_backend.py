from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.errors import Forbidden, InvalidRequest, NotFound, Unreachable
from trainer_ops.model import keys
from trainer_ops.status.classify import classify
from trainer_ops.testing import MemoryBackend, Training, VirtualClock

Change = Callable[[Training], object]


@pytest.fixture
def memory() -> MemoryBackend:
    return MemoryBackend()


def manifest(name: str = "digits", **spec: Any) -> dict[str, Any]:
    trainer = {"numNodes": 2, **spec.pop("trainer", {})}
    return {
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, **spec},
    }


def state(memory: MemoryBackend, name: str = "digits") -> Any:
    return classify(memory.observe(name, now=memory.clock.now()))


class TestVerbs:
    """Each verb leaves what ``classify`` reads as the cluster's own."""

    @pytest.mark.parametrize(
        ("changes", "phase", "detail"),
        [
            ([], "submitted", "waiting for the controller"),
            ([Training.queued], "queued", "insufficient unused quota"),
            ([Training.queued, Training.pending], "pending", ""),
            ([lambda t: t.blocked("quota exceeded")], "blocked", "quota exceeded"),
            ([Training.pending], "pending", ""),
            ([Training.unschedulable], "pending", "Insufficient nvidia.com/gpu"),
            ([lambda t: t.image_pull_error(node=1)], "pending", "node-1"),
            ([Training.running], "running", ""),
            ([Training.running, lambda t: t.crash(0, 3)], "failing", ""),
            ([Training.running, lambda t: t.restart(0, 3)], "running", ""),
            ([Training.running, lambda t: t.restart(0, 3), lambda t: t.crash(0, 3)], "restarting", ""),
            ([Training.running, Training.restart_all], "running", ""),
            ([Training.running, Training.complete], "succeeded", ""),
            ([Training.complete], "succeeded", ""),
            ([Training.running, Training.fail], "failed", "first failed job: digits-node-0"),
            ([Training.running, Training.out_of_memory], "failed", ""),
            ([Training.running, Training.deadline_exceeded], "failed", "exceeded its active deadline"),
            ([Training.running, Training.fail, Training.forget_failure], "running", ""),
        ],
    )
    def test_shows_as(self, memory: MemoryBackend, changes: list[Change], phase: str, detail: str) -> None:
        memory.script("*", [])
        memory.create(manifest())
        for change in changes:
            memory.change("digits", change)
        assert state(memory).phase.value == phase
        assert detail in state(memory).detail

    def test_initializers_run_first(self, memory: MemoryBackend) -> None:
        memory.script("*", [(0, Training.initializing), (1, Training.running), (2, Training.complete)])
        runtime = {"name": "torchtune-llama3.2-1b"}
        memory.create(manifest(runtimeRef=runtime, initializer={"dataset": {"storageUri": "hf://org/digits"}}))
        assert state(memory).phase.value == "initializing"
        assert "dataset-initializer" in state(memory).detail
        memory.clock.advance(1)
        assert state(memory).phase.value == "running"
        memory.clock.advance(1)
        assert state(memory).phase.value == "succeeded"

    def test_mpi_has_a_launcher(self, memory: MemoryBackend) -> None:
        memory.create(manifest(runtimeRef={"name": "deepspeed-distributed"}))
        memory.clock.advance(10)
        pods = memory.observe("digits", now=0).pods
        assert [pod.node for pod in pods] == ["launcher", "node-0", "node-1"]
        assert state(memory).phase.value == "succeeded"

    def test_progress_is_text_as_trainer_carries_it(self, memory: MemoryBackend) -> None:
        memory.create(manifest())
        memory.change("digits", lambda t: t.progress(40, eta_seconds=17, metrics={"loss": 0.1}))
        raw = memory.get("digits")
        assert raw is not None
        assert raw["status"]["trainerStatus"]["metrics"] == [{"name": "loss", "value": "0.1"}]
        job = memory.observe("digits", now=0).job
        assert job is not None
        assert job.progress is not None
        assert (job.progress.percentage, job.progress.eta_seconds, job.progress.metrics) == (40, 17, {"loss": 0.1})

    def test_a_failure_may_keep_its_pod_or_not(self, memory: MemoryBackend) -> None:
        memory.script("*", [(0, Training.running)])
        for name, keep in (("kept", True), ("gone", False)):
            memory.create(manifest(name))
            memory.change(name, lambda t, keep=keep: t.fail(1, 3, keep_pods=keep))  # type: ignore[misc]
        assert [pod.node for pod in memory.observe("kept", now=0).pods] == ["node-1"]
        assert memory.observe("gone", now=0).pods == ()


class TestScripts:
    def test_the_default_trains_in_six_seconds(self, memory: MemoryBackend) -> None:
        memory.create(manifest())
        seen = []
        for _ in range(8):
            seen.append(state(memory).phase.value)
            memory.clock.advance(1)
        assert seen == ["pending", *["running"] * 5, "succeeded", "succeeded"]

    def test_the_newest_that_fits_wins(self, memory: MemoryBackend) -> None:
        memory.script("*", [(0, Training.queued)])
        memory.script("digits-*", [(0, Training.running)])
        memory.create(manifest("digits-a"))
        memory.create(manifest("other"))
        assert state(memory, "digits-a").phase.value == "running"
        assert state(memory, "other").phase.value == "queued"

    def test_so_many_times(self, memory: MemoryBackend) -> None:
        memory.script("*", [(0, Training.running)])
        memory.script("*", [(0, Training.fail)], times=2)
        for name in ("a", "b", "c"):
            memory.create(manifest(name))
        assert [state(memory, name).phase.value for name in ("a", "b", "c")] == ["failed", "failed", "running"]

    def test_a_deleted_one_moves_no_more(self, memory: MemoryBackend) -> None:
        memory.create(manifest())
        memory.delete("digits")
        memory.create(manifest())
        memory.clock.advance(0.5)
        assert state(memory).phase.value == "pending"

    def test_a_resumed_one_starts_anew(self, memory: MemoryBackend) -> None:
        memory.create(manifest())
        memory.clock.advance(3)
        memory.set_suspended("digits", True)
        memory.clock.advance(100)
        assert state(memory).phase.value == "suspended"
        memory.set_suspended("digits", False)
        memory.clock.advance(3)
        assert state(memory).phase.value == "running"


class TestFaults:
    def test_the_next_calls_fail_and_do_nothing(self, memory: MemoryBackend) -> None:
        memory.faults.fail_next("create", Unreachable("reset"), times=2)
        for _ in range(2):
            with pytest.raises(Unreachable):
                memory.create(manifest())
        assert memory.list() == []
        memory.create(manifest())

    def test_a_lost_reply_does_everything(self, memory: MemoryBackend) -> None:
        memory.faults.lose_reply("create")
        with pytest.raises(Unreachable):
            memory.create(manifest())
        assert len(memory.list()) == 1

    def test_until_told_otherwise(self, memory: MemoryBackend) -> None:
        memory.faults.fail("*", Forbidden("everything"))
        for call in (memory.list, lambda: memory.get("a"), lambda: memory.observe("a", now=0)):
            with pytest.raises(Forbidden):
                call()
        memory.faults.fail("*", None)
        assert memory.list() == []


def test_replacing_gives_another_uid(memory: MemoryBackend) -> None:
    old = memory.create(manifest())["metadata"]["uid"]
    new = memory.replace("digits")
    raw = memory.get("digits")
    assert raw is not None
    assert new == raw["metadata"]["uid"] != old


def test_what_is_not_there_cannot_be_changed(memory: MemoryBackend) -> None:
    for call in (
        lambda: memory.training("x"),
        lambda: memory.change("x", Training.running),
        lambda: memory.replace("x"),
    ):
        with pytest.raises(NotFound):
            call()


def test_a_name_is_needed(memory: MemoryBackend) -> None:
    with pytest.raises(InvalidRequest, match=r"metadata\.name"):
        memory.create({"spec": {"runtimeRef": {"name": "torch-distributed"}}})


def test_calls_are_remembered(memory: MemoryBackend) -> None:
    memory.create(manifest())
    memory.get("digits")
    assert memory.calls == [("create", "digits"), ("get", "digits")]


def test_own_runtimes() -> None:
    raw = {"kind": keys.CLUSTER_RUNTIME, "metadata": {"name": "ours"}, "spec": {"mlPolicy": {"numNodes": 3}}}
    memory = MemoryBackend(VirtualClock(), runtimes=[raw])
    memory.create({"metadata": {"name": "a"}, "spec": {"runtimeRef": {"name": "ours"}}})
    assert len(memory.observe("a", now=0).pods) == 3


def test_uids_are_the_same_in_every_run() -> None:
    first, second = (MemoryBackend().create(manifest())["metadata"]["uid"] for _ in range(2))
    assert first == second
