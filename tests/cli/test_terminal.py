"""The command line as a process in a real terminal: the live line, Ctrl-C, SIGTERM, kill -9. On the engine."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.local.engine import LocalBackend

pytestmark = pytest.mark.slow

PATIENCE = 60.0
# The child takes the terminal as its own, so that Ctrl-C is a signal and not a character.
TAKE = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
CLI = "import sys; from trainer_ops.cli import main; sys.exit(main())"

# Trains until the file is there: nothing here goes by the clock.
TRAIN = """\
import os, sys, time
import trainer_ops
print("hello", flush=True)
trainer_ops.report({"loss": 0.5}, progress=50, eta_seconds=80)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
trainer_ops.report({"accuracy": 0.9}, model_uri="file:///model")
"""


class Terminal:
    """A command line in a pseudo terminal."""

    def __init__(self, argv: list[str], columns: int = 80, **env: str) -> None:
        self.shown = ""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        cleaned = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE, sys.executable, "-c", CLI, *argv],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**cleaned, "TERM": "xterm-256color", **env},
        )
        os.close(slave)

    def until(self, pattern: str) -> str:
        """Read until the pattern was shown."""
        return self._read(lambda: re.search(pattern, self.shown) is not None, pattern)

    def end(self) -> int:
        """Read to the end; the exit code."""
        self._read(lambda: False, "the end")
        return self.process.wait(PATIENCE)

    def modes(self) -> list[Any]:
        """What Ctrl-C, Enter and echo do in it now."""
        return termios.tcgetattr(self._master)

    def widen(self, columns: int, rows: int) -> None:
        """What a person does with a window's corner."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def _read(self, enough: Callable[[], bool], what: str) -> str:
        give_up = time.monotonic() + PATIENCE
        while not enough():
            left = give_up - time.monotonic()
            assert left > 0, f"no {what!r} in:\n{self.shown}"
            if not select.select([self._master], [], [], min(left, 1.0))[0]:
                continue
            try:
                data = os.read(self._master, 65536)
            except OSError:  # Linux: the other side is closed
                data = b""
            if not data:
                assert what == "the end" or enough(), f"ended without {what!r}:\n{self.shown}"
                break
            self.shown += data.decode()
        return self.shown


@pytest.fixture
def terminal(local_trainer: LocalBackend) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_(*argv: str, columns: int = 80, **env: str) -> Terminal:
        opened.append(Terminal(list(argv), columns, **env))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return tmp_path / "release"


@pytest.fixture
def train(tmp_path: Path, release: Path) -> list[str]:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    return ["run", "--runtime", "plain", "--nodes", "2", "--", str(script), str(release)]


def cli(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", CLI, *argv], capture_output=True, text=True, timeout=PATIENCE)


def only_name(backend: LocalBackend) -> str:
    (job,) = backend.list()
    return str(job["metadata"]["name"])


def trained(release: Path, name: str) -> None:
    """The training still runs, ends when it may, and its result is there for who asks."""
    assert json.loads(cli("status", name, "-o", "json").stdout)["phase"] == "running"
    release.touch()
    waited = cli("wait", name, "-o", "json")
    assert waited.returncode == 0, waited.stderr
    outcome = json.loads(waited.stdout)
    assert (outcome["phase"], outcome["metrics"]["accuracy"]) == ("succeeded", 0.9)


def test_ctrl_c_detaches_and_the_training_goes_on(
    terminal: Callable[..., Terminal], local_trainer: LocalBackend, train: list[str], release: Path
) -> None:
    shown = terminal(*train)
    shown.until(r"\[node-1\]")
    shown.press(b"\x03")
    assert shown.end() == 3
    name = only_name(local_trainer)
    assert f"{name} goes on training." in plain_text(shown.shown)
    assert f"again   trainer-ops wait {name}" in plain_text(shown.shown)
    assert f"stop    trainer-ops cancel {name}" in plain_text(shown.shown)
    assert "Traceback" not in shown.shown
    trained(release, name)


def test_sigterm_detaches_too(
    terminal: Callable[..., Terminal], local_trainer: LocalBackend, train: list[str], release: Path
) -> None:
    shown = terminal(*train)
    shown.until(r"\[node-1\]")
    shown.process.send_signal(signal.SIGTERM)
    assert shown.end() == 3
    trained(release, only_name(local_trainer))


def test_a_killed_command_line_leaves_the_training(
    terminal: Callable[..., Terminal], local_trainer: LocalBackend, train: list[str], release: Path
) -> None:
    shown = terminal(*train)
    shown.until(r"\[node-1\]")
    shown.process.kill()
    shown.process.wait()
    trained(release, only_name(local_trainer))


def test_the_live_line_has_a_bar_a_metric_and_moves(
    terminal: Callable[..., Terminal], train: list[str], release: Path
) -> None:
    shown = terminal(*train, columns=100)
    text = plain_text(shown.until(r"50 %"))
    assert re.search(r"running +\d+:\d\d  ━+╸?─+   50 %  about \d+ s left   loss 0.5", text)
    release.touch()
    assert shown.end() == 0
    assert re.search(
        r"✔ train-\w+ trained in 0:\d\d on 2 nodes   accuracy 0.9   model file:///model", plain_text(shown.shown)
    )
    assert shown.shown.count("\x1b[?25l") == shown.shown.count("\x1b[?25h") == 1, "the cursor is given back"


def test_no_color_is_respected(terminal: Callable[..., Terminal], train: list[str], release: Path) -> None:
    release.touch()
    shown = terminal(*train, NO_COLOR="1")
    assert shown.end() == 0
    assert not re.search(r"\x1b\[(?:\d+;)*3[0-9]", shown.shown)


def test_a_dumb_terminal_gets_plain_lines(terminal: Callable[..., Terminal], train: list[str], release: Path) -> None:
    release.touch()
    shown = terminal(*train, TERM="dumb")
    assert shown.end() == 0
    assert "\x1b" not in shown.shown


def test_a_detached_json_says_where_it_stands(local_trainer: LocalBackend, train: list[str], release: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CLI, "run", "-o", "json", *train[1:]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert any(line.startswith("[node-1]") for line in process.stderr)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    left = json.loads(out)
    assert (left["name"], left["phase"]) == (only_name(local_trainer), "running")
    release.touch()


def test_ctrl_c_while_reading_logs_is_130(
    terminal: Callable[..., Terminal], local_trainer: LocalBackend, train: list[str], release: Path
) -> None:
    assert cli("submit", *train[1:]).returncode == 0
    shown = terminal("logs", "-f", only_name(local_trainer))
    shown.until(r"\[node-1\]")
    shown.press(b"\x03")
    assert shown.end() == 130
    assert "Traceback" not in shown.shown


class TestExec:
    """A command in a node, with the person's own terminal."""

    @pytest.fixture
    def name(self, local_trainer: LocalBackend, train: list[str]) -> str:
        assert cli("submit", *train[1:]).returncode == 0
        name = only_name(local_trainer)
        give_up = time.monotonic() + PATIENCE
        while json.loads(cli("status", name, "-o", "json").stdout)["phase"] != "running":
            assert time.monotonic() < give_up
        return name

    @pytest.fixture
    def shell(self, terminal: Callable[..., Terminal], name: str) -> Terminal:
        shown = terminal("exec", name, "--node", "1", "--", "sh", "-c", "echo rea''dy; exec sh", PS1="$ ")
        shown.until("ready")
        return shown

    def test_a_shell_and_its_exit_code(self, shell: Terminal) -> None:
        shell.press(b"echo I am ${HOSTNAME##*-} of $(stty size)\r")
        shell.until("I am 1 of 24 80\r\n")
        shell.press(b"exit 42\r")
        assert shell.end() == 42

    def test_ctrl_c_goes_to_the_command(self, terminal: Callable[..., Terminal], name: str) -> None:
        code = "import signal, sys\ntry: print('up', flush=True); signal.pause()\nexcept KeyboardInterrupt: sys.exit(9)"
        shown = terminal("exec", name, "--", sys.executable, "-c", code)
        shown.until("up")
        shown.press(b"\x03")
        assert shown.end() == 9
        assert json.loads(cli("status", name, "-o", "json").stdout)["phase"] == "running"

    def test_the_window_is_followed(self, shell: Terminal) -> None:
        shell.press(b"trap 'stty size' WINCH; echo wai''ting\r")
        shell.until("waiting")
        shell.widen(123, 45)
        shell.press(b"stty size\r")
        shell.until("45 123")

    @pytest.mark.parametrize("how", ["exit", "SIGTERM", "SIGHUP", "killed"])
    def test_the_terminal_is_given_back(
        self, terminal: Callable[..., Terminal], local_trainer: LocalBackend, name: str, how: str
    ) -> None:
        shown = terminal("exec", name, "--", "sh", "-c", "echo rea''dy; exec sleep 600")
        usual = shown.modes()
        shown.until("ready")
        assert shown.modes() != usual
        if how == "killed":
            local_trainer.delete(name)
        elif how == "exit":
            shown.press(b"\x03")
        else:
            shown.process.send_signal(signal.Signals[how])
        assert shown.end() == {"exit": 130, "SIGTERM": 143, "SIGHUP": 129, "killed": 137}[how]
        assert shown.modes() == usual
        if how == "killed":
            assert f"the command was killed with node-0: {name} was deleted, nothing of it runs" in shown.shown

    def test_without_a_command_a_shell(self, terminal: Callable[..., Terminal], name: str) -> None:
        shown = terminal("exec", name)
        shown.press(b"echo $((6 * 7))\rexit\r")
        assert shown.end() == 0
        assert "42" in shown.shown

    def test_pipes_need_no_terminal(self, name: str) -> None:
        command = [sys.executable, "-c", CLI, "exec", name, "--", "sh", "-c", "cat; tty; echo oh >&2; exit 3"]
        done = subprocess.run(command, input="héllo\n", capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stdout, done.stderr) == (3, "héllo\nnot a tty\n", "oh\n")

    def test_ctrl_c_without_a_terminal_of_its_own(self, terminal: Callable[..., Terminal], name: str) -> None:
        script = "trap 'echo cau''ght; exit 9' INT; echo rea''dy; while :; do sleep 0.05; done"
        shown = terminal("exec", name, "--no-tty", "--", "sh", "-c", script)
        shown.until("ready")
        shown.press(b"\x03")
        assert shown.end() == 9
        assert "caught" in shown.shown


def test_a_closed_pipe_is_no_error(local_trainer: LocalBackend, train: list[str], release: Path) -> None:
    release.touch()
    cli(*train)
    name = only_name(local_trainer)
    reader = f"{sys.executable} -c '{CLI}' logs {name} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", reader], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_the_demo_that_needs_nothing(local_trainer: LocalBackend, tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CLI, "demo", "--plain", "--rounds", "60", "-o", "json"],
        capture_output=True, text=True, timeout=PATIENCE, env=environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["metrics"]["accuracy"] > 0.9
    assert Path(outcome["model_uri"].removeprefix("file://")).is_file()
    assert "[node-0] " in done.stderr
    assert "[node-1] " in done.stderr


def plain_text(shown: str) -> str:
    return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", shown)
