"""Scripts that go wrong, as a person meets them: ``trainer-ops run`` as a process, its words and its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.local.engine import LocalBackend

pytestmark = pytest.mark.slow

# It tells its own peak, in MB: what the kernel keeps for whoever waits counts the process that it was forked from.
CLI = """
import atexit, os, resource, sys

def peak():
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / (1 << 10)

atexit.register(lambda: open(os.environ["PEAK_FILE"], "w").write(str(peak())))
from trainer_ops.cli import main
sys.exit(main())
"""
# What the command needs by itself is about 45 MB; a log that is kept as a whole would be beyond this.
MOST_MEGABYTES = 120


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str
    megabytes: float

    def block(self, label: str) -> str:
        """What stands behind a label of the failure, up to the next one."""
        lines = self.out.splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith(f"  {label} "))
        end = next((i for i in range(start + 1, len(lines)) if lines[i][2:3] not in ("", " ")), len(lines))
        return "\n".join(line.strip() for line in lines[start:end]).removeprefix(label).strip()


@pytest.fixture
def run(local_trainer: LocalBackend, tmp_path: Path) -> Any:
    """Run a script on the engine by the command line, as a process of its own, whose memory is its own too."""

    def started(code: str, *flags: str) -> Said:
        script = tmp_path / "train.py"
        script.write_text(code)
        out, err = tmp_path / "out", tmp_path / "err"
        argv = [sys.executable, "-c", CLI, "run", "--runtime", "xgboost-distributed", "--nodes", "2", *flags]
        env = {**os.environ, "PEAK_FILE": str(tmp_path / "peak")}
        with out.open("wb") as stdout, err.open("wb") as stderr:
            done = subprocess.run([*argv, "--", str(script)], stdout=stdout, stderr=stderr, env=env, check=False)
        return Said(done.returncode, _end(out), _end(err), float((tmp_path / "peak").read_text()))

    return started


def _end(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 100_000, 0))
        return file.read().decode(errors="replace")


CASES = {
    "a syntax error": (
        "def f(:\n    pass\n",
        "ended with exit code 1 on node-",
        "SyntaxError: invalid syntax",
        "Correct the code at the line that the traceback names.",
    ),
    "exit 3 of one of two": (
        (
            "import os, sys, time\n"
            "if os.environ['DMLC_TASK_ID'] == '0':\n    time.sleep(600)\n"
            "print('no /data', flush=True)\nsys.exit(3)\n"
        ),
        "ended with exit code 3 on node-1",
        "no /data",
        "say what went wrong in the code",
    ),
    "a signal": (
        "import os, signal\nprint('now', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)\n",
        "ended with SIGSEGV (exit code 139) on node-",
        "now",
        "A native library crashed",
    ),
    "bytes that are no text, and colours": (
        "import os, sys\nos.write(1, b'\\xff\\xfe\\x00 \\x1b[31mred\\x1b[0m\\n')\nsys.exit(1)\n",
        "ended with exit code 1 on node-",
        "��� red",
        "say what went wrong in the code",
    ),
    "a line of 5 MB": (
        "import sys\nprint('x' * 5_000_000)\nprint('the end', flush=True)\nsys.exit(1)\n",
        "ended with exit code 1 on node-",
        "the end",
        "say what went wrong in the code",
    ),
}


@pytest.mark.parametrize(("code", "what", "why", "do"), CASES.values(), ids=CASES.keys())
def test_what_a_person_reads(run: Any, code: str, what: str, why: str, do: str) -> None:
    said = run(code)
    assert said.code == 1
    assert what in " ".join(said.block("what").split())
    assert why in said.block("why")
    assert do in " ".join(said.block("do").split())
    assert "\x1b" not in said.out + said.err
    assert said.megabytes < MOST_MEGABYTES


def test_200_mb_of_log(run: Any) -> None:
    said = run("for _ in range(1_000_000):\n    print('x' * 99)\nraise SystemExit('that was all')\n")
    assert said.code == 1
    assert "that was all" in said.block("why")
    assert said.megabytes < MOST_MEGABYTES


def test_one_that_never_ends_is_left_alone_in_the_end(run: Any, local_trainer: LocalBackend) -> None:
    said = run("import time\nwhile True:\n    time.sleep(1)\n", "--wait-timeout", "3s", "-o", "json", "-q")
    left = json.loads(said.out)
    assert (said.code, left["phase"], left["diagnosis"]["category"]) == (3, "running", "deadline")
    assert local_trainer.get(left["name"]) is not None
