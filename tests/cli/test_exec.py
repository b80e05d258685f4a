"""``exec`` on a target in memory: which node, which streams, which exit code. The terminal: test_terminal.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.cli import main
from trainer_ops.errors import BackendError, Forbidden, NotFound, Unreachable
from trainer_ops.lifecycle.exec import SHELL
from trainer_ops.testing import MemoryBackend, Training

Cli = Callable[..., Any]


@pytest.fixture
def name(memory_backend: MemoryBackend) -> str:
    memory_backend.script("*", [(0, Training.running)])
    spec = {"runtimeRef": {"name": "deepspeed-distributed"}, "trainer": {"numNodes": 2}}
    memory_backend.create({"metadata": {"name": "t"}, "spec": spec})
    return "t"


def test_the_command_and_its_exit_code(cli: Cli, memory_backend: MemoryBackend, name: str) -> None:
    memory_backend.answer(lambda command: 7)
    assert cli("exec", name, "--", "mpirun", "--version").code == 7
    (command,) = memory_backend.commands
    assert command.argv == ("mpirun", "--version")
    assert (command.container, command.streams.terminal) == ("node", None)
    assert "-launcher-" in command.pod


def test_the_node_that_is_named(cli: Cli, memory_backend: MemoryBackend, name: str) -> None:
    assert cli("exec", name, "--node", "1", "--", "true").code == 0
    assert "-node-0-1-" in memory_backend.commands[0].pod


def test_what_it_prints(memory_backend: MemoryBackend, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    def answer(command: Any) -> int:
        command.say("out\n")
        command.say("err\n", error=True)
        return 0

    memory_backend.answer(answer)
    main(["exec", name, "--target", memory_backend.target, "--", "x"])
    said = capfd.readouterr()
    assert (said.out, said.err) == ("out\n", "err\n")


def test_a_shell_without_a_command(cli: Cli, memory_backend: MemoryBackend, name: str) -> None:
    cli("exec", name)
    assert memory_backend.commands[0].argv == SHELL


def test_a_terminal_that_is_asked_for_needs_none_here(cli: Cli, memory_backend: MemoryBackend, name: str) -> None:
    cli("exec", name, "--tty", "--", "x")
    terminal = memory_backend.commands[0].streams.terminal
    assert terminal is not None
    assert terminal.size() == (80, 24)


def test_no_such_node(cli: Cli, memory_backend: MemoryBackend, name: str) -> None:
    ran = cli("exec", name, "--node", "9", "--", "true")
    assert ran.code == 2
    assert 'has no node "node-9". Its nodes: launcher, node-0, node-1' in ran.err
    assert memory_backend.commands == []


@pytest.mark.parametrize(
    ("error", "code"),
    [(Forbidden("not allowed: creating pods/exec"), 2), (NotFound("gone"), 2), (Unreachable("broke off"), 5)],
    ids=lambda value: type(value).__name__,
)
def test_our_own_errors(cli: Cli, memory_backend: MemoryBackend, name: str, error: BackendError, code: int) -> None:
    memory_backend.faults.fail_next("exec", error)
    ran = cli("exec", name, "--", "true")
    assert ran.code == code
    assert str(error) in ran.err


def test_an_interrupt_that_the_target_cannot_pass_on(cli: Cli, memory_backend: MemoryBackend, name: str) -> None:
    def interrupted(command: Any) -> int:
        raise KeyboardInterrupt

    memory_backend.answer(interrupted)
    ran = cli("exec", name, "--", "sleep", "600")
    assert (ran.code, ran.err) == (130, "interrupted; the command may go on in launcher of t\n")


def test_a_command_that_died_with_its_node_says_so(cli: Cli, memory_backend: MemoryBackend, name: str) -> None:
    def killed(command: Any) -> int:
        memory_backend.change(name, lambda training: training.restart_all())
        return 137

    memory_backend.answer(killed)
    ran = cli("exec", name)
    assert (ran.code, ran.err) == (137, "the command was killed with launcher, which was made anew\n")
