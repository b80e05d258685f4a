"""The watch hub: one mirror of a namespace feeds every waiter of this process.

Ten thousand waiting trainings cost five connections and five threads (trainjobs, pods, events, jobsets, workloads), not
ten thousand: a waiter is a ``Waker`` and an entry in a dict.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from trainer_ops.backends.kubernetes.access import Access
from trainer_ops.backends.kubernetes.client import Cluster
from trainer_ops.backends.kubernetes.kinds import EVENTS, JOBSETS, KINDS, PODS, TRAINJOBS, WORKLOADS, RawObject
from trainer_ops.backends.kubernetes.lineage import Lineage, newest
from trainer_ops.backends.kubernetes.reflector import Reflector, Times
from trainer_ops.backends.waker import Waker
from trainer_ops.errors import Unreachable

__all__ = ["Hub", "end_idle", "join"]

_log = logging.getLogger(__name__)

_SYNC_SECONDS = 30.0
# So long after its start a hub is waited for to have listed what a wait can do without.
_COMPLETE_SECONDS = 10.0
# A hub outlives its last waiter for a while: waits come in a row, and each start costs five lists.
_LINGER_SECONDS = 30.0

_Labels = frozenset[tuple[str, str]]
_Place = TypeVar("_Place")


class Hub:
    """The mirrors of one namespace and those who wait for its TrainJobs. Safe for threads.

    Attributes:
        lineage: which JobSet was made for which TrainJob.
    """

    def __init__(
        self, access: Access, *, note: Callable[[str], None] = _log.warning, times: Times | None = None
    ) -> None:
        """Start its threads, with connections of their own: whoever came first may close theirs."""
        self.lineage = Lineage()
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Waker]] = {}
        # By the labels that a TrainJob must have: many waiters of one selection are asked about once.
        self._selecting: dict[frozenset[tuple[str, str]], set[Waker]] = {}
        self._cluster = Cluster(access)
        self._complete_by = time.monotonic() + _COMPLETE_SECONDS
        namespace = access.address.namespace
        self._reflectors = {
            kind.plural: Reflector(
                self._cluster,
                namespace,
                kind,
                changed=self._notify,
                note=note,
                learn=self.lineage.learn if kind is JOBSETS else None,
                times=times,
            )
            for kind in KINDS
        }

    def subscribe(self, name: str, on_close: Callable[[], object] = lambda: None) -> Waker:
        """A wake-up for changes of the TrainJob of that name and of what it owns."""
        return self._enter(self._waiting, name, on_close)

    def subscribe_all(self, labels: Mapping[str, str], on_close: Callable[[], object] = lambda: None) -> Waker:
        """A wake-up for changes of the TrainJobs with these labels and of what they own."""
        return self._enter(self._selecting, frozenset(labels.items()), on_close)

    def _enter(self, places: dict[_Place, set[Waker]], place: _Place, on_close: Callable[[], object]) -> Waker:
        def leave(waker: Waker) -> None:
            with self._lock:
                wakers = places.get(place, set())
                wakers.discard(waker)
                if not wakers:
                    places.pop(place, None)
            on_close()

        waker = Waker(leave)
        with self._lock:
            places.setdefault(place, set()).add(waker)
        return waker

    # -- what the mirrors say ---------------------------------------------------------------------------------------

    @property
    def blind(self) -> bool:
        """TrainJobs may not be listed by this user: each has to be asked for."""
        return self._reflectors[TRAINJOBS.plural].unreadable and self._reflectors[TRAINJOBS.plural].error is None

    def wait_synced(self, timeout: float = _SYNC_SECONDS) -> None:
        """Until each kind was listed once, or is known to be unreadable; the others than TrainJobs not for long.

        Raises:
            Unreachable: the list of TrainJobs takes longer than ``timeout`` seconds.
        """
        if not self._reflectors[TRAINJOBS.plural].wait_synced(timeout):
            raise Unreachable("the first list of trainjobs takes too long")
        for reflector in self._reflectors.values():
            reflector.wait_synced(max(0.0, self._complete_by - time.monotonic()))

    def job(self, name: str) -> RawObject | None:
        """The TrainJob, trimmed.

        Raises:
            BackendError: why the mirror of TrainJobs is behind: a decision must not be made on old news.
        """
        trainjobs = self._reflectors[TRAINJOBS.plural]
        error = trainjobs.error
        if error is not None:
            raise error
        return trainjobs.get(name)

    def jobs(self, labels: Mapping[str, str]) -> list[RawObject]:
        """All TrainJobs with these labels, trimmed.

        Raises:
            BackendError: as ``job``.
        """
        trainjobs = self._reflectors[TRAINJOBS.plural]
        error = trainjobs.error
        if error is not None:
            raise error
        return [job for job in trainjobs.all() if _has(job, labels.items())]

    def jobset(self, name: str) -> RawObject | None:
        """The JobSet of a TrainJob of that name."""
        return newest(self._reflectors[JOBSETS.plural].of(name))

    def workload(self, name: str) -> RawObject | None:
        """Kueue's newest Workload of a TrainJob of that name."""
        return newest(self._reflectors[WORKLOADS.plural].of(name))

    def pods(self, name: str) -> list[RawObject]:
        """The pods of all TrainJobs of that name."""
        return self._reflectors[PODS.plural].of(name)

    def pod(self, name: str) -> RawObject | None:
        """One pod by its own name; None also when the mirror of pods is not live."""
        pods = self._reflectors[PODS.plural]
        return pods.get(name) if pods.live else None

    def events(self, name: str) -> list[RawObject]:
        """Events that may be about a TrainJob of that name or what it owns."""
        return self._reflectors[EVENTS.plural].of(name)

    def unreadable(self) -> frozenset[str]:
        """Plural kinds that this user may not read."""
        return frozenset(plural for plural, reflector in self._reflectors.items() if reflector.unreadable)

    # -- its end ----------------------------------------------------------------------------------------------------

    def _notify(self, owners: Iterable[str]) -> None:
        names = tuple(owners)
        with self._lock:
            wakers = {waker for name in names for waker in self._waiting.get(name, ())}
            selections = tuple(self._selecting)
        if selections and names:
            chosen = self._selections_of(names, selections)
            with self._lock:
                wakers.update(waker for labels in chosen for waker in self._selecting.get(labels, ()))
        for waker in wakers:
            waker.notify()

    def _selections_of(self, names: Iterable[str], selections: Iterable[_Labels]) -> list[_Labels]:
        """Those that one of these TrainJobs belongs to; one that is gone may have belonged to any."""
        trainjobs = self._reflectors.get(TRAINJOBS.plural)  # None while the very first of them starts
        jobs = [trainjobs.get(name) if trainjobs is not None else None for name in names]
        return [labels for labels in selections if any(job is None or _has(job, labels) for job in jobs)]

    def stop(self) -> None:
        """End all threads soon."""
        for reflector in self._reflectors.values():
            reflector.stop()

    def close(self, timeout: float = 5.0) -> bool:
        """End all threads and connections; whether they have ended in time."""
        self.stop()
        end = time.monotonic() + timeout
        done = [reflector.join(max(0.0, end - time.monotonic())) for reflector in self._reflectors.values()]
        self._cluster.close()
        return all(done)


def _has(job: RawObject, labels: Collection[tuple[str, str]]) -> bool:
    return not labels or set(labels) <= (job["metadata"].get("labels") or {}).items()


# -- one hub a namespace, user and process ----------------------------------------------------------------------------


class _Shared:
    """A hub and how many use it."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.users = 0
        self.timer: threading.Timer | None = None


_Key = tuple[str, ...]
_hubs: dict[_Key, _Shared] = {}
_hubs_lock = threading.Lock()
# What was said once is not said again by the next hub of the same namespace.
_told: set[tuple[_Key, str]] = set()


def _forget_in_child() -> None:
    """A forked process has its parent's hubs without their threads."""
    global _hubs_lock
    _hubs_lock = threading.Lock()
    _hubs.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def join(
    access: Access, enter: Callable[[Hub, Callable[[], object]], Waker], left: Callable[[], object]
) -> tuple[Hub, Waker]:
    """Subscribe at the one hub of this cluster, user and namespace; started when there is none.

    Args:
        access: where, and as whom.
        enter: subscribes at the hub; what it is given is to be called when the waker is closed.
        left: called when the waker is closed.
    """
    with _hubs_lock:
        shared = _hubs.get(access.key)
        if shared is None:
            shared = _hubs[access.key] = _Shared(Hub(access, note=lambda text: _tell(access.key, text)))
        shared.users += 1
        if shared.timer is not None:
            shared.timer.cancel()
            shared.timer = None
    found = shared

    def leave() -> None:
        left()
        _leave(access.key, found)

    return found.hub, enter(found.hub, leave)


def _tell(key: _Key, text: str) -> None:
    if (key, text) not in _told:
        _told.add((key, text))
        _log.warning("%s", text)


def _leave(key: _Key, shared: _Shared) -> None:
    with _hubs_lock:
        shared.users -= 1
        if shared.users == 0:
            shared.timer = threading.Timer(_LINGER_SECONDS, _end, (key, shared))
            shared.timer.daemon = True
            shared.timer.start()


def _end(key: _Key, shared: _Shared) -> None:
    with _hubs_lock:
        if shared.users or _hubs.get(key) is not shared:
            return
        del _hubs[key]
    shared.hub.close()


def end_idle() -> bool:
    """End the hubs that nobody waits at now, rather than when they have lingered; whether their threads have ended."""
    with _hubs_lock:
        idle = {key: shared for key, shared in _hubs.items() if not shared.users}
        for key, shared in idle.items():
            if shared.timer is not None:
                shared.timer.cancel()
            del _hubs[key]
    for shared in idle.values():
        shared.hub.stop()
    ended = [shared.hub.close() for shared in idle.values()]
    return all(ended)
