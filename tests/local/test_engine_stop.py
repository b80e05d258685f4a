"""Deleting, suspending, deadlines: how a training is stopped, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.errors import NotFound, PreconditionFailed
from trainer_ops.model.phase import Phase

WAITS = "import time; print('on', flush=True); time.sleep(600)"

SAVES = """
import signal, sys, time
def save(*_):
    print("saving", flush=True)
    open(sys.argv[1], "a").write("saved")
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("on", flush=True)
time.sleep(600)
"""

DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"

SHELL = """
import signal, subprocess, sys, time
code = '''
import signal, sys, time
def save(*_):
    time.sleep(0.3)
    open(sys.argv[1], "a").write("saved")
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("on", flush=True)
time.sleep(600)
'''
child = subprocess.Popen([sys.executable, "-c", code, sys.argv[1]])
child.wait()
"""

DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
print("on", flush=True)
time.sleep(600)
"""


def run(engine: Any, name: str, code: str, *args: str, **more: Any) -> str:
    uid: str = engine.create(name, [sys.executable, "-c", code, *args], **more)
    engine.printed(name, "on")
    return uid


def test_deleted_is_gone_at_once_and_its_pods_end(engine: Any, gone: Any, wait_until: Any) -> None:
    uid = run(engine, "gone", WAITS)
    assert engine.backend.delete("gone", uid=uid) is True
    assert engine.backend.get("gone") is None
    assert engine.backend.list() == []
    assert engine.look("gone").job is None
    assert engine.backend.delete("gone") is False
    wait_until(lambda: not engine.backend.pods("gone", uid=uid))
    wait_until(lambda: not engine.folder_of(uid).exists())
    gone(uid)
    assert engine.row(uid) is None
    assert engine.backend.events("gone", uid=uid) == []


def test_pods_that_end_are_listed_with_their_logs(
    make_engine: Any, make_runtime: Any, gone: Any, wait_until: Any
) -> None:
    engine = make_engine(make_runtime("t-slow", grace=1))
    uid = run(engine, "deaf", DEAF, runtime="t-slow")
    source = engine.source("deaf")
    engine.backend.delete("deaf")
    [pod] = wait_until(
        lambda: [p for p in engine.backend.pods("deaf", uid=uid) if "deletionTimestamp" in p["metadata"]]
    )
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 1
    assert pod["status"]["phase"] == "Running"
    assert engine.backend.logs(source).lines == ("on",)
    wait_until(lambda: not engine.backend.pods("deaf", uid=uid))
    gone(uid)
    chunk = engine.backend.logs(source)
    assert (chunk.lines, chunk.ended) == ((), True)


def test_a_wrong_uid_deletes_nothing(engine: Any) -> None:
    uid = run(engine, "mine", WAITS)
    with pytest.raises(PreconditionFailed, match=uid):
        engine.backend.delete("mine", uid="another")
    with pytest.raises(PreconditionFailed):
        engine.backend.set_suspended("mine", True, uid="another")
    assert engine.state("mine").phase is Phase.RUNNING


def test_the_name_can_be_used_again_at_once(make_engine: Any, make_runtime: Any, gone: Any) -> None:
    engine = make_engine(make_runtime("t-slow", grace=2))
    first = run(engine, "again", DEAF, runtime="t-slow")
    engine.backend.delete("again", uid=first)
    second = engine.create("again", "print('second')")
    assert second != first
    engine.finished("again")
    assert engine.lines("again") == ["second"]
    gone(first)


def test_a_training_can_save_when_it_is_stopped(engine: Any, tmp_path: Path, gone: Any) -> None:
    uid = run(engine, "saves", SAVES, str(tmp_path / "checkpoint"))
    engine.deleted("saves", uid)
    assert (tmp_path / "checkpoint").read_text() == "saved"
    gone(uid)


def test_sigterm_comes_once(engine: Any, tmp_path: Path) -> None:
    """To the first process only: what is below it is told by it."""
    code = SAVES.replace("sys.exit(143)", "time.sleep(0.3); sys.exit(143)")
    uid = run(engine, "once", code, str(tmp_path / "checkpoint"))
    engine.deleted("once", uid)
    assert (tmp_path / "checkpoint").read_text() == "saved"


def test_a_training_below_a_shell_can_save_too(engine: Any, tmp_path: Path, gone: Any) -> None:
    """The parent is gone at once; what is left gets SIGTERM and the rest of the grace period."""
    uid = run(engine, "shell", SHELL, str(tmp_path / "checkpoint"))
    engine.deleted("shell", uid)
    assert (tmp_path / "checkpoint").read_text() == "saved"
    gone(uid)


@pytest.mark.parametrize("code", [DEAF, DAEMON], ids=["ignores SIGTERM", "daemonizes and ignores SIGTERM"])
def test_whatever_it_does_it_ends(make_engine: Any, make_runtime: Any, gone: Any, code: str) -> None:
    engine = make_engine(make_runtime("t-short", grace=1))
    uid = run(engine, "tough", code, runtime="t-short", nodes=2)
    engine.deleted("tough", uid)
    gone(uid)


def test_deleting_what_has_ended_leaves_nothing(engine: Any) -> None:
    uid = engine.create("done", "pass")
    engine.finished("done")
    engine.settled(uid)
    assert engine.backend.delete("done") is True
    assert not engine.folder_of(uid).exists()
    assert engine.row(uid) is None


# -- suspension ----------------------------------------------------------------------------------------------------


def test_suspend_and_resume(engine: Any, gone: Any, wait_until: Any) -> None:
    uid = run(engine, "pause", WAITS, nodes=2)
    before = {p.name for p in engine.look("pause").pods}
    job = engine.backend.set_suspended("pause", True, uid=uid)
    assert job["spec"]["suspend"] is True
    condition = job["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        "Suspended",
        "True",
        "Suspended",
        "TrainJob is suspended",
    )
    engine.settled(uid)
    gone(uid)
    seen = engine.look("pause")
    assert engine.state("pause").phase is Phase.SUSPENDED
    assert seen.pods == ()
    assert [(j.name, j.active, j.suspended) for j in seen.job.jobs] == [("node", 0, 1)]
    job = engine.backend.set_suspended("pause", False)
    assert (job["spec"]["suspend"], job["status"]["conditions"][0]["reason"]) == (False, "Resumed")
    seen = engine.phase("pause", Phase.RUNNING)
    assert not before & {p.name for p in seen.pods}
    assert seen.job.condition("Suspended").message == "TrainJob is resumed"


def test_created_suspended_it_waits(engine: Any) -> None:
    uid = engine.create("later", "print('on')", suspend=True)
    assert engine.state("later").phase is Phase.SUSPENDED
    assert engine.look("later").job.jobs[0].suspended == 1
    assert engine.row(uid)["spawned"] == 0 or engine.row(uid)["claim_pid"] is None
    engine.backend.set_suspended("later", False)
    engine.finished("later")
    assert engine.state("later").phase is Phase.SUCCEEDED


def test_resumed_while_it_is_being_stopped(make_engine: Any, make_runtime: Any, wait_until: Any) -> None:
    engine = make_engine(make_runtime("t-slow", grace=1))
    uid = run(engine, "flip", DEAF, runtime="t-slow")
    before = engine.look("flip").pods[0].name
    engine.backend.set_suspended("flip", True)
    wait_until(lambda: engine.look("flip").pods[0].deleting)
    engine.backend.set_suspended("flip", False)
    engine.phase("flip", Phase.RUNNING)

    def anew() -> bool:
        pods = engine.look("flip").pods
        return bool(pods) and pods[0].name != before and pods[0].main.state == "running"

    wait_until(anew)
    assert engine.row(uid)["stage"] == "running"


def test_suspending_what_has_ended_changes_nothing(engine: Any) -> None:
    uid = engine.create("done", "pass")
    engine.finished("done")
    engine.settled(uid)
    engine.backend.set_suspended("done", True)
    assert engine.state("done").phase is Phase.SUCCEEDED
    engine.backend.set_suspended("done", False)
    assert engine.state("done").phase is Phase.SUCCEEDED
    assert engine.row(uid)["stage"] == "finished"


def test_suspending_what_is_not_there(engine: Any) -> None:
    with pytest.raises(NotFound):
        engine.backend.set_suspended("none", True)


def test_a_suspended_one_can_be_deleted(engine: Any, gone: Any) -> None:
    uid = run(engine, "both", WAITS)
    engine.backend.set_suspended("both", True)
    engine.deleted("both", uid)
    gone(uid)


# -- deadline ------------------------------------------------------------------------------------------------------


def test_the_deadline(engine: Any, gone: Any) -> None:
    uid = engine.create("dead", WAITS, activeDeadlineSeconds=1)
    seen = engine.finished("dead")
    failed = seen.job.condition("Failed")
    assert (failed.reason, failed.message) == ("DeadlineExceeded", "TrainJob exceeded its active deadline")
    gone(uid)
    engine.settled(uid)
    assert engine.state("dead").reason == "DeadlineExceeded"
    assert engine.lines("dead") == ["on"]


def test_the_deadline_counts_from_the_last_resume(engine: Any, wait_until: Any) -> None:
    uid = engine.create("dead", WAITS, activeDeadlineSeconds=2, suspend=True)
    with engine.store.write() as connection:
        connection.execute("UPDATE jobs SET created = created - 100 WHERE uid = ?", (uid,))
    engine.backend.set_suspended("dead", False)
    engine.printed("dead", "on")
    assert engine.state("dead").phase is Phase.RUNNING
    engine.finished("dead")
    assert engine.state("dead").reason == "DeadlineExceeded"


# -- the machine shuts down ----------------------------------------------------------------------------------------


def test_sigterm_to_the_engine_lets_the_training_save(engine: Any, tmp_path: Path, gone: Any) -> None:
    uid = run(engine, "shutdown", SAVES, str(tmp_path / "checkpoint"))
    os.kill(engine.row(uid)["guard_pid"], signal.SIGTERM)
    seen = engine.finished("shutdown")
    assert seen.job.condition("Failed").reason == "SupervisorLost"
    assert (tmp_path / "checkpoint").read_text() == "saved"
    gone(uid)
