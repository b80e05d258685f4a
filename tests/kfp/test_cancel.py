"""A terminated run cancels its training: a real process, a closed stdout, a kill shortly after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainer_ops.lifecycle.target import open_backend

pytestmark = [pytest.mark.kfp, pytest.mark.slow]

CODE = """
import json, sys
from types import SimpleNamespace as A
from trainer_ops.kfp.launch import train
model = A(uri="minio://mlpipeline/v2/x/77aa/model", path="/nowhere", metadata={})
train(json.loads(sys.argv[1]), model=model, metrics=A(uri="", path="", metadata={}))
"""


def test_sigterm_with_a_broken_stdout_deletes_and_exits_143(engine: str, tmp_path: Path) -> None:
    inputs = json.dumps({"runtime": "plain", "command": ["sleep", "600"], "num_nodes": 1, "target": engine})
    read, write = os.pipe()
    step = subprocess.Popen([sys.executable, "-c", CODE, inputs], stdout=write, stderr=subprocess.DEVNULL)
    os.close(write)
    backend = open_backend(engine)
    try:
        _until(lambda: any(_running(job) for job in backend.list()))
        # The launcher that reads our stdout dies first: what is printed from here on breaks.
        os.close(read)
        step.send_signal(signal.SIGTERM)
        # KFP leaves 0.7 s; this machine may be busy with other tests, so only the order of things is held to.
        assert step.wait(timeout=20) == 143
        assert backend.list() == []
    finally:
        step.kill()
        step.wait()
        backend.close()


def _running(job: dict[str, object]) -> bool:
    status = job.get("status") or {}
    assert isinstance(status, dict)
    return any(row["active"] for row in status.get("jobsStatus") or ())


def _until(done: object, seconds: float = 30.0) -> None:
    assert callable(done)
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)
