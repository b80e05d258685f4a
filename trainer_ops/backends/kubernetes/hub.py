"""The watch hub: one mirror of a namespace feeds every waiter of this process.

Ten thousand waiting trainings cost five connections and five threads (trainjobs, pods, events, jobsets, workloads), not
ten thousand: a waiter is a ``Waker`` and an entry in a dict.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from trainer_ops.backends.kubernetes.address import Address
from trainer_ops.backends.kubernetes.client import Cluster
from trainer_ops.backends.kubernetes.kinds import EVENTS, JOBSETS, KINDS, PODS, TRAINJOBS, WORKLOADS, RawObject
from trainer_ops.backends.kubernetes.reflector import Reflector
from trainer_ops.backends.waker import Waker
from trainer_ops.errors import Unreachable
from trainer_ops.model import keys
from trainer_ops.model.observed import Observation

__all__ = ["MAX_EVENTS", "Hub", "hub_of", "newest"]

_log = logging.getLogger(__name__)

MAX_EVENTS = 200
_SYNC_SECONDS = 30.0
# A hub outlives its last waiter for a while: waits come in a row, and each start costs five lists.
_LINGER_SECONDS = 30.0


class Hub:
    """The mirrors of one namespace and those who wait for its TrainJobs. Safe for threads."""

    def __init__(self, cluster: Cluster, note: Callable[[str], None] = _log.warning) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Waker]] = {}
        self._reflectors = {kind.plural: Reflector(cluster, kind, changed=self._notify, note=note) for kind in KINDS}

    def subscribe(self, name: str, on_close: Callable[[Waker], None]) -> Waker:
        """A wake-up for changes of the TrainJob of that name and of what it owns."""

        def leave(waker: Waker) -> None:
            with self._lock:
                wakers = self._waiting.get(name, set())
                wakers.discard(waker)
                if not wakers:
                    self._waiting.pop(name, None)
            on_close(waker)

        waker = Waker(leave)
        with self._lock:
            self._waiting.setdefault(name, set()).add(waker)
        return waker

    def observe(self, name: str, *, now: float) -> Observation:
        """What the mirrors say of one TrainJob; no request is sent.

        Raises:
            Unreachable: the mirror of TrainJobs is behind: a decision must not be made on old news.
            Forbidden: TrainJobs may not be listed.
        """
        for reflector in self._reflectors.values():
            if not reflector.wait_synced(_SYNC_SECONDS):
                raise Unreachable("the first list of the namespace takes too long")
        trainjobs = self._reflectors[TRAINJOBS.plural]
        if trainjobs.error is not None:
            raise trainjobs.error
        job = next(iter(trainjobs.of(name)), None)
        jobset = next(iter(self._reflectors[JOBSETS.plural].of(name)), None)
        workloads = self._reflectors[WORKLOADS.plural].of(name)
        return Observation.from_raw(
            now,
            job,
            pods_of_this(self._reflectors[PODS.plural].of(name), job, jobset),
            self._events(name),
            jobset,
            newest(workloads),
            frozenset(plural for plural, reflector in self._reflectors.items() if reflector.unreadable),
        )

    def _events(self, name: str) -> list[RawObject]:
        """Events about this TrainJob and what it owns, not about another whose name begins with this one's."""
        others = self._reflectors[TRAINJOBS.plural]

        def foreign(event: RawObject) -> bool:
            parts = str(event["involvedObject"].get("name") or "")[len(name) + 1 :].split("-")
            longer = ("-".join([name, *parts[:end]]) for end in range(1, len(parts) + 1))
            return any(others.of(other) for other in longer if other != name)

        found = [event for event in self._reflectors[EVENTS.plural].of(name) if not foreign(event)]
        return found[-MAX_EVENTS:]

    def _notify(self, owners: Iterable[str]) -> None:
        with self._lock:
            wakers = [waker for owner in owners for waker in self._waiting.get(owner, ())]
        for waker in wakers:
            waker.notify()

    def stop(self) -> None:
        """End all threads soon."""
        for reflector in self._reflectors.values():
            reflector.stop()


def pods_of_this(pods: list[RawObject], job: RawObject | None, jobset: RawObject | None) -> list[RawObject]:
    """The pods of this very TrainJob: those that an earlier one of the same name left behind are not."""
    if jobset is not None:
        uid = jobset["metadata"].get("uid")
        return [p for p in pods if (p["metadata"].get("labels") or {}).get(keys.LABEL_JOBSET_UID) in (uid, None)]
    if job is None:
        return pods
    made = job["metadata"].get("creationTimestamp") or ""
    return [p for p in pods if (p["metadata"].get("creationTimestamp") or made) >= made]


def newest(objects: list[RawObject]) -> RawObject | None:
    """The one made last, None of none."""
    return max(objects, key=lambda o: o["metadata"].get("creationTimestamp") or "", default=None)


# -- one hub a namespace and process ----------------------------------------------------------------------------------


class _Shared:
    """A hub and how many use it."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.users = 0
        self.timer: threading.Timer | None = None


_hubs: dict[Address, _Shared] = {}
_hubs_lock = threading.Lock()


class HubLease:
    """A waiter's share in the hub of its namespace; ``waker.close`` gives it back."""

    def __init__(self, hub: Hub, waker: Waker) -> None:
        self.hub = hub
        self.waker = waker


def hub_of(cluster: Cluster, name: str) -> HubLease:
    """Subscribe to a TrainJob at the one hub of this cluster, user and namespace; started when there is none.

    The hub has connections of its own: whoever came first may close theirs.
    """
    address = cluster.address
    with _hubs_lock:
        shared = _hubs.get(address)
        if shared is None:
            shared = _hubs[address] = _Shared(Hub(Cluster(address)))
        shared.users += 1
        if shared.timer is not None:
            shared.timer.cancel()
            shared.timer = None
    return HubLease(shared.hub, shared.hub.subscribe(name, lambda _: _leave(address)))


def _leave(address: Address) -> None:
    with _hubs_lock:
        shared = _hubs[address]
        shared.users -= 1
        if shared.users == 0:
            shared.timer = threading.Timer(_LINGER_SECONDS, _end, (address, shared))
            shared.timer.daemon = True
            shared.timer.start()


def _end(address: Address, shared: _Shared) -> None:
    with _hubs_lock:
        if shared.users or _hubs.get(address) is not shared:
            return
        del _hubs[address]
    shared.hub.stop()
