"""One rig per target: the same trainings, made in the way that each target can run."""

from __future__ import annotations

import contextlib
import copy
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from tests.controlplane.fixtures import Cluster, cluster_namespace, control_plane
from tests.controlplane.plane import ADMIN_TOKEN, ControlPlane
from trainer_ops.backends.base import Backend
from trainer_ops.backends.kubernetes import access
from trainer_ops.backends.kubernetes.address import IN_CLUSTER, Address
from trainer_ops.backends.kubernetes.backend import KubernetesBackend
from trainer_ops.backends.kubernetes.hub import end_idle
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model import keys
from trainer_ops.testing import MemoryBackend, Training, VirtualClock
from trainer_ops.testing.exec import Command

__all__ = ["cluster_namespace", "control_plane"]

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
        self.backend.answer(_act)

    def now(self) -> float:
        return self.clock.now()

    def pause(self) -> None:
        self.clock.advance(0.5)

    def patience(self) -> int:
        return 100


def _act(command: Command) -> int:
    """The shell commands of the suite, acted."""
    match command.argv:
        case ("cat",):
            command.say(command.read().decode())
        case ("sh", "-c", "echo out; echo err >&2; exit 7"):
            command.say("out\n")
            command.say("err\n", error=True)
            return 7
        case ("sh", "-c", look) if "stty size" in look:
            assert command.streams.terminal is not None
            columns, rows = command.streams.terminal.size()
            command.say(f"{rows} {columns}\r\n")
        case ("sh", "-c", 'echo "$PET_NODE_RANK"'):
            command.say(f"{command.pod.split('-')[-2]}\n")
        case _:
            command.say(f"{command.argv[0]}: not found\n", error=True)
            return 127
    return 0


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


class KubernetesRig:
    """The real API server, controllers and Trainer; a kubelet for tests runs the pods as processes."""

    def __init__(self, address: Address) -> None:
        self.backend = Unhurried(address)

    def now(self) -> float:
        return time.time()

    def pause(self) -> None:
        time.sleep(0.1)

    def patience(self) -> int:
        return 600

    def close(self) -> None:
        for job in self.backend.list():
            self.backend.delete(job["metadata"]["name"])
        self.backend.close()
        assert end_idle()


class Unhurried(KubernetesBackend):
    """Creates one TrainJob a second: an API server's stamps have whole seconds, and the suite asks for an order."""

    _second = 0

    def create(self, manifest: Mapping[str, Any]) -> Manifest:
        while int(time.time()) == self._second:
            time.sleep(0.02)
        made = super().create(manifest)
        self._second = int(time.time())
        return made


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


@pytest.fixture(scope="module")  # the plane is everybody's: others need the stock runtime as it is
def runtime_that_restarts_nothing(control_plane: Cluster) -> Iterator[None]:
    """The stock runtimes restart a failing script for minutes and then delete its pods; the suite's fails at once."""
    kind, name = "ClusterTrainingRuntime", "torch-distributed"
    stock = control_plane.api.get(kind, name)["spec"]
    spec = copy.deepcopy(stock)
    for job in spec["template"]["spec"]["replicatedJobs"]:
        job["template"]["spec"]["backoffLimit"] = 0
        job["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    control_plane.api.patch(kind, name, {"spec": spec})
    yield
    control_plane.api.patch(kind, name, {"spec": stock})


@pytest.fixture
def kubernetes_rig(
    control_plane: Cluster, cluster_namespace: str, runtime_that_restarts_nothing: None
) -> Iterator[KubernetesRig]:
    kubeconfig = control_plane.plane.write_kubeconfig(ADMIN_TOKEN, cluster_namespace, namespace=cluster_namespace)
    with contextlib.closing(KubernetesRig(Address("", cluster_namespace, str(kubeconfig)))) as rig:
        yield rig


@pytest.fixture
def pod_rig(
    control_plane: Cluster,
    cluster_namespace: str,
    runtime_that_restarts_nothing: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[KubernetesRig]:
    """The same as a process in a pod sees it: a service account's folder, and requests without the client."""
    as_in_a_pod(control_plane.plane, tmp_path / "account", cluster_namespace, monkeypatch)
    with contextlib.closing(KubernetesRig(Address(IN_CLUSTER))) as rig:
        yield rig


def as_in_a_pod(plane: ControlPlane, account: Path, namespace: str, patch: pytest.MonkeyPatch) -> None:
    from kubernetes.config import incluster_config

    account.mkdir()
    (account / "token").write_text(ADMIN_TOKEN)
    (account / "namespace").write_text(namespace)
    (account / "ca.crt").write_bytes(Path(plane.file("ca.crt")).read_bytes())
    patch.setattr(access, "_ACCOUNT", account)
    # The client itself still makes the connection of an exec.
    patch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(account / "token"))
    patch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(account / "ca.crt"))
    patch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    patch.setenv("KUBERNETES_SERVICE_PORT", str(plane.port))


@pytest.fixture(
    params=[
        *("memory", "local"),
        pytest.param("kubernetes", marks=pytest.mark.cluster),
        pytest.param("pod", marks=pytest.mark.cluster),
    ]
)
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
