"""Looking at a TrainJob and what it owns by asking for each: without a hub, and where a hub is not enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainer_ops.backends.kubernetes.client import TIMEOUT, Cluster
from trainer_ops.backends.kubernetes.failures import NotServed
from trainer_ops.backends.kubernetes.kinds import EVENTS, JOBSETS, PODS, TRAINJOBS, WORKLOADS, Kind, RawObject
from trainer_ops.backends.kubernetes.lineage import Lineage, events_of, newest, pods_of, telling, uid_of
from trainer_ops.errors import Forbidden, NotFound
from trainer_ops.model import keys
from trainer_ops.model.observed import Observation

__all__ = ["Direct"]

_PLAIN: dict[str, Any] = {"_preload_content": False, "_request_timeout": TIMEOUT}
_JOB_UID = "kueue.x-k8s.io/job-uid"


class Direct:
    """Reads of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str, lineage: Lineage) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._lineage = lineage

    def job(self, name: str) -> RawObject | None:
        """The TrainJob; None for 404."""
        return self._get(TRAINJOBS, name)

    def jobs(self, selector: str) -> list[RawObject]:
        """TrainJobs by label selector."""
        return self._list(TRAINJOBS, selector)

    def jobset(self, name: str) -> RawObject | None:
        """The JobSet of a TrainJob of that name; None for 404.

        Raises:
            Forbidden: JobSets may not be read.
        """
        try:
            found = self._get(JOBSETS, name)
        except NotServed:
            return None
        self._lineage.learn(found)
        return found

    def pods(self, name: str, *, uid: str) -> list[RawObject]:
        """The pods of that TrainJob, those of a deleted one until they are gone."""
        return self._pods(name, uid, self._jobset_if_allowed(name)[0])[0]

    def events(self, name: str, *, uid: str) -> list[RawObject]:
        """The newest events about that TrainJob and what it owns, oldest first; none when it is gone."""
        job = self.job(name)
        if job is None or uid_of(job) != uid:
            return []
        foreign = [uid_of(pod) for pod in self._pods(name, uid, self._jobset_if_allowed(name)[0])[1]]
        return events_of(job, self._events(name), foreign)

    def observe(self, name: str, *, now: float) -> Observation:
        """All of it, in six requests."""
        job = self.job(name)
        if job is None:
            return Observation(now, None)
        uid = uid_of(job)
        unreadable: set[str] = set()
        jobset, allowed = self._jobset_if_allowed(name)
        if not allowed:
            unreadable.add(JOBSETS.plural)

        def attempt(plural: str, read: Callable[[], Any], otherwise: Any) -> Any:
            try:
                return read()
            except Forbidden:
                unreadable.add(plural)
                return otherwise

        mine, others = attempt(PODS.plural, lambda: self._pods(name, uid, jobset, job), ([], []))
        events = attempt(EVENTS.plural, lambda: events_of(job, self._events(name), [uid_of(pod) for pod in others]), [])
        workloads = attempt(WORKLOADS.plural, lambda: self._workloads(uid), [])
        if WORKLOADS.plural in unreadable and not self._cluster.serves(WORKLOADS.group):
            unreadable.discard(WORKLOADS.plural)
        return Observation.from_raw(
            now, job, mine, events, telling(jobset, uid), newest(workloads), frozenset(unreadable)
        )

    def _jobset_if_allowed(self, name: str) -> tuple[RawObject | None, bool]:
        try:
            return self.jobset(name), True
        except Forbidden as error:
            if error.status == 401:
                raise
            return None, False

    def _pods(
        self, name: str, uid: str, jobset: RawObject | None, job: RawObject | None = None
    ) -> tuple[list[RawObject], list[RawObject]]:
        found = self._list(PODS, f"{keys.LABEL_JOBSET_NAME}={name}")
        if job is None and any(self._lineage.of_pod(pod) is None for pod in found):
            job = self.job(name)
        return pods_of(uid, found, self._lineage, standing=job)

    def _events(self, name: str) -> list[RawObject]:
        found = self._list(EVENTS, keep=lambda items: [e for e in items if name in EVENTS.owners(e)])
        return sorted(found, key=lambda e: str(e["metadata"]["name"]))

    def _workloads(self, uid: str) -> list[RawObject]:
        for version in WORKLOADS.versions:
            try:
                return self._list(WORKLOADS, f"{_JOB_UID}={uid}", version=version)
            except NotServed:
                continue
        return []

    def _get(self, kind: Kind, name: str) -> RawObject | None:
        try:
            found: RawObject = self._cluster.call(
                f"reading {kind.plural} {self._namespace}/{name}",
                lambda apis: apis.custom.get_namespaced_custom_object(
                    kind.group, kind.versions[0], self._namespace, kind.plural, name, **_PLAIN
                ),
            )
        except NotFound:
            return None
        return found

    def _list(
        self, kind: Kind, selector: str = "", *, version: str = "", keep: Callable[[Any], Any] = list
    ) -> list[RawObject]:
        options = {**_PLAIN, **({"label_selector": selector} if selector else {})}
        if kind.group:
            where = (kind.group, version or kind.versions[0], self._namespace, kind.plural)
            found, _ = self._cluster.items(
                f"listing {kind.plural} in {self._namespace}",
                lambda apis, **page: apis.custom.list_namespaced_custom_object(*where, **options, **page),
                page=kind.page,
                keep=keep,
            )
            return found
        call = f"list_namespaced_{kind.plural.removesuffix('s')}"
        found, _ = self._cluster.items(
            f"listing {kind.plural} in {self._namespace}",
            lambda apis, **page: getattr(apis.core, call)(self._namespace, **options, **page),
            page=kind.page,
            keep=keep,
        )
        return found
