from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.errors import Unreachable
from trainer_ops.local import recorder as recorder_module
from trainer_ops.local import records
from trainer_ops.local.loop import Loop
from trainer_ops.local.objects import new_trainjob, set_condition
from trainer_ops.local.recorder import Recorder
from trainer_ops.local.store import Store, decode


class Full(Store):
    """A store whose disk is full for some writes."""

    full = 0

    @contextmanager
    def write(self) -> Iterator[Any]:
        if self.full:
            self.full -= 1
            raise Unreachable("disk full")
        with super().write() as connection:
            yield connection


@pytest.fixture
def loop() -> Iterator[Loop]:
    numbers = (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    yield Loop(on_child=lambda: None, on_terminate=lambda: None)
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Full]:
    made = Full(tmp_path / "root")
    job = new_trainjob({"metadata": {"name": "x"}}, uid="u", now=0.0, namespace="default")
    with made.write() as connection:
        columns = {"cwd": "/", "python": "p", "max_jobs": 1, "created": 0.0, "want": "run", "stage": "running"}
        records.insert_job(connection, job, {}, **columns)
    made.make_folder("u")
    yield made
    made.close()


def test_a_full_disk_loses_nothing(loop: Loop, store: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "RETRY_SECONDS", 0.0)
    status = [{"name": "node", "active": 0}]
    recorder = Recorder(store, loop, "u", "x", status=lambda: status)
    store.full = 3
    recorder.event("Job", "x-node-0", "Said", "before")
    recorder.flush(lambda _c, job: set_condition(job, "Complete", True, "AllJobsCompleted", "done", 1.0))
    assert recorder.pending

    def look() -> None:
        if recorder.pending:
            loop.later(0.0, look)
        else:
            loop.stop()

    look()
    loop.run()
    with store.read() as connection:
        row = records.job_by_uid(connection, "u")
        events = records.events_of(connection, "u")
    assert row is not None
    job = decode(row["object"])
    assert job["status"]["conditions"][0]["type"] == "Complete"
    assert job["status"]["jobsStatus"] == status
    assert [e["message"] for e in events] == ["before"]


def test_without_a_folder_there_is_no_training(loop: Loop, store: Full) -> None:
    recorder = Recorder(store, loop, "u", "x", status=list)
    store.remove_folder("u")
    store.full = 1
    with pytest.raises(Unreachable):
        recorder.flush()


def test_timers_run_in_order_and_not_when_cancelled(loop: Loop) -> None:
    ran: list[str] = []
    loop.later(0.002, lambda: ran.append("second"))
    loop.later(0.0, lambda: ran.append("first"))
    loop.later(0.001, lambda: ran.append("never")).cancel()
    loop.later(0.003, loop.stop)
    loop.run()
    assert ran == ["first", "second"]
