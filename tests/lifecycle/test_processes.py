"""The promises of ``submit`` with real processes on the engine: nothing here shares memory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import trainer_ops
from trainer_ops.backends.base import Backend
from trainer_ops.lifecycle.target import open_backend

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# Appends a line each time it trains, so that training twice cannot go unnoticed.
_TRAIN = """
import json, os, time
import trainer_ops
with open(os.environ["WITNESS"], "a") as file:
    file.write("trained\\n")
time.sleep(float(os.environ.get("SECONDS_TO_TRAIN", "1")))
trainer_ops.report(metrics={"accuracy": 0.75})
"""

_SUBMIT = """
import json, os, sys, time
import trainer_ops, trainer_ops.lifecycle.api
script, target, witness, seconds, ready, go = sys.argv[1:]
open(ready, "w").close()
while not os.path.exists(go):
    time.sleep(0.005)
outcome = trainer_ops.run(
    runtime="torch-distributed", runner="python", script=script, target=target, key="nightly",
    env={"WITNESS": witness, "SECONDS_TO_TRAIN": seconds},
)
print(json.dumps({"outcome": outcome.to_json(), "package": trainer_ops.__file__}))
"""


def until(what: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "did not come true in time"
        time.sleep(0.05)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Backend]:
    backend = open_backend(f"local://{tmp_path / 'engine'}")
    yield backend
    for job in backend.list():
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        backend.delete(name)
        until(lambda name=name, uid=uid: not backend.pods(name, uid=uid))  # type: ignore[misc]
    backend.close()


class Checkouts:
    """Two copies of the package and of the script, as two machines' workers have them."""

    def __init__(self, folder: Path, engine: Backend) -> None:
        self.folder = folder
        self.engine = engine
        self.witness = folder / "witness"
        self.go = folder / "go"
        for copy in ("a", "b"):
            package = Path(trainer_ops.__file__).parent
            shutil.copytree(package, folder / copy / "trainer_ops", ignore=shutil.ignore_patterns("__pycache__"))
            (folder / copy / "dags").mkdir()
            (folder / copy / "dags" / "digits.py").write_text(_TRAIN)

    def start(self, number: int, *, seconds: float = 1) -> subprocess.Popen[str]:
        """A process of copy a or b that submits and waits once ``go`` is there."""
        home = self.folder / "ab"[number % 2]
        ready = self.folder / f"ready-{number}"
        arguments = [home / "dags" / "digits.py", self.engine.target, self.witness, seconds, ready, self.go]
        return subprocess.Popen(
            [sys.executable, "-c", _SUBMIT, *map(str, arguments)],
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ready(self) -> int:
        return len(list(self.folder.glob("ready-*")))

    def trained(self) -> int:
        return len(self.witness.read_text().splitlines()) if self.witness.exists() else 0


@pytest.fixture
def checkouts(tmp_path: Path, engine: Backend) -> Checkouts:
    return Checkouts(tmp_path, engine)


def test_twenty_processes_of_two_checkouts_at_once_train_once(checkouts: Checkouts) -> None:
    processes = [checkouts.start(number) for number in range(20)]
    try:
        until(lambda: checkouts.ready() == 20)
        checkouts.go.touch()
        ends = [process.communicate(timeout=240) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * 20, [error for _, error in ends]
    answers = [json.loads(text) for text, _ in ends]
    assert len({answer["package"] for answer in answers}) == 2
    # Each has seen the course of it from when it began to look; what came of it is the same for all.
    own = ("phases", "nodes", "events", "seen_at")
    outcomes = [{k: v for k, v in answer["outcome"].items() if k not in own} for answer in answers]
    assert outcomes == [outcomes[0]] * 20
    assert outcomes[0]["metrics"] == {"accuracy": 0.75}
    assert checkouts.trained() == 1
    assert len(checkouts.engine.list()) == 1


def test_kill_9_of_the_submitter_leaves_the_training_to_the_next(checkouts: Checkouts) -> None:
    checkouts.go.touch()
    first = checkouts.start(0, seconds=8)
    until(lambda: checkouts.trained() == 1)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert len(checkouts.engine.list()) == 1

    second = checkouts.start(1, seconds=8)
    text, error = second.communicate(timeout=120)
    assert second.returncode == 0, error
    assert json.loads(text)["outcome"]["attempt"] == 1
    assert checkouts.trained() == 1
    assert len(checkouts.engine.list()) == 1


def test_kill_9_at_any_moment_of_submitting(checkouts: Checkouts) -> None:
    """Killed again and again at moments that move through a submission: there is never a second TrainJob."""
    checkouts.go.touch()
    for number in range(8):
        process = checkouts.start(number, seconds=20)
        until(lambda number=number: (checkouts.folder / f"ready-{number}").exists())  # type: ignore[misc]
        time.sleep(0.03 * number)  # not waiting for anything: this is the moment at which it dies
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert len(checkouts.engine.list()) <= 1
    assert checkouts.trained() <= 1
