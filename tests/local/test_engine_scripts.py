"""Bad trainings: what the engine shows of each, and that it survives them."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.model.phase import Phase


def ended(engine: Any, name: str, index: int = 0) -> Any:
    return next(p for p in engine.look(name).pods if p.index == index).main


def test_a_syntax_error(engine: Any) -> None:
    engine.create("syntax", "def train(:\n    pass\n")
    engine.finished("syntax")
    container = ended(engine, "syntax")
    assert (container.terminated.exit_code, container.terminated.reason) == (1, "Error")
    assert any("SyntaxError" in line for line in engine.lines("syntax"))


def test_exit_code_3(engine: Any, gone: Any) -> None:
    uid = engine.create("three", "import sys; print('no data'); sys.exit(3)")
    seen = engine.finished("three")
    failed = seen.job.condition("Failed")
    assert (failed.reason, failed.message) == (
        "FailedJobs",
        "jobset failed due to one or more job failures (first failed job: three-node-0)",
    )
    assert [(j.name, j.failed, j.active) for j in seen.job.jobs] == [("node", 1, 0)]
    pod = seen.pods[0]
    assert (pod.phase, pod.condition("Ready").reason) == ("Failed", "PodFailed")
    assert (pod.main.terminated.exit_code, pod.main.terminated.reason) == (3, "Error")
    assert engine.lines("three") == ["no data"]
    gone(uid)


@pytest.mark.parametrize(("number", "code"), [(9, 137), (11, 139), (15, 143), (6, 134)])
def test_killed_by_a_signal(engine: Any, number: int, code: int) -> None:
    engine.create("signal", f"import os; os.kill(os.getpid(), {number})")
    engine.finished("signal")
    end = ended(engine, "signal").terminated
    assert (end.exit_code, end.reason, end.signal) == (code, "Error", number)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        pytest.param(["/no/such/binary"], 'exec: "/no/such/binary": stat /no/such/binary: no such file', id="path"),
        pytest.param(["nosuchbinary"], 'exec: "nosuchbinary": executable file not found in $PATH', id="name"),
        pytest.param(["/etc"], 'exec: "/etc": permission denied', id="permission"),
    ],
)
def test_a_program_that_cannot_be_started(engine: Any, argv: list[str], text: str) -> None:
    engine.create("start", argv)
    seen = engine.finished("start")
    assert engine.state("start").phase is Phase.FAILED
    end = ended(engine, "start").terminated
    assert (end.exit_code, end.reason) == (128, "StartError")
    assert text in end.message
    assert any(e.warning and e.reason == "Failed" and text in e.message for e in seen.events)


def test_a_folder_that_is_not_there(make_engine: Any, make_runtime: Any) -> None:
    pod = {"containers": [{"name": "node", "image": "x", "workingDir": "/no/such/folder"}]}
    engine = make_engine(make_runtime("t-folder", pod=pod))
    engine.create("folder", "pass", runtime="t-folder")
    engine.finished("folder")
    end = ended(engine, "folder").terminated
    assert (end.exit_code, end.reason) == (128, "StartError")
    assert '"/no/such/folder"' in end.message


def test_a_sister_of_a_failed_node_is_stopped_and_both_logs_stay(engine: Any, gone: Any) -> None:
    code = """
    import os, sys, time
    print("rank", os.environ["JOB_COMPLETION_INDEX"], flush=True)
    if os.environ["JOB_COMPLETION_INDEX"] == "1":
        time.sleep(0.3)
        sys.exit(3)
    time.sleep(600)
    """
    uid = engine.create("sister", code, nodes=2)
    seen = engine.finished("sister")
    healthy, failed = seen.pods
    assert (failed.main.terminated.exit_code, failed.deleting) == (3, False)
    assert (healthy.main.terminated.exit_code, healthy.deleting) == (143, True)
    assert failed.main.terminated.finished_at < healthy.main.terminated.finished_at
    assert engine.lines("sister", 0) == ["rank 0"]
    assert engine.lines("sister", 1) == ["rank 1"]
    gone(uid)


def test_200_mb_of_log_fill_no_memory(engine: Any) -> None:
    engine.create(
        "loud", "import sys\nfor _ in range(200): sys.stdout.write(('x' * 99 + '\\n') * 10_000)\nprint('end')"
    )
    engine.finished("loud")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    source, position, count = engine.source("loud"), "", 0
    while True:
        chunk = engine.backend.logs(source, after=position)
        count += len(chunk.lines)
        position = chunk.position
        if not chunk.more:
            break
    assert chunk.ended
    assert chunk.lines[-1] == "end"
    assert count == 2_000_001
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB
    assert engine.backend.logs(source, tail=2).lines == ("x" * 99, "end")


def test_invalid_utf8_and_a_line_of_5_mb(engine: Any) -> None:
    code = """
    import sys
    out = sys.stdout.buffer
    out.write(b"caf\\xc3\\xa9 \\xff\\xfe\\n")
    out.write("é".encode() * 2_500_000 + b"\\n")
    out.write(b"end\\n")
    """
    engine.create("odd", code)
    engine.finished("odd")
    lines = engine.lines("odd")
    assert lines[0] == "café ��"
    assert lines[-1] == "end"
    assert "".join(lines[1:-1]) == "é" * 2_500_000
    assert max(map(len, lines)) <= 64 * 1024


def test_one_that_never_ends_can_be_cancelled(engine: Any, gone: Any) -> None:
    uid = engine.create("endless", "print('on', flush=True)\nwhile True: pass")
    engine.printed("endless", "on")
    assert engine.state("endless").phase is Phase.RUNNING
    engine.deleted("endless", uid)
    gone(uid)


def test_children_do_not_outlive_their_node(engine: Any, gone: Any) -> None:
    """Below it, in another session, without the marker, daemonized: each prints its pid."""
    code = """
    import os, subprocess, sys
    show = ["sh", "-c", "echo $$$$; exec sleep 600"]
    subprocess.Popen(show)
    subprocess.Popen(show, start_new_session=True)
    subprocess.Popen(["env", "-i", *show])
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvpe("sh", show, {"PATH": os.environ["PATH"]})
        os._exit(0)
    os.wait()
    while open("/proc/self/fd/1").read().count("\\n") < 4:
        pass
    """
    uid = engine.create("litter", code, nodes=2)
    engine.finished("litter")
    assert engine.state("litter").phase is Phase.SUCCEEDED
    engine.settled(uid)
    gone(uid)
    pids = [int(line) for index in (0, 1) for line in engine.lines("litter", index)]
    assert len(pids) == 8
    assert not [pid for pid in pids if _is_ours(pid)]


def _is_ours(pid: int) -> bool:
    try:
        return b"sleep\x00600" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_output_of_a_node_is_complete_when_its_run_is_over(engine: Any) -> None:
    engine.create("last", "for i in range(5000): print(i)")
    engine.finished("last")
    assert engine.lines("last") == [str(i) for i in range(5000)]
    assert engine.backend.logs(engine.source("last")).ended


def test_the_end_of_a_long_termination_message_is_kept(engine: Any) -> None:
    engine.create("long", "import os; open(os.environ['TRAINER_OPS_RESULT_PATH'], 'w').write('x' * 5000 + 'end')")
    engine.finished("long")
    message = ended(engine, "long").terminated.message
    assert len(message) == 4096
    assert message.endswith("xend")


# -- restarts ------------------------------------------------------------------------------------------------------

FLAKY = """
import os, sys
path = os.environ["MARK"]
runs = len(open(path).read()) if os.path.exists(path) else 0
open(path, "a").write("x")
open(os.environ["TRAINER_OPS_RESULT_PATH"], "w").write(f"run {runs}")
print("run", runs, flush=True)
sys.exit(0 if runs == int(os.environ["GOOD"]) else 7)
"""


def flaky(engine: Any, tmp_path: Path, good: int) -> dict[str, Any]:
    env = [{"name": "MARK", "value": str(tmp_path / "mark")}, {"name": "GOOD", "value": str(good)}]
    return {"trainer": {"env": env}}


def test_a_container_restarts_in_its_pod(make_engine: Any, make_runtime: Any, tmp_path: Path) -> None:
    engine = make_engine(make_runtime("t-again", restart="OnFailure", backoff=2))
    engine.create("flaky", FLAKY, runtime="t-again", **flaky(engine, tmp_path, 1))
    seen = engine.finished("flaky")
    assert engine.state("flaky").phase is Phase.SUCCEEDED
    assert len(seen.pods) == 1
    container = seen.pods[0].main
    assert container.restarts == 1
    assert (container.last.exit_code, container.last.message) == (7, "run 0")
    assert (container.terminated.exit_code, container.terminated.message) == (0, "run 1")
    assert [engine.lines("flaky", run=run) for run in (0, 1)] == [["run 0"], ["run 1"]]
    assert any(e.reason == "BackOff" and e.warning for e in seen.events)


def test_while_it_waits_for_its_restart(make_engine: Any, make_runtime: Any, wait_until: Any) -> None:
    engine = make_engine(make_runtime("t-again", restart="OnFailure", backoff=9))
    engine.create("crash", "import sys; sys.exit(5)", runtime="t-again")

    def waiting() -> Any:
        pods = engine.look("crash").pods
        return pods and pods[0].main.state == "waiting" and pods[0].main.last and pods[0].main

    container = wait_until(waiting)
    assert container.reason == "CrashLoopBackOff"
    assert container.message.startswith("back-off ")
    assert container.last.exit_code == 5
    assert engine.look("crash").pods[0].phase == "Running"


def test_after_its_restarts_it_fails(make_engine: Any, make_runtime: Any, tmp_path: Path) -> None:
    engine = make_engine(make_runtime("t-again", restart="OnFailure", backoff=1))
    engine.create("over", FLAKY, runtime="t-again", **flaky(engine, tmp_path, 9))
    seen = engine.finished("over")
    assert engine.state("over").phase is Phase.FAILED
    assert (tmp_path / "mark").read_text() == "xx"
    container = seen.pods[0].main
    assert (container.restarts, container.terminated.exit_code, container.last.exit_code) == (1, 7, 7)


def test_never_makes_a_new_pod(make_engine: Any, make_runtime: Any, tmp_path: Path) -> None:
    engine = make_engine(make_runtime("t-never", restart="Never", backoff=2))
    uid = engine.create("pods", FLAKY, runtime="t-never", **flaky(engine, tmp_path, 1))
    engine.finished("pods")
    assert engine.state("pods").phase is Phase.SUCCEEDED
    pods = engine.backend.pods("pods", uid=uid)
    assert [p["status"]["phase"] for p in pods] == ["Failed", "Succeeded"]
    assert len({p["metadata"]["name"] for p in pods}) == 2
    messages = [p["status"]["containerStatuses"][0]["state"]["terminated"]["message"] for p in pods]
    assert messages == ["run 0", "run 1"]


def test_the_whole_job_starts_anew(make_engine: Any, make_runtime: Any, tmp_path: Path) -> None:
    engine = make_engine(make_runtime("t-anew", jobset={"failurePolicy": {"maxRestarts": 1}}))
    uid = engine.create("anew", FLAKY, runtime="t-anew", **flaky(engine, tmp_path, 1))
    seen = engine.finished("anew")
    assert engine.state("anew").phase is Phase.SUCCEEDED
    assert (seen.jobset.restarts, seen.jobset.max_restarts) == (1, 1)
    [pod] = engine.backend.pods("anew", uid=uid)
    assert pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == "1"
