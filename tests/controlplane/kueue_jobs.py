"""Trainings that the tests of queues submit: one small script whose pace a test sets from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trainer_ops
from tests.controlplane.fixtures import Cluster
from trainer_ops.lifecycle.submit import Submitted

__all__ = ["ENDLESS", "Jobs"]

ENDLESS = 3600
_SCRIPT = """
import os
import time

time.sleep(float(os.environ["PACE"]))
import trainer_ops

trainer_ops.report({"accuracy": 0.97}, model_uri="s3://models/digits")
"""


class Jobs:
    """Submits to one namespace through the public API.

    Attributes:
        target: the namespace's.
    """

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.target = f"kubernetes://admin/{namespace}?kubeconfig={cluster.kubeconfig}"
        self._script = folder / "digits.py"
        self._script.write_text(_SCRIPT)

    def submit(self, name: str, *, pace: float = 0, cpu: str = "800m", **fields: Any) -> Submitted:
        """Submit to the queue ``lq``, to train for ``pace`` seconds a run.

        Each pod reads its pace when it starts, so that ``set_pace`` is for the next one.
        """
        self.set_pace(name, pace)
        request = {
            "name": name,
            "runtime": "torch-distributed",
            "script": str(self._script),
            "runner": "python",
            "num_nodes": 1,
            "resources_per_node": {"cpu": cpu},
            "queue": "lq",
            "env": {"PACE": {"valueFrom": {"configMapKeyRef": {"name": f"pace-{name}", "key": "seconds"}}}},
            **fields,
        }
        return trainer_ops.submit(target=self.target, **request)

    def set_pace(self, name: str, seconds: float) -> None:
        """How long the next run of that training takes."""
        data = {"seconds": str(seconds)}
        if self.cluster.api.get("ConfigMap", f"pace-{name}", namespace=self.namespace) is None:
            self.cluster.api.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"pace-{name}"}, "data": data},
                namespace=self.namespace,
            )
        else:
            self.cluster.api.patch("ConfigMap", f"pace-{name}", {"data": data}, namespace=self.namespace)

    def workload(self, name: str) -> dict[str, Any] | None:
        """The Workload of a TrainJob."""
        for raw in self.cluster.api.list("Workload", namespace=self.namespace):
            if any(owner["name"] == name for owner in raw["metadata"].get("ownerReferences") or ()):
                return raw
        return None

    def trainjob(self, name: str) -> dict[str, Any] | None:
        """A TrainJob as the cluster has it."""
        found: dict[str, Any] | None = self.cluster.api.get("TrainJob", name, namespace=self.namespace)
        return found
