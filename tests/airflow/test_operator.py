"""TrainJobOperator in a worker: what it makes, what it returns, how it fails."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from trainer_ops import errors
from trainer_ops.model import keys
from trainer_ops.testing import MemoryBackend


def make(**kwargs: Any) -> Any:
    from airflow.sdk import DAG

    from trainer_ops.airflow import TrainJobOperator

    with DAG("digits", schedule=None, params={"rounds": 20, "nodes": 2}):
        return TrainJobOperator(**{"task_id": "train", "runtime": "torch-distributed", "command": ["true"], **kwargs})


def only_job(memory: MemoryBackend) -> Any:
    (job,) = memory.list()
    return job


def test_trains_and_returns_the_outcome(worker: Any, memory: MemoryBackend) -> None:
    ran = worker(make(num_nodes=2))
    assert ran.state == "success"
    assert ran.result["phase"] == "succeeded"
    assert ran.xcoms["trainjob"] == {
        "target": "memory://memory",
        "namespace": "default",
        "name": only_job(memory)["metadata"]["name"],
        "uid": only_job(memory)["metadata"]["uid"],
    }


def test_each_result_has_its_own_xcom(worker: Any, memory: MemoryBackend) -> None:
    result = {"metrics": {"accuracy": 0.9, "model_uri": 1.0}, "model_uri": "s3://m", "artifacts": {}}
    memory.script("*", [(0, lambda t: t.running()), (1, lambda t: t.complete(result))])
    xcoms = worker(make()).xcoms
    assert xcoms["metrics"] == {"accuracy": 0.9, "model_uri": 1.0}
    assert xcoms["accuracy"] == 0.9
    assert xcoms["model_uri"] == "s3://m"  # a metric never hides the model


def test_no_xcom_when_the_user_wants_none(worker: Any, memory: MemoryBackend) -> None:
    ran = worker(make(do_xcom_push=False))
    assert ran.state == "success"
    assert ran.xcoms == {}


def test_a_training_without_a_model_still_has_that_xcom(worker: Any, memory: MemoryBackend) -> None:
    memory.script("*", [(0, lambda t: t.running()), (1, lambda t: t.complete())])
    ran = worker(make())
    assert ran.xcoms["model_uri"] is None
    assert ran.xcoms["metrics"] == {}


def test_everything_nested_is_rendered_in_the_created_object(worker: Any, memory: MemoryBackend) -> None:
    task = make(
        command=["train", "--run={{ run_id }}"],
        args=["conf.yaml", "{{ ds_nodash }}"],  # a value that ends like a template's file name is none
        env={"ROUNDS": "{{ params.rounds }}", "RUN": {"valueFrom": {"fieldRef": {"fieldPath": "{{ ds }}"}}}},
        num_nodes="{{ params.nodes }}",
        resources_per_node={"cpu": "{{ params.nodes }}"},
        labels={"run": "r{{ ds_nodash }}"},
        queue_timeout="{{ params.rounds }}",
        startup_timeout=timedelta(minutes=2),
        max_restarts="{{ 1 + 1 }}",
    )
    ran = worker(task)
    assert ran.state == "success", ran.error
    job, ds = only_job(memory), ran.context["ds"]
    trainer = job["spec"]["trainer"]
    assert trainer["command"] == ["train", "--run=manual__1"]
    assert trainer["args"] == ["conf.yaml", ds.replace("-", "")]
    assert trainer["numNodes"] == 2
    env = {entry["name"]: entry for entry in trainer["env"]}
    assert env["ROUNDS"]["value"] == "20"
    assert env["RUN"]["valueFrom"]["fieldRef"]["fieldPath"] == ds
    assert job["metadata"]["labels"]["run"] == f"r{ds.replace('-', '')}"
    limits = job["metadata"]["annotations"][keys.ANNOTATION_LIMITS]
    assert '"queue_timeout":20.0,"startup_timeout":120.0' in limits
    assert '"max_restarts":2' in limits


def test_mapped_tasks_are_rendered_and_train_apart(worker: Any, memory: MemoryBackend) -> None:
    from airflow.sdk import DAG

    from trainer_ops.airflow import TrainJobOperator

    with DAG("digits", schedule=None, params={"rounds": 20}):
        mapped = TrainJobOperator.partial(task_id="train", runtime="torch-distributed", command=["true"]).expand(
            env=[{"DEPTH": "1", "ROUNDS": "{{ params.rounds }}"}, {"DEPTH": "2", "ROUNDS": "{{ params.rounds }}"}]
        )
    for index in (0, 1):
        ran = worker(mapped, map_index=index)
        assert ran.state == "success", ran.error
    env = [{e["name"]: e["value"] for e in job["spec"]["trainer"]["env"]} for job in memory.list()]
    assert [e["DEPTH"] for e in env] == ["1", "2"]
    assert {e["ROUNDS"] for e in env} == {"20"}


BAD_INPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "text that is no number": ({"num_nodes": "two"}, "num_nodes: 'two' is not a whole number"),
    "too few nodes": ({"num_nodes": 0}, "num_nodes: 0 is not at least 1"),
    "an unknown runtime": ({"runtime": "torch-distribted"}, "Did you mean torch-distributed?"),
    "a queue with a fault": ({"queue_name": 3}, "queue_name: "),
    "a script that is nowhere": ({"command": None, "script": "none.py"}, 'script: "none.py" is neither in'),
    "two codes": ({"python_callable": print}, "python_callable and command exclude each other"),
    "a manifest that is a list": ({"manifest": "[1]", "runtime": None, "command": None}, "is a list, not a TrainJob"),
    "metadata that is text": (
        {"manifest": {"metadata": "x"}, "runtime": None, "command": None},
        "manifest.metadata: 'x' is no mapping",
    ),
    "annotations that are a list": (
        {"manifest": {"metadata": {"annotations": ["x"]}}, "runtime": None, "command": None},
        "manifest.metadata.annotations: ['x'] is no mapping",
    ),
    "a manifest that is no YAML": ({"manifest": "a: [", "runtime": None, "command": None}, "manifest: is not YAML"),
    "a manifest file that is nowhere": (
        {"manifest": "none.yaml", "runtime": None, "command": None},
        "there is no template none.yaml",
    ),
    "a connection that is nowhere": ({"conn_id": "nowhere"}, 'there is no connection "nowhere"'),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_input_creates_nothing_and_is_not_tried_again(case: str, worker: Any, memory: MemoryBackend) -> None:
    kwargs, text = BAD_INPUTS[case]
    ran = worker(make(retries=3, **kwargs))
    assert ran.state == "failed"
    assert text in str(ran.error)
    assert not any(method == "create" for method, _ in memory.calls)


def test_the_failure_is_typed_and_explains_itself(worker: Any, memory: MemoryBackend) -> None:
    memory.script("*", [(0, lambda t: t.running()), (2, lambda t: t.out_of_memory(node=1))])
    ran = worker(make(num_nodes=2, retries=1))
    assert ran.state == "up_for_retry"
    assert isinstance(ran.error, errors.TrainJobOutOfMemory)
    assert "node-1" in str(ran.error)
    assert "out_of_memory" in str(ran.error)
    assert ran.xcoms["diagnosis"]["category"] == "out_of_memory"
    assert "return_value" not in ran.xcoms


def test_lines_of_the_nodes_are_in_the_task_log(
    worker: Any, memory: MemoryBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    memory.script("*", [(0, lambda t: t.running()), (1, lambda t: t.say("100 % of it")), (2, lambda t: t.complete())])
    worker(make(num_nodes=2))
    out = capsys.readouterr().out
    assert "[node-0] 100 % of it" in out
    assert "[node-1] 100 % of it" in out
    assert "trainer-ops cancel" in out
    assert out.count("  running") == 1  # each state once, however often it was looked at


def test_a_retry_adopts_what_still_trains(worker: Any, memory: MemoryBackend, virtual_clock: Any) -> None:
    assert worker(make(retries=2, deferrable=True)).state == "deferred"
    ran = worker(make(retries=2), try_number=2)
    assert ran.state == "success"
    assert len(memory.list()) == 1


def test_a_retry_after_success_has_its_result_at_once(worker: Any, memory: MemoryBackend) -> None:
    first = worker(make(retries=2))
    again = worker(make(retries=2, deferrable=True), try_number=2)
    assert again.state == "success"
    assert again.result["uid"] == first.result["uid"]


def test_a_retry_after_failure_is_the_next_attempt(worker: Any, memory: MemoryBackend) -> None:
    memory.script("*", [(0, lambda t: t.running()), (1, lambda t: t.fail(exit_code=3))], times=1)
    assert worker(make(retries=2)).state == "up_for_retry"
    ran = worker(make(retries=2), try_number=2)
    assert ran.state == "success"
    assert ran.result["attempt"] == 2


def test_clearing_trains_again(worker: Any, memory: MemoryBackend) -> None:
    first = worker(make(retries=1))
    # As Airflow clears: the run's clear_number grows, max_tries becomes tries so far plus retries.
    again = worker(make(retries=1), try_number=2, clear_number=1, max_tries=2)
    assert again.state == "success"
    assert again.result["uid"] != first.result["uid"]
    assert again.result["attempt"] == 1


def test_clearing_supersedes_what_still_trains(worker: Any, memory: MemoryBackend) -> None:
    assert worker(make(deferrable=True)).state == "deferred"
    old = only_job(memory)["metadata"]["uid"]
    assert worker(make(), try_number=2, clear_number=1, max_tries=1).state == "success"
    assert old not in {job["metadata"]["uid"] for job in memory.list()}


def test_clearing_a_neighbour_changes_nothing(worker: Any, memory: MemoryBackend) -> None:
    assert worker(make(retries=2, deferrable=True)).state == "deferred"
    old = only_job(memory)["metadata"]["uid"]
    ran = worker(make(retries=2), try_number=2, clear_number=1)
    assert ran.result["uid"] == old


def test_clearing_after_the_retries_were_lowered(worker: Any, memory: MemoryBackend) -> None:
    assert worker(make(retries=5)).state == "success"
    assert worker(make(retries=0), try_number=2, clear_number=1, max_tries=1).state == "success"
    assert len(memory.list()) == 2


def test_a_worker_of_before_the_clearing_is_told_that_it_is_superseded(worker: Any, memory: MemoryBackend) -> None:
    assert worker(make(deferrable=True), try_number=2, clear_number=1, max_tries=1).state == "deferred"
    late = worker(make())
    assert late.state == "failed"
    assert "superseded" in str(late.error)
    assert len(memory.list()) == 1


def test_clearing_where_airflow_does_not_count_it(worker: Any, memory: MemoryBackend) -> None:
    first = worker(make())
    again = worker(make(), try_number=2, max_tries=1)
    assert again.result["uid"] != first.result["uid"]


def test_a_manifest_template_beside_the_dag_file(worker: Any, memory: MemoryBackend, tmp_path: Path) -> None:
    from airflow.sdk import DAG

    from trainer_ops.airflow import TrainJobOperator

    (tmp_path / "job.yaml").write_text(MANIFEST)
    with DAG("digits", schedule=None, template_searchpath=str(tmp_path)):
        task = TrainJobOperator(task_id="train", manifest="job.yaml")
    first = worker(task, run_id="monday")
    second = worker(task, run_id="tuesday")
    assert [first.state, second.state] == ["success", "success"]
    names = [job["metadata"]["name"] for job in memory.list()]
    assert len(set(names)) == 2  # one file, a training for each run
    assert all(name.startswith("nightly-") for name in names)
    assert memory.list()[0]["spec"]["trainer"]["args"] == ["monday"]


@pytest.mark.parametrize("form", ["text", "mapping"])
def test_a_manifest_in_the_dag(form: str, worker: Any, memory: MemoryBackend) -> None:
    import yaml

    manifest = MANIFEST if form == "text" else yaml.safe_load(MANIFEST)
    assert worker(make(runtime=None, command=None, manifest=manifest)).state == "success"
    assert only_job(memory)["spec"]["trainer"]["args"] == ["manual__1"]


MANIFEST = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: nightly
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    command: [train]
    args: ["{{ run_id }}"]
"""


def test_a_function_is_shipped_with_its_arguments(worker: Any, memory: MemoryBackend) -> None:
    def fit(depth: int) -> dict[str, float]:
        return {"accuracy": 1.0 - 1.0 / depth}

    task = make(command=None, python_callable=fit, op_kwargs={"depth": "{{ params.rounds }}"})
    ran = worker(task)
    assert ran.state == "success", ran.error
    assert only_job(memory)["spec"]["trainer"]["command"]


def test_a_script_is_found_beside_the_dag_file_first(
    worker: Any, memory: MemoryBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "cwd").mkdir()
    for folder in ("dags", "cwd"):
        (tmp_path / folder / "both.py").write_text(f"print('{folder}')")
    (tmp_path / "cwd" / "here.py").write_text("print('here')")
    monkeypatch.chdir(tmp_path / "cwd")
    for script in ("both.py", "here.py", str(tmp_path / "cwd" / "here.py")):
        task = make(command=None, script=script, task_id=script.replace("/", "_"))
        task.dag.fileloc = str(tmp_path / "dags" / "digits.py")
        ran = worker(task)
        assert ran.state == "success", ran.error
    commands = [job["spec"]["trainer"]["command"] for job in memory.list()]
    assert commands[0] != commands[1]
    assert commands[1] == commands[2]


def test_assets_are_told_of_metrics_and_model(worker: Any, memory: MemoryBackend) -> None:
    from airflow.sdk import Asset, AssetAlias

    result = {"metrics": {"accuracy": 0.95}, "model_uri": "s3://models/1", "artifacts": {}}
    memory.script("*", [(0, lambda t: t.running()), (1, lambda t: t.complete(result))])
    model = Asset("s3://models/digits")
    ran = worker(make(outlets=[model, AssetAlias("each-model")]))
    assert ran.state == "success", ran.error
    events = ran.context["outlet_events"]
    assert events[model].extra["metrics"] == {"accuracy": 0.95}
    assert events[model].extra["model_uri"] == "s3://models/1"
    (alias,) = events[AssetAlias("each-model")].asset_alias_events
    assert alias.dest_asset_key.uri == "s3://models/1"


def test_a_long_dag_and_task_id_are_no_hindrance(memory: MemoryBackend) -> None:
    from trainer_ops.airflow.inputs import make_request

    values = {"runtime": "plain", "command": ["true"]}
    assert len(make_request(values, folders=(), title="d" * 250 + "-" + "t" * 250).name or "") == 63
