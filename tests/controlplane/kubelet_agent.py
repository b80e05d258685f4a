"""The test kubelet's process: nodes, a scheduler, a worker a pod, the server. Started by ``kubelet.Kubelet``.

``python -m tests.controlplane.kubelet_agent CONFIG.json``; prints ``PORT n`` when it serves. A process of its own, so
that threads, memory and connections of a test are the test's alone.
"""

from __future__ import annotations

import fnmatch
import json
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.controlplane.api import Api, ApiError
from tests.controlplane.informer import Informer
from tests.controlplane.kubelet_clock import Clock
from tests.controlplane.kubelet_events import Recorder
from tests.controlplane.kubelet_host import IMAGE_PROBLEMS, Host, Timers
from tests.controlplane.kubelet_idle import HeldPod, InstantPod
from tests.controlplane.kubelet_logs import LogFile
from tests.controlplane.kubelet_net import BridgedNetwork, LoopbackNetwork
from tests.controlplane.kubelet_node import register
from tests.controlplane.kubelet_pod import PodWorker
from tests.controlplane.kubelet_run import Process, start_contained, start_plain
from tests.controlplane.kubelet_server import make_server
from tests.controlplane.scheduling import Scheduler

__all__ = ["Agent"]

Worker = PodWorker | InstantPod | HeldPod


class Agent:
    """All pods of all nodes of one test kubelet.

    Args:
        config: what ``kubelet.Kubelet`` writes.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        folder = Path(config["folder"])
        (folder / "stage").mkdir(parents=True)
        contained = bool(config["contained"])
        clock = Clock(config["speed"], config["least_grace"])
        api = Api(config["port"], config["ca"], config["token"], keep=32)
        self._config = config
        self.host = Host(
            api=api,
            clock=clock,
            recorder=Recorder(api, clock),
            network=BridgedNetwork(config["network"], folder / "hosts") if contained else LoopbackNetwork(),
            timers=Timers(),
            folder=folder,
            start=start_contained if contained else start_plain,
            contained=contained,
            missing={**IMAGE_PROBLEMS, **config["missing"]},
        )
        self.host.write_stand_ins()
        self._lock = threading.Lock()
        self._workers: dict[str, Worker] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._rules: list[dict[str, Any]] = []

    def run(self) -> None:
        """Serve until SIGTERM."""
        host, config = self.host, self._config
        tls = {"ca": config["ca"], "certificate": config["certificate"], "key": config["key"]}
        server = make_server(self, self.lever, host.clock.now, **tls)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for node in config["nodes"]:
            host.nodes[node["name"]] = register(host.api, node, server.server_port)
        scheduler = Scheduler(host.api, host.recorder, lambda pod: self._rule(pod).get("unbound", False))
        stop = threading.Event()

        def orphaned() -> None:
            sys.stdin.read()
            stop.set()

        threading.Thread(target=orphaned, daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())

        def on_pod(change: str, pod: dict[str, Any]) -> None:
            scheduler.on_pod(change, pod)
            self.on_pod(change, pod)

        informers = [Informer(host.api, "Node", self._on_node(scheduler)), Informer(host.api, "Pod", on_pod)]
        for informer in informers:
            informer.synced.wait(timeout=30)
        scheduler.start()
        print(f"PORT {server.server_port}", flush=True)
        stop.wait()
        self.close()

    def close(self) -> None:
        """Kill everything that runs and take the network down."""
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.gone()
        for worker in workers:
            worker.join(5.0)
        self.host.network.close()

    # -- pods -------------------------------------------------------------------------------------------------------

    def on_pod(self, change: str, pod: dict[str, Any]) -> None:
        """A pod appeared, changed or went."""
        meta = pod["metadata"]
        if pod["spec"].get("nodeName") not in self.host.nodes:
            return
        with self._lock:
            worker = self._workers.get(meta["uid"])
            if change == "DELETED":
                self._workers.pop(meta["uid"], None)
                if self._names.get((meta["namespace"], meta["name"])) == meta["uid"]:
                    del self._names[meta["namespace"], meta["name"]]
        if change == "DELETED":
            self.host.recorder.forget(meta["uid"])
            if worker:
                worker.gone()
        elif worker:
            worker.update(pod)
        else:
            self._begin(pod)

    def _begin(self, pod: dict[str, Any]) -> None:
        meta = pod["metadata"]
        rule = self._rule(pod)
        worker: Worker
        if rule.get("hold") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            worker = HeldPod(self.host, pod)
        elif "instant" in rule:
            worker = InstantPod(self.host, pod, **rule["instant"])
        else:
            worker = PodWorker(self.host, pod)
        with self._lock:
            self._workers[meta["uid"]] = worker
            self._names[meta["namespace"], meta["name"]] = meta["uid"]
        worker.start()
        if meta.get("deletionTimestamp"):
            worker.update(pod)

    def _rule(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """The newest rule whose namespace and pattern fit the pod."""
        meta = pod["metadata"]
        for rule in reversed(self._rules):
            if fnmatch.fnmatch(meta["namespace"], rule["namespace"]) and fnmatch.fnmatch(meta["name"], rule["pods"]):
                return dict(rule)
        return {}

    def _worker(self, namespace: str, pod: str) -> Worker:
        with self._lock:
            return self._workers[self._names[namespace, pod]]

    def log(self, namespace: str, pod: str, container: str, *, previous: bool) -> LogFile:
        """See ``kubelet_server.Source``."""
        try:
            worker = self._worker(namespace, pod)
        except KeyError:
            raise KeyError(pod) from None
        return worker.log(container, previous=previous)

    def process(self, namespace: str, pod: str, container: str) -> Process | None:
        """See ``kubelet_server.Source``."""
        worker = self._worker(namespace, pod)
        return worker.process(container) if isinstance(worker, PodWorker) else None

    @property
    def contained(self) -> bool:
        """Whether containers have namespaces of their own."""
        return self.host.contained

    # -- nodes and levers -------------------------------------------------------------------------------------------

    def _on_node(self, scheduler: Scheduler) -> Any:
        def handle(change: str, node: dict[str, Any]) -> None:
            scheduler.on_node(change, node)
            if node["metadata"]["name"] in self.host.nodes and change != "DELETED":
                self.host.nodes[node["metadata"]["name"]] = node

        return handle

    def lever(self, verb: str, body: Mapping[str, Any]) -> Any:
        """What a test tells the kubelet directly."""
        if verb == "rules":
            self._rules = list(body["rules"])
            return None
        if verb == "lose":
            self.host.lost.add(body["node"])
            return None
        if verb == "return":
            self.host.lost.discard(body["node"])
            for worker in list(self._workers.values()):
                if isinstance(worker, PodWorker):
                    self.host.timers.after(0.0, worker.repost)
            return None
        worker = self._worker(body["namespace"], body["pod"])
        if not isinstance(worker, PodWorker):
            raise ValueError(f"{body['pod']} is not run by the kubelet")
        if verb == "kill":
            return worker.kill_container(body["container"], out_of_memory=bool(body.get("out_of_memory")))
        if verb == "evict":
            worker.evict(body["message"])
            return None
        raise ValueError(f"no such lever: {verb}")


def main() -> None:
    """Run an agent by its config file."""
    agent = Agent(json.loads(Path(sys.argv[1]).read_text()))
    try:
        agent.run()
    except ApiError as exc:
        agent.close()
        raise SystemExit(f"test kubelet: {exc}") from exc


if __name__ == "__main__":
    main()
