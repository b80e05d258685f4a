"""A real Kueue beside a control plane: its CRDs, its program, its webhooks, and the queues that tests ask for.

Only TrainJobs are handed to it. What it is given differs from a cluster's installation where loopback asks for it: no
certificates of its own, no leader election, no visibility server, no conversion webhook (so ``v1beta2`` alone), and
only those admission webhooks whose kinds exist on the plane.
"""

from __future__ import annotations

import base64
import os
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.api import ApiError
from tests.controlplane.build import Programs, kueue
from tests.controlplane.plane import ControlPlane, free_port, wait_until
from tests.controlplane.private import END_WITH_US, way

__all__ = ["ABSENT", "Kueue", "Queue", "apply_crds", "unavailable"]

GROUP = "kueue.x-k8s.io"
VERSION = "v1beta2"
FLAVOR = "default-flavor"
# A queue that nobody makes.
ABSENT = "absent"

_HOOKS = ("clusterqueue", "resourceflavor", "cohort", "workload", "trainjob")
# Without certificates of its own Kueue insists on a fixed folder for those of its metrics.
_METRICS = "/etc/kueue/metrics/certs"
_INSIDE = f'mount -t tmpfs none /etc && mkdir -p {_METRICS} && cp "$0"/tls.* {_METRICS} && exec "$@"'


def unavailable() -> str:
    """Why Kueue cannot run on this machine; "" when it can."""
    return way("mount")[1]


def apply_crds(plane: ControlPlane, files: Sequence[Path]) -> list[str]:
    """Apply CRDs to a plane that runs, as far as they are not there; the names of the new ones."""
    names = []
    for obj in (obj for path in files for obj in yaml.safe_load_all(path.read_text()) if obj):
        try:
            plane.api.create(obj)
        except ApiError as error:
            if error.status != 409:
                raise
            continue
        names.append(str(obj["metadata"]["name"]))

    def established() -> bool:
        found = [
            plane.api.get("CustomResourceDefinition", name).get("status", {}).get("conditions") or () for name in names
        ]
        return all(
            any(c["type"] == "Established" and c["status"] == "True" for c in conditions) for conditions in found
        )

    wait_until("the CRDs are established", established)
    return names


class Kueue:
    """The running Kueue.

    Attributes:
        plane: the control plane that it works on; stop Kueue before it.
    """

    def __init__(self, plane: ControlPlane) -> None:
        """Start it and wait until it admits.

        Raises:
            RuntimeError: it does not start, or cannot run on this machine.
        """
        words, why = way("mount")
        if why:
            raise RuntimeError(f"Kueue {why}")
        self.plane = plane
        self._programs: Programs = kueue()
        self._webhook, self._health = free_port(), free_port()
        apply_crds(plane, self._programs.manifests("crds"))
        plane.namespace("kueue-system")
        self._process = self._spawn(words)
        try:
            wait_until("kueue is ready", self._ready)
            self._apply_webhooks()
            wait_until("kueue's webhooks are in force", self._make_flavor)
            for name, value in (("low", 100), ("high", 1000)):
                self._create("workloadpriorityclasses", {"metadata": {"name": name}, "value": value})
        except BaseException:
            self.close()
            raise

    def _spawn(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        certs = self.plane.root / "kueue-certs"
        certs.mkdir()
        for end in ("crt", "key"):
            (certs / f"tls.{end}").write_bytes(Path(self.plane.file(f"server.{end}")).read_bytes())
        config = {
            "apiVersion": f"config.{GROUP}/{VERSION}",
            "kind": "Configuration",
            "namespace": "kueue-system",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._webhook, "certDir": str(certs)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "clientConnection": {"qps": 500, "burst": 1000},
            "integrations": {"frameworks": ["trainer.kubeflow.org/trainjob"]},
        }
        path = self.plane.root / "kueue.yaml"
        path.write_text(yaml.safe_dump(config))
        program = [str(self._programs.binary("kueue")), "--config", str(path)]
        program += ["--feature-gates", "VisibilityOnDemand=false"]
        command = [*words, "unshare", "--mount", "sh", "-c", _INSIDE, str(certs), *END_WITH_US, *program]
        with (self.plane.root / "logs" / "kueue.log").open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    "PATH": os.environ.get("PATH", ""),
                    "HOME": str(self.plane.root),
                    "KUBECONFIG": str(self.plane.kubeconfig),
                },
            )

    def _ready(self) -> bool:
        if self._process.poll() is not None:
            tail = (self.plane.root / "logs" / "kueue.log").read_text(errors="replace")[-3000:]
            raise RuntimeError(f"kueue ended with exit code {self._process.returncode}:\n{tail}")
        return healthy(self._health)

    def _apply_webhooks(self) -> None:
        bundle = base64.b64encode((self.plane.root / "ca.crt").read_bytes()).decode()
        (path,) = self._programs.manifests("webhooks/kueue")
        for obj in yaml.safe_load_all(path.read_text()):
            obj["metadata"]["name"] = f"kueue-{obj['metadata']['name']}"
            obj["webhooks"] = [hook for hook in obj["webhooks"] if hook["name"].split(".")[0][1:] in _HOOKS]
            for hook in obj["webhooks"]:
                where = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = {"url": f"https://127.0.0.1:{self._webhook}{where}", "caBundle": bundle}
            self.plane.api.create(obj)

    def _make_flavor(self) -> bool:
        made = self._create("resourceflavors", {"metadata": {"name": FLAVOR}})
        # The finalizer is the mutating webhook's: it tells that the API server asks Kueue by now.
        if made["metadata"].get("finalizers"):
            return True
        self.plane.api.call("DELETE", _path("resourceflavors", name=FLAVOR))
        return False

    def _create(self, plural: str, obj: dict[str, Any], namespace: str = "") -> Any:
        kind = _KINDS[plural]
        return self.plane.api.call(
            "POST", _path(plural, namespace), {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, **obj}
        )

    def queue(self, namespace: str, *, name: str = "lq", cpu: str = "1", priority: str = "LowerPriority") -> Queue:
        """Make a ClusterQueue with a quota of CPUs alone, and the LocalQueue of a namespace that leads to it.

        Args:
            namespace: the LocalQueue's; it also names the ClusterQueue.
            name: the LocalQueue's.
            cpu: the quota.
            priority: who may be preempted by whom within the queue.
        """
        cluster_queue = f"{namespace}-{name}"
        flavor = {"name": FLAVOR, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        self._create(
            "clusterqueues",
            {
                "metadata": {"name": cluster_queue},
                "spec": {
                    "namespaceSelector": {},
                    "preemption": {"withinClusterQueue": priority},
                    "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
                },
            },
        )
        self._create("localqueues", {"metadata": {"name": name}, "spec": {"clusterQueue": cluster_queue}}, namespace)
        return Queue(self.plane, cluster_queue)

    def close(self) -> None:
        """Stop it."""
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Queue:
    """A ClusterQueue."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self._plane = plane
        self.name = name

    def set_quota(self, cpu: str) -> None:
        """Give it another quota."""
        patch = [{"op": "replace", "path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota", "value": cpu}]
        self._patch(patch, "application/json-patch+json")

    def stop(self, policy: str) -> None:
        """``Hold`` admits no more, ``HoldAndDrain`` evicts too, ``None`` goes on."""
        self._patch({"spec": {"stopPolicy": policy}}, "application/merge-patch+json")

    def _patch(self, body: Any, kind: str) -> None:
        self._plane.api.call("PATCH", _path("clusterqueues", name=self.name), body, kind=kind)


_KINDS = {
    "resourceflavors": "ResourceFlavor",
    "clusterqueues": "ClusterQueue",
    "localqueues": "LocalQueue",
    "workloadpriorityclasses": "WorkloadPriorityClass",
}


def _path(plural: str, namespace: str = "", name: str = "") -> str:
    parts = [f"/apis/{GROUP}/{VERSION}", *(["namespaces", namespace] if namespace else []), plural]
    return "/".join([*parts, *([name] if name else [])])


def healthy(port: int) -> bool:
    """Whether ``/readyz`` on that port answers 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
