"""What a DAG file costs and what Airflow's processes read of the operator: nothing runs here."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest


def test_the_operator_has_every_field_of_a_request() -> None:
    from trainer_ops.airflow import TrainJobOperator
    from trainer_ops.airflow.inputs import FIELDS, RENAMED
    from trainer_ops.model.request import TrainRequest

    assert {RENAMED.get(name, name) for name in FIELDS} == set(TrainRequest.model_fields) - {"code"}
    assert set(FIELDS) < set(inspect.signature(TrainJobOperator.__init__).parameters)
    assert set(FIELDS) < set(TrainJobOperator.template_fields)


def test_making_one_looks_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer_ops.airflow import TrainerHook, TrainJobOperator

    monkeypatch.setattr(TrainerHook, "get_connection", lambda *_: pytest.fail("looked up"))
    TrainJobOperator(task_id="train", conn_id="nowhere", script="none.py", num_nodes="{{ params.x }}")


def test_a_policy_that_is_none_is_an_import_error_of_the_dag() -> None:
    from trainer_ops.airflow import TrainJobOperator

    with pytest.raises(ValueError, match="on_kill: 'destroy' is none of delete, suspend, keep"):
        TrainJobOperator(task_id="train", on_kill="destroy")  # type: ignore[arg-type]


@pytest.mark.parametrize("configured", ["true", "false"])
def test_deferrable_follows_the_configuration(configured: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer_ops.airflow import TrainJobOperator

    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", configured)
    assert TrainJobOperator(task_id="train").deferrable is (configured == "true")
    assert TrainJobOperator(task_id="train", deferrable=True).deferrable


def test_the_dag_serializes_with_everything_set() -> None:
    from datetime import timedelta

    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import DagSerialization

    from trainer_ops.airflow import TrainJobOperator

    def fit() -> None: ...

    with DAG("digits", schedule=None) as dag:
        first = TrainJobOperator(task_id="first", runtime="torch-distributed", python_callable=fit, op_kwargs={"a": 1})
        TrainJobOperator(
            task_id="second",
            runtime="torch-distributed",
            command=["train", first.output["model_uri"]],
            env={
                "A": 1,
                "B": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                "C": first.output["accuracy"],
            },
            dataset={"storage_uri": "s3://b", "env": {"X": "{{ ds }}"}},
            queue_timeout=timedelta(minutes=1),
            suspend=True,
        )
    data = DagSerialization.to_dict(dag)
    json.dumps(data)
    back = DagSerialization.from_dict(data)
    assert back.get_task("second").upstream_task_ids == {"first"}


def test_a_task_can_be_pickled() -> None:
    from trainer_ops.airflow import TrainJobOperator

    task = TrainJobOperator(task_id="train", runtime="torch-distributed", command=["x"], num_nodes=2)
    assert pickle.loads(pickle.dumps(task)).num_nodes == 2


HEAVY = ("kubernetes", "yaml", "sqlite3", "rich", "trainer_ops.model.request", "trainer_ops.lifecycle.submit")

COST = """
import json, resource, sys, time
import {base}
before, rss, start = set(sys.modules), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
{ours}
print(json.dumps([sorted(set(sys.modules) - before), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss]))
"""


def _loaded(base: str, ours: str) -> tuple[set[str], int]:
    code = COST.format(base=base, ours=ours)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules, kib = json.loads(done.stdout.splitlines()[-1])
    return set(modules), kib


@pytest.mark.parametrize(
    ("base", "names"),
    [
        ("airflow.sdk, airflow.sdk.bases.operator, airflow.sdk.configuration", "TrainJobOperator"),
        ("airflow.sdk, airflow.sdk.bases.sensor, airflow.sdk.configuration", "TrainJobSensor"),
        ("airflow.triggers.base", "TrainJobEventTrigger"),
        ("airflow.sdk, airflow.sdk.bases.operator", "SuspendTrainJobOperator, DeleteTrainJobsOperator"),
    ],
)
def test_a_dag_file_pays_for_nothing_heavy(base: str, names: str) -> None:
    """Airflow itself loads pydantic and more; what counts is what we add to it."""
    modules, kib = _loaded(base, f"from trainer_ops.airflow import {names}")
    assert not [name for name in modules if name.startswith(HEAVY)]
    assert kib < 5 * 1024
    assert all(name.startswith("trainer_ops") for name in modules), modules


def test_importing_the_package_imports_no_airflow() -> None:
    modules, _ = _loaded("os", "import trainer_ops.airflow, trainer_ops.airflow.provider_info")
    assert not [name for name in modules if name.startswith(("airflow", "pydantic"))]


def test_without_airflow_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['airflow'] = None\nfrom trainer_ops.airflow import TrainJobOperator"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: TrainJobOperator needs Airflow 3: pip install 'trainer-ops[airflow]'" in done.stderr


def test_the_provider_info_is_what_airflow_accepts() -> None:
    from importlib.resources import files

    import jsonschema  # type: ignore[import-untyped]

    from trainer_ops.airflow.provider_info import get_provider_info

    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_airflow_finds_the_provider_and_its_connection_type() -> None:
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    manager: Any = ProvidersManager()
    assert "trainer-ops" in manager.providers
    hook = ProvidersManagerTaskRuntime().hooks["trainer-local"]
    assert hook.hook_class_name == "trainer_ops.airflow.hook.TrainerHook"
    assert "trainer-local" in manager.field_behaviours
    assert {"extra__trainer-local__root", "extra__trainer-local__max_jobs"} <= set(manager.connection_form_widgets)


def test_what_the_provider_names_exists() -> None:
    from importlib import import_module

    from trainer_ops.airflow.provider_info import get_provider_info

    info = get_provider_info()
    for kind in ("operators", "sensors", "hooks", "triggers"):
        for entry in info[kind]:
            for module in entry["python-modules"]:
                import_module(module)
    module, _, name = info["connection-types"][0]["hook-class-name"].rpartition(".")
    assert getattr(import_module(module), name).conn_type == info["connection-types"][0]["connection-type"]
