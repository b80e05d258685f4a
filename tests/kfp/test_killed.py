"""A step killed with SIGKILL at any point and started again with the same URIs: one training, the same outputs."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kfp.apiserver import ApiServer
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model import keys

pytestmark = [pytest.mark.kfp, pytest.mark.slow]

# Each makes the first start of the step kill itself: what it replaces is called for the last time.
KILL = "import os, signal\ndef kill(*a, **k): os.kill(os.getpid(), signal.SIGKILL)\n"
POINTS = {
    "as it starts": "from trainer_ops.kfp import launch; launch.opened = kill",
    "before the submission": "from trainer_ops.kfp import launch; launch.submit = kill",
    "before the create": "from trainer_ops.local.engine import LocalBackend as B; B.create = kill",
    "stored, but not started": "from trainer_ops.local import engine; engine.start_supervisor = kill",
    "after the create": (
        "from trainer_ops.local.engine import LocalBackend as B; create = B.create\n"
        "def both(*a): create(*a); kill()\nB.create = both"
    ),
    "submitted": "from trainer_ops.kfp.cancel import Handle; Handle.started = kill",
    "at the first look": "from trainer_ops.local.engine import LocalBackend as B; B.observe = kill",
    "while it waits": "from trainer_ops.lifecycle.clock import RealClock; RealClock.sleep = kill",
    "over, and nothing written": "from trainer_ops.kfp import launch; launch.ended = kill",
    "the report written": "from trainer_ops.kfp import ending; ending.fill = kill",
    "the model copied": "from trainer_ops.kfp.task import Task; Task.write = kill",
    "outputs written aside": "os.replace = kill",
    "outputs half-written": (
        "from trainer_ops.kfp.task import Task\n"
        "def half(task, *a): task.output_file.write_text('{\"parameterVal'); kill()\nTask.write = half"
    ),
    "outputs written": (
        "from trainer_ops.kfp.task import Task; write = Task.write\ndef both(*a): write(*a); kill()\nTask.write = both"
    ),
}
SCRIPT = """
import os, time
from trainer_ops import report
time.sleep(0.5)
path = os.environ["TRAINER_OPS_CHECKPOINT_DIR"]
os.makedirs(path, exist_ok=True)
with open(path + "/starts", "a") as file:
    file.write("x")
report({"accuracy": 0.5}, model_uri="file://" + file.name)
"""


@pytest.fixture
def inputs(tmp_path: Path, engine: str) -> dict[str, Any]:
    (tmp_path / "train.py").write_text(SCRIPT)
    return {
        "runtime": "plain",
        "script_uri": str(tmp_path / "train.py"),
        "checkpoint_dir": str(tmp_path / "checkpoints"),
        "target": engine,
    }


@pytest.mark.parametrize("point", POINTS)
def test_train_job(step: Callable[..., Any], engine: str, inputs: dict[str, Any], point: str) -> None:
    one = step("train_job", **inputs)
    first = one.start(KILL + POINTS[point], stdout=subprocess.DEVNULL)
    assert first.wait(timeout=60) == -signal.SIGKILL
    assert one.start(stdout=subprocess.DEVNULL).wait(timeout=60) == 0
    backend = open_backend(engine)
    (job,) = backend.list()
    backend.close()
    assert job["metadata"]["labels"][keys.LABEL_ATTEMPT] == "1"
    outcome = one.written["outcome"]
    assert (outcome["uid"], outcome["phase"]) == (job["metadata"]["uid"], "succeeded")
    assert outcome["metrics"] == {"accuracy": 0.5}
    # The training ran once: what it wrote, and what KFP is given of it.
    assert (one.folder / "model").read_text() == "x"
    artifacts = json.loads((one.folder / "output.json").read_text())["artifacts"]
    assert artifacts["metrics"]["artifacts"][0]["metadata"] == {"accuracy": 0.5}
    left = sorted(path.name for path in one.folder.iterdir() if not path.name.startswith(".output.json-"))
    assert left == ["model", "output.json", "report"]


@pytest.mark.parametrize("point", ["after the create", "submitted", "outputs half-written", "outputs written"])
def test_submit_train_job(step: Callable[..., Any], engine: str, inputs: dict[str, Any], point: str) -> None:
    one = step("submit_train_job", **inputs)
    first = one.start(KILL + POINTS[point], stdout=subprocess.DEVNULL)
    assert first.wait(timeout=60) == -signal.SIGKILL
    assert one.start(stdout=subprocess.DEVNULL).wait(timeout=60) == 0
    backend = open_backend(engine)
    (job,) = backend.list()
    backend.close()
    assert one.written["ref"]["uid"] == job["metadata"]["uid"]


def test_a_lost_reply_of_the_create_on_a_cluster(cluster: ApiServer, step: Callable[..., Any]) -> None:
    """The API server has stored the TrainJob, and the pod dies before it hears of it."""
    import threading

    reached, go_on = threading.Event(), threading.Event()

    def hold(now: str) -> None:
        if now == "after" and not reached.is_set():
            reached.set()
            go_on.wait(20)

    cluster.hold = hold
    one = step("submit_train_job", runtime="plain", command=["true"])
    first = one.start_in(cluster, stdout=subprocess.DEVNULL)
    assert reached.wait(30)
    first.kill()
    first.wait()
    go_on.set()
    assert one.start_in(cluster, stdout=subprocess.DEVNULL).wait(timeout=60) == 0
    (job,) = cluster.jobs.values()
    assert one.written["ref"]["uid"] == job["metadata"]["uid"]
    assert len(cluster.seen("POST")) == 1


def test_another_task_is_another_training(step: Callable[..., Any], engine: str, inputs: dict[str, Any]) -> None:
    starts = [step("train_job", task=task, **inputs).start(stdout=subprocess.DEVNULL) for task in ("a1", "b2")]
    assert [start.wait(timeout=60) for start in starts] == [0, 0]
    backend = open_backend(engine)
    assert len(backend.list()) == 2
    backend.close()
