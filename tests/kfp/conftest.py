"""KFP's local runner in a folder of the test's own."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HAS_KFP = importlib.util.find_spec("kfp") is not None
if not HAS_KFP:
    collect_ignore_glob = ["test_component.py", "test_local.py", "test_cancel.py"]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A target of this test's own, which nothing outlives."""
    from trainer_ops.lifecycle.target import open_backend

    target = f"local://{tmp_path / 'engine'}"
    monkeypatch.setenv("TRAINER_OPS_TARGET", target)
    backend = open_backend(target)
    yield target
    for job in backend.list():
        backend.delete(job["metadata"]["name"])
    backend.close()


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Any]:
    """``kfp.local`` with SubprocessRunner, restored afterwards: kfp keeps it in a global."""
    from kfp import local
    from kfp.local import config

    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "root"), raise_on_error=True)
    yield local
    config.LocalExecutionConfig.instance = None
