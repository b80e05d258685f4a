"""What the example DAGs say of themselves, before anything runs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DAGS = sorted((Path(__file__).parents[2] / "dags").glob("*.py"))

PARSED = """
import runpy, sys
for path in sys.argv[1:]:
    runpy.run_path(path)
print(*sorted(sys.modules))
"""
# Airflow loads much by itself, looking for providers; what counts is what only a running task needs.
HEAVY = (
    "kubernetes", "s3fs", "mlflow", "huggingface_hub", "xgboost", "sklearn", "numpy", "trainer_ops.model.request",
    "trainer_ops.lifecycle.submit", "trainer_ops.lifecycle.champion", "trainer_ops.lifecycle.snapshots",
)  # fmt: skip


@pytest.mark.parametrize("path", DAGS, ids=[path.stem for path in DAGS])
def test_says_how_to_run_it_and_is_short(path: Path) -> None:
    text = path.read_text()
    doc = ast.get_docstring(ast.parse(text)) or ""
    assert "export AIRFLOW_CONN_TRAINING='trainer-local:///tmp/trainings'" in doc
    if path.stem != "train_digits":
        assert f"airflow dags test {path.stem}" in doc
    assert len(text.splitlines()) <= 66


def test_parsing_them_loads_nothing_heavy() -> None:
    command = [sys.executable, "-c", PARSED, *map(str, DAGS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.splitlines()[-1].split()
    assert [name for name in loaded if name in HEAVY] == []


def test_retraining_runs_by_the_clock_and_by_data(dags: Any) -> None:
    dag = dags["scheduled_retraining"]
    assert dag.timetable.timetable.expression == "0 5 * * *"
    assert [asset.name for asset in dag.timetable.asset_condition.objects] == ["digits_data"]
    assert dag.max_active_runs == 1  # two at once could promote over one another in MLflow
    # Its own snapshot starts it not again, and only a promotion tells of a new champion.
    outlets = {task.task_id: [outlet.name for outlet in task.outlets] for task in dag.tasks if task.outlets}
    assert outlets == {"promote": ["digits_champion"]}


def test_the_notifier_is_one_that_airflow_is_told_of() -> None:
    from trainer_ops.airflow import WebhookNotifier
    from trainer_ops.airflow.provider_info import get_provider_info

    assert f"{WebhookNotifier.__module__}.{WebhookNotifier.__name__}" in get_provider_info()["notifications"]
