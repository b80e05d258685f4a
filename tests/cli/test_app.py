"""The commands there are, their help, and what they load."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.cli.app import app

Cli = Callable[..., Any]

COMMANDS = [
    "run", "submit", "wait", "status", "list", "logs", "report", "exec", "cancel", "suspend", "resume", "validate",
    "runtimes", "rbac", "migrate", "demo",
]  # fmt: skip
GROUPS = {"init": ["dataset", "model"], "snapshots": ["list", "verify", "gc"]}
HEAVY = {"pydantic", "yaml", "rich", "kubernetes", "sqlite3", "asyncio", "psutil", "tenacity", "importlib.metadata"}


def test_the_commands_are_exactly_these(cli: Cli) -> None:
    assert [command.name for command in app.registered_commands] == COMMANDS
    assert [group.typer_instance.info.name for group in app.registered_groups if group.typer_instance] == [*GROUPS]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(cli: Cli, command: str) -> None:
    ran = cli(command, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: trainer-ops {command}")


@pytest.mark.parametrize(("group", "command"), [(group, name) for group, names in GROUPS.items() for name in names])
def test_each_command_of_a_group_has_help(cli: Cli, group: str, command: str) -> None:
    ran = cli(group, command, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: trainer-ops {group} {command}")
    assert max(map(len, ran.out.splitlines())) <= 100


def test_the_help_of_all_says_each_command_in_full(cli: Cli) -> None:
    said = cli("--help").out
    assert "Exit codes: 0 trained, 1 training failed, 2 invalid input" in said
    listed = said[said.index("Commands:") :]
    assert re.findall(r"^  (\w+) ", listed, re.MULTILINE) == [*COMMANDS, *GROUPS]
    assert "..." not in listed


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; from trainer_ops.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert HEAVY & set(done.stderr.split()) == set()


def test_version(cli: Cli) -> None:
    ran = cli("--version")
    assert (ran.code, bool(re.fullmatch(r"trainer-ops \d+\.\d+\S*\n", ran.out))) == (0, True)


def test_no_words_show_the_help(cli: Cli) -> None:
    ran = cli()
    assert "Usage: trainer-ops" in ran.out + ran.err
