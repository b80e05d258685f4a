"""DatasetInitializerOperator and ModelInitializerOperator: on this machine, and by a Job in memory."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.jobs_in_memory import SNAPSHOT, JobsInMemory
from trainer_ops import errors
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.local.engine import LocalBackend
from trainer_ops.testing import MemoryBackend, VirtualClock


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The task runner sets SIGTERM's handler and leaves it."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def source(tmp_path: Path) -> str:
    folder = tmp_path / "digits"
    (folder / "test").mkdir(parents=True)
    (folder / "train.csv").write_text("1,2\n")
    (folder / "test" / "test.csv").write_text("3,4,5\n")
    return f"file://{folder}"


@pytest.fixture
def engine(local_trainer: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> LocalBackend:
    """The target of every task without a connection."""
    monkeypatch.setenv("TRAINER_OPS_TARGET", local_trainer.target)
    return local_trainer


@pytest.fixture
def jobs(memory_backend: MemoryBackend, virtual_clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> JobsInMemory:
    """A cluster in memory is the target of every task without a connection."""
    from trainer_ops.airflow import DatasetInitializerOperator, SnapshotTrigger

    made = JobsInMemory(virtual_clock)
    monkeypatch.setenv("TRAINER_OPS_TARGET", memory_backend.target)
    monkeypatch.setattr(memory_backend, "steps", made, raising=False)
    monkeypatch.setattr(DatasetInitializerOperator, "clock", lambda _self: virtual_clock)
    monkeypatch.setattr(SnapshotTrigger, "clock", lambda _self: virtual_clock)
    return made


def make(model: bool = False, **kwargs: Any) -> Any:
    from airflow.sdk import DAG

    from trainer_ops.airflow import DatasetInitializerOperator, ModelInitializerOperator

    kind = ModelInitializerOperator if model else DatasetInitializerOperator
    with DAG("digits", schedule=None, params={"name": "digits", "patterns": ["*.csv"]}):
        return kind(**{"task_id": "init", **kwargs})


def cluster(**kwargs: Any) -> Any:
    return make(**{"uri": "hf://datasets/org/digits", "to": "pvc://data", **kwargs})


# -- what a DAG file declares


def test_a_dag_file_pays_for_nothing_heavy() -> None:
    code = (
        "import airflow.sdk.bases.operator, airflow.sdk.configuration, airflow.sdk.definitions.asset, sys\n"
        "before = set(sys.modules)\n"
        "from trainer_ops.airflow import DatasetInitializerOperator, ModelInitializerOperator\n"
        "DatasetInitializerOperator(task_id='a', uri='hf://datasets/org/digits')\n"
        "print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    added = set(done.stdout.split())
    heavy = ("pydantic", "kubernetes", "huggingface_hub", "fsspec", "trainer_ops.lifecycle.snapshots", "yaml")
    assert "trainer_ops.airflow.initializers" in added
    assert not [name for name in added if name.startswith(heavy)]


def test_the_dag_serializes() -> None:
    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import DagSerialization

    from trainer_ops.airflow import DatasetInitializerOperator, ModelInitializerOperator, TrainJobOperator

    with DAG("digits", schedule=None) as dag:
        common: dict[str, Any] = {"to": "pvc://data", "storage": "20Gi", "conn_id": "training", "source_conn_id": "hub"}
        data = DatasetInitializerOperator(task_id="data", uri="s3://b/x", include=["*.csv"], env={"A": 1}, **common)
        start = ModelInitializerOperator(task_id="start", uri="hf://org/bert", revision="{{ params.rev }}", **common)
        TrainJobOperator(
            task_id="train", runtime="torch-distributed", command=["x"], dataset=data.output, model=start.output
        )
        DatasetInitializerOperator.partial(task_id="many", **common).expand(uri=["s3://b/1", "s3://b/2"])
    data_text = DagSerialization.to_dict(dag)
    assert "trainer-ops-datasets" in json.dumps(data_text)
    assert DagSerialization.from_dict(data_text).get_task("train").upstream_task_ids == {"data", "start"}


# -- on this machine


def test_mapped_tasks_make_one_each(worker: Any, engine: LocalBackend, source: str, tmp_path: Path) -> None:
    from airflow.sdk import DAG

    from trainer_ops.airflow import DatasetInitializerOperator

    with DAG("digits", schedule=None):
        mapped = DatasetInitializerOperator.partial(task_id="init").expand(uri=[source, f"{source}/test"])
    runs = [worker(mapped, map_index=index) for index in (0, 1)]
    assert [ran.result["files"] for ran in runs] == [2, 1]
    assert [list(events(ran)) for ran in runs] == [
        [f"trainer-ops-datasets>{source}"],
        [f"trainer-ops-datasets>{source}/test"],
    ]


def test_the_snapshot_is_the_return_value(worker: Any, engine: LocalBackend, source: str) -> None:
    ran = worker(make(uri=source))
    assert ran.state == "success", ran.error
    assert ran.result["uri"] == source
    assert (ran.result["kind"], ran.result["files"], ran.result["bytes"], ran.result["hit"]) == (
        "dataset",
        2,
        10,
        False,
    )
    folder = Path(ran.result["location"].removeprefix("file://"))
    assert (folder / "test" / "test.csv").read_text() == "3,4,5\n"
    assert folder.is_relative_to(engine.root)
    for name in ("location", "uri", "revision", "key", "digest", "files", "bytes", "hit"):
        assert ran.xcoms[name] == ran.result[name]


def test_a_retry_and_another_task_find_it_made(worker: Any, engine: LocalBackend, source: str) -> None:
    first = worker(make(uri=source)).result
    again = worker(make(uri=source), try_number=2, max_tries=1).result
    other = worker(make(uri=source, task_id="other", model=True), run_id="another").result
    assert (again["hit"], other["hit"]) == (True, True)
    assert first["location"] == again["location"] == other["location"]
    assert other["kind"] == "model"


def test_parameters_are_rendered(worker: Any, engine: LocalBackend, source: str) -> None:
    ran = worker(
        make(
            uri=source.replace("digits", "{{ params.name }}"),
            include=["{{ '*.csv' }}"],
            ignore="{{ 'test/*' }}",
            revision="{{ '' }}",
        )
    )
    assert ran.state == "success", ran.error
    assert ran.result["files"] == 1


def test_deferrable_here_is_said_and_done(
    worker: Any, engine: LocalBackend, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = worker(make(uri=source, deferrable=True))
    assert ran.state == "success"
    assert "deferrable: on this machine the worker makes the snapshot itself" in capsys.readouterr().out


def test_no_xcom_when_the_user_wants_none(worker: Any, engine: LocalBackend, source: str) -> None:
    assert worker(make(uri=source, do_xcom_push=False)).xcoms == {}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an upstream that returned nothing": ({"uri": None}, "uri: is empty. Say where it is: hf://"),
    "a template that rendered nothing": ({"uri": "{{ '' }}"}, "uri: is empty"),
    "a relative store": ({"to": "store"}, 'to: "store" is below whatever folder the worker was started in'),
    "variables in a list": ({"env": ["HF_ENDPOINT=x"]}, "env: ['HF_ENDPOINT=x'] is no mapping"),
    "no scheme": ({"uri": "digits"}, 'uri: "digits" is not a URI'),
    "a scheme that nobody knows": ({"uri": "ftp://h/x"}, "uri: ftp:// cannot be fetched"),
    "nothing there": ({"uri": "file:///nowhere/at/all"}, "uri: "),
    "no match": ({"include": ["*.parquet"]}, "include: *.parquet matches none of the 2 files"),
    "patterns that are none": ({"include": 3}, "include: 3 is no list of patterns"),
    "a revision that is not there": ({"revision": "v1"}, "revision: "),
    "no such source connection": ({"source_conn_id": "nowhere"}, 'source_conn_id: there is no connection "nowhere"'),
    "no such connection": ({"conn_id": "nowhere"}, 'conn_id: there is no connection "nowhere"'),
    "a store that is none": ({"to": "ftp://h/x"}, "to: "),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_not_tried_again(case: str, worker: Any, engine: LocalBackend, source: str) -> None:
    given, text = BAD[case]
    ran = worker(make(**{"uri": source, "retries": 3, **given}))
    assert ran.state == "failed"
    assert type(ran.error).__name__ == "AirflowFailException"
    assert text in str(ran.error)
    assert "return_value" not in ran.xcoms


def test_sigterm_ends_the_download_and_a_retry_goes_on(
    worker: Any, engine: LocalBackend, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainer_ops.airflow.snapshots import SnapshotLog

    monkeypatch.setattr(SnapshotLog, "on_start", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    ran = worker(make(uri=source, retries=1))
    assert ran.state == "up_for_retry"
    assert isinstance(ran.error, SnapshotError)
    assert "told to stop; what was fetched is kept, and a retry goes on from it" in str(ran.error)
    monkeypatch.undo()
    monkeypatch.setenv("TRAINER_OPS_TARGET", engine.target)
    ran = worker(make(uri=source, retries=1), try_number=2)
    assert (ran.state, ran.result["hit"]) == ("success", False)


# -- asset events


def events(ran: Any) -> dict[str, Any]:
    """(what, extra) as Airflow's server is told."""
    from airflow.sdk.execution_time.task_runner import _serialize_outlet_events

    return {
        f"{event.get('source_alias_name', '')}>{event['dest_asset_key']['uri']}": event["extra"]
        for event in _serialize_outlet_events(ran.context["outlet_events"])
    }


def test_without_outlets_the_source_is_the_asset(worker: Any, engine: LocalBackend, source: str) -> None:
    ran = worker(make(uri=source))
    ((what, extra),) = events(ran).items()
    assert what == f"trainer-ops-datasets>{source}"
    assert extra == {name: ran.result[name] for name in extra}
    assert set(extra) == {"uri", "revision", "bytes", "files", "key", "digest", "location", "hit"}
    assert list(events(worker(make(uri=source, model=True)))) == [f"trainer-ops-models>{source}"]


def test_a_declared_asset_gets_the_event(worker: Any, engine: LocalBackend, source: str) -> None:
    from airflow.sdk import Asset

    ran = worker(make(uri=source, outlets=[Asset(name="digits", uri="x-data://digits")]))
    ((what, extra),) = events(ran).items()
    assert (what, extra["revision"]) == (">x-data://digits", ran.result["revision"])


def test_no_outlets_are_no_event(worker: Any, engine: LocalBackend, source: str) -> None:
    from airflow.sdk import DAG

    from trainer_ops.airflow import DatasetInitializerOperator

    assert events(worker(make(uri=source, outlets=[]))) == {}
    with DAG("digits", schedule=None, default_args={"outlets": []}):
        task = DatasetInitializerOperator(task_id="init", uri=source)
        mapped = DatasetInitializerOperator.partial(task_id="many", outlets=[]).expand(uri=[source])
    assert events(worker(task)) == {}
    assert events(worker(mapped, map_index=0)) == {}


def test_a_uri_that_is_no_asset_costs_only_the_event(
    worker: Any, engine: LocalBackend, source: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from airflow.sdk.definitions.asset import Asset

    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("cannot exceed 1500 characters")

    task = make(uri=source)
    monkeypatch.setattr(Asset, "__init__", refuse)
    ran = worker(task)
    assert ran.state == "success"
    assert "No asset event: Airflow does not take file://" in capsys.readouterr().out


# -- on a cluster


def test_a_job_is_made_and_waited_for(worker: Any, jobs: JobsInMemory) -> None:
    ran = worker(cluster(storage="20Gi", secret_ref="hub", image="example.com/init:1"))
    assert ran.state == "success", ran.error
    assert ran.result == SNAPSHOT
    (job,) = jobs.jobs.values()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["envFrom"]) == ("example.com/init:1", [{"secretRef": {"name": "hub"}}])
    assert list(events(ran)) == ["trainer-ops-datasets>hf://datasets/org/digits"]


def test_the_job_is_as_the_platform_wants_it(worker: Any, jobs: JobsInMemory, virtual_clock: VirtualClock) -> None:
    ran = worker(
        cluster(
            to="pvc://new",
            storage="1Gi",
            access_mode="ReadWriteOnce",
            job_resources={"limits": {"memory": "{{ '4Gi' }}"}},
            pod={"serviceAccountName": "reader"},
            labels={"kueue.x-k8s.io/queue-name": "team-a"},
            active_deadline_seconds="{{ 60 * 60 }}",
            startup_timeout=timedelta(minutes=5),
        )
    )
    assert ran.state == "success", ran.error
    (job,) = jobs.jobs.values()
    pod = job["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["containers"][0]["resources"]) == ("reader", {"limits": {"memory": "4Gi"}})
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    assert job["spec"]["activeDeadlineSeconds"] == 3600
    assert jobs.claims["new"]["spec"]["accessModes"] == ["ReadWriteOnce"]
    bad = worker(cluster(startup_timeout="soon"), run_id="2")
    assert "startup_timeout: 'soon' is not a number of seconds" in str(bad.error)


def test_a_claim_is_made_when_a_size_is_given(worker: Any, jobs: JobsInMemory) -> None:
    assert worker(cluster(to="pvc://new", storage="20Gi", storage_class="fast")).state == "success"
    assert jobs.claims["new"]["spec"]["storageClassName"] == "fast"
    ran = worker(cluster(to="pvc://other", retries=2), run_id="2")
    assert type(ran.error).__name__ == "AirflowFailException"
    assert 'to: there is no claim "other"' in str(ran.error)


def test_a_failure_is_told_in_the_jobs_words(worker: Any, jobs: JobsInMemory) -> None:
    jobs.answers = [
        ({"error": {"field": "", "reason": "no answer", "remedy": "Wait", "transient": True}}, False),
        ({"error": {"field": "revision", "reason": '"v9" is none', "remedy": "Give main"}}, False),
    ]
    ran = worker(cluster(retries=1))
    assert ran.state == "up_for_retry"
    assert isinstance(ran.error, SnapshotError)
    assert str(ran.error) == "no answer. Wait"
    ran = worker(cluster(retries=1), try_number=2)
    assert ran.state == "failed"
    assert str(ran.error) == 'invalid request: revision: "v9" is none. Give main'


def test_a_worker_that_died_loses_nothing(worker: Any, jobs: JobsInMemory, virtual_clock: VirtualClock) -> None:
    def die(name: str) -> None:
        if name == "look":
            raise SystemExit(1)

    jobs.before = die
    assert worker(cluster(retries=1)).state != "success"
    assert len(jobs.jobs) == 1
    jobs.before = lambda name: None
    virtual_clock.advance(60)
    # Its Job is complete by now: the retry has the same asker, and takes its answer.
    ran = worker(cluster(retries=1), try_number=2)
    assert (ran.state, len(jobs.jobs)) == ("success", 1)
    # Cleared it is another asker: the source is looked at again.
    worker(cluster(retries=1), try_number=3, max_tries=3)
    assert len(jobs.jobs) == 2


def test_sigterm_deletes_the_job(worker: Any, jobs: JobsInMemory, virtual_clock: VirtualClock) -> None:
    virtual_clock.after(5, sigterm)
    ran = worker(cluster(retries=1))
    assert ran.state == "up_for_retry"
    assert "was deleted; what was fetched is kept" in str(ran.error)
    assert jobs.jobs == {}


def sigterm() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_sigterm_in_any_call(worker: Any, jobs: JobsInMemory) -> None:
    worker(cluster())
    count = len(jobs.calls)
    assert count > 8
    for number in range(count):
        jobs.calls.clear()
        jobs.jobs.clear()

        def at(_name: str, number: int = number) -> None:
            if len(jobs.calls) == number:
                sigterm()

        jobs.before = at
        ran = worker(cluster(), run_id=f"run-{number}")
        assert ran.state == "failed", f"call {number}"
        assert "told to stop" in str(ran.error)
        over = [job for job in jobs.jobs.values() if not job["status"]]
        assert over == [], f"call {number}"


def test_a_job_of_another_step_is_left_to_it(worker: Any, jobs: JobsInMemory, virtual_clock: VirtualClock) -> None:
    jobs.answers = [None]
    assert worker(cluster(deferrable=True)).state == "deferred"
    virtual_clock.after(5, sigterm)
    ran = worker(cluster(task_id="second"), run_id="2")
    assert "goes on: another step has started it" in str(ran.error)
    assert len(jobs.jobs) == 1


def test_execution_timeout_in_the_worker(worker: Any, jobs: JobsInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer_ops.airflow import DatasetInitializerOperator
    from trainer_ops.lifecycle.clock import RealClock

    jobs.answers = [None]
    monkeypatch.setattr(DatasetInitializerOperator, "clock", lambda _self: RealClock())
    ran = worker(cluster(execution_timeout=timedelta(seconds=0.3)))
    assert type(ran.error).__name__ == "AirflowTaskTimeout"
    assert jobs.jobs == {}


# -- in the triggerer


def trigger_of(ran: Any) -> Any:
    """The trigger as the triggerer makes it: from JSON, by its path."""
    from airflow.sdk.module_loading import import_string
    from airflow.sdk.serde import deserialize

    kwargs = json.loads(json.dumps(deserialize(ran.message.trigger_kwargs)))
    return import_string(ran.message.classpath)(**kwargs)


def fire(trigger: Any) -> dict[str, Any]:
    async def all_events() -> list[Any]:
        return [event async for event in trigger.run()]

    (event,) = asyncio.run(all_events())
    payload: dict[str, Any] = json.loads(json.dumps(event.payload))
    return payload


def complete(worker: Any, event: Mapping[str, Any], **kwargs: Any) -> Any:
    return worker(cluster(**kwargs), resume=("execute_complete", {"event": event}))


def test_defers_and_ends_with_the_same_result(worker: Any, jobs: JobsInMemory) -> None:
    ran = worker(cluster(deferrable=True))
    assert ran.state == "deferred"
    trigger = trigger_of(ran)
    path, kwargs = trigger.serialize()
    assert path == "trainer_ops.airflow.snapshot_trigger.SnapshotTrigger"
    assert set(kwargs) == {"wait"}
    done = complete(worker, fire(trigger))
    assert done.result == SNAPSHOT
    assert list(events(done)) == ["trainer-ops-datasets>hf://datasets/org/digits"]


def test_a_failure_in_the_triggerer_is_the_typed_error(worker: Any, jobs: JobsInMemory) -> None:
    jobs.answers = [({"error": {"field": "uri", "reason": "is gated", "remedy": "Ask for access"}}, False)]
    done = complete(worker, fire(trigger_of(worker(cluster(deferrable=True)))), retries=2)
    assert done.state == "failed"
    assert str(done.error) == "invalid request: uri: is gated. Ask for access"


def test_a_user_who_kills_the_deferred_task(worker: Any, jobs: JobsInMemory) -> None:
    trigger = trigger_of(worker(cluster(deferrable=True)))
    asyncio.run(trigger.on_kill())
    assert jobs.jobs == {}


def test_a_triggerer_that_stops_leaves_the_job_alone(
    worker: Any, jobs: JobsInMemory, virtual_clock: VirtualClock
) -> None:
    jobs.answers = [None]
    trigger = trigger_of(worker(cluster(deferrable=True)))

    async def stop() -> None:
        task = asyncio.create_task(anext(trigger.run()))
        virtual_clock.after(50, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        await trigger.cleanup()

    asyncio.run(stop())
    assert "delete" not in jobs.calls


def test_execution_timeout_counts_from_the_start_of_the_try(
    worker: Any, jobs: JobsInMemory, virtual_clock: VirtualClock
) -> None:
    jobs.answers = [None]
    limit: dict[str, Any] = {"execution_timeout": timedelta(seconds=60)}
    start = virtual_clock.now() - 40
    ran = worker(cluster(deferrable=True, **limit), start=start)
    assert ran.message.trigger_timeout == timedelta(seconds=20 + 60)
    event = fire(trigger_of(ran))
    assert (event["status"], virtual_clock.now()) == ("timeout", start + 60)
    done = complete(worker, event, **limit)
    assert type(done.error).__name__ == "AirflowTaskTimeout"
    assert jobs.jobs == {}


def test_a_trigger_that_broke_is_deferred_again_a_few_times(worker: Any, jobs: JobsInMemory) -> None:
    ran = worker(cluster(deferrable=True))
    for redefers in (1, 2, 3):
        jobs.fail = [errors.Forbidden("token without rights")]
        event = fire(trigger_of(ran))
        assert event["status"] == "error"
        ran = complete(worker, event)
        assert ran.state == "deferred"
        assert trigger_of(ran).redefers == redefers
    jobs.fail = [errors.Forbidden("token without rights")]
    done = complete(worker, fire(trigger_of(ran)))  # now the worker waits itself
    assert done.state == "success"
    assert jobs.calls.count("create") == 1


@pytest.mark.parametrize("why", ["Trigger failure", "Trigger timeout"])
def test_a_trigger_that_cannot_even_start(
    why: str, worker: Any, jobs: JobsInMemory, virtual_clock: VirtualClock
) -> None:
    limit: dict[str, Any] = {"execution_timeout": timedelta(seconds=60)}
    start = virtual_clock.now()
    assert worker(cluster(deferrable=True, **limit), start=start).state == "deferred"
    done = worker(cluster(**limit), start=start, resume=("__fail__", {"error": why}))
    if why == "Trigger failure":
        assert done.result == SNAPSHOT
        assert jobs.calls.count("create") == 1
    else:
        assert type(done.error).__name__ == "AirflowTaskTimeout"
        assert jobs.jobs == {}


def test_what_the_job_says_is_in_the_log(
    worker: Any, jobs: JobsInMemory, memory_backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from trainer_ops.backends.base import LogChunk

    said = ("fetching 2 files, 10 bytes", "10 bytes of 10 bytes, 1 of 2 files, 3 bytes/s", "slow down: 429")
    chunks = iter([LogChunk(said, "p")])
    monkeypatch.setattr(memory_backend, "logs", lambda *_, **__: next(chunks, LogChunk((), "p")))
    capsys.readouterr()
    fire(trigger_of(worker(cluster(deferrable=True))))
    text = capsys.readouterr().out
    assert "hf://datasets/org/digits: 2 files, 10 bytes" in text
    assert "hf://datasets/org/digits: 10 bytes, 1 of 2 files" in text
    assert "slow down: 429" in text


# -- credentials


def test_secrets_of_a_connection_do_not_travel_to_a_cluster(
    worker: Any, jobs: JobsInMemory, connection: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    connection("hub", "huggingface://:hf_s3cret@")
    ran = worker(cluster(source_conn_id="hub", retries=2))
    assert ran.state == "failed"
    assert "source_conn_id: on a cluster its secrets would stand readable in the Job" in str(ran.error)
    assert "give secret_ref" in str(ran.error)
    assert jobs.jobs == {}
    assert "hf_s3cret" not in capsys.readouterr().out
