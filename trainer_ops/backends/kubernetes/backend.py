"""``KubernetesBackend``: the port on a cluster with Kubeflow Trainer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from trainer_ops.backends.base import LogChunk, LogSource, RawObject, RawObjects, Watch
from trainer_ops.backends.kubernetes.address import Address
from trainer_ops.backends.kubernetes.client import TIMEOUT, Apis, Cluster
from trainer_ops.backends.kubernetes.hub import MAX_EVENTS, Hub, hub_of, newest, pods_of_this
from trainer_ops.backends.kubernetes.kinds import JOBSETS, TRAINJOBS, WORKLOADS, Kind
from trainer_ops.backends.kubernetes.podlogs import Position, chunk, container_state, lines_of, window
from trainer_ops.backends.waker import Waker
from trainer_ops.errors import BackendError, Forbidden, NotFound, PreconditionFailed, Rejected, Unreachable
from trainer_ops.model import keys
from trainer_ops.model.observed import Observation

__all__ = ["KubernetesBackend"]

_PLAIN: dict[str, Any] = {"_preload_content": False, "_request_timeout": TIMEOUT}
_RUNTIMES = {keys.CLUSTER_RUNTIME: "clustertrainingruntimes", keys.NAMESPACED_RUNTIME: "trainingruntimes"}


class KubernetesBackend:
    """TrainJobs in one namespace of one cluster, as one user. Safe to share between threads."""

    def __init__(self, address: Address, *, clock: Callable[[], float] = time.time) -> None:
        """Open it; no request is sent yet.

        Raises:
            InvalidRequest: field ``target``.
        """
        self._cluster = Cluster(address)
        self._address = self._cluster.address
        self._clock = clock
        self._hubs: dict[str, tuple[Hub, int]] = {}

    @property
    def target(self) -> str:
        """``kubernetes://CONTEXT/NAMESPACE``."""
        return str(self._address)

    @property
    def namespace(self) -> str:
        """The namespace of all names."""
        return self._address.namespace

    # -- TrainJobs --------------------------------------------------------------------------------------------------

    def create(self, manifest: Mapping[str, Any]) -> RawObject:
        """Create with ``fieldValidation=Strict``, so that nothing is dropped silently."""
        name = manifest.get("metadata", {}).get("name", "")
        return self._json(
            f"creating trainjob {self.namespace}/{name}",
            lambda apis: apis.custom.create_namespaced_custom_object(
                *self._trainjobs, body=dict(manifest), field_validation="Strict", **_PLAIN
            ),
        )

    def get(self, name: str) -> RawObject | None:
        """The TrainJob; None for 404."""
        return self._get(TRAINJOBS, name)

    def list(self, labels: Mapping[str, str] | None = None) -> RawObjects:
        """All TrainJobs with these labels, oldest first; read in pages."""
        selector = ",".join(f"{key}={value}" for key, value in (labels or {}).items())
        found = self._list(
            f"listing trainjobs in {self.namespace}",
            lambda apis, **page: apis.custom.list_namespaced_custom_object(
                *self._trainjobs, label_selector=selector, **page
            ),
        )
        return sorted(found, key=lambda o: (o["metadata"].get("creationTimestamp") or "", o["metadata"]["name"]))

    def delete(self, name: str, *, uid: str | None = None) -> bool:
        """Delete in the background: Foreground lets the controllers make the JobSet once more (seen on 1.36)."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            self._json(
                f"deleting trainjob {self.namespace}/{name}",
                lambda apis: apis.custom.delete_namespaced_custom_object(*self._trainjobs, name, body=body, **_PLAIN),
            )
        except NotFound:
            return False
        return True

    def set_suspended(self, name: str, suspended: bool, *, uid: str | None = None) -> RawObject:
        """Merge-patch ``spec.suspend``; a uid in the patch is the API server's own precondition."""
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
            standing = self.get(name) if uid else None
            if standing is not None and standing["metadata"]["uid"] != uid:
                raise PreconditionFailed(f"{what}: the TrainJob of that name has another uid", status=409) from exc
            raise

    # -- what a TrainJob owns ---------------------------------------------------------------------------------------

    def pods(self, name: str, *, uid: str) -> RawObjects:
        """Its pods by JobSet's label; those of a deleted one until they are gone."""
        found = self._list(
            f"listing pods of {self.namespace}/{name}",
            lambda apis, **page: apis.core.list_namespaced_pod(
                self.namespace, label_selector=f"{keys.LABEL_JOBSET_NAME}={name}", **page
            ),
        )
        job = self.get(name)
        if job is not None and job["metadata"]["uid"] != uid:
            return [pod for pod in found if pod["metadata"].get("deletionTimestamp")]
        return pods_of_this(found, job, self._quietly(JOBSETS, name)[0])

    def events(self, name: str, *, uid: str) -> RawObjects:
        """The newest events about it and what it owns, oldest first."""
        found = self._list(
            f"listing events in {self.namespace}",
            lambda apis, **page: apis.core.list_namespaced_event(self.namespace, **page),
        )
        mine = [e for e in found if _about(e, name, uid)]
        return sorted(mine, key=_when)[-MAX_EVENTS:]

    def observe(self, name: str, *, now: float) -> Observation:
        """From the hub while somebody watches this TrainJob, else by asking."""
        held = self._hubs.get(name)
        if held is not None:
            return held[0].observe(name, now=now)
        job = self.get(name)
        if job is None:
            return Observation(now, None)
        unreadable = set()
        jobset, forbidden = self._quietly(JOBSETS, name)
        if forbidden:
            unreadable.add(JOBSETS.plural)
        workloads, forbidden = self._workloads(job["metadata"]["uid"])
        if forbidden:
            unreadable.add(WORKLOADS.plural)
        parts: dict[str, RawObjects] = {}
        for plural, read in (("pods", self.pods), ("events", self.events)):
            try:
                parts[plural] = read(name, uid=job["metadata"]["uid"])
            except Forbidden:
                unreadable.add(plural)
        return Observation.from_raw(
            now,
            job,
            parts.get("pods", ()),
            parts.get("events", ()),
            jobset,
            newest(workloads),
            frozenset(unreadable),
        )

    def logs(
        self, source: LogSource, *, after: str = "", tail: int | None = None, limit_bytes: int = 1 << 20
    ) -> LogChunk:
        """Lines through the API server; a container that waits, or whose pod is gone, gives none."""
        gone = LogChunk(position=after, ended=True)
        state = self._container(source)
        if state is None:
            return gone
        restarts, terminated = state
        if source.restart not in (restarts, restarts - 1):
            return gone
        options = self._log_options(source, previous=source.restart < restarts, after=after, tail=tail)
        try:
            response = self._cluster.send(
                f"reading the log of {source.pod}",
                lambda apis: apis.core.read_namespaced_pod_log(source.pod, self.namespace, **options),
            )
        except NotFound:
            return gone
        except Rejected:
            # 400: the container waits to start, or has no previous run.
            return LogChunk(position=after, ended=source.restart < restarts)
        try:
            stamped = lines_of(response.stream(1 << 16, decode_content=True))
            position = Position() if tail else Position.parse(after)
            over = terminated or source.restart < restarts
            found = chunk(stamped, position, limit_bytes=limit_bytes, over=over)
        except Exception as exc:
            raise _broken(source, exc) from exc
        finally:
            response.close()
        # A restart between the two calls: these are the next run's lines, which will be read under its own number.
        if source.restart == restarts and self._container(source) not in (state, (restarts, True)):
            return LogChunk(position=after, more=True)
        return found

    def _log_options(self, source: LogSource, *, previous: bool, after: str, tail: int | None) -> dict[str, Any]:
        options: dict[str, Any] = {"container": source.container, "timestamps": True, **_PLAIN}
        if previous:
            options["previous"] = True
        if tail:
            options["tail_lines"] = tail
        else:
            seconds = window(Position.parse(after), self._clock())
            if seconds is not None:
                options["since_seconds"] = seconds
        return options

    def _container(self, source: LogSource) -> tuple[int, bool] | None:
        """(restartCount, terminated); None when that very pod is gone."""
        try:
            pod = self._json(
                f"reading pod {source.pod}",
                lambda apis: apis.core.read_namespaced_pod(source.pod, self.namespace, **_PLAIN),
            )
        except NotFound:
            return None
        if pod["metadata"].get("uid") != source.pod_uid:
            return None
        return container_state(pod, source.container) or (0, False)

    def watch(self, name: str) -> Watch:
        """Wake-ups from the hub of this namespace, which all waiters of this process share."""
        lease = hub_of(self._cluster, name)
        hub, users = self._hubs.get(name, (lease.hub, 0))
        self._hubs[name] = (hub, users + 1)

        def leave(_: Waker) -> None:
            hub, users = self._hubs[name]
            if users > 1:
                self._hubs[name] = (hub, users - 1)
            else:
                del self._hubs[name]
            lease.waker.close()

        return _Lent(lease.waker, leave)

    # -- runtimes ---------------------------------------------------------------------------------------------------

    def runtime(self, name: str, kind: str) -> RawObject | None:
        """The runtime of that kind and name; None for 404."""
        plural = _RUNTIMES.get(kind)
        if plural is None:
            return None
        what = f"reading {kind} {name}"
        try:
            if kind == keys.CLUSTER_RUNTIME:
                return self._json(
                    what,
                    lambda apis: apis.custom.get_cluster_custom_object(
                        keys.GROUP, keys.VERSION, plural, name, **_PLAIN
                    ),
                )
            return self._json(
                what,
                lambda apis: apis.custom.get_namespaced_custom_object(
                    keys.GROUP, keys.VERSION, self.namespace, plural, name, **_PLAIN
                ),
            )
        except NotFound:
            return None

    def runtimes(self) -> RawObjects:
        """All cluster runtimes, and those of this namespace."""
        found = self._list(
            "listing clustertrainingruntimes",
            lambda apis, **page: apis.custom.list_cluster_custom_object(
                keys.GROUP, keys.VERSION, _RUNTIMES[keys.CLUSTER_RUNTIME], **page
            ),
        )
        try:
            found += self._list(
                f"listing trainingruntimes in {self.namespace}",
                lambda apis, **page: apis.custom.list_namespaced_custom_object(
                    keys.GROUP, keys.VERSION, self.namespace, _RUNTIMES[keys.NAMESPACED_RUNTIME], **page
                ),
            )
        except Forbidden:
            return found
        return found

    def close(self) -> None:
        """Close this backend's own connections; a hub that others wait at goes on."""
        self._cluster.close()

    # -- requests ---------------------------------------------------------------------------------------------------

    @property
    def _trainjobs(self) -> tuple[str, str, str, str]:
        return keys.GROUP, keys.VERSION, self.namespace, keys.PLURAL

    def _json(self, what: str, send: Callable[[Apis], Any]) -> RawObject:
        answer: RawObject = self._cluster.call(what, send)
        return answer

    def _list(self, what: str, send: Callable[..., Any]) -> RawObjects:
        items: RawObjects = []
        token = ""
        while True:
            page = {"limit": 500, **({"_continue": token} if token else {}), **_PLAIN}
            answer = self._json(what, lambda apis, page=page: send(apis, **page))  # type: ignore[misc]
            items += answer.get("items") or []
            token = (answer.get("metadata") or {}).get("continue") or ""
            if not token:
                return items

    def _get(self, kind: Kind, name: str) -> RawObject | None:
        try:
            return self._json(
                f"reading {kind.plural} {self.namespace}/{name}",
                lambda apis: apis.custom.get_namespaced_custom_object(
                    kind.group, kind.version, self.namespace, kind.plural, name, **_PLAIN
                ),
            )
        except NotFound:
            return None

    def _quietly(self, kind: Kind, name: str) -> tuple[RawObject | None, bool]:
        """(object, forbidden) of a kind that a wait can do without."""
        try:
            return self._get(kind, name), False
        except Forbidden:
            return None, True
        except BackendError as exc:
            if exc.status == 404:
                return None, False
            raise

    def _workloads(self, uid: str) -> tuple[RawObjects, bool]:
        """(Kueue's Workloads of a TrainJob, forbidden)."""
        try:
            return self._list(
                f"listing workloads in {self.namespace}",
                lambda apis, **page: apis.custom.list_namespaced_custom_object(
                    WORKLOADS.group,
                    WORKLOADS.version,
                    self.namespace,
                    WORKLOADS.plural,
                    label_selector=f"kueue.x-k8s.io/job-uid={uid}",
                    **page,
                ),
            ), False
        except Forbidden:
            return [], True
        except BackendError as exc:
            if exc.status == 404:
                return [], False
            raise


class _Lent:
    """A waker whose closing also ends this backend's share in the hub."""

    def __init__(self, waker: Waker, leave: Callable[[Waker], None]) -> None:
        self._waker = waker
        self._leave: Callable[[Waker], None] | None = leave

    def wait(self, timeout: float) -> bool:
        """See ``Waker.wait``."""
        return self._waker.wait(timeout)

    async def wait_async(self, timeout: float) -> bool:
        """See ``Waker.wait_async``."""
        return await self._waker.wait_async(timeout)

    def close(self) -> None:
        """Idempotent."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave(self._waker)


def _about(event: RawObject, name: str, uid: str) -> bool:
    about = event.get("involvedObject") or {}
    subject = str(about.get("name") or "")
    return about.get("uid") == uid or subject == name or subject.startswith(f"{name}-")


def _when(event: RawObject) -> str:
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")


def _broken(source: LogSource, exc: Exception) -> BackendError:
    return Unreachable(f"reading the log of {source.pod}: {type(exc).__name__}: {exc}"[:300])
