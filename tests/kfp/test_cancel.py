"""A terminated run cancels its training: a real process, a closed stdout, a kill shortly after."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.lifecycle.target import open_backend

pytestmark = [pytest.mark.kfp, pytest.mark.slow]


def test_sigterm_with_a_broken_stdout_deletes_and_exits_143(engine: str, step: Callable[..., Any]) -> None:
    read, write = os.pipe()
    one = step("train_job", runtime="plain", command=["sleep", "600"], target=engine)
    process = one.start(stdout=write, stderr=subprocess.DEVNULL)
    os.close(write)
    backend = open_backend(engine)
    try:
        _until(lambda: any(_running(job) for job in backend.list()))
        # The launcher that reads our stdout dies first: what is printed from here on breaks.
        os.close(read)
        process.send_signal(signal.SIGTERM)
        # KFP leaves 0.7 s; this machine may be busy with other tests, so only the order of things is held to.
        assert process.wait(timeout=20) == 143
        assert backend.list() == []
    finally:
        process.kill()
        process.wait()
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
