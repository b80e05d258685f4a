"""Importing is cheap, and needs only what is used: each case is a process of its own in which packages are blocked."""

from __future__ import annotations

import subprocess
import sys

import pytest

_BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocked())
"""

_HEAVY = ("airflow", "kfp", "kubernetes", "pydantic", "yaml", "rich", "typer", "tenacity", "kubeflow_trainer_api")


def run(code: str, blocked: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    program = _BLOCK.format(blocked=set(blocked)) + code
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "code",
    [
        "import trainer_ops; dir(trainer_ops)",
        "from trainer_ops import Outcome, Phase, RunKey, JobRef, Limits, Diagnosis, Category, report",
        "from trainer_ops import TrainJobFailed, Detached, InvalidRequest",
        "import trainer_ops.airflow",
        "import trainer_ops.kfp",
        "import trainer_ops.cli",
        "import trainer_ops.lifecycle.drive, trainer_ops.lifecycle.cancel, trainer_ops.lifecycle.find",
        "import trainer_ops.lifecycle.logs, trainer_ops.lifecycle.target",
        "import trainer_ops.lifecycle.snapshots; from trainer_ops import Snapshot, SnapshotError",
        "from trainer_ops.testing import MemoryBackend, VirtualClock; MemoryBackend()",
    ],
)
def test_needs_nothing_heavy(code: str) -> None:
    done = run(code, _HEAVY)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "blocked", [("airflow", "kfp"), ("airflow", "kfp", "kubernetes")], ids=["no front end", "no cluster"]
)
def test_the_api_needs_no_extra(blocked: tuple[str, ...]) -> None:
    code = "from trainer_ops import *; import trainer_ops.lifecycle.api, trainer_ops.lifecycle.submit"
    done = run(code, blocked)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "ours"),
    [
        ("trainer_ops", ["trainer_ops"]),
        # Each operator has a clock, so this is what every DAG file pays for: no port, nothing that is observed.
        ("trainer_ops.lifecycle.clock", ["trainer_ops", "trainer_ops.lifecycle", "trainer_ops.lifecycle.clock"]),
    ],
)
def test_imports_nothing_else_of_its_own(module: str, ours: list[str]) -> None:
    done = run(f"import {module}; print(*sorted(m for m in sys.modules if m.startswith('trainer_ops')))")
    assert done.stdout.split() == ours
