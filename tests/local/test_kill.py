"""``kill -9`` of whom and when you like: never a ghost, never a leftover process, and the next attempt starts clean."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.local import engine as engine_module
from trainer_ops.local import processes, spawn
from trainer_ops.model.phase import Phase

# Each node with a child, a daemon that has left tree and session, and one without the marker.
FAMILY = """
import os, subprocess, sys, time
env = {"PATH": os.environ["PATH"]}
subprocess.Popen(["sleep", "600"])
subprocess.Popen(["sleep", "600"], env=env)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
print("on", os.getpid(), flush=True)
time.sleep(600)
"""

DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"

WAIT_AND_FAIL = "import time; [time.sleep(0.02) for _ in iter(lambda: os.path.exists(sys.argv[1]), True)]; sys.exit(3)"

WHO = {"supervisor": ("claim",), "guard": ("guard",), "both": ("claim", "guard")}


def below(engine: Any, uid: str) -> list[int]:
    """All pids of the training and the engine's two."""
    guard = engine.row(uid)["guard_pid"]
    return [guard, *(p.pid for p in processes.descendants(guard, processes.snapshot()))]


def assert_dead(pids: list[int], wait_until: Any) -> None:
    starts = {pid: processes.start_mark(pid) for pid in pids}
    wait_until(lambda: not [pid for pid in pids if starts[pid] and processes.start_mark(pid) == starts[pid]])


@pytest.mark.parametrize("who", WHO)
def test_while_it_runs(engine: Any, gone: Any, wait_until: Any, who: str) -> None:
    uid = engine.create("runs", FAMILY, nodes=2)
    for index in (0, 1):
        engine.printed("runs", "on", index)
    pids = below(engine, uid)
    assert len(pids) == 2 + 2 * 4
    engine.kill(uid, *WHO[who])
    seen = engine.finished("runs")
    failed = seen.job.condition("Failed")
    assert failed.reason == "SupervisorLost"
    assert "killed" in failed.message
    assert any(e.reason == "SupervisorLost" and e.warning and e.kind == "TrainJob" for e in seen.events)
    assert [(p.phase, p.reason, p.main.terminated.exit_code) for p in seen.pods] == [("Failed", "NodeLost", 137)] * 2
    assert [(j.active, j.failed) for j in seen.job.jobs] == [(0, 1)]
    gone(uid)
    assert_dead(pids, wait_until)
    assert engine.lines("runs")[0].startswith("on")
    again = engine.create("runs-2", "print('clean')", nodes=2)
    engine.finished("runs-2")
    assert engine.state("runs-2").phase is Phase.SUCCEEDED
    gone(again)


@pytest.mark.parametrize("who", WHO)
def test_while_it_initializes(make_engine: Any, make_runtime: Any, gone: Any, wait_until: Any, who: str) -> None:
    first = {"name": "first", "containers": [{"name": "first", "command": ["sleep", "600"]}]}
    engine = make_engine(make_runtime("t-first", before=[first]))
    uid = engine.create("init", "print('never')", runtime="t-first")
    wait_until(lambda: any(p.phase == "Running" for p in engine.look("init").pods))
    pids = below(engine, uid)
    engine.kill(uid, *WHO[who])
    engine.finished("init")
    assert engine.state("init").reason == "SupervisorLost"
    gone(uid)
    assert_dead(pids, wait_until)


@pytest.mark.parametrize("who", WHO)
def test_while_it_is_queued(make_engine: Any, gone: Any, who: str) -> None:
    engine = make_engine(max_jobs=1)
    engine.create("runs", "import time; time.sleep(600)")
    engine.phase("runs", Phase.RUNNING)
    uid = engine.create("queued", "pass")
    engine.phase("queued", Phase.QUEUED)
    engine.kill(uid, *WHO[who])
    engine.finished("queued")
    assert engine.state("queued").reason == "SupervisorLost"
    assert engine.state("runs").phase is Phase.RUNNING
    gone(uid)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("how", ["delete", "suspend", "fail"])
def test_while_it_is_being_stopped(
    make_engine: Any, make_runtime: Any, gone: Any, wait_until: Any, tmp_path: Path, who: str, how: str
) -> None:
    engine = make_engine(make_runtime("t-slow", grace=60))
    if how == "fail":  # node 1, once node 0 is deaf
        code = f"import os, sys\nif os.environ['JOB_COMPLETION_INDEX'] == '1':\n    {WAIT_AND_FAIL}\n{DEAF}"
    else:
        code = DEAF
    uid = engine.create("stops", [sys.executable, "-c", code, str(tmp_path / "go")], runtime="t-slow", nodes=2)
    engine.printed("stops", "on")
    (tmp_path / "go").touch()
    if how == "delete":
        engine.backend.delete("stops")
    elif how == "suspend":
        engine.backend.set_suspended("stops", True)
    wait_until(lambda: any("deletionTimestamp" in p["metadata"] for p in engine.backend.pods("stops", uid=uid)))
    pids = below(engine, uid)
    engine.kill(uid, *WHO[who])
    if how == "delete":
        wait_until(lambda: not engine.backend.pods("stops", uid=uid) and engine.row(uid) is None)
        assert not engine.folder_of(uid).exists()
    elif how == "suspend":
        wait_until(lambda: engine.look("stops").pods == () and engine.row(uid)["claim_pid"] is None)
        assert engine.state("stops").phase is Phase.SUSPENDED
        engine.backend.set_suspended("stops", False)
        engine.printed("stops", "on")
    else:
        seen = engine.finished("stops")
        assert seen.job.condition("Failed").reason == "SupervisorLost"
        assert sorted(p.main.terminated.exit_code for p in seen.pods) == [3, 137]
    if how != "suspend":
        gone(uid)
    assert_dead(pids, wait_until)


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2], ids=str)
def test_everything_at_any_moment_after_the_submit(engine: Any, gone: Any, wait_until: Any, delay: float) -> None:
    """Whether it was claimed or not: it ends well (started again) or is Failed, and there is no second training."""
    uid = engine.create("any", "import os; print('ran', flush=True)", nodes=2)
    time.sleep(delay)
    for process in processes.marked(uid):
        processes.send(process.pid, signal.SIGKILL)
    seen = engine.finished("any")
    assert engine.state("any").phase in (Phase.SUCCEEDED, Phase.FAILED)
    if engine.state("any").phase is Phase.FAILED:
        assert seen.job.condition("Failed").reason in ("SupervisorLost", "FailedJobs")
    engine.settled(uid)
    gone(uid)


def test_a_finished_training_stays_what_it_is(make_engine: Any, make_runtime: Any, gone: Any) -> None:
    """Complete is said, what still runs is being stopped, and then the supervisor is killed."""
    helper = {
        "name": "helper",
        "until": "Ready",
        "terminationGracePeriodSeconds": 60,
        "containers": [{"name": "helper", "command": [sys.executable, "-c", DEAF]}],
    }
    success = {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["node"]}}
    runtime = make_runtime("t-helped", before=[helper], jobset=success)
    engine = make_engine(runtime)
    uid = engine.create("ended", "import time; time.sleep(0.5)", runtime="t-helped")
    engine.finished("ended")
    if engine.row(uid)["claim_pid"]:
        engine.kill(uid, "claim")
    engine.settled(uid)
    assert engine.state("ended").phase is Phase.SUCCEEDED
    gone(uid)


def test_only_those_of_this_training_are_killed(engine: Any, gone: Any) -> None:
    other = engine.create("other", FAMILY)
    engine.printed("other", "on")
    uid = engine.create("this", FAMILY)
    engine.printed("this", "on")
    engine.kill(uid, "claim", "guard")
    engine.finished("this")
    gone(uid)
    assert engine.state("other").phase is Phase.RUNNING
    assert len(processes.marked(other)) >= 5


@pytest.mark.parametrize("call", ["get", "list", "pods", "observe"])
def test_whoever_looks_first_ends_it(engine: Any, gone: Any, wait_until: Any, call: str) -> None:
    uid = engine.create("look", FAMILY)
    engine.printed("look", "on")
    engine.kill(uid, "claim", "guard")
    looks = {
        "get": lambda: engine.backend.get("look")["status"].get("conditions"),
        "list": lambda: engine.backend.list()[0]["status"].get("conditions"),
        "pods": lambda: engine.backend.pods("look", uid=uid)[0]["status"]["phase"] == "Failed",
        "observe": lambda: engine.look("look").job.conditions,
    }
    wait_until(looks[call])
    gone(uid)


def test_a_submitted_training_of_a_training_lives_on(engine: Any, gone: Any, tmp_path: Path) -> None:
    """What a training submits is a training of its own: it does not end with the one that submitted it."""
    code = """
    import sys
    from trainer_ops.local.engine import LocalBackend
    backend = LocalBackend(sys.argv[1])
    command = ["sh", "-c", "sleep 1; echo inner"]
    spec = {"runtimeRef": {"name": "plain"}, "trainer": {"command": command}}
    backend.create({"metadata": {"name": "inner"}, "spec": spec})
    backend.close()
    """
    uid = engine.create("outer", [sys.executable, "-c", textwrap.dedent(code), str(engine.store.root)])
    engine.finished("outer")
    assert engine.state("outer").phase is Phase.SUCCEEDED, engine.lines("outer")
    engine.settled(uid)
    gone(uid)
    engine.finished("inner")
    assert engine.lines("inner") == ["inner"]


# -- the submitter -------------------------------------------------------------------------------------------------

SUBMIT = """
import os, sys, time
from trainer_ops.local import engine
if sys.argv[2] == "before the start":
    engine.start_supervisor = lambda *_: os.kill(os.getpid(), 9)
backend = engine.LocalBackend(sys.argv[1])
command = ["sh", "-c", "sleep 1; echo trained"]
spec = {"runtimeRef": {"name": "plain"}, "trainer": {"command": command}}
backend.create({"metadata": {"name": "mine"}, "spec": spec})
print("created", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", ["process", "process group", "before the start"])
def test_the_submitter_is_killed(engine: Any, python: Any, gone: Any, how: str) -> None:
    child = python(SUBMIT, str(engine.store.root), how, stdout=subprocess.PIPE, start_new_session=True)
    with child:
        if how != "before the start":
            assert child.stdout.readline() == b"created\n"
            (os.kill if how == "process" else os.killpg)(child.pid, signal.SIGKILL)
        child.wait(60)
    seen = engine.finished("mine")
    assert engine.state("mine").phase is Phase.SUCCEEDED
    assert engine.lines("mine") == ["trained"]
    assert len(seen.pods) == 1
    uid = seen.job.uid
    engine.settled(uid)
    gone(uid)


def test_the_submitters_terminal_is_closed(engine: Any, python: Any) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        # Under nohup the whole test run ignores it, and so would the submitter.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, "-c", SUBMIT, str(engine.store.root), ""])
    text = b""
    while b"created" not in text:
        text += os.read(terminal, 1000)
    os.close(terminal)
    os.waitpid(pid, 0)
    engine.finished("mine")
    assert engine.state("mine").phase is Phase.SUCCEEDED


def test_one_supervisor_whoever_starts_it(engine: Any, gone: Any) -> None:
    """Many observers find an unclaimed TrainJob at once."""
    uid = engine.create("many", "print('once', flush=True)")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: spawn.start_supervisor(engine.store, uid, sys.executable), range(4)))
    seen = engine.finished("many")
    assert engine.lines("many") == ["once"]
    assert len(seen.pods) == 1
    engine.settled(uid)
    gone(uid)


def test_a_supervisor_that_never_comes_up_is_given_up(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "start_supervisor", lambda *_: False)
    monkeypatch.setattr(spawn, "start_supervisor", lambda *_: False)
    uid = engine.create("never", "pass")
    for _ in range(10):
        with engine.store.write() as connection:
            connection.execute("UPDATE jobs SET spawned = spawned - 10 WHERE uid = ?", (uid,))
        engine.look("never")
    failed = engine.look("never").job.condition("Failed")
    assert failed.reason == "SupervisorLost"
    assert "supervisor.log" in failed.message


def test_the_root_is_removed_under_a_running_training(engine: Any, gone: Any, wait_until: Any) -> None:
    """Nobody could stop it any more, so it ends; and the folder stays removed."""
    uid = engine.create("lost", FAMILY, nodes=2)
    engine.printed("lost", "on")
    pids = below(engine, uid)
    shutil.rmtree(engine.backend.root)
    gone(uid)
    assert_dead(pids, wait_until)
    assert not engine.backend.root.exists()


def test_signals_that_the_submitter_ignores_or_blocks_reach_the_training(engine: Any, python: Any, gone: Any) -> None:
    code = """
    import signal, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD})
    from trainer_ops.local.engine import LocalBackend
    backend = LocalBackend(sys.argv[1])
    show = "import signal; print(signal.getsignal(15) is signal.SIG_DFL, signal.pthread_sigmask(0, ()), flush=True)"
    command = ["python", "-c", show + "; import time; time.sleep(600)"]
    spec = {"runtimeRef": {"name": "plain"}, "trainer": {"command": command}}
    backend.create({"metadata": {"name": "clean"}, "spec": spec})
    """
    with python(code, str(engine.store.root)) as child:
        assert child.wait(60) == 0
    engine.printed("clean", "True set()")
    uid = engine.look("clean").job.uid
    engine.deleted("clean", uid)
    gone(uid)
