"""Snapshots in this process: a limit that holds, also while the source says nothing; what ``env`` is for."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer_ops.backends.base import Backend
from trainer_ops.initializers.environment import credentials_from
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.snapshots import take_snapshot
from trainer_ops.lifecycle.target import open_backend


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Backend]:
    backend = open_backend(f"local://{tmp_path}/engine")
    yield backend
    backend.close()


@pytest.fixture
def silent() -> Iterator[str]:
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=8) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/data.bin"


def nobody() -> str:
    """Where nobody listens: the port of a server that has gone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/data.bin"


@pytest.mark.parametrize("source", ["says nothing", "is away"])
def test_the_limit_holds_while_nothing_comes(source: str, engine: Backend, silent: str, tmp_path: Path) -> None:
    uri = silent if source == "says nothing" else nobody()
    begun = time.monotonic()
    with pytest.raises(
        SnapshotError, match=r"was not done within 0:00 \(wait_timeout\): http://127.*no usable"
    ) as caught:
        take_snapshot(engine, uri, to=str(tmp_path / "store"), wait_timeout=0.3, clock=RealClock())
    assert caught.value.transient
    # Without the limit: a minute of silence six times over, or pauses of sixteen seconds together.
    assert time.monotonic() - begun < 5


def test_a_hub_of_one_s_own_may_be_given_by_env() -> None:
    found = credentials_from({"HF_ENDPOINT": "http://hub:1", "HF_TOKEN": "t"}, "hf")
    assert (found.token, found.options) == ("t", {"endpoint": "http://hub:1"})
    assert credentials_from({"HF_ENDPOINT": " "}, "hf").options == {}
