"""``max_restarts`` on the engine: each node is started again so often, and by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import trainer_ops
from trainer_ops.local.engine import LocalBackend
from trainer_ops.model.outcome import Category

FLAKY = """
import os, pathlib, sys
runs = pathlib.Path(os.environ["FOLDER"]) / os.environ["JOB_COMPLETION_INDEX"]
done = len(runs.read_text()) if runs.exists() else 0
runs.write_text("x" * (done + 1))
fails = int(os.environ["FAILS"]) if runs.name in os.environ["WHO"] else 0
sys.exit(3 if done < fails else 0)
"""


@pytest.mark.parametrize(
    ("who", "fails", "max_restarts", "category"),
    [
        pytest.param("01", 1, 1, None, id="both nodes fail once and are started again once each"),
        pytest.param("0", 2, 1, Category.RESTARTS_EXHAUSTED, id="a node fails once too often"),
        pytest.param("01", 2, 1, Category.RESTARTS_EXHAUSTED, id="both do, and one of them first"),
        pytest.param("01", 1, 0, Category.EXIT_CODE, id="no restart"),
        pytest.param("01", 1, None, Category.EXIT_CODE, id="not given: this machine's runtimes restart nothing"),
    ],
)
def test_each_node_has_its_own_restarts(
    local_trainer: LocalBackend,
    tmp_path: Path,
    who: str,
    fails: int,
    max_restarts: int | None,
    category: Category | None,
) -> None:
    outcome = trainer_ops.run(
        runtime="plain",
        command=["python3", "-c", FLAKY],
        num_nodes=2,
        env={"FOLDER": str(tmp_path), "FAILS": fails, "WHO": who},
        max_restarts=max_restarts,
        target=local_trainer.target,
    )
    assert (outcome.diagnosis and outcome.diagnosis.category) == category, str(outcome.diagnosis)
    if category is None:
        assert [(tmp_path / index).read_text() for index in "01"] == ["xx", "xx"]
