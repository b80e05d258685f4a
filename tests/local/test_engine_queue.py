"""How many run at once, over all processes that use a root; the others wait in line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.local.engine import LocalBackend, default_max_jobs
from trainer_ops.model.phase import Phase

# Runs until the file is there.
GATE = """
import os, sys, time
print("on", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


def gated(engine: Any, name: str, folder: Path) -> str:
    uid: str = engine.create(name, [sys.executable, "-c", GATE, str(folder / name)])
    return uid


def test_first_in_first_out(make_engine: Any, tmp_path: Path, wait_until: Any) -> None:
    engine = make_engine(max_jobs=1)
    for name in ("first", "second", "third"):
        gated(engine, name, tmp_path)
    engine.phase("first", Phase.RUNNING)
    engine.phase("second", Phase.QUEUED)
    seen = engine.phase("third", Phase.QUEUED)
    quota = wait_until(lambda: (w := engine.look("third").workload) and w.condition("QuotaReserved"))
    assert (quota.holds, quota.reason) == (False, "Pending")
    assert quota.message == "1 of 1 trainings run on this machine; 1 ahead"
    assert engine.state("third").detail == quota.message
    assert seen.pods == ()
    (tmp_path / "first").touch()
    engine.phase("second", Phase.RUNNING)
    assert engine.look("second").workload.condition("Admitted").holds
    assert engine.state("third").phase is Phase.QUEUED
    wait_until(lambda: "; 0 ahead" in engine.state("third").detail)
    (tmp_path / "second").touch()
    engine.phase("third", Phase.RUNNING)
    (tmp_path / "third").touch()
    engine.finished("third")


def test_two_places(make_engine: Any, tmp_path: Path) -> None:
    engine = make_engine(max_jobs=2)
    for name in ("a", "b", "c"):
        gated(engine, name, tmp_path)
    engine.phase("a", Phase.RUNNING)
    engine.phase("b", Phase.RUNNING)
    engine.phase("c", Phase.QUEUED)
    (tmp_path / "b").touch()
    engine.phase("c", Phase.RUNNING)


def test_one_that_never_queued_shows_no_workload(engine: Any) -> None:
    engine.create("free", "pass")
    assert engine.finished("free").workload is None


def test_other_processes_stand_in_the_same_line(make_engine: Any, tmp_path: Path) -> None:
    engine = make_engine(max_jobs=1)
    gated(engine, "here", tmp_path)
    engine.phase("here", Phase.RUNNING)
    code = """
import sys
from trainer_ops.local.engine import LocalBackend
backend = LocalBackend(sys.argv[1], max_jobs=1)
spec = {"runtimeRef": {"name": "plain"}, "trainer": {"command": ["true"]}}
backend.create({"metadata": {"name": "there"}, "spec": spec})
"""
    subprocess.run([sys.executable, "-c", code, str(engine.store.root)], check=True, timeout=60)
    engine.phase("there", Phase.QUEUED)
    (tmp_path / "here").touch()
    engine.finished("there")


@pytest.mark.parametrize("how", ["delete", "suspend"])
def test_one_in_the_queue_leaves_it(make_engine: Any, tmp_path: Path, gone: Any, how: str) -> None:
    engine = make_engine(max_jobs=1)
    for name in ("runs", "leaves", "waits"):
        uid = gated(engine, name, tmp_path)
        engine.phase(name, Phase.RUNNING, Phase.QUEUED)
        if name == "leaves":
            left = uid
    if how == "delete":
        engine.deleted("leaves", left)
    else:
        engine.backend.set_suspended("leaves", True)
        engine.settled(left)
        assert engine.state("leaves").phase is Phase.SUSPENDED
        assert engine.look("leaves").workload is None
    gone(left)
    (tmp_path / "runs").touch()
    engine.phase("waits", Phase.RUNNING)


def test_a_suspended_one_gives_its_place_away(make_engine: Any, tmp_path: Path) -> None:
    engine = make_engine(max_jobs=1)
    gated(engine, "pauses", tmp_path)
    engine.phase("pauses", Phase.RUNNING)
    gated(engine, "next", tmp_path)
    engine.phase("next", Phase.QUEUED)
    engine.backend.set_suspended("pauses", True)
    engine.phase("next", Phase.RUNNING)
    engine.backend.set_suspended("pauses", False)
    engine.phase("pauses", Phase.QUEUED)
    (tmp_path / "next").touch()
    engine.phase("pauses", Phase.RUNNING)


def test_the_place_of_a_killed_one_is_free_again(make_engine: Any, tmp_path: Path) -> None:
    """Also when nobody looks but those that wait."""
    engine = make_engine(max_jobs=1)
    uid = gated(engine, "killed", tmp_path)
    engine.phase("killed", Phase.RUNNING)
    gated(engine, "next", tmp_path)
    engine.phase("next", Phase.QUEUED)
    engine.kill(uid, "claim", "guard")
    engine.phase("next", Phase.RUNNING)


def test_the_deadline_counts_in_the_queue(make_engine: Any, tmp_path: Path) -> None:
    engine = make_engine(max_jobs=1)
    gated(engine, "runs", tmp_path)
    engine.phase("runs", Phase.RUNNING)
    engine.create("late", "pass", activeDeadlineSeconds=1)
    seen = engine.finished("late")
    assert seen.job.condition("Failed").reason == "DeadlineExceeded"


def test_how_many_by_default(tmp_path: Path) -> None:
    assert default_max_jobs() >= 2
    with pytest.raises(InvalidRequest):
        LocalBackend(tmp_path, max_jobs=0)
