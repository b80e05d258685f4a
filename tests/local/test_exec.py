"""Commands in a container of the engine: whose environment they have, and that they end with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.backends.base import Streams, Terminal
from trainer_ops.errors import NotFound
from trainer_ops.local import processes
from trainer_ops.model.phase import Phase

WAIT = "import time\nprint('up', flush=True)\ntime.sleep(600)"


class Room:
    """A node of a training, to run commands in."""

    def __init__(self, engine: Any, name: str, folder: Path) -> None:
        self.engine, self.name, self.folder = engine, name, folder

    def run(self, *argv: str, node: int | str = 0, terminal: Terminal | None = None, stdin: int | None = None) -> Any:
        """(exit code, stdout, stderr)."""
        wanted = f"node-{node}" if isinstance(node, int) else node
        pod = next(pod for pod in self.engine.look(self.name).pods if pod.node == wanted)
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            streams = Streams(stdin, out.fileno(), err.fileno(), terminal)
            code = self.engine.backend.exec(pod.name, pod.main_name, argv, streams)
        return code, self.shown("out"), self.shown("err")

    def shown(self, stream: str = "out") -> str:
        """What came so far."""
        return (self.folder / stream).read_bytes().decode()

    def type(self, *pairs: tuple[str, bytes], argv: Sequence[str]) -> tuple[int, str]:
        """Run it in a terminal and type, each time once some text is shown; exit code and stdout."""
        reader, writer = os.pipe()

        def keys() -> None:
            for text, pressed in pairs:
                until(lambda text=text: text in self.shown())  # type: ignore[misc]
                os.write(writer, pressed)

        (self.folder / "out").touch()
        typist = threading.Thread(target=keys)
        typist.start()
        try:
            code, out, _ = self.run(*argv, terminal=Terminal(), stdin=reader)
            return code, out
        finally:
            typist.join()
            os.close(reader)
            os.close(writer)

    def begin(self, *argv: str, node: int = 0) -> tuple[threading.Thread, list[Any]]:
        """Run it in a thread until it runs; the thread and where its answer will be."""
        answers: list[Any] = []
        marker = self.folder / "begun"
        script = f"touch {marker}; exec {' '.join(argv)}"
        thread = threading.Thread(target=lambda: answers.append(self.run("sh", "-c", script, node=node)))
        thread.start()
        until(marker.exists)
        return thread, answers


def until(look: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not look():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.fixture
def room(engine: Any, tmp_path: Path) -> Room:
    engine.create("t", WAIT, nodes=2, trainer={"env": [{"name": "FOO", "value": "bär"}]})
    engine.phase("t", Phase.RUNNING)
    return Room(engine, "t", tmp_path)


def test_it_has_the_environment_folder_and_marker_of_its_node(room: Room) -> None:
    show = 'echo "$FOO $HOSTNAME $TRAINER_OPS_ENGINE_JOB"; pwd'
    for node in (0, 1):
        code, out, _ = room.run("sh", "-c", show, node=node)
        uid = room.engine.look("t").job.uid
        assert (code, out.splitlines()) == (0, [f"bär t-node-0-{node} {uid}", os.getcwd()])


def test_a_signal_is_told_as_a_shell_tells_it(room: Room) -> None:
    assert room.run("sh", "-c", "kill -TERM $$")[0] == 143


@pytest.mark.parametrize(("command", "code"), [("no-such-thing", 127), ("/etc/passwd", 126), ("/etc/passwd/x", 127)])
def test_what_cannot_be_run(room: Room, command: str, code: int) -> None:
    assert room.run(command)[0] == code
    assert command in room.run(command)[2]


def test_a_terminal_of_its_own(room: Room) -> None:
    program = "import os, sys; print(os.isatty(0), os.isatty(2), os.tcgetpgrp(0) == os.getpid(), os.environ['TERM'])"
    code, out, err = room.run(sys.executable, "-c", program, terminal=Terminal())
    assert (code, err) == (0, "")
    assert out.split() == ["True", "True", "True", os.environ.get("TERM", "xterm")]


def test_what_is_typed_is_heard_and_ctrl_c_is_a_signal(room: Room) -> None:
    script = "echo ready; read x; echo got $x; exec sleep 600"
    code, out = room.type(("ready", b"hello\n"), ("got", b"\x03"), argv=["sh", "-c", script])
    assert (code, out) == (130, "ready\r\nhello\r\ngot hello\r\n^C")


def test_a_command_that_prints_without_end_can_be_stopped(room: Room) -> None:
    code, out = room.type(("y\r\n" * 1000, b"\x03"), argv=["yes"])
    assert code == 130
    assert out.startswith("y\r\n")


def test_what_it_leaves_in_the_background_does_not_hold_it(room: Room) -> None:
    code, out, _ = room.run("sh", "-c", "sleep 600 & echo done", terminal=Terminal())
    assert (code, out) == (0, "done\r\n")


def test_it_ends_with_the_training(room: Room, gone: Callable[[str], None]) -> None:
    thread, answers = room.begin("sleep", "600")
    uid = room.engine.look("t").job.uid
    room.engine.deleted("t", uid)
    thread.join(60)
    assert [answer[0] for answer in answers] == [137]
    gone(uid)


def test_it_ends_with_its_container_while_the_others_go_on(room: Room) -> None:
    thread, answers = room.begin("sleep", "600", node=1)
    pid = int(room.run("sh", "-c", "echo $PPID")[1])  # of this test: the command's parent is who asked
    assert pid == os.getpid()
    uid = room.engine.look("t").job.uid
    first = [
        p for p in processes.marked(uid) if processes.marker_of(p.pid, processes.ENV_POD).startswith(_pod(room, 1))
    ]
    os.kill(min(p.pid for p in first), signal.SIGKILL)
    thread.join(60)
    assert [answer[0] for answer in answers] == [137]


def _pod(room: Room, node: int) -> str:
    return next(str(pod.uid) for pod in room.engine.look("t").pods if pod.index == node)


def test_who_hides_its_marker_ends_with_the_training_too(room: Room, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    hidden = f"echo $$ > {note}.new; mv {note}.new {note}; sleep 600"
    script = ["env", "-i", shutil.which("sh") or "sh", "-c", hidden]
    pod = room.engine.look("t").pods[0]
    asking = (
        "import sys\nfrom trainer_ops.backends.base import Streams\n"
        "from trainer_ops.lifecycle.target import open_backend\n"
        "backend = open_backend(sys.argv[1]); backend.exec(sys.argv[2], 'node', sys.argv[3:], Streams())"
    )
    with subprocess.Popen([sys.executable, "-c", asking, room.engine.backend.target, pod.name, *script]) as asker:
        until(note.exists)
        asker.kill()  # nobody watches any more that it ends with its container
    pid = int(note.read_text())
    mark = processes.start_mark(pid)
    assert processes.is_alive(pid, mark)
    room.engine.deleted("t", room.engine.look("t").job.uid)
    until(lambda: not processes.is_alive(pid, mark))


@pytest.mark.parametrize(("pod", "container"), [("nobody", "node"), ("", "nobody")])
def test_what_is_not_there(room: Room, pod: str, container: str) -> None:
    with pytest.raises(NotFound, match="nobody"):
        room.engine.backend.exec(pod or room.engine.look("t").pods[0].name, container, ["true"], Streams())


def test_what_has_ended(engine: Any) -> None:
    engine.create("done", "print('x')")
    pod = engine.finished("done").pods[0]
    with pytest.raises(NotFound, match="does not run"):
        engine.backend.exec(pod.name, "node", ["true"], Streams())


@pytest.fixture
def launcher(engine: Any, tmp_path: Path) -> Room:
    if shutil.which("mpirun", path=os.path.dirname(sys.executable)) is None:
        pytest.skip("no mpirun beside this interpreter")
    engine.create("m", ["sleep", "600"], nodes=3, runtime="mpi-distributed")
    engine.phase("m", Phase.RUNNING)
    return Room(engine, "m", tmp_path)


def test_mpirun_in_the_launcher_starts_its_ranks_on_the_nodes(launcher: Room) -> None:
    code, out, _ = launcher.run("mpirun", "sh", "-c", "echo $HOSTNAME", node="launcher")
    assert (code, sorted(out.split())) == (0, [f"m-node-0-{i}" for i in range(3)])


def test_the_exit_code_of_a_rank_is_that_of_mpirun(launcher: Room) -> None:
    script = 'test "$OMPI_COMM_WORLD_RANK" != 1 || exit 5'
    assert launcher.run("mpirun", "sh", "-c", script, node="launcher")[0] == 5
