"""``ClusterSteps``: Jobs that are no trainings, and claims, in one namespace of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from trainer_ops.backends.base import RawObject, RawObjects
from trainer_ops.backends.kubernetes.client import TIMEOUT, Cluster
from trainer_ops.backends.steps import StepView
from trainer_ops.errors import Forbidden, NotFound, PreconditionFailed
from trainer_ops.model import keys

__all__ = ["ClusterSteps"]

_PLAIN: dict[str, Any] = {"_preload_content": False, "_request_timeout": TIMEOUT}
T = TypeVar("T")
_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
_EVENTS: Final = 200


class ClusterSteps:
    """Implements ``backends.steps.Steps``. Safe for threads."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def find(self, labels: Mapping[str, str]) -> RawObjects:
        """The Jobs with these labels, oldest first; of those made in the same second by attempt."""
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        found, _ = self._cluster.items(
            f"listing jobs in {self._namespace}",
            lambda apis, **page: apis.custom.list_namespaced_custom_object(
                *self._jobs, label_selector=selector, **_PLAIN, **page
            ),
        )
        return sorted(found, key=_age)

    def create(self, manifest: Mapping[str, Any]) -> RawObject:
        """Create with ``fieldValidation=Strict``, so that nothing is dropped silently."""
        return self._call(
            f"creating job {self._namespace}/{manifest['metadata']['name']}",
            lambda apis: apis.custom.create_namespaced_custom_object(
                *self._jobs, body=dict(manifest), field_validation="Strict", **_PLAIN
            ),
        )

    def get(self, name: str) -> RawObject | None:
        """The Job; None for 404."""
        return self._found(
            f"reading job {self._namespace}/{name}",
            lambda apis: apis.custom.get_namespaced_custom_object(*self._jobs, name, **_PLAIN),
        )

    def look(self, name: str, *, uid: str, claim: str = "") -> StepView:
        """The Job, its pods by its uid, the claim, and the events about all of them."""
        job = self.get(name)
        if job is None or job["metadata"]["uid"] != uid:
            return StepView(None)
        pods, _ = self._cluster.items(
            f"listing pods in {self._namespace}",
            lambda apis, **page: apis.core.list_namespaced_pod(
                self._namespace, label_selector=f"{_CONTROLLER_UID}={uid}", **_PLAIN, **page
            ),
        )
        pods = sorted(pods, key=_age)
        stored = self._explained(lambda: self.claim(claim), None) if claim else None
        events: RawObjects = []
        # What runs needs no explanation, and events are asked for one subject at a time: there may be very many.
        if not pods or (pods[-1].get("status") or {}).get("phase", "Pending") == "Pending":
            about = [
                ("Job", name),
                ("PersistentVolumeClaim", claim),
                ("Pod", pods[-1]["metadata"]["name"] if pods else ""),
            ]
            events = self._explained(lambda: [e for kind, one in about if one for e in self._events(kind, one)], [])
        return StepView(job, tuple(pods), tuple(sorted(events, key=_event_age)), stored)

    def _explained(self, read: Callable[[], T], otherwise: T) -> T:
        """An explanation is worth no failure: who may not read claims or events waits without one."""
        try:
            return read()
        except Forbidden as error:
            if error.status == 401:
                raise
            return otherwise

    def _events(self, kind: str, name: str) -> RawObjects:
        selector = f"involvedObject.kind={kind},involvedObject.name={name}"
        found, _ = self._cluster.items(
            f"listing events in {self._namespace}",
            lambda apis, **page: apis.core.list_namespaced_event(
                self._namespace, field_selector=selector, **_PLAIN, **page
            ),
        )
        return found[-_EVENTS:]

    def delete(self, name: str, *, uid: str) -> bool:
        """Delete in the background: its pods get SIGTERM, what they fetched stays."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        }
        try:
            self._call(
                f"deleting job {self._namespace}/{name}",
                lambda apis: apis.custom.delete_namespaced_custom_object(*self._jobs, name, body=body, **_PLAIN),
            )
        except (NotFound, PreconditionFailed):
            return False
        return True

    def claim(self, name: str) -> RawObject | None:
        """The PersistentVolumeClaim; None for 404."""
        return self._found(
            f"reading persistentvolumeclaim {self._namespace}/{name}",
            lambda apis: apis.core.read_namespaced_persistent_volume_claim(name, self._namespace, **_PLAIN),
        )

    def create_claim(self, manifest: Mapping[str, Any]) -> RawObject:
        """Create a PersistentVolumeClaim, strictly too."""
        return self._call(
            f"creating persistentvolumeclaim {self._namespace}/{manifest['metadata']['name']}",
            lambda apis: apis.core.create_namespaced_persistent_volume_claim(
                self._namespace, dict(manifest), field_validation="Strict", **_PLAIN
            ),
        )

    @property
    def _jobs(self) -> tuple[str, str, str, str]:
        return "batch", "v1", self._namespace, "jobs"

    def _call(self, what: str, send: Any) -> RawObject:
        answer: RawObject = self._cluster.call(what, send)
        return answer

    def _found(self, what: str, send: Any) -> RawObject | None:
        try:
            return self._call(what, send)
        except NotFound:
            return None


def _age(obj: RawObject) -> tuple[str, int, str]:
    meta = obj["metadata"]
    attempt = (meta.get("labels") or {}).get(keys.LABEL_ATTEMPT) or "0"
    return meta.get("creationTimestamp") or "", int(attempt) if attempt.isdigit() else 0, meta["name"]


def _event_age(event: RawObject) -> tuple[str, str]:
    at = event.get("eventTime") or event.get("lastTimestamp") or event["metadata"].get("creationTimestamp") or ""
    return str(at), event["metadata"]["name"]
