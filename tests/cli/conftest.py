from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from trainer_ops.cli import main
from trainer_ops.cli import target as cli_target
from trainer_ops.testing.clock import VirtualClock
from trainer_ops.testing.memory import MemoryBackend


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Cli = Callable[..., Ran]


@pytest.fixture
def cli(
    memory_backend: MemoryBackend,
    virtual_clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Cli:
    """Run a command line in this process, on a target in memory and a clock on which nobody waits."""
    monkeypatch.setenv("TRAINER_OPS_TARGET", memory_backend.target)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(cli_target, "clock", lambda: virtual_clock)

    def run(*argv: str) -> Ran:
        capsys.readouterr()
        code = main(argv)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run
