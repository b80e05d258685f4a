"""``KubernetesBackend``: the port on a cluster with Kubeflow Trainer."""

from __future__ import annotations

import difflib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer_ops.backends.base import LogChunk, LogSource, RawObject, RawObjects, Streams, Watch
from trainer_ops.backends.kubernetes.access import Access, Config
from trainer_ops.backends.kubernetes.address import Address
from trainer_ops.backends.kubernetes.client import TIMEOUT, Apis, Cluster
from trainer_ops.backends.kubernetes.direct import Direct
from trainer_ops.backends.kubernetes.exec import execute
from trainer_ops.backends.kubernetes.failures import missing_runtime
from trainer_ops.backends.kubernetes.hub import Hub, join
from trainer_ops.backends.kubernetes.lineage import Lineage
from trainer_ops.backends.kubernetes.logreader import LogReader
from trainer_ops.backends.kubernetes.migration import ClusterMigration
from trainer_ops.backends.kubernetes.runtimes import Runtimes
from trainer_ops.backends.kubernetes.sight import Sight
from trainer_ops.backends.kubernetes.steps import ClusterSteps
from trainer_ops.backends.kubernetes.urgent import Resource, Urgent
from trainer_ops.errors import BackendError, NotFound, PreconditionFailed, Rejected, RuntimeNotFound, Unreachable
from trainer_ops.model import keys
from trainer_ops.model.observed import Observation

__all__ = ["KubernetesBackend"]

_PLAIN: dict[str, Any] = {"_preload_content": False, "_request_timeout": TIMEOUT}


class KubernetesBackend:
    """TrainJobs in one namespace of one cluster, as one user. Safe to share between threads."""

    def __init__(
        self, address: Address, *, config: Config | str | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """Open it; no request is sent yet.

        Args:
            address: which cluster, user and namespace.
            config: the content of a kubeconfig, in place of a file: text or parsed. It is in no target and no log.
            clock: seconds since the epoch.

        Raises:
            InvalidRequest: field ``target``.
        """
        self._access = Access.to(address, config)
        self._cluster = Cluster(self._access)
        self._direct = Direct(self._cluster, self.namespace, Lineage())
        self._logs = LogReader(self._cluster, self.namespace, mirrored=self._mirrored, clock=clock)
        self._runtimes = Runtimes(self._cluster, self.namespace)
        self._lock = threading.Lock()
        self._sights: dict[str, tuple[Sight, int]] = {}
        self._over_all: list[Hub] = []

    @property
    def target(self) -> str:
        """``kubernetes://CONTEXT/NAMESPACE``."""
        return str(self._access.address)

    @property
    def namespace(self) -> str:
        """The namespace of all names."""
        return self._access.address.namespace

    @property
    def migration(self) -> ClusterMigration:
        """The v1 jobs of this namespace, and dry runs."""
        return ClusterMigration(self._cluster, self.namespace)

    @property
    def steps(self) -> ClusterSteps:
        """Jobs that are no trainings, and claims; see ``backends.steps``."""
        return ClusterSteps(self._cluster, self.namespace)

    # -- TrainJobs --------------------------------------------------------------------------------------------------

    def create(self, manifest: Mapping[str, Any]) -> RawObject:
        """Create with ``fieldValidation=Strict``, so that nothing is dropped silently."""
        name = manifest.get("metadata", {}).get("name", "")
        try:
            return self._json(
                f"creating trainjob {self.namespace}/{name}",
                lambda apis: apis.custom.create_namespaced_custom_object(
                    *self._trainjobs, body=dict(manifest), field_validation="Strict", **_PLAIN
                ),
            )
        except Rejected as error:
            if missing_runtime(error):
                raise self._no_runtime(manifest) from error
            raise

    def get(self, name: str) -> RawObject | None:
        """The TrainJob; None for 404."""
        return self._direct.job(name)

    def list(self, labels: Mapping[str, str] | None = None) -> RawObjects:
        """All TrainJobs with these labels, oldest first; of those made in the same second by name."""
        return _by_age(self._direct.jobs(",".join(f"{key}={value}" for key, value in (labels or {}).items())))

    def overview(self, labels: Mapping[str, str] | None = None) -> RawObjects:
        """From the hub while somebody watches all, else by asking."""
        hub = self._hub_over_all()
        if hub is None:
            return self.list(labels)
        hub.wait_synced()
        return self.list(labels) if hub.blind else _by_age(hub.jobs(labels or {}))

    def delete(self, name: str, *, uid: str | None = None) -> bool:
        """Delete in the background: Foreground lets the controllers make the JobSet once more (seen on 1.36)."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        asked = 0

        def send(apis: Apis) -> Any:
            nonlocal asked
            asked += 1
            return apis.custom.delete_namespaced_custom_object(*self._trainjobs, name, body=body, **_PLAIN)

        try:
            self._json(f"deleting trainjob {self.namespace}/{name}", send)
        except NotFound:
            # Gone after a first try without an answer: that try has deleted it.
            return asked > 1
        return True

    def set_suspended(self, name: str, suspended: bool, *, uid: str | None = None) -> RawObject:
        """Merge-patch ``spec.suspend`` (all that the client's oldest version can); the uid in it is a precondition."""
        patch: dict[str, Any] = {"spec": {"suspend": suspended}}
        if uid:
            patch["metadata"] = {"uid": uid}
        what = f"{'suspending' if suspended else 'resuming'} trainjob {self.namespace}/{name}"
        try:
            return self._json(
                what,
                lambda apis: apis.custom.patch_namespaced_custom_object(
                    *self._trainjobs, name, patch, field_validation="Strict", **_PLAIN
                ),
            )
        except (Rejected, Unreachable) as exc:
            # Another uid is answered with 409 or 422, depending on the version; the object itself settles it.
            standing = self.get(name) if uid and exc.status in (409, 422) else None
            if standing is not None and standing["metadata"]["uid"] != uid:
                raise PreconditionFailed(f"{what}: the TrainJob of that name has another uid", status=409) from exc
            raise

    def urgent(self, resource: Resource = "trainjobs") -> Urgent:
        """What deletes TrainJobs (or Jobs) here within milliseconds; the caller warms and closes it."""
        return Urgent(self._access, self.namespace, resource)

    # -- what a TrainJob owns ---------------------------------------------------------------------------------------

    def pods(self, name: str, *, uid: str) -> RawObjects:
        """Its pods by JobSet's label; those of a deleted one until they are gone."""
        return self._direct.pods(name, uid=uid)

    def pod(self, name: str) -> RawObject | None:
        """One pod of the namespace, whoever's it is; None for 404."""
        try:
            return self._json(
                f"reading pod {self.namespace}/{name}",
                lambda apis: apis.core.read_namespaced_pod(name, self.namespace, **_PLAIN),
            )
        except NotFound:
            return None

    def events(self, name: str, *, uid: str) -> RawObjects:
        """The newest events about it and what it owns, oldest first."""
        return self._direct.events(name, uid=uid)

    def observe(self, name: str, *, now: float) -> Observation:
        """From the hub while somebody watches this TrainJob or all, else by asking."""
        with self._lock:
            sight, _ = self._sights.get(name, (None, 0))
        hub = None if sight is not None else self._hub_over_all()
        if hub is not None:
            sight = Sight(hub, self._direct, name)
        return self._direct.observe(name, now=now) if sight is None else sight.observe(now)

    def logs(
        self, source: LogSource, *, after: str = "", tail: int | None = None, limit_bytes: int = 1 << 20
    ) -> LogChunk:
        """Lines through the API server; a container that waits, or whose pod or node is gone, gives none."""
        return self._logs.read(source, after, tail, limit_bytes)

    def watch(self, name: str) -> Watch:
        """Wake-ups from the hub of this namespace, which all waiters of this process share."""
        hub, waker = join(self._access, lambda hub, left: hub.subscribe(name, left), lambda: self._leave(name))
        with self._lock:
            sight, users = self._sights.get(name, (None, 0))
            if sight is None or sight.hub is not hub:
                sight = Sight(hub, self._direct, name)
            self._sights[name] = (sight, users + 1)
        return waker

    def watch_all(self, labels: Mapping[str, str] | None = None) -> Watch:
        """Wake-ups from the same hub: no connection more."""
        wanted = dict(labels or {})
        joined: list[Hub] = []

        def left() -> None:
            with self._lock:
                self._over_all.remove(joined[0])

        hub, waker = join(self._access, lambda hub, left: hub.subscribe_all(wanted, left), left)
        joined.append(hub)
        with self._lock:
            self._over_all.append(hub)
        return waker

    def _hub_over_all(self) -> Hub | None:
        with self._lock:
            return self._over_all[-1] if self._over_all else None

    def _leave(self, name: str) -> None:
        with self._lock:
            sight, users = self._sights[name]
            if users > 1:
                self._sights[name] = (sight, users - 1)
            else:
                del self._sights[name]

    def _mirrored(self, pod: str) -> RawObject | None:
        with self._lock:
            sight = next((sight for sight, _ in self._sights.values()), None)
        hub = self._hub_over_all() if sight is None else sight.hub
        return None if hub is None else hub.pod(pod)

    def exec(self, pod: str, container: str, argv: Sequence[str], streams: Streams) -> int:
        """A command through the API server; wants the right to ``create`` and ``get`` ``pods/exec``."""
        return execute(self._access, self.namespace, pod, container, argv, streams)

    # -- runtimes ---------------------------------------------------------------------------------------------------

    def runtime(self, name: str, kind: str) -> RawObject | None:
        """The runtime of that kind and name; None for 404."""
        return self._runtimes.get(name, kind)

    def runtimes(self) -> RawObjects:
        """All cluster runtimes, and those of this namespace."""
        return self._runtimes.all()

    def apply_runtime(self, manifest: Mapping[str, Any]) -> RawObject:
        """Create or replace with ``fieldValidation=Strict``."""
        return self._runtimes.apply(manifest)

    def _no_runtime(self, manifest: Mapping[str, Any]) -> RuntimeNotFound:
        name = str(((manifest.get("spec") or {}).get("runtimeRef") or {}).get("name") or "")
        try:
            known = sorted(str(raw["metadata"]["name"]) for raw in self.runtimes())
        except BackendError:
            known = []
        close = difflib.get_close_matches(name, known, n=1)
        return RuntimeNotFound(name, target=self.target, known=known, close=next(iter(close), None))

    def close(self) -> None:
        """Close this backend's own connections; a hub that others wait at goes on."""
        self._logs.close()
        self._cluster.close()

    @property
    def _trainjobs(self) -> tuple[str, str, str, str]:
        return keys.GROUP, keys.VERSION, self.namespace, keys.PLURAL

    def _json(self, what: str, send: Callable[[Apis], Any]) -> RawObject:
        answer: RawObject = self._cluster.call(what, send)
        return answer


def _by_age(jobs: RawObjects) -> RawObjects:
    return sorted(jobs, key=lambda o: (o["metadata"].get("creationTimestamp") or "", o["metadata"]["name"]))
