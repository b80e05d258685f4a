"""Creates jobs of both generations on the control plane and waits for all of their pods."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tests.controlplane.fixtures import Cluster
from tests.controlplane.manual import Hand
from tests.controlplane.migration_pods import V1_JOB, v1_fleet, v2_fleet
from tests.controlplane.plane import wait_until
from trainer_ops.migrate.simulate.fleet import Fleet

__all__ = ["Bench"]

Raw = dict[str, Any]
PATIENCE = 90.0


class Bench:
    """Two namespaces of a cluster with the v1 operators: ``before`` for v1 jobs, ``after`` for TrainJobs.

    An MPIJob and a TrainJob of one name would both want the Service of that name.

    Args:
        cluster: the cluster.
        before: a namespace.
        after: another.
        held: no pod runs; a step that waits for another's pods gets them ready.
    """

    def __init__(self, cluster: Cluster, before: str, after: str, *, held: bool = True) -> None:
        self._cluster = cluster
        self.before, self.after = before, after
        self._hands = {space: Hand(cluster, space, unbound=True) for space in (before, after)} if held else {}

    def account(self, name: str) -> None:
        """A ServiceAccount in both: a pod whose account is not there is not made."""
        made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        for space in (self.before, self.after):
            self._cluster.api.create(copy.deepcopy(made), namespace=space)

    def create_v1(self, raw: Mapping[str, Any]) -> None:
        """Hand a v1 job to its operator."""
        self._cluster.api.create(copy.deepcopy(dict(raw)), namespace=self.before)

    def create_v2(self, trainjob: Mapping[str, Any], runtime: Mapping[str, Any] | None) -> None:
        """Hand a TrainJob to Trainer, its runtime before it."""
        for obj in (runtime, trainjob):
            if obj is not None:
                self._cluster.api.create(copy.deepcopy(dict(obj)), namespace=self.after)

    def v1(self, raw: Mapping[str, Any], pods: int) -> Fleet:
        """Wait for so many pods of a v1 job."""
        name = raw["metadata"]["name"]
        query = {"labelSelector": f"{V1_JOB}={name}"}
        wait_until(
            f"{pods} pods of {raw['kind']} {name}",
            lambda: len(self._cluster.api.list("Pod", namespace=self.before, **query)) == pods,
            seconds=PATIENCE,
        )
        return v1_fleet(self._cluster, self.before, raw)

    def v2(self, trainjob: Mapping[str, Any]) -> Fleet:
        """Wait for all pods of a TrainJob."""
        name = trainjob["metadata"]["name"]
        wait_until(f"all pods of TrainJob {name}", lambda: self._whole(name), seconds=PATIENCE)
        return v2_fleet(self._cluster, self.after, trainjob)

    def _whole(self, name: str) -> bool:
        api = self._cluster.api
        jobset = api.get("JobSet", name, namespace=self.after)
        if jobset is None:
            return False
        pods = self._cluster.pods(self.after, name)
        whole = True
        for job in jobset["spec"]["replicatedJobs"]:
            own = [p for p in pods if p["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] == job["name"]]
            whole = whole and len(own) == job["template"]["spec"]["parallelism"]
        if not whole and self._hands:
            for pod in pods:
                if not (pod.get("status") or {}).get("containerStatuses"):
                    self._hands[self.after].running(pod)
        return whole
