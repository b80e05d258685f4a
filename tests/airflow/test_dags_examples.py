"""The other example DAGs, each on the engine: sweep, function, MPI."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Xcoms = Callable[..., list[Any]]
States = Callable[[Any], dict[str, str]]


@pytest.fixture(autouse=True)
def training(local_trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that the examples name."""
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING", local_trainer.target.replace("local:", "trainer-local:"))


def test_a_sweep_picks_the_best_of_those_that_trained(
    dags: Any, xcoms: Xcoms, states: States, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = {"depths": [1, 5, "deep"], "etas": [0.3], "rounds": 6}
    run = dags["hyperparameter_sweep"].test(run_conf=conf)
    assert states(run) == {
        "grid": "success",
        "trial[0]": "success",
        "trial[1]": "success",
        "trial[2]": "failed",
        "best": "success",
    }
    shallow, deep = xcoms(run, "trial")
    assert deep["metrics"]["accuracy"] > shallow["metrics"]["accuracy"]
    assert xcoms(run, "best") == [deep]
    assert deep["artifacts"] == {"depth": 5, "eta": 0.3}
    text = capsys.readouterr().out
    assert "{'depth': 5, 'eta': 0.3}" in text
    assert "invalid literal for int() with base 10: 'deep'" in text
    assert names(run) == ["depth 1, eta 0.3", "depth 5, eta 0.3", "depth deep, eta 0.3"]


def names(run: Any) -> list[str]:
    """What the grid view calls the mapped tasks."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(TaskInstance).where(TaskInstance.run_id == run.run_id, TaskInstance.map_index >= 0)
        return [str(ti.rendered_map_index) for ti in session.execute(query.order_by(TaskInstance.map_index)).scalars()]


def test_a_function(dags: Any, xcoms: Xcoms, states: States) -> None:
    run = dags["train_function"].test(run_conf={"trials": 2, "trees": 10})
    assert states(run) == {"seeds": "success", "fit[0]": "success", "fit[1]": "success", "summary": "success"}
    fits = xcoms(run, "fit")
    assert [one["seed"] for one in fits] == [0, 1]
    assert all(one["accuracy"] > 0.8 for one in fits)
    average = sum(one["accuracy"] for one in fits) / 2
    worst = min(one["accuracy"] for one in fits)
    assert xcoms(run, "summary") == [f"accuracy {average:.3f} on average of 2, {worst:.3f} at worst"]
    assert [one["phase"] for one in xcoms(run, "fit", "outcome")] == ["succeeded", "succeeded"]


@pytest.mark.skipif(
    shutil.which("mpirun", path=str(Path(sys.executable).parent)) is None, reason="no mpirun beside this interpreter"
)
def test_mpi(dags: Any, xcoms: Xcoms, states: States, capsys: pytest.CaptureFixture[str]) -> None:
    run = dags["train_mpi"].test(run_conf={"steps": 100})
    text = capsys.readouterr().out
    assert states(run) == {"train": "success", "report": "success"}, text
    (metrics,) = xcoms(run, "train", "metrics")
    assert metrics["ranks"] == 2
    assert metrics["accuracy"] > 0.8
    assert "rank 0 of 2 on " in text
    assert "rank 1 of 2 on " in text
    assert xcoms(run, "report") == [f"accuracy {metrics['accuracy']:.3f} on 2 ranks"]
