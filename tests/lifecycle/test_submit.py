from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.errors import (
    AlreadyExists,
    Forbidden,
    InvalidRequest,
    Rejected,
    RunConflict,
    RuntimeNotFound,
    Unreachable,
)
from trainer_ops.lifecycle.submit import Submitted, submit
from trainer_ops.model import keys
from trainer_ops.model.identity import RunKey
from trainer_ops.model.request import TrainRequest
from trainer_ops.testing import MemoryBackend, Training, VirtualClock

Put = Callable[..., Submitted]
Ask = Callable[..., TrainRequest]
Key = Callable[..., RunKey]


def creates(memory: MemoryBackend) -> int:
    return sum(method == "create" for method, _ in memory.calls)


class TestOnce:
    def test_creates_what_is_not_there(self, memory: MemoryBackend, put: Put, key: Key) -> None:
        made = put()
        (job,) = memory.list()
        assert (made.how, made.attempt, made.superseded, made.warnings) == ("created", 1, (), ())
        assert (made.ref.name, made.ref.uid) == (job["metadata"]["name"], job["metadata"]["uid"])
        assert (made.ref.target, made.ref.namespace) == (memory.target, memory.namespace)
        labels = job["metadata"]["labels"]
        assert labels[keys.LABEL_RUN_KEY] == key().digest
        assert labels[keys.LABEL_GENERATION] == "0"

    def test_again_adopts_what_trains(self, memory: MemoryBackend, clock: VirtualClock, put: Put) -> None:
        first = put()
        clock.advance(3)
        again = put()
        assert (again.how, again.ref, again.attempt) == ("adopted", first.ref, 1)
        assert len(memory.list()) == 1

    def test_again_when_it_has_trained_does_not_train(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put
    ) -> None:
        first = put()
        clock.advance(100)
        again = put()
        assert (again.how, again.ref) == ("finished", first.ref)
        assert creates(memory) == 1

    def test_another_key_is_another_training(self, memory: MemoryBackend, put: Put) -> None:
        assert put("r1").ref.name != put("r2").ref.name
        assert len(memory.list()) == 2

    def test_twenty_threads_at_once_make_one(
        self, memory: MemoryBackend, clock: VirtualClock, ask: Ask, key: Key
    ) -> None:
        together = threading.Barrier(20)
        made: list[Submitted] = []

        def one() -> None:
            together.wait()
            made.append(submit(memory, ask(), key(), clock=clock))

        threads = [threading.Thread(target=one) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(memory.list()) == 1
        assert len({submitted.ref for submitted in made}) == 1
        assert sorted(submitted.how for submitted in made) == ["adopted"] * 19 + ["created"]


class TestAttempts:
    def test_a_failed_one_is_followed_by_the_next(self, memory: MemoryBackend, clock: VirtualClock, put: Put) -> None:
        memory.script("*", [(1, lambda t: t.fail())], times=1)
        first = put()
        clock.advance(5)
        second = put()
        assert (second.how, second.attempt, second.ref.name) == ("created", 2, f"{first.ref.name}-2")
        assert put() == Submitted(second.ref, 2, "adopted")

    def test_ten_follows_nine(self, memory: MemoryBackend, clock: VirtualClock, put: Put) -> None:
        memory.script("*", [(1, lambda t: t.fail())])
        for attempt in range(1, 13):
            assert put().attempt == attempt
            clock.advance(5)

    def test_the_number_comes_from_what_is_there(self, memory: MemoryBackend, clock: VirtualClock, put: Put) -> None:
        memory.script("*", [(1, lambda t: t.fail())])
        first = put()
        clock.advance(5)
        second = put()
        clock.advance(5)
        memory.delete(first.ref.name)
        assert put().attempt == 3
        clock.advance(5)
        for job in memory.list():
            memory.delete(job["metadata"]["name"])
        last = put()
        assert (last.attempt, last.ref.name) == (1, first.ref.name)
        assert last.ref.uid not in (first.ref.uid, second.ref.uid)

    def test_a_failed_one_may_be_followed_by_another_request(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put
    ) -> None:
        memory.script("*", [(1, lambda t: t.fail())], times=1)
        put(command=["typo"])
        clock.advance(5)
        assert put(command=["train"]).attempt == 2


class TestConflicts:
    def test_another_request_while_it_trains(self, put: Put) -> None:
        first = put(command=["train"])
        with pytest.raises(RunConflict) as caught:
            put(command=["train", "--fast"])
        text = str(caught.value)
        assert first.ref.name in text
        assert "airflow: dag_id=digits run_id=r1" in text
        assert f"trainer-ops cancel {first.ref.name}" in text

    def test_another_request_when_it_has_trained_is_warned_of(self, clock: VirtualClock, put: Put) -> None:
        put(command=["train"])
        clock.advance(100)
        again = put(command=["train", "--fast"])
        assert again.how == "finished"
        assert "another request" in again.warnings[0]

    def test_a_name_taken_by_somebody_else(self, memory: MemoryBackend, clock: VirtualClock, key: Key) -> None:
        manifest = {"metadata": {"name": "nightly"}, "spec": {"runtimeRef": {"name": "torch-distributed"}}}
        memory.create(manifest)
        with pytest.raises(RunConflict) as caught:
            submit(memory, TrainRequest(manifest=manifest), key(), clock=clock)
        assert "the name nightly is taken by something else" in str(caught.value)
        assert "airflow: dag_id=digits run_id=r1" in str(caught.value)

    def test_a_name_taken_by_another_run(self, memory: MemoryBackend, clock: VirtualClock, key: Key) -> None:
        manifest = {"metadata": {"name": "nightly"}, "spec": {"runtimeRef": {"name": "torch-distributed"}}}
        submit(memory, TrainRequest(manifest=manifest), key("r1"), clock=clock)
        with pytest.raises(RunConflict, match=r"taken by airflow: dag_id=digits run_id=r1 .*run_id=r2"):
            submit(memory, TrainRequest(manifest=manifest), key("r2"), clock=clock)


class TestTroubles:
    def test_a_lost_reply_is_settled_by_reading_back(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put
    ) -> None:
        memory.faults.lose_reply("create")
        made = put()
        (job,) = memory.list()
        assert (made.how, made.ref.uid) == ("adopted", job["metadata"]["uid"])
        assert creates(memory) == 1

    @pytest.mark.parametrize("method", ["runtime", "list", "create"])
    def test_a_target_that_is_away_is_asked_again(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put, method: str
    ) -> None:
        memory.faults.fail_next(method, Unreachable("reset"), times=4)
        assert put().how == "created"
        assert clock.slept == [1, 2, 4, 8]

    def test_but_not_for_ever(self, memory: MemoryBackend, clock: VirtualClock, put: Put) -> None:
        memory.faults.fail("*", Unreachable("reset"))
        with pytest.raises(Unreachable):
            put(unreachable_timeout=60)
        assert sum(clock.slept) == 60

    def test_a_name_that_was_taken_and_is_free_again(self, memory: MemoryBackend, put: Put) -> None:
        memory.faults.fail_next("create", AlreadyExists("taken"))
        assert put().how == "created"

    def test_a_name_that_is_always_taken_and_never_there(self, memory: MemoryBackend, put: Put) -> None:
        memory.faults.fail_next("create", AlreadyExists("taken"), times=99)
        with pytest.raises(RunConflict, match="created and deleted by somebody else"):
            put()

    @pytest.mark.parametrize("error", [Forbidden("creating trainjobs"), Rejected("quota")])
    def test_a_refusal_is_final(self, memory: MemoryBackend, clock: VirtualClock, put: Put, error: Any) -> None:
        memory.faults.fail("create", error)
        with pytest.raises(type(error)):
            put()
        assert clock.slept == []


class TestPreflight:
    def test_an_unknown_runtime_names_the_close_one(self, memory: MemoryBackend, put: Put) -> None:
        with pytest.raises(RuntimeNotFound, match=r"Did you mean torch-distributed\?") as caught:
            put(runtime="torch-distribted")
        assert "jax-distributed" in caught.value.known
        assert creates(memory) == 0

    def test_a_runtime_that_may_not_be_read_is_a_warning(self, memory: MemoryBackend, put: Put) -> None:
        memory.faults.fail("runtime", Forbidden("reading clustertrainingruntimes"))
        made = put()
        assert made.how == "created"
        assert any("not checked against runtime torch-distributed" in text for text in made.warnings)

    def test_an_invalid_trainjob_is_not_created(self, memory: MemoryBackend, clock: VirtualClock, key: Key) -> None:
        manifest = {
            "metadata": {"name": "nightly"},
            "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 0}},
        }
        with pytest.raises(InvalidRequest, match=r"spec\.trainer\.numNodes"):
            submit(memory, TrainRequest(manifest=manifest), key(), clock=clock)
        assert creates(memory) == 0

    @pytest.mark.parametrize(
        ("manifest", "field", "says"),
        [
            pytest.param(
                {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {}}},
                "kind",
                "PyTorchJob is a job of the v1 operators",
                id="a v1 job",
            ),
            pytest.param({"metadata": {"name": "a"}, "spec": None}, "spec", "is missing", id="a spec of null"),
            pytest.param({}, "spec", "is missing", id="nothing"),
            pytest.param({"spec": {"runtimeRef": None}}, "spec.runtimeRef", "is missing", id="a runtimeRef of null"),
            pytest.param({"spec": {"runtimeRef": {}}}, "spec.runtimeRef.name", "is missing", id="a nameless runtime"),
            pytest.param(
                {"spec": {"runtimeRef": {"name": "torch-distribted"}, "trainer": {"numNodez": 2}}},
                "spec.trainer.numNodez",
                "is no field",
                id="a typo beside a typo in the runtime",
            ),
        ],
    )
    def test_what_is_no_trainjob_is_told_before_the_target_is_asked(
        self, memory: MemoryBackend, clock: VirtualClock, key: Key, manifest: dict[str, Any], field: str, says: str
    ) -> None:
        with pytest.raises(InvalidRequest) as caught:
            submit(memory, TrainRequest(manifest=manifest), key(), clock=clock)
        assert caught.value.field == field
        assert says in caught.value.reason
        assert memory.calls == []


class TestGenerations:
    def test_a_newer_one_supersedes_what_still_trains(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put
    ) -> None:
        old = put(generation=0)
        clock.advance(3)
        new = put(generation=1)
        assert (new.how, new.superseded) == ("created", (old.ref.name,))
        assert [job["metadata"]["name"] for job in memory.list()] == [new.ref.name]

    def test_and_leaves_what_has_ended(self, memory: MemoryBackend, clock: VirtualClock, put: Put) -> None:
        put(generation=0)
        clock.advance(100)
        assert put(generation=1).superseded == ()
        assert len(memory.list()) == 2

    def test_also_when_it_was_interrupted_before(self, memory: MemoryBackend, put: Put) -> None:
        old = put(generation=0)
        # Killed between create and delete: the retry adopts its own and ends the older one.
        memory.faults.fail_next("delete", Unreachable("killed"))
        new = put(generation=1)
        assert (new.how, new.superseded) == ("adopted", (old.ref.name,))

    @pytest.mark.parametrize("later", [0, 100], ids=["which trains", "which has trained"])
    def test_an_older_one_gives_way_to_a_newer_one(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put, later: float
    ) -> None:
        new = put(generation=1)
        clock.advance(later)
        with pytest.raises(RunConflict, match=f"superseded by {new.ref.name}"):
            put(generation=0)
        assert len(memory.list()) == 1

    def test_of_two_that_start_at_once_the_newer_stays(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put, ask: Ask, key: Key
    ) -> None:
        # The newer one appears after the older has looked and before it has created.
        create = memory.create
        newer: list[Submitted] = []

        def once(manifest: Any) -> Any:
            memory.create = create  # type: ignore[method-assign]
            newer.append(submit(memory, ask(), key(generation=1), clock=clock))
            return create(manifest)

        memory.create = once  # type: ignore[method-assign]
        with pytest.raises(RunConflict, match="superseded"):
            put(generation=0)
        assert [job["metadata"]["name"] for job in memory.list()] == [newer[0].ref.name]

    def test_of_another_run_are_left_alone(self, memory: MemoryBackend, put: Put) -> None:
        put("r1", generation=0)
        assert put("r2", generation=1).superseded == ()
        assert len(memory.list()) == 2


def test_a_training_that_is_being_deleted_does_not_count(memory: MemoryBackend, put: Put) -> None:
    first = put()

    def deleting(training: Training) -> None:
        training.job["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"

    memory.change(first.ref.name, deleting)
    assert put().attempt == 2
