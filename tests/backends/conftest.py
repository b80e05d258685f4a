"""One rig per target: the same trainings, made in the way that each target can run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from trainer_ops.backends.base import Backend
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model import keys
from trainer_ops.testing import MemoryBackend, Training, VirtualClock

T = TypeVar("T")
Manifest = dict[str, Any]

RESULT = {"metrics": {"accuracy": 0.5}, "model_uri": "file:///model"}


class Rig(Protocol):
    """A target and what the suite needs beside the port. A new adapter brings a fixture ``<name>_rig`` of this shape.

    A training's name says what it does: ``quick-*`` prints three lines on each node and trains with ``RESULT``,
    ``fails-*`` prints one line and ends with exit code 3 on node 0, ``long-*`` prints ``ready`` and goes on.
    """

    @property
    def backend(self) -> Backend:
        """The target."""

    def now(self) -> float:
        """Its time."""

    def pause(self) -> None:
        """Let it move on a little."""

    def patience(self) -> int:
        """How many pauses are enough for anything."""


class MemoryRig:
    """Scripts do what the names say."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.backend = MemoryBackend(self.clock)
        start: list[tuple[float, Callable[[Training], object]]] = [(0, Training.pending), (1, Training.running)]
        lines = [(2.0 + i, lambda t, i=i: t.say(f"line {i}")) for i in range(3)]
        self.backend.script("quick-*", [*start, *lines, (6, lambda t: t.complete(RESULT))])
        self.backend.script("fails-*", [*start, (2, lambda t: t.say("oh", node=0)), (3, lambda t: t.fail(0, 3))])
        self.backend.script("long-*", [*start, (2, lambda t: t.say("ready"))])

    def now(self) -> float:
        return self.clock.now()

    def pause(self) -> None:
        self.clock.advance(0.5)

    def patience(self) -> int:
        return 100


_COMMON = "import json, os, sys, time; path = os.environ.get('TRAINER_OPS_RESULT_PATH', '/dev/termination-log')\n"
_CODE = {
    "quick": _COMMON
    + "for i in range(3): print('line', i, flush=True)\n"
    + f"open(path, 'w').write({json.dumps(RESULT)!r})\n",
    "fails": _COMMON
    + "rank = os.environ['PET_NODE_RANK']\n"
    + "print('oh', flush=True) if rank == '0' else time.sleep(60)\nsys.exit(3)\n",
    "long": _COMMON + "print('ready', flush=True)\ntime.sleep(600)\n",
}


class LocalRig:
    """Real processes that do what the names say."""

    def __init__(self, folder: Path) -> None:
        self.backend = open_backend(f"local://{folder}")

    def now(self) -> float:
        return time.time()

    def pause(self) -> None:
        time.sleep(0.05)

    def patience(self) -> int:
        return 1200


@pytest.fixture
def memory_rig() -> MemoryRig:
    return MemoryRig()


@pytest.fixture
def local_rig(tmp_path: Path) -> Iterator[LocalRig]:
    rig = LocalRig(tmp_path / "engine")
    try:
        yield rig
    finally:
        uids = {job["metadata"]["name"]: job["metadata"]["uid"] for job in rig.backend.list()}
        for name in uids:
            rig.backend.delete(name)
        for name, uid in uids.items():
            until(rig, lambda name=name, uid=uid: not rig.backend.pods(name, uid=uid))  # type: ignore[misc]
        rig.backend.close()


@pytest.fixture(params=["memory", "local"])
def rig(request: pytest.FixtureRequest) -> Rig:
    found: Rig = request.getfixturevalue(f"{request.param}_rig")
    return found


@pytest.fixture
def backend(rig: Rig) -> Backend:
    return rig.backend


@pytest.fixture
def wait_for(rig: Rig) -> Callable[[Callable[[], T]], T]:
    """Polls until something is truthy, and gives it."""
    return lambda what: until(rig, what)


@pytest.fixture
def manifest() -> Callable[..., Manifest]:
    """Makes a TrainJob of that name for every target."""

    def make(name: str, *, nodes: int = 1, labels: dict[str, str] | None = None, **spec: Any) -> Manifest:
        code = _CODE[name.split("-", 1)[0]]
        return {
            "apiVersion": keys.API_VERSION,
            "kind": keys.KIND,
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {
                "runtimeRef": {"name": "torch-distributed"},
                "trainer": {"numNodes": nodes, "command": ["python3", "-c", code]},
                **spec,
            },
        }

    return make


def until(rig: Rig, what: Callable[[], T]) -> T:
    for _ in range(rig.patience()):
        found = what()
        if found:
            return found
        rig.pause()
    raise AssertionError(f"did not come true: {what}")
