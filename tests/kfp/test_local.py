"""Pipelines under kfp's SubprocessRunner, with the trainings on the embedded engine."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.kfp, pytest.mark.slow]

SCRIPT = """
import os, sys
from trainer_ops import report
print("hello from", os.environ["DMLC_TASK_ID"], *sys.argv[1:])
if "fail" in sys.argv:
    raise FileNotFoundError("/data/train.csv")
os.makedirs(os.environ["TRAINER_OPS_CHECKPOINT_DIR"], exist_ok=True)
with open(os.environ["TRAINER_OPS_CHECKPOINT_DIR"] + "/model.txt", "w") as file:
    file.write("weights")
report({"accuracy": 0.5}, model_uri="file://" + file.name)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def test_artifacts_and_parameters(engine: str, runner: Any, script: str) -> None:
    from trainer_ops.kfp import train_job

    task = train_job(
        runtime="xgboost-distributed",
        script_uri=script,
        num_nodes=2,
        checkpoint_dir=str(Path(script).parent),
        target=engine,
    )
    outcome = task.outputs["outcome"]
    assert outcome["phase"] == "succeeded"
    assert outcome["metrics"] == {"accuracy": 0.5}
    assert task.outputs["metrics"].metadata == {"accuracy": 0.5}
    model = task.outputs["model"]
    assert Path(model.path).read_text() == "weights"
    assert model.metadata["framework"] == "xgboost"
    assert model.metadata["model_uri"] == task.outputs["model_uri"]
    page = Path(task.outputs["report"].path).read_text()
    assert page.lower().startswith("<!doctype html>")
    assert outcome["name"] in page


def test_a_failure_ends_with_the_diagnosis(
    engine: str, runner: Any, script: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from trainer_ops.kfp import train_job

    with pytest.raises(RuntimeError, match="train-job"):
        train_job(runtime="xgboost-distributed", script_uri=script, args=["fail"], num_nodes=2, target=engine)
    text = capfd.readouterr().out
    assert "FileNotFoundError: /data/train.csv" in text
    assert "exit code 1 on node-" in text
    (page,) = tmp_path.glob("root/*/train-job/report*")
    assert "FileNotFoundError: /data/train.csv" in page.read_text()
    assert 'File "/' not in text.rsplit("exit code 1", 1)[1].replace("train.py", "")


def test_bad_input_creates_nothing(engine: str, runner: Any, script: str, capfd: pytest.CaptureFixture[str]) -> None:
    from trainer_ops.kfp import train_job
    from trainer_ops.lifecycle.target import open_backend

    with pytest.raises(RuntimeError):
        train_job(runtime="xgboost-distributd", script_uri=script, target=engine)
    assert "Did you mean xgboost-distributed?" in capfd.readouterr().out
    backend = open_backend(engine)
    assert backend.list() == []
    backend.close()


def test_two_starts_with_one_output_uri_are_one_training(engine: str, step: Callable[..., Any]) -> None:
    """What a UI retry and a pod that Argo makes again look like: the same code, the same URIs."""
    command = ["sh", "-c", "sleep 1; echo trained"]
    one = step("train_job", runtime="plain", command=command, num_nodes=1.0, target=engine)
    starts = [one.start(stdout=subprocess.PIPE) for _ in range(3)]
    said = [start.communicate(timeout=60)[0] for start in starts]
    assert [start.returncode for start in starts] == [0, 0, 0]

    assert sum("  created on" in text for text in said) == 1
    assert one.written["outcome"]["phase"] == "succeeded"
