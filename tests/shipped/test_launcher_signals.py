"""A training that is told to stop may save, and is never a success."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

SAVES = """
import signal, sys, time

def save(number, frame):
    open("saved", "w").write(str(number))
    sys.exit({code})

signal.signal({signal}, save)
open("up", "w").write("x")
time.sleep(600)
"""

# (signal, script, exit code)
STOPPED: dict[str, tuple[int, str, int]] = {
    "saves and exits 0": (signal.SIGTERM, SAVES.format(signal=15, code=0), 143),
    "saves and exits 143": (signal.SIGTERM, SAVES.format(signal=15, code=143), 143),
    "saves and fails": (signal.SIGTERM, SAVES.format(signal=15, code=5), 143),
    "has no handler": (signal.SIGTERM, "open('up', 'w').write('x')\nimport time\ntime.sleep(600)", 143),
    "interrupted": (signal.SIGINT, SAVES.format(signal=2, code=0), 130),
}


@pytest.mark.parametrize(("number", "script", "code"), STOPPED.values(), ids=STOPPED.keys())
def test_stopped(container: Any, number: int, script: str, code: int) -> None:
    process = container.start(script)
    container.wait_for("up")
    process.send_signal(number)
    assert container.finish(process).code == code
    assert container.leftovers() == []
    if "save" in script:
        assert container.wait_for("saved") == str(int(number))


def test_a_child_that_goes_on_is_waited_for(container: Any) -> None:
    # The time it has is the kubelet's to limit, not the launcher's.
    process = container.start("""
import os, signal, time

signal.signal(signal.SIGTERM, lambda *_: open("told", "w").write("x"))
open("up", "w").write("x")
while not os.path.exists("go"):
    time.sleep(0.02)
open("done", "w").write("x")
""")
    container.wait_for("up")
    process.send_signal(signal.SIGTERM)
    container.wait_for("told")
    assert process.poll() is None
    container.write({"go": "x"})
    assert container.finish(process).code == 143
    assert container.wait_for("done") == "x"


def test_every_signal_is_passed_on(container: Any) -> None:
    process = container.start("""
import signal, sys, time

def told(number, frame):
    with open("told", "a") as file:
        file.write("x")
    if open("told").read() == "xx":
        sys.exit(0)

signal.signal(signal.SIGTERM, told)
open("up", "w").write("x")
while True:
    time.sleep(600)
""")
    container.wait_for("up")
    process.send_signal(signal.SIGTERM)
    container.wait_for("told")
    process.send_signal(signal.SIGTERM)
    assert container.finish(process).code == 143


def test_before_the_code_has_started(container: Any) -> None:
    # A module that the launcher imports right after it has set its handlers sends the signal.
    import base64

    text = f"""
import os, signal
os.kill(os.getpid(), signal.SIGTERM)
with open({base64.__file__!r}) as file:
    exec(compile(file.read(), {base64.__file__!r}, "exec"))
"""
    container.write({"path/base64.py": text})
    container.env["PYTHONPATH"] = str(container.folder / "path")
    run = container.finish(container.start("open('up', 'w').write('x')"))
    assert (run.code, run.out, run.err) == (143, "", "")
    assert not (container.folder / "up").exists()
    assert container.leftovers() == []


def test_at_any_moment_of_the_start(container: Any) -> None:
    for _ in range(5):
        process = container.start("open('up', 'w').write('x')\nimport time\ntime.sleep(600)")
        process.send_signal(signal.SIGTERM)
        # Before the interpreter has come to our first line the signal's default action ends it, as a process
        # that is not number 1 of a container.
        assert container.finish(process).code in (143, -signal.SIGTERM)


SLOW_PIP = """
import signal, sys, time

open("installing", "w").write("x")
try:
    time.sleep(600)
finally:
    open("interrupted", "w").write("x")
"""


def test_while_packages_are_installed(container: Any, make_wheel: Callable[..., Path]) -> None:
    container.write({"path/pip/__init__.py": "", "path/pip/__main__.py": SLOW_PIP})
    container.env["PYTHONPATH"] = str(container.folder / "path")
    process = container.start("open('up', 'w').write('x')", packages=["slow"])
    container.wait_for("installing")
    process.send_signal(signal.SIGTERM)
    run = container.finish(process)
    assert (run.code, run.err) == (143, "trainer_ops: installing slow\n")
    assert not (container.folder / "up").exists()
    assert container.leftovers() == []


LEAVES_AN_ORPHAN = """
import os, subprocess, sys, time

start = "import subprocess; print(subprocess.Popen(['true']).pid)"
orphan = int(subprocess.run([sys.executable, "-c", start], stdout=subprocess.PIPE).stdout)
try:
    while True:  # a process that nobody reaps stays in the table for ever
        os.kill(orphan, 0)
        time.sleep(0.02)
except ProcessLookupError:
    open("up", "w").write(str(os.getppid()))
time.sleep(600)
"""


def test_as_process_1(container: Any) -> None:
    own = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if shutil.which(own[0]) is None or subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("no process namespaces here")
    command = container.command(LEAVES_AN_ORPHAN)
    process = container.popen([*own, *command])
    assert container.wait_for("up") == "1"
    psutil.Process(process.pid).children()[0].send_signal(signal.SIGTERM)
    assert container.finish(process).code == 143
