"""One TrainJob as a hub's mirrors show it, with the two questions asked that mirrors cannot answer.

Each kind has its own watch, and nothing orders one stream against another; nor does a mirror know what has just been
created. So a TrainJob that the mirror does not have, or has under a uid not seen so far, is asked for; and when it has
ended its pods are asked for once more, because what they ended with may still be on its way.
"""

from __future__ import annotations

from trainer_ops.backends.kubernetes.direct import Direct
from trainer_ops.backends.kubernetes.hub import Hub
from trainer_ops.backends.kubernetes.kinds import RawObject
from trainer_ops.backends.kubernetes.lineage import events_of, finished, owner_uid, pods_of, telling, uid_of
from trainer_ops.errors import Forbidden
from trainer_ops.model.observed import Observation

__all__ = ["Sight"]


class Sight:
    """What one backend sees of one TrainJob through a hub. Safe for threads."""

    def __init__(self, hub: Hub, direct: Direct, name: str) -> None:
        self.hub = hub
        self._direct = direct
        self._name = name
        # The uid that the cluster itself has last given; "" as long as none was asked for.
        self._uid = ""

    def observe(self, now: float) -> Observation:
        """What is known now.

        Raises:
            BackendError: the mirror of TrainJobs is behind.
        """
        hub, name = self.hub, self._name
        hub.wait_synced()
        if hub.blind:
            return self._direct.observe(name, now=now)
        job = hub.job(name)
        if job is None or uid_of(job) != self._uid:
            job = self._direct.job(name)
            self._uid = uid_of(job) if job is not None else ""
        if job is None:
            return Observation(now, None)
        mine, others = pods_of(self._uid, hub.pods(name), hub.lineage, standing=job)
        if finished(job):
            mine = self._as_they_ended(mine)
        workload = hub.workload(name)
        return Observation.from_raw(
            now,
            job,
            mine,
            events_of(job, hub.events(name), {uid_of(pod) for pod in others}),
            telling(hub.jobset(name), uid_of(job)),
            workload if workload is not None and owner_uid(workload) == uid_of(job) else None,
            hub.unreadable(),
        )

    def _as_they_ended(self, mirrored: list[RawObject]) -> list[RawObject]:
        try:
            pods = {uid_of(pod): pod for pod in self._direct.pods(self._name, uid=self._uid)}
        except Forbidden:
            return mirrored
        return list({**{uid_of(pod): pod for pod in mirrored}, **pods}.values())
