"""A kubelet for tests: runs the pods of a control plane as processes of this machine.

``Kubelet`` starts one process (``kubelet_agent``) that plays all nodes, the scheduler and the log server, and holds
the levers that tests pull. What it does as a real one does, and what it cannot, stands in ``kubelet_run``.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Literal

from tests.controlplane.kubelet_clock import rfc3339
from tests.controlplane.kubelet_node import set_ready, set_taints
from tests.controlplane.kubelet_run import can_contain
from tests.controlplane.plane import ADMIN_TOKEN, ControlPlane

__all__ = ["Kubelet", "Mode", "NodeSpec"]

Mode = Literal["auto", "contained", "plain"]
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class NodeSpec:
    """A node.

    Attributes:
        allocatable: what pods may ask for together; ``pods`` is 110 unless given.
        taints: as in a Node's spec.
    """

    name: str
    allocatable: Mapping[str, str] = field(default_factory=lambda: {"cpu": "64", "memory": "256Gi", "pods": "2000"})
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()


class Kubelet:
    """The running kubelet.

    Attributes:
        mode: ``contained`` or ``plain``.
        folder: where it keeps volumes and logs.
        port: of its server.
        network: what the names of its network namespaces begin with.
    """

    def __init__(
        self,
        plane: ControlPlane,
        nodes: Sequence[NodeSpec] = (NodeSpec("node-a"),),
        *,
        speed: float = 10.0,
        least_grace: float = 3.0,
        mode: Mode = "auto",
        missing: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            plane: the control plane.
            nodes: what nodes to be.
            speed: what the kubelet's own waits are divided by (back-offs, grace periods).
            least_grace: seconds that a grace period is not cut below.
            mode: how to run containers; ``auto`` is contained where that is possible.
            missing: image prefix -> text of the pull error, besides ``absent.example/``, ``secret.example/`` and
                ``unknown.example/``.

        Raises:
            RuntimeError: it does not start, or cannot be contained though that was asked for.
        """
        why = can_contain() if mode != "plain" else "plain was asked for"
        if why and mode == "contained":
            raise RuntimeError(f"containers cannot be made here: {why}")
        self.mode: Mode = "plain" if why else "contained"
        self._plane = plane
        self._nodes = tuple(nodes)
        self._rules: list[dict[str, Any]] = []
        self.network = name = f"tk{uuid.uuid4().hex[:8]}"
        self.folder = plane.root / f"kubelet-{name}"
        config = {
            "folder": str(self.folder),
            "contained": self.mode == "contained",
            "speed": speed,
            "least_grace": least_grace,
            "port": plane.port,
            "token": ADMIN_TOKEN,
            "network": name,
            "missing": dict(missing or {}),
            "nodes": [vars(node) for node in nodes],
            "ca": plane.file("ca.crt"),
            "certificate": plane.file("server.crt"),
            "key": plane.file("server.key"),
        }
        path = plane.root / f"kubelet-{name}.json"
        path.write_text(json.dumps(config, default=dict))
        self._process = self._spawn(path)
        self.port = self._first_line()

    def _spawn(self, config: Path) -> subprocess.Popen[str]:
        with (self._plane.root / "logs" / "kubelet.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.controlplane.kubelet_agent", str(config)],
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def _first_line(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("PORT "):
            self.close()
            tail = (self._plane.root / "logs" / "kubelet.log").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"the test kubelet did not start:\n{tail}")
        return int(line.split()[1])

    def close(self) -> None:
        """Kill all pods' processes and leave nothing behind; idempotent."""
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def let_go(self) -> None:
        """Do what the death of this process does: close the pipe that tells the kubelet it is still wanted."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def claim(self, namespace: str, name: str) -> Path:
        """The folder that stands for a PersistentVolumeClaim; it is there from its first mount on."""
        return self.folder / "claims" / namespace / name

    # -- rules for pods to come -------------------------------------------------------------------------------------

    def hold(self, namespace: str, pods: str = "*", *, unbound: bool = False) -> None:
        """Do not run new pods of these names: a test drives them (``manual``).

        Args:
            namespace: which, may be a pattern.
            pods: a pattern for their names.
            unbound: do not schedule them either.
        """
        self._rule({"namespace": namespace, "pods": pods, "hold": True, "unbound": unbound})

    def instant(
        self,
        namespace: str,
        pods: str = "*",
        *,
        seconds: float = 1.0,
        code: int = 0,
        message: str = "",
        lines: str = "",
    ) -> None:
        """New pods of these names pass through their states without a process (``kubelet_idle.InstantPod``)."""
        how = {"seconds": seconds, "code": code, "message": message, "lines": lines}
        self._rule({"namespace": namespace, "pods": pods, "instant": how})

    def release(self, namespace: str) -> None:
        """Forget the rules for a namespace."""
        self._rules = [rule for rule in self._rules if rule["namespace"] != namespace]
        self._lever("rules", rules=self._rules)

    def _rule(self, rule: dict[str, Any]) -> None:
        self._rules.append(rule)
        self._lever("rules", rules=self._rules)

    # -- what befalls running pods ----------------------------------------------------------------------------------

    def oom(self, namespace: str, pod: str, container: str = "node") -> bool:
        """Kill a container as the kernel does that is out of memory; False when it does not run."""
        return bool(self._lever("kill", namespace=namespace, pod=pod, container=container, out_of_memory=True))

    def evict(self, namespace: str, pod: str, message: str = "The node was low on resource: memory. ") -> None:
        """End a pod as a node under pressure does."""
        self._lever("evict", namespace=namespace, pod=pod, message=message)

    def lose_node(self, node: str) -> None:
        """The node goes silent: its pods run on, but nothing is told of them and nothing is done for them."""
        self._lever("lose", node=node)
        text = "Kubelet stopped posting node status."
        set_ready(self._plane.api, node, "Unknown", "NodeStatusUnknown", text)
        gone = {"key": "node.kubernetes.io/unreachable", "timeAdded": rfc3339(time.time())}
        set_taints(self._plane.api, node, [{**gone, "effect": effect} for effect in ("NoSchedule", "NoExecute")])

    def return_node(self, node: str) -> None:
        """The node is heard again."""
        self._lever("return", node=node)
        set_taints(self._plane.api, node, next(spec.taints for spec in self._nodes if spec.name == node))
        set_ready(self._plane.api, node, "True", "KubeletReady", "kubelet is posting ready status")

    def _lever(self, verb: str, **body: Any) -> Any:
        tls = ssl.create_default_context(cafile=self._plane.file("ca.crt"))
        tls.load_cert_chain(self._plane.file("kubelet-client.crt"), self._plane.file("kubelet-client.key"))
        connection = HTTPSConnection("127.0.0.1", self.port, context=tls, timeout=30)
        try:
            connection.request("POST", f"/test/{verb}", json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200:
            raise ValueError(text)
        return json.loads(text)
