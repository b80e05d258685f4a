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
# As much of Volcano as Trainer asks for when it makes a pod group: the kind.
_POD_GROUPS: Raw = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.volcano.sh"},
    "spec": {
        "group": "scheduling.volcano.sh",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup", "listKind": "PodGroupList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


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

    def priority(self, name: str) -> None:
        """A PriorityClass: Trainer refuses pods of one that is not there."""
        kind = "PriorityClass"
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "value": 1000}
        self._cluster.api.create(made)

    def volcano(self) -> None:
        """The kind of Volcano's pod groups, without what schedules them. It stays: Trainer watches it from then on."""
        kind, name = "CustomResourceDefinition", _POD_GROUPS["metadata"]["name"]
        if self._cluster.api.get(kind, name) is None:
            self._cluster.api.create(copy.deepcopy(_POD_GROUPS))
        self._cluster.wait(kind, name, "", _established)

    def create_v1(self, raw: Mapping[str, Any]) -> str:
        """Hand a v1 job to its operator, a suspended one resumed; returns its name."""
        made = copy.deepcopy(dict(raw))
        # As of an object that was read: the API server takes none of a new one.
        made["metadata"].pop("resourceVersion", None)
        name = str(self._cluster.api.create(made, namespace=self.before)["metadata"]["name"])
        if (raw["spec"].get("runPolicy") or {}).get("suspend"):
            body = {"spec": {"runPolicy": {"suspend": False}}}
            self._cluster.api.patch(raw["kind"], name, body, namespace=self.before)
        return name

    def create_v2(self, trainjob: Mapping[str, Any], runtime: Mapping[str, Any] | None) -> str:
        """Hand a TrainJob to Trainer, its runtime before it, a suspended one resumed; returns its name."""
        api = self._cluster.api
        if runtime is not None:
            api.create(copy.deepcopy(dict(runtime)), namespace=self.after)
        name = str(api.create(copy.deepcopy(dict(trainjob)), namespace=self.after)["metadata"]["name"])
        if trainjob["spec"].get("suspend"):
            api.patch("TrainJob", name, {"spec": {"suspend": False}}, namespace=self.after)
        return name

    def v1(self, raw: Mapping[str, Any], pods: int) -> Fleet:
        """Wait for so many pods of a v1 job."""
        name = raw["metadata"]["name"]
        query = {"labelSelector": f"{V1_JOB}={name}"}

        def whole() -> bool:
            found = self._cluster.api.list("Pod", namespace=self.before, **query)
            if len(found) != pods:
                self._make_ready(self.before, found)
            return len(found) == pods

        wait_until(f"{pods} pods of {raw['kind']} {name}", whole, seconds=PATIENCE)
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
        if not whole:
            self._make_ready(self.after, pods)
        return whole

    def _make_ready(self, space: str, pods: list[Raw]) -> None:
        """Those that others may wait for."""
        for pod in pods if self._hands else ():
            if not (pod.get("status") or {}).get("containerStatuses"):
                self._hands[space].running(pod)


def _established(crd: Raw | None) -> bool:
    conditions = ((crd or {}).get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
