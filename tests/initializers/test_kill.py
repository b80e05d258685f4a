"""``kill -9`` at every step: a snapshot is whole or absent, and the next process goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("kind", "what", "least"),
    [("folder", "make", 30), ("folder", "gc", 5), ("objects", "make", 15), ("objects", "gc", 5)],
)
def test_whole_or_absent(kind: str, what: str, least: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.initializers.killer", kind, what, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == {}
    assert found["steps"] >= least
