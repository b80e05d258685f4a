"""Kueue's part, played by hand: Workloads with the conditions and texts that Kueue 0.17 was seen to write.

Kueue writes the Workload first and then flips ``spec.suspend`` of the TrainJob; so does this.
"""

from __future__ import annotations

import time
from typing import Any

from tests.controlplane.api import Api
from trainer_ops.model.identity import JobRef
from trainer_ops.model.times import rfc3339

__all__ = ["MORE_NEEDED", "PREEMPTED", "Hand"]

MORE_NEEDED = (
    "couldn't assign flavors to pod set node: insufficient unused quota for cpu in flavor default-flavor, "
    "200m more needed"
)
PREEMPTED = (
    "Preempted to accommodate a workload (UID: e4b65c9c-8915-4554-a191-6f3b3162ab7f, JobUID: "
    "49da6169-7063-4eb6-a218-d512234e8205) due to prioritization in the ClusterQueue; preemptor path: /cq; "
    "preemptee path: /cq"
)
_CREATION_FAILED = (
    'TrainJob resources reconciliation failed: JobSet.jobset.x-k8s.io "{name}" is invalid: '
    "spec.replicatedJobs[0].template.spec.template.metadata: Invalid value: null"
)
_PATH = "/apis/kueue.x-k8s.io/{version}/namespaces/{namespace}/workloads"


class Hand:
    """The Workload of one TrainJob that was submitted suspended, to a queue."""

    def __init__(self, api: Api, ref: JobRef, *, version: str = "v1beta2") -> None:
        """Make the Workload, without a status."""
        self._api = api
        self._ref = ref
        self._path = _PATH.format(version=version, namespace=ref.namespace)
        self._name = f"trainjob-{ref.name}-f6af1"
        self._conditions: dict[str, dict[str, Any]] = {}
        owner = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": ref.name,
            "uid": ref.uid,
            "controller": True,
        }
        container = {"name": "node", "image": "registry.example/python:1", "resources": {"requests": {"cpu": "600m"}}}
        body = {
            "apiVersion": f"kueue.x-k8s.io/{version}",
            "kind": "Workload",
            "metadata": {
                "name": self._name,
                "labels": {"kueue.x-k8s.io/job-uid": ref.uid},
                "ownerReferences": [owner],
            },
            "spec": {
                "active": True,
                "queueName": "lq",
                "podSets": [{"name": "node", "count": 1, "template": {"spec": {"containers": [container]}}}],
            },
        }
        api.call("POST", self._path, body)

    def pend(self, message: str, reason: str = "Pending") -> None:
        """No quota; why."""
        self._write(("QuotaReserved", "False", reason, message))

    def admit(self) -> None:
        """Its turn has come."""
        self._write(
            ("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue cq"),
            ("Admitted", "True", "Admitted", "The workload is admitted"),
            *self._previously("Evicted"),
            admission={"clusterQueue": "cq", "podSetAssignments": [{"name": "node", "count": 1}]},
        )
        self._suspend(False)

    def _previously(self, type_: str) -> list[tuple[str, str, str, str]]:
        before = self._conditions.get(type_)
        return [] if before is None else [(type_, "False", "QuotaReserved", f"Previously: {before['message']}")]

    def evict(self, reason: str, message: str) -> None:
        """Its turn is over: the nodes are being stopped."""
        self._write(("Evicted", "True", reason, message))
        self._suspend(True)

    def requeue(self, message: str) -> None:
        """The nodes have been stopped: it waits again."""
        self._write(
            ("QuotaReserved", "False", "Pending", message),
            ("Admitted", "False", "NoReservation", "The workload has no reservation"),
        )

    def complain(self) -> None:
        """The event that Trainer sends at every eviction by Kueue, which does no harm."""
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": self._ref.name},
            "involvedObject": {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "namespace": self._ref.namespace,
                "name": self._ref.name,
                "uid": self._ref.uid,
            },
            "type": "Warning",
            "reason": "TrainJobResourcesCreationFailed",
            "message": _CREATION_FAILED.format(name=self._ref.name),
            "firstTimestamp": rfc3339(time.time()),
            "lastTimestamp": rfc3339(time.time()),
            "count": 1,
        }
        self._api.create(event, namespace=self._ref.namespace)

    def set_active(self, active: bool) -> None:
        """What a person does to pause it."""
        self._patch({"spec": {"active": active}})

    def _suspend(self, suspend: bool) -> None:
        self._api.patch("TrainJob", self._ref.name, {"spec": {"suspend": suspend}}, namespace=self._ref.namespace)

    def _write(self, *conditions: tuple[str, str, str, str], admission: Any = None) -> None:
        for type_, status, reason, message in conditions:
            self._conditions[type_] = {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": rfc3339(time.time()),
            }
        written = {"conditions": list(self._conditions.values()), "admission": admission}
        self._patch({"status": written}, sub="/status")

    def _patch(self, body: Any, sub: str = "") -> None:
        self._api.call("PATCH", f"{self._path}/{self._name}{sub}", body, kind="application/merge-patch+json")
