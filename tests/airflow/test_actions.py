"""The small operators: what they do, that doing it twice is doing it once, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer_ops import errors
from trainer_ops.model import keys
from trainer_ops.testing import MemoryBackend, VirtualClock
from trainer_ops.testing.objects import runtime


def make(kind: str, dag_folder: Path | None = None, **kwargs: Any) -> Any:
    from airflow.sdk import DAG

    import trainer_ops.airflow as ours

    options = {"template_searchpath": str(dag_folder)} if dag_folder else {}
    with DAG("digits", schedule=None, **options):
        return getattr(ours, kind)(task_id="act", **kwargs)


@pytest.fixture
def create(memory: MemoryBackend) -> Callable[..., str]:
    memory.script("running-*", [(0, lambda t: t.running())])
    memory.script("bad-*", [(0, lambda t: t.fail(exit_code=3))])
    memory.script("good-*", [(0, lambda t: t.complete())])

    def one(name: str, **labels: str) -> str:
        spec = {"runtimeRef": {"name": "torch-distributed"}}
        return str(memory.create({"metadata": {"name": name, "labels": labels}, "spec": spec})["metadata"]["uid"])

    return one


def names(memory: MemoryBackend) -> list[str]:
    return [raw["metadata"]["name"] for raw in memory.list()]


class TestSuspending:
    def test_and_resuming(self, worker: Any, create: Any, memory: MemoryBackend) -> None:
        uid = create("running-a")
        for kind, suspended in (("SuspendTrainJobOperator", True), ("ResumeTrainJobOperator", False)):
            for _ in range(2):
                ran = worker(make(kind, name="running-a"))
                assert ran.state == "success", ran.error
                assert (ran.result["uid"], ran.result["suspended"]) == (uid, suspended)
                assert memory.training("running-a").job["spec"]["suspend"] is suspended

    @pytest.mark.parametrize("name", [None, "", "{{ params.missing | default('') }}"])
    def test_an_empty_name_is_not_tried_again(self, name: Any, worker: Any, memory: MemoryBackend) -> None:
        ran = worker(make("ResumeTrainJobOperator", name=name, missing_ok=True, retries=3))
        assert (ran.state, type(ran.error).__name__) == ("failed", "AirflowFailException")
        assert "name: is empty. Name a TrainJob" in str(ran.error)

    @pytest.mark.parametrize("name", ["nobody", "good-a"])
    def test_what_is_not_there_or_has_ended_is_not_tried_again(self, name: str, worker: Any, create: Any) -> None:
        create("good-a")
        ran = worker(make("SuspendTrainJobOperator", name=name, retries=3))
        assert ran.state == "failed"
        assert type(ran.error).__name__ == "AirflowFailException"
        assert name in str(ran.error)

    def test_missing_ok(self, worker: Any, memory: MemoryBackend) -> None:
        ran = worker(make("ResumeTrainJobOperator", name="nobody", missing_ok=True))
        assert (ran.state, ran.result) == ("success", None)

    def test_a_target_that_is_away(self, worker: Any, create: Any, memory: MemoryBackend) -> None:
        create("running-a")
        memory.faults.fail_next("set_suspended", errors.Unreachable("reset"), times=2)
        assert (
            worker(make("SuspendTrainJobOperator", name="{{ params.n }}", params={"n": "running-a"})).state == "success"
        )

    def test_both_are_documented(self) -> None:
        import trainer_ops.airflow as ours

        for kind in ("SuspendTrainJobOperator", "ResumeTrainJobOperator"):
            assert "missing_ok" in getattr(ours, kind).__doc__


class TestDeleting:
    @pytest.mark.parametrize(
        ("given", "left"),
        [
            ({"labels": {"team": "a"}}, ["running-b"]),
            ({"labels": "team=a", "only": "active"}, ["bad-a", "good-a", "running-b"]),
            ({"labels": "team=a", "only": "failed"}, ["running-a", "good-a", "running-b"]),
            ({"labels": "team=a", "only": "finished"}, ["running-a", "running-b"]),
            ({"name": "bad-a"}, ["running-a", "good-a", "running-b"]),
            ({"name": ["bad-a", "nobody", "running-b"]}, ["running-a", "good-a"]),
            ({"name": "nobody"}, ["running-a", "bad-a", "good-a", "running-b"]),
        ],
    )
    def test_which(
        self, given: dict[str, Any], left: list[str], worker: Any, create: Any, memory: MemoryBackend
    ) -> None:
        for name in ("running-a", "bad-a", "good-a"):
            create(name, team="a")
        create("running-b")
        ran = worker(make("DeleteTrainJobsOperator", **given))
        assert ran.state == "success", ran.error
        assert names(memory) == left
        assert worker(make("DeleteTrainJobsOperator", **given)).result == []

    def test_only_the_old(self, worker: Any, create: Any, memory: MemoryBackend, virtual_clock: VirtualClock) -> None:
        from datetime import timedelta

        create("good-old", team="a")
        virtual_clock.advance(3600)
        create("good-new", team="a")
        ran = worker(make("DeleteTrainJobsOperator", labels="team=a", older_than=timedelta(minutes=30)))
        assert [one["name"] for one in ran.result] == ["good-old"]

    def test_an_age_that_is_none(self, worker: Any, create: Any, memory: MemoryBackend) -> None:
        create("good-a", team="a")
        ran = worker(make("DeleteTrainJobsOperator", labels="team=a", older_than="1h", retries=3))
        assert "older_than: '1h' is no number of seconds. Give a number, or a timedelta" in str(ran.error)
        assert names(memory) == ["good-a"]

    def test_everything_is_never_meant_by_leaving_out(self, worker: Any, create: Any, memory: MemoryBackend) -> None:
        create("running-a")
        ran = worker(make("DeleteTrainJobsOperator", labels="{{ params.labels }}", params={"labels": ""}, retries=3))
        assert type(ran.error).__name__ == "AirflowFailException"
        assert names(memory) == ["running-a"]


class TestRuntimes:
    @pytest.fixture
    def raw(self) -> dict[str, Any]:
        return runtime("mine", "torch", {"torch": {}})

    def test_created_changed_unchanged(self, raw: dict[str, Any], worker: Any, memory: MemoryBackend) -> None:
        assert worker(make("TrainingRuntimeOperator", runtime=raw)).result == {
            "kind": keys.CLUSTER_RUNTIME,
            "name": "mine",
            "how": "created",
        }
        assert worker(make("TrainingRuntimeOperator", runtime=yaml.safe_dump(raw))).result["how"] == "unchanged"
        raw["spec"]["mlPolicy"]["numNodes"] = 4
        assert worker(make("TrainingRuntimeOperator", runtime=raw)).result["how"] == "changed"

    def test_a_template_beside_the_dag(
        self, raw: dict[str, Any], worker: Any, memory: MemoryBackend, tmp_path: Path
    ) -> None:
        raw["spec"]["mlPolicy"]["numNodes"] = "NODES"
        (tmp_path / "runtime.yaml").write_text(yaml.safe_dump(raw).replace("NODES", "{{ params.nodes }}"))
        for path in ("runtime.yaml", str(tmp_path / "runtime.yaml")):
            ran = worker(make("TrainingRuntimeOperator", tmp_path, runtime=path, params={"nodes": 3}))
            assert ran.state == "success", ran.error
        stored = memory.runtime("mine", keys.CLUSTER_RUNTIME)
        assert stored is not None
        assert stored["spec"]["mlPolicy"]["numNodes"] == 3

    @pytest.mark.parametrize("given", ["nowhere.yaml", "/nowhere/x.yaml", "a: [", {"kind": "TrainJob"}, None])
    def test_what_is_none_is_not_tried_again(self, given: Any, worker: Any, memory: MemoryBackend) -> None:
        ran = worker(make("TrainingRuntimeOperator", runtime=given, retries=3))
        assert ran.state == "failed"
        assert type(ran.error).__name__ == "AirflowFailException"


def test_on_the_engine(worker: Any, connection: Any, tmp_path: Path) -> None:
    connection("training", f"trainer-local://{tmp_path / 'engine'}")
    raw = runtime("mine", "torch", {"torch": {}})
    hows = [worker(make("TrainingRuntimeOperator", runtime=raw, conn_id="training")).result["how"] for _ in range(2)]
    assert hows == ["created", "unchanged"]
    assert worker(make("DeleteTrainJobsOperator", labels="a=b", conn_id="training")).result == []


def test_the_dag_serializes() -> None:
    import json

    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import DagSerialization

    import trainer_ops.airflow as ours

    with DAG("acts", schedule=None) as dag:
        ours.SuspendTrainJobOperator(task_id="a", name="x")
        ours.ResumeTrainJobOperator(task_id="b", name="x")
        ours.DeleteTrainJobsOperator(task_id="c", labels={"a": "b"}).as_teardown()
        ours.TrainingRuntimeOperator(task_id="d", runtime={"metadata": {"name": "x"}})
    json.dumps(DagSerialization.to_dict(dag))
