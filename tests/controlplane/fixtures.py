"""Fixtures that give a test a real control plane with a kubelet.

A ``conftest.py`` imports them: ``from tests.controlplane.fixtures import cluster_namespace, control_plane``. However
many do, one plane runs in a session. Tests that use them are marked ``cluster``.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.controlplane.api import Api
from tests.controlplane.kubelet import Kubelet, NodeSpec
from tests.controlplane.plane import ControlPlane, wait_until
from tests.controlplane.v1ops import V1Operators, unavailable

__all__ = ["Cluster", "cluster_namespace", "control_plane", "leftovers", "shared", "unused_name", "v1_operators"]

NODES = (
    NodeSpec("node-a", {"cpu": "8", "memory": "32Gi", "pods": "1000"}),
    NodeSpec("node-b", {"cpu": "8", "memory": "32Gi", "pods": "1000", "nvidia.com/gpu": "4"}),
)
_names = itertools.count(1)


@dataclass
class Cluster:
    """A control plane with its kubelet."""

    plane: ControlPlane
    kubelet: Kubelet

    @property
    def api(self) -> Api:
        """A client with all rights."""
        return self.plane.api

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig with all rights, its namespace is ``default``."""
        return self.plane.kubeconfig

    def pods(self, namespace: str, trainjob: str = "") -> list[dict[str, Any]]:
        """The pods of a namespace, or of one TrainJob in it."""
        query = {"labelSelector": f"jobset.sigs.k8s.io/jobset-name={trainjob}"} if trainjob else {}
        return self.api.list("Pod", namespace=namespace, **query)

    def wait(self, kind: str, name: str, namespace: str, holds: Callable[[Any], bool], *, seconds: float = 60.0) -> Any:
        """Wait until an object is as wanted (None: there is none); returns it."""
        found: list[Any] = []

        def look() -> bool:
            found[:] = [self.api.get(kind, name, namespace=namespace)]
            return holds(found[0])

        wait_until(f"{kind} {namespace}/{name}", look, seconds=seconds)
        return found[0]

    def ended(self, name: str, namespace: str, *, seconds: float = 60.0) -> str:
        """Wait for a TrainJob's end; ``Complete`` or ``Failed``."""
        obj = self.wait("TrainJob", name, namespace, lambda job: terminal(job) != "", seconds=seconds)
        return terminal(obj)


def terminal(job: Mapping[str, Any] | None) -> str:
    """The TrainJob's final condition, "" while there is none."""
    conditions = ((job or {}).get("status") or {}).get("conditions") or ()
    return next((c["type"] for c in conditions if c["type"] in ("Complete", "Failed") and c["status"] == "True"), "")


@contextmanager
def second_plane(prefix: str, *, trainer: bool = True, old_mpi: bool = False) -> Iterator[ControlPlane]:
    """Another plane than the session's, without a kubelet, with v1 operators of its own; nothing of it stays behind.

    Args:
        prefix: of the name of its folder.
        trainer: with Trainer.
        old_mpi: with training-operator's MPIJob, and without mpi-operator.
    """
    root = Path(tempfile.mkdtemp(prefix=prefix))
    plane = ControlPlane(root / "plane", trainer=trainer)
    try:
        operators = V1Operators(plane, old_mpi=old_mpi)
        try:
            yield plane
        finally:
            operators.close()
    finally:
        plane.close()
        left = leftovers(root, "none")
        shutil.rmtree(root)
    assert not left, "left behind:\n" + "\n".join(left)


def leftovers(root: Path, network: str) -> list[str]:
    """What a closed cluster has left on this machine: processes, network namespaces, mounts."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "environ"]):
        if process.pid != os.getpid() and any(str(root) in word for word in process.info["cmdline"] or ()):
            found.append(f"process {process.pid}: {' '.join(process.info['cmdline'])[:200]}")
    if shutil.which("ip"):
        spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
        found += [f"network namespace {line}" for line in spaces.splitlines() if line.startswith(network)]
    mounts = Path("/proc/mounts")
    if mounts.exists():
        found += [f"mount {line}" for line in mounts.read_text().splitlines() if str(root) in line]
    return found


class _Shared:
    """One cluster for all who ask in this process; closed when the last has given it back."""

    def __init__(self) -> None:
        self._users = 0
        self._cluster: Cluster | None = None
        self._root = Path()

    def take(self) -> Cluster:
        if self._cluster is None:
            self._root = Path(tempfile.mkdtemp(prefix="control-plane-"))
            plane = ControlPlane(self._root / "plane")
            try:
                self._cluster = Cluster(plane, Kubelet(plane, NODES))
            except BaseException:
                plane.close()
                raise
        self._users += 1
        return self._cluster

    def give_back(self) -> None:
        self._users -= 1
        if self._users or self._cluster is None:
            return
        cluster, self._cluster = self._cluster, None
        cluster.kubelet.close()
        cluster.plane.close()
        left = leftovers(self._root, cluster.kubelet.network)
        shutil.rmtree(self._root, ignore_errors=True)
        assert not left, "left behind:\n" + "\n".join(left)


shared = _Shared()


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Cluster]:
    """The session's cluster: two nodes of 8 CPUs, ``node-b`` with 4 GPUs; the kubelet's waits are a tenth."""
    yield shared.take()
    shared.give_back()


@pytest.fixture(scope="session")
def v1_operators(control_plane: Cluster) -> Iterator[V1Operators]:
    """The operators that Trainer replaces, beside it from the first test on that wants them."""
    why = unavailable()
    if why:
        pytest.skip(f"the v1 operators: {why}")
    operators = V1Operators(control_plane.plane)
    yield operators
    operators.close()


@pytest.fixture
def cluster_namespace(control_plane: Cluster) -> Iterator[str]:
    """A namespace for one test; deleted afterwards, with the kubelet's rules for it."""
    name = control_plane.plane.namespace(unused_name("test"))
    yield name
    control_plane.kubelet.release(name)
    control_plane.api.delete("Namespace", name)


def unused_name(prefix: str) -> str:
    """A name that nothing on this plane has."""
    return f"{prefix}-{next(_names)}-{uuid.uuid4().hex[:6]}"
