from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.local import processes, reaper, surroundings
from trainer_ops.local.objects import new_uid


@contextmanager
def sleeper(**env: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], **env}, start_new_session=True) as child:
        try:
            # While a program is being loaded, its environment is empty.
            while any(processes.marker_of(child.pid, name) != value for name, value in env.items()):
                time.sleep(0.001)
            yield child
        finally:
            child.kill()


def test_a_process_is_known_by_pid_and_start(wait_until: Any) -> None:
    with sleeper() as child:
        start = processes.start_mark(child.pid)
        assert processes.is_alive(child.pid, start)
        assert not processes.is_alive(child.pid, start + "0")
        child.kill()
        wait_until(lambda: not processes.is_alive(child.pid, start))  # a zombie until we look
    assert processes.process(child.pid) is None
    assert not processes.is_alive(None, None)


def test_the_snapshot_agrees_with_psutil() -> None:
    me = processes.snapshot()[os.getpid()]
    assert (me.ppid, me.session) == (os.getppid(), os.getsid(0))
    assert processes.place() == processes.place()


def test_without_proc_psutil_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    uid = new_uid()
    with sleeper(**{processes.ENV_JOB: uid}) as child:
        fast = (processes.process(child.pid), processes.marker_of(child.pid))
        monkeypatch.setattr(processes, "ON_LINUX", False)
        slow = (processes.process(child.pid), processes.marker_of(child.pid))
        assert fast[0] is not None
        assert slow[0] is not None
        assert (fast[0].ppid, fast[0].session, fast[1]) == (slow[0].ppid, slow[0].session, slow[1])
        assert child.pid in processes.snapshot()
        assert [p.pid for p in processes.marked(uid)] == [child.pid]
    assert processes.process(child.pid) is None
    assert processes.marker_of(child.pid) == ""


def test_names_with_brackets_and_spaces_do_not_confuse(tmp_path: Any) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "600"]) as child:
        found = processes.process(child.pid)
        assert found is not None
        assert found.ppid == os.getpid()
        child.kill()


def test_relatives_of_another_training_are_spared() -> None:
    """What descends from the supervisor is killed without a marker too, but not what carries another one's."""
    names = {processes.ENV_JOB: "u1"}, {processes.ENV_JOB: "u2"}
    with sleeper(**names[0]) as mine, sleeper(**names[1]) as other, sleeper() as bare:
        pids = {p.pid for p in reaper._victims("u1", [], os.getpid(), set(), folder="/none")()}
        assert {mine.pid, bare.pid} <= pids
        assert other.pid not in pids


def test_what_writes_a_log_is_known_without_marker_and_parent(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    with (folder / "log").open("wb") as log, subprocess.Popen(["sleep", "600"], env={}, stdout=log) as child:
        assert [p.pid for p in reaper._victims("u", [], None, set(), folder=str(folder))()] == [child.pid]
        assert reaper._victims("u", [], None, set(), folder=str(tmp_path / "jo"))() == []
        child.kill()


def test_a_number_that_was_given_away_is_no_session_of_ours() -> None:
    with sleeper() as child:
        start = processes.start_mark(child.pid)
        assert [p.pid for p in reaper._victims("u", [(child.pid, start)], None, set(), folder="/none")()] == [child.pid]
        assert reaper._victims("u", [(child.pid, "1")], None, set(), folder="/none")() == []


def test_kill_all_gives_up_on_what_does_not_die() -> None:
    phantom = processes.Process(2**22 - 1, 1, 1, "0")
    assert processes.kill_all(lambda: [phantom], seconds=0.05) is False


def test_the_environment_is_cleaned() -> None:
    environ = {
        "HOME": "/h",
        "PATH": "/usr/bin",
        "AIRFLOW_HOME": "/a",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "secret",
        "AIRFLOW_CONN_X": "secret",
        "PET_NNODES": "2",
        "RANK": "1",
        "TRAINER_OPS_ATTEMPT": "2",
        "TRAINER_OPS_TARGET": "local:///x",
    }
    assert surroundings.base_environment(environ, "/venv/bin/python") == {
        "HOME": "/h",
        "PATH": "/venv/bin:/usr/bin",
        "AIRFLOW_HOME": "/a",
        "TRAINER_OPS_TARGET": "local:///x",
    }


def test_the_supervisor_imports_nothing_heavy() -> None:
    code = """
import sys
import trainer_ops.local.guard, trainer_ops.local.supervisor, trainer_ops.local.plan, trainer_ops.local.surroundings
heavy = {"pydantic", "yaml", "kubernetes", "rich", "psutil", "asyncio", "http", "logging", "ssl", "uuid", "email"}
print(sorted(heavy & set(sys.modules)))
"""
    folder = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {folder!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
