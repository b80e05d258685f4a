"""TrainJobs that follow each other under one name, and parts that somebody deletes: what belongs to whom."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster
from tests.faults.proxy import FaultProxy
from trainer_ops.backends.kubernetes.address import Address
from trainer_ops.backends.kubernetes.backend import KubernetesBackend
from trainer_ops.errors import Unreachable
from trainer_ops.model.result import result_of

pytestmark = pytest.mark.cluster
Make = Callable[..., dict[str, Any]]

# Ignores SIGTERM, so that its pod is there for a while after its deletion.
STUBBORN = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"


@pytest.fixture
def run(backend: KubernetesBackend, manifest: Make) -> Callable[..., str]:
    """Starts a training of one node; its uid."""

    def start(code: str = STUBBORN, name: str = "x") -> str:
        trainer = {"numNodes": 1, "command": ["python3", "-c", code]}
        return str(backend.create(manifest(name, suspend=False, trainer=trainer))["metadata"]["uid"])

    return start


@pytest.fixture(params=["watched", "asked"])
def look(request: pytest.FixtureRequest, backend: KubernetesBackend, config: Make) -> Iterator[Callable[[], Any]]:
    """Looks at the training, from a hub or without one, as a process that came later."""
    newcomer = KubernetesBackend(Address(), config=config())
    with contextlib.ExitStack() as stack:
        stack.callback(newcomer.close)
        if request.param == "watched":
            stack.callback(newcomer.watch("x").close)
        yield lambda: newcomer.observe("x", now=time.time())


def until(holds: Callable[[], Any], *, seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(Unreachable):
            if found := holds():
                return found
        time.sleep(0.05)
    raise AssertionError("did not come true")


def running(backend: KubernetesBackend, uid: str) -> list[str]:
    pods = backend.pods("x", uid=uid)
    return [pod["metadata"]["uid"] for pod in pods if pod.get("status", {}).get("phase") == "Running"]


def test_the_pods_and_events_of_an_earlier_one_are_not_this_ones(
    backend: KubernetesBackend, run: Callable[..., str], look: Callable[[], Any]
) -> None:
    old = run()
    earlier = until(lambda: running(backend, old))
    look()
    backend.delete("x", uid=old)
    time.sleep(1.0)  # stamps have whole seconds
    new = run()
    mine = until(lambda: running(backend, new))
    assert not set(mine) & set(earlier)
    seen = until(lambda: (obs := look()).pods and obs.job.uid == new and obs)
    assert {pod.uid for pod in seen.pods} <= set(mine)
    assert set(earlier) >= {pod["metadata"]["uid"] for pod in backend.pods("x", uid=old)}
    made = seen.job.created_at
    assert all(event.at is None or event.at >= made for event in seen.events)
    assert not {event.name for event in seen.events if event.kind == "Pod"} - {pod.name for pod in seen.pods}


def test_a_jobset_deleted_by_hand_is_made_again_and_its_pods_are_still_this_ones(
    backend: KubernetesBackend,
    control_plane: Cluster,
    cluster_namespace: str,
    run: Callable[..., str],
    look: Callable[[], Any],
) -> None:
    uid = run()
    first = until(lambda: running(backend, uid))
    until(lambda: look().pods)
    control_plane.api.delete("JobSet", "x", namespace=cluster_namespace)
    again = until(lambda: (pods := {pod.uid for pod in look().pods}) and not pods & set(first) and pods)
    assert again == {pod["metadata"]["uid"] for pod in backend.pods("x", uid=uid)}


def test_what_a_training_ended_with_is_there_when_it_has_ended(
    backend: KubernetesBackend, proxy: FaultProxy, run: Callable[..., str], watch: Callable[[], None]
) -> None:
    """The watch of pods is silent from the start: the end is known before the pods' last words have come."""
    proxy.when("GET", "pods", watch=True).hush()
    watch()
    run("open('/dev/termination-log', 'w').write('{\"metrics\": {\"accuracy\": 0.5}}')")
    seen = until(lambda: (obs := backend.observe("x", now=time.time())).job and obs.job.holds("Complete") and obs)
    found = result_of(seen.pods)
    assert found is not None
    assert found.metrics == {"accuracy": 0.5}


def test_events_about_its_claim(
    backend: KubernetesBackend, control_plane: Cluster, cluster_namespace: str, manifest: Make, look: Callable[[], Any]
) -> None:
    backend.create(manifest())
    for name in ("initializer-x", "initializer-y"):
        about = {"kind": "PersistentVolumeClaim", "name": name, "namespace": cluster_namespace}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.1"},
            "involvedObject": about,
            "type": "Warning",
            "reason": "ProvisioningFailed",
            "message": "no such class",
        }
        control_plane.api.create(event, namespace=cluster_namespace)
    seen = until(lambda: [event for event in look().events if event.kind == "PersistentVolumeClaim"])
    assert [(event.name, event.reason) for event in seen] == [("initializer-x", "ProvisioningFailed")]


def test_a_namespace_that_is_deleted_takes_its_trainjobs(
    backend: KubernetesBackend,
    control_plane: Cluster,
    cluster_namespace: str,
    run: Callable[..., str],
    watch: Callable[[], None],
) -> None:
    uid = run("import time; time.sleep(600)")
    watch()
    until(lambda: running(backend, uid))
    control_plane.api.delete("Namespace", cluster_namespace)
    until(lambda: backend.observe("x", now=time.time()).job is None)
    assert backend.get("x") is None
