"""What a migration prints for a DAG is a DAG: run by Python, with the real operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer_ops.migrate.convert import convert
from trainer_ops.migrate.report.use import use_of
from trainer_ops.migrate.scan.any import scan

SOURCES = Path(__file__).parents[1] / "migrate"


def tasks_of(text: str) -> dict[str, Any]:
    """The tasks of a DAG whose body is this text."""
    from airflow.sdk import DAG

    with DAG("migrated") as dag:
        exec(compile(text, "replacement", "exec"), {})
    return {task.task_id: task for task in dag.tasks}


@pytest.mark.parametrize("name", ["pytorch-simple", "pytorch-rich", "tf-ps"])
def test_the_call_of_a_report(name: str) -> None:
    done = convert(yaml.safe_load((SOURCES / "corpus" / f"{name}.yaml").read_text()))
    assert done.trainjob is not None
    tasks = tasks_of(use_of(done.trainjob, done.runtime).airflow)
    train = tasks[name.replace("-", "_")]
    assert (train.manifest, train.deferrable) == (f"{name}.yaml", True)
    if done.runtime is not None:
        assert train.upstream_task_ids == {f"{train.task_id}_runtime"}


def test_the_replacements_in_a_dag() -> None:
    text = (SOURCES / "sources" / "dag_create.py.txt").read_text()
    for one in scan("dag_create.py", text):
        if one.finding.code.startswith("AIRFLOW") and "task_id=" in one.replacement:
            (task,) = tasks_of(one.replacement).values()
            assert task.task_id in text
    (create,) = (one for one in scan("dag_create.py", text) if one.line == 64)
    (task,) = tasks_of(create.replacement).values()
    # Rendered as Airflow does it, and read as the operator does it.
    task.render_template_fields({"ds": "2026-01-01", "ds_nodash": "20260101"})
    assert yaml.safe_load(task.manifest)["metadata"]["name"] == "language-20260101"
    from trainer_ops.airflow.inputs import make_request
    from trainer_ops.build.manifest import build
    from trainer_ops.model.identity import RunKey

    request = make_request({"manifest": task.manifest})
    built = build(request, RunKey.of("api", {"key": "a"}, slug="language"), 1, runtime=None, version="1")
    trainer = built.manifest["spec"]["trainer"]
    assert trainer["command"][-1] == "2026-01-01"
    # The run has a name of its own, and its nodes meet under that.
    env = {item["name"]: item.get("value") for item in trainer["env"]}
    assert built.name != "language-20260101"
    assert env["MASTER_ADDR"] == f"{built.name}-node-0-0.{built.name}"
