"""Many waits and many ends on a real control plane: what it costs the API server, and that nothing is told twice."""

from __future__ import annotations

import asyncio
import collections
import copy
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster
from tests.controlplane.plane import ADMIN_TOKEN, wait_until
from tests.faults.proxy import FaultProxy
from trainer_ops.backends.base import Backend
from trainer_ops.backends.kubernetes.hub import end_idle
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model import keys

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

SENSORS, TRAININGS = 1000, 100
ENDS = 500


@pytest.fixture
def proxy(control_plane: Cluster, cluster_namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """A proxy that counts, before the API server; the connection ``training`` goes through it."""
    plane = control_plane.plane
    proxy = FaultProxy(plane.port, plane.file("ca.crt"))
    config = {
        "current-context": "proxy",
        "clusters": [{"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{proxy.port}"}}],
        "users": [{"name": "user", "user": {"token": ADMIN_TOKEN}}],
        "contexts": [
            {"name": "proxy", "context": {"cluster": "proxy", "user": "user", "namespace": cluster_namespace}}
        ],
    }
    extra = {"kube_config": json.dumps(config), "namespace": cluster_namespace}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING", json.dumps({"conn_type": "kubernetes", "extra": extra}))
    yield proxy
    assert end_idle()
    proxy.close()


@pytest.fixture
def direct(cluster_target: str) -> Iterator[Backend]:
    """The same cluster without the proxy: for those whose trainings are waited for."""
    backend = open_backend(cluster_target)
    yield backend
    backend.close()


@pytest.fixture
def end(direct: Backend, control_plane: Cluster, cluster_namespace: str) -> Callable[..., None]:
    """Creates TrainJobs of another controller, which Trainer leaves alone, and ends them: without pods, so cheaply."""

    def make(names: list[str], **labels: str) -> None:
        for name in names:
            spec = {"runtimeRef": {"name": "torch-distributed"}, "managedBy": keys.MULTIKUEUE}
            meta = {"name": name, "labels": labels}
            direct.create({"apiVersion": keys.API_VERSION, "kind": keys.KIND, "metadata": meta, "spec": spec})
            ended = {"type": "Failed" if name.startswith("bad") else "Complete", "status": "True", "reason": "Told"}
            stamp = {"message": "by hand", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            status = {"status": {"conditions": [{**ended, **stamp}]}}
            control_plane.api.patch(keys.KIND, name, status, namespace=cluster_namespace, sub="status")

    return make


@pytest.fixture
def create(direct: Backend) -> Callable[..., None]:
    """Creates TrainJobs of others, by name; one that fails is not tried again for minutes, as by the stock runtime."""
    stock = direct.runtime("torch-distributed", keys.CLUSTER_RUNTIME)
    assert stock is not None
    spec = copy.deepcopy(stock["spec"])
    for job in spec["template"]["spec"]["replicatedJobs"]:
        job["template"]["spec"]["backoffLimit"] = 0
        job["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    once = {"apiVersion": keys.API_VERSION, "kind": keys.NAMESPACED_RUNTIME, "metadata": {"name": "once"}, "spec": spec}
    direct.apply_runtime(once)

    def make(names: list[str], **labels: str) -> None:
        for name in names:
            direct.create(
                {
                    "apiVersion": keys.API_VERSION,
                    "kind": keys.KIND,
                    "metadata": {"name": name, "labels": {**labels, "name": name}},
                    "spec": {
                        "runtimeRef": {"name": "once", "kind": keys.NAMESPACED_RUNTIME},
                        "trainer": {"numNodes": 1, "command": ["true"]},
                    },
                }
            )

    return make


def result(name: str) -> str:
    return json.dumps({"metrics": {"accuracy": 0.5}, "model_uri": f"s3://models/{name}"})


def test_a_thousand_sensors_cost_one_watch(
    proxy: FaultProxy, create: Any, control_plane: Cluster, cluster_namespace: str
) -> None:
    from trainer_ops.airflow.waits import TrainJobsTrigger
    from trainer_ops.lifecycle.selection import Selection
    from trainer_ops.status.until import Until

    names = [f"good-{number:02}" for number in range(TRAININGS)]
    for name in names:
        control_plane.kubelet.instant(cluster_namespace, f"{name}-*", seconds=30, message=result(name))
    begun = threading.Event()

    def sensor(number: int) -> Any:
        name = names[number % TRAININGS]
        kinds: list[dict[str, Any]] = [{"name": name}] * 7
        kinds += [{"labels": {"name": name}}] * 2 + [{"model_uri": f"s3://models/{name}"}]
        selection = Selection.of(**kinds[number // TRAININGS % len(kinds)])
        deadline = time.time() + 500
        return TrainJobsTrigger(selection.to_json(), Until().to_json(), conn_id="training", deadline=deadline)

    lags: list[float] = []

    async def watch_the_loop() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.1)
            lags.append(time.monotonic() - before - 0.1)

    async def all_of_them() -> list[Any]:
        watching = asyncio.create_task(watch_the_loop())
        waiting = [asyncio.create_task(anext(sensor(number).run())) for number in range(SENSORS)]
        begun.set()
        events = [(await task).payload for task in waiting]
        watching.cancel()
        return events

    creating = threading.Thread(target=lambda: begun.wait(60) and create(names))
    creating.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    events = asyncio.run(all_of_them())
    creating.join()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    requests = collections.Counter(f"{r.method} {r.plural}" for r in proxy.seen(watch=False))
    print(f"\n{SENSORS} sensors: +{grown} kB, loop late by {max(lags):.2f} s at most, {dict(requests)}")
    assert collections.Counter(event["status"] for event in events) == {"ended": SENSORS}
    outcomes = [event["verdict"]["trainings"][0]["outcome"] for event in events]
    assert [outcome["name"] for outcome in outcomes] == [names[number % TRAININGS] for number in range(SENSORS)]
    assert {outcome["metrics"]["accuracy"] for outcome in outcomes} == {0.5}
    assert proxy.most_open == {"trainjobs": 1, "pods": 1, "events": 1, "jobsets": 1}


class Watching:
    """The process of ``watching.py``, to be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.events, self.state = folder / "events", folder / "state"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("watching.py")), str(self.events), str(self.state)],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
                stdout=output,
                stderr=output,
            )

    def kill(self) -> None:
        """As a machine that loses its power."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def told(self) -> list[str]:
        """The names that are stored; a line that was cut is none."""
        if not self.events.exists():
            return []
        return [json.loads(line)["name"] for line in self.events.read_text().split("\n")[:-1]]

    def kept(self) -> int:
        """How many the next process would know to be told."""
        if not self.state.exists():
            return -1
        return len(json.loads(self.state.read_text())["trainer_ops_told"]["uids"])

    def until(self, what: Callable[[], bool]) -> None:
        assert self._process is not None
        process = self._process

        def look() -> bool:
            assert process.poll() is None, (self._folder / "output").read_text()[-3000:]
            return what()

        wait_until("it is told", look, seconds=240)


@pytest.fixture
def watching(tmp_path: Path, proxy: FaultProxy) -> Iterator[Watching]:
    process = Watching(tmp_path)
    yield process
    process.kill()


def test_five_hundred_ends_are_told_once_over_a_restart(
    watching: Watching, create: Any, end: Any, control_plane: Cluster, cluster_namespace: str, direct: Backend
) -> None:
    control_plane.kubelet.instant(cluster_namespace, "good-*", seconds=1, message=result("x"))
    control_plane.kubelet.instant(cluster_namespace, "bad-*", seconds=1, code=3)
    names = [f"{'bad' if number % 10 == 0 else 'good'}-{number:03}" for number in range(ENDS)]
    # Sixty of them run in pods: half of those before the kill, half after it.
    half, real = ENDS // 2, 30
    watching.start()
    watching.until(lambda: watching.kept() == 0)
    create(names[:real], crowd="events")
    end(names[real:half], crowd="events")
    watching.until(lambda: watching.kept() == half)
    watching.kill()

    create(names[half : half + real], crowd="events")  # nobody looks
    end(names[half + real :], crowd="events")
    wait_until("all have ended", lambda: all(map(has_ended, direct.list({"crowd": "events"}))), seconds=240)
    assert len(watching.told()) == half
    watching.start()
    watching.until(lambda: watching.kept() == ENDS)
    assert sorted(watching.told()) == sorted(names)

    payloads = [json.loads(line) for line in watching.events.read_text().splitlines()]
    assert len({payload["uid"] for payload in payloads}) == ENDS
    phases = collections.Counter((payload["phase"], payload["model_uri"]) for payload in payloads)
    good = 2 * real * 9 // 10
    by_hand = ENDS * 9 // 10 - good
    assert phases == {("succeeded", "s3://models/x"): good, ("succeeded", None): by_hand, ("failed", None): ENDS // 10}


@pytest.mark.full  # a minute for what the restart above shows in part: three kills in the midst of a burst
def test_killed_in_the_middle_none_is_lost(
    watching: Watching, create: Any, control_plane: Cluster, cluster_namespace: str
) -> None:
    control_plane.kubelet.instant(cluster_namespace, "good-*", seconds=1, message=result("x"))
    names = [f"good-{number:03}" for number in range(90)]
    watching.start()
    watching.until(lambda: watching.kept() == 0)
    creating = threading.Thread(target=create, args=(names,), kwargs={"crowd": "events"})
    creating.start()
    for count in (20, 40, 60):
        watching.until(lambda count=count: len(watching.told()) >= count)  # type: ignore[misc]
        watching.kill()
        watching.start()
    creating.join()
    watching.until(lambda: watching.kept() == len(names))
    told = collections.Counter(watching.told())
    assert sorted(told) == names
    # Only what had not been confirmed when it was killed comes again.
    again = sum(times - 1 for times in told.values())
    print(f"\n{again} of {len(names)} told again after three kills")
    assert again <= 3 * 50


def has_ended(raw: dict[str, Any]) -> bool:
    conditions = (raw.get("status") or {}).get("conditions") or ()
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)
