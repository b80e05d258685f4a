"""Commands on the real API server: who may not, what happens to the command when its pod goes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster
from trainer_ops.backends.base import Streams, Terminal
from trainer_ops.backends.kubernetes.address import Address
from trainer_ops.backends.kubernetes.backend import KubernetesBackend
from trainer_ops.errors import BackendError, Forbidden
from trainer_ops.model.observed import ObservedPod

pytestmark = pytest.mark.cluster

CODE = "import time\nprint('up', flush=True)\ntime.sleep(600)"


def until(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
    return found


@pytest.fixture
def backend(control_plane: Cluster, cluster_namespace: str) -> Iterator[KubernetesBackend]:
    backend = KubernetesBackend(Address("", cluster_namespace, str(control_plane.kubeconfig)))
    yield backend
    backend.close()


@pytest.fixture
def pod(backend: KubernetesBackend) -> str:
    """The pod of a training that runs."""
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"command": ["python3", "-c", CODE]}}
    meta = {"name": "t", "namespace": backend.namespace}
    manifest = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": meta, "spec": spec}
    uid = backend.create(manifest)["metadata"]["uid"]

    def running() -> str:
        pods = [ObservedPod.from_raw(raw) for raw in backend.pods("t", uid=uid)]
        return next((pod.name for pod in pods if pod.main and pod.main.state == "running"), "")

    return str(until(running))


def test_a_user_who_may_not(control_plane: Cluster, backend: KubernetesBackend, pod: str) -> None:
    namespace = backend.namespace
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    token = control_plane.api.call("POST", path, {"spec": {}})["status"]["token"]
    file = control_plane.plane.write_kubeconfig(token, f"{namespace}-poor", namespace=namespace)
    poor = KubernetesBackend(Address(kubeconfig=str(file)))
    with pytest.raises(Forbidden, match=rf"pods/exec in namespace {namespace} as system:serviceaccount:{namespace}:"):
        poor.exec(pod, "node", ["true"], Streams())
    poor.close()


def test_other_calls_of_the_same_backend_go_on_meanwhile(backend: KubernetesBackend, pod: str) -> None:
    reader, writer = os.pipe()
    thread = threading.Thread(target=lambda: backend.exec(pod, "node", ["cat"], Streams(reader)))
    thread.start()
    try:
        for _ in range(20):
            assert backend.get("t") is not None
    finally:
        os.close(writer)
        thread.join(60)
        os.close(reader)
    assert not thread.is_alive(), "the end of stdin has come through"


def test_a_change_of_the_window_comes_through(backend: KubernetesBackend, pod: str, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    sizes = [(100, 30)]
    wait = 'until stty size | grep -q "^{}"; do sleep 0.05; done; '
    script = wait.format("30 100") + "echo first; " + wait.format("40 120")
    with (tmp_path / "out").open("wb") as out:
        streams = Streams(None, out.fileno(), terminal=Terminal(lambda: sizes[-1], reader))
        codes: list[int] = []
        thread = threading.Thread(target=lambda: codes.append(backend.exec(pod, "node", ["sh", "-c", script], streams)))
        thread.start()
        until(lambda: b"first" in (tmp_path / "out").read_bytes())
        sizes.append((120, 40))
        os.write(writer, b"!")
        thread.join(60)
    os.close(writer)
    os.close(reader)
    assert codes == [0]


def test_a_command_that_does_not_read_all_that_is_typed(backend: KubernetesBackend, pod: str, tmp_path: Path) -> None:
    size = 3_000_000
    with Path("/dev/zero").open("rb") as zero, (tmp_path / "out").open("wb") as out:
        code = backend.exec(pod, "node", ["head", "-c", str(size)], Streams(zero.fileno(), out.fileno()))
    assert (code, (tmp_path / "out").stat().st_size) == (0, size)


def test_a_command_ends_with_its_pod(backend: KubernetesBackend, pod: str) -> None:
    ends: list[Any] = []
    reader, writer = os.pipe()

    def run() -> None:
        try:
            ends.append(backend.exec(pod, "node", ["sh", "-c", "echo up; sleep 600"], Streams(None, writer)))
        except BackendError as error:
            ends.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert os.read(reader, 10) == b"up\n"
    backend.delete("t")
    thread.join(60)
    os.close(reader)
    os.close(writer)
    assert ends == [137]
