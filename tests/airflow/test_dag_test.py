"""``dag.test()`` over the embedded engine: the example DAG, functions, mapped tasks, a script that fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Xcoms = Callable[..., list[Any]]


def test_the_example_trains_for_real(
    dags: Any, xcoms: Xcoms, local_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING", local_trainer.target.replace("local:", "trainer-local:"))
    run = dags["digits"].test(run_conf={"rounds": 8})
    assert str(run.state) == "success"
    (outcome,) = xcoms(run, "train")
    assert outcome["metrics"]["accuracy"] > 0.85
    assert Path(outcome["model_uri"].removeprefix("file://")).is_file()
    assert xcoms(run, "report") == [f"accuracy {outcome['metrics']['accuracy']:.3f}   model {outcome['model_uri']}"]


def test_functions_and_a_script_that_breaks(
    dags: Any,
    xcoms: Xcoms,
    states: Callable[[Any], dict[str, str]],
    local_trainer: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING", local_trainer.target.replace("local:", "trainer-local:"))
    run = dags["functions"].test()
    assert states(run) == {"fit[0]": "success", "fit[1]": "success", "best": "success", "breaks": "failed"}
    assert xcoms(run, "best") == [0.75]
    (diagnosis,) = xcoms(run, "breaks", "diagnosis")
    assert diagnosis["category"] == "exit_code"
    assert "node-1" in diagnosis["summary"]
    text = capsys.readouterr().out
    assert "[node-0] depth 4" in text
    assert "FileNotFoundError: /data/train.csv" in text
