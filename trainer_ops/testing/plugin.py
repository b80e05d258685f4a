"""Fixtures for pytest: ``pytest_plugins = ["trainer_ops.testing.plugin"]`` in a conftest, or ``-p``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trainer_ops.model import keys
from trainer_ops.testing.clock import VirtualClock
from trainer_ops.testing.memory import MemoryBackend

if TYPE_CHECKING:
    from trainer_ops.local.engine import LocalBackend

__all__ = ["local_trainer", "memory_backend", "virtual_clock"]


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock on which nobody waits."""
    return VirtualClock()


@pytest.fixture
def memory_backend(virtual_clock: VirtualClock) -> MemoryBackend:
    """A target in memory, on ``virtual_clock``."""
    return MemoryBackend(virtual_clock)


@pytest.fixture
def local_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBackend]:
    """The engine in a folder of this test's own, and as the target of everything that names none.

    What still trains at the end is deleted.
    """
    from trainer_ops.lifecycle.target import open_backend

    target = f"local://{tmp_path / 'trainer-ops'}"
    monkeypatch.setenv(keys.ENV_TARGET, target)
    backend = open_backend(target)
    try:
        yield backend  # type: ignore[misc]
    finally:
        for job in backend.list():
            backend.delete(job["metadata"]["name"])
        backend.close()
