"""The contract of a target, kept with the oldest and the newest client that may be installed beside us."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
UV = ROOT / ".tools" / "bin" / "uv"
NEEDED = (
    *("pydantic", "tenacity", "pyyaml", "psutil", "rich", "typer", "kubeflow-trainer-api>=2.3,<2.4"),
    *("pytest", "pytest-timeout", "trustme", "hypothesis"),
)


def environment(version: str) -> Path:
    """A virtual environment with that client, made once; its interpreter."""
    folder = ROOT / ".cache" / "clients" / version
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        env = {**os.environ, "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or str(ROOT / ".cache" / "uv")}
        for command in (
            ["venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
            ["pip", "install", "--quiet", "--python", str(python), f"kubernetes=={version}", *NEEDED],
        ):
            subprocess.run([str(UV), *command], env=env, check=True)
        (folder / "complete").touch()
    return python


@pytest.mark.skipif(not UV.exists(), reason="uv is not in .tools")
@pytest.mark.parametrize("version", ["29.0.0", "37.0.2"])
def test_the_contract_holds(version: str) -> None:
    suite = ["tests/backends/test_contract.py", "tests/faults/test_calls.py", "tests/faults/test_hub.py"]
    command = [
        str(environment(version)),
        "-m",
        "pytest",
        "-q",
        *suite,
        "-m",
        "cluster and not slow",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
