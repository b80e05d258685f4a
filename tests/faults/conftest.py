"""A proxy that can fail, before the real control plane; targets that go through it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster, cluster_namespace, control_plane
from tests.controlplane.plane import ADMIN_TOKEN
from tests.faults.proxy import FaultProxy
from trainer_ops.backends.kubernetes.address import Address
from trainer_ops.backends.kubernetes.backend import KubernetesBackend
from trainer_ops.backends.kubernetes.hub import end_idle
from trainer_ops.model import keys

__all__ = ["cluster_namespace", "control_plane"]


@pytest.fixture
def proxy(control_plane: Cluster) -> Iterator[FaultProxy]:
    plane = control_plane.plane
    proxy = FaultProxy(plane.port, plane.file("ca.crt"))
    yield proxy
    proxy.close()


@pytest.fixture
def config(proxy: FaultProxy, cluster_namespace: str) -> Callable[..., dict[str, Any]]:
    """Makes the content of a kubeconfig for the proxy."""

    def make(token: str = ADMIN_TOKEN, **user: Any) -> dict[str, Any]:
        return {
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{proxy.port}"}}],
            "users": [{"name": "user", "user": user or {"token": token}}],
            "contexts": [
                {"name": "proxy", "context": {"cluster": "proxy", "user": "user", "namespace": cluster_namespace}}
            ],
        }

    return make


@pytest.fixture
def backend(config: Callable[..., dict[str, Any]]) -> Iterator[KubernetesBackend]:
    """A target behind the proxy; no thread of its hub outlives the test."""
    backend = KubernetesBackend(Address(), config=config())
    yield backend
    backend.close()
    assert end_idle()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("watch-")] == []


@pytest.fixture
def manifest() -> Callable[..., dict[str, Any]]:
    """Makes a TrainJob; suspended, so that it only is there."""

    def make(name: str = "x", *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": keys.API_VERSION,
            "kind": keys.KIND,
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"runtimeRef": {"name": "torch-distributed"}, "suspend": True, **spec},
        }

    return make


@pytest.fixture
def watch(backend: KubernetesBackend) -> Iterator[Callable[[], None]]:
    """Lets a hub run until the end of the test."""
    watches = []

    def begin() -> None:
        watches.append(backend.watch("x"))
        backend.observe("x", now=time.time())

    yield begin
    for one in watches:
        one.close()
