"""The trainings of a target that have ended, look after look, and which of them were told: for who tells each once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer_ops.backends.base import Backend, RawObject
from trainer_ops.errors import BackendError
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.threads import in_thread
from trainer_ops.model.observed import ObservedTrainJob
from trainer_ops.model.phase import Phase

__all__ = ["Ended", "Look", "Told", "looks"]

# Seconds between two looks: at most, when nothing wakes; and at least, when everything does.
_LOOK, _REST = 30.0, 0.5
_MOST_PAUSE = 30.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A training that has ended.

    Attributes:
        job: the TrainJob.
        raw: the same, raw; shared, not to be changed.
        phase: ``SUCCEEDED`` or ``FAILED``.
        at: when it ended, seconds since the epoch.
        reason: the condition's.
        message: the condition's.
    """

    job: ObservedTrainJob
    raw: RawObject
    phase: Phase
    at: float
    reason: str
    message: str

    @classmethod
    def of(cls, raw: RawObject) -> Ended | None:
        """None while it goes on. One with both conditions has trained: the work is done."""
        job = ObservedTrainJob.from_raw(raw)
        for type_, phase in (("Complete", Phase.SUCCEEDED), ("Failed", Phase.FAILED)):
            condition = job.condition(type_)
            if condition is not None and condition.holds:
                at = condition.at if condition.at is not None else job.created_at or 0.0
                return cls(job, raw, phase, at, condition.reason, condition.message)
        return None


@dataclass(slots=True, eq=False)
class Look:
    """One look at a target.

    Attributes:
        backend: the target.
        ended: those that have ended, the earliest first.
        standing: uids of all that are there, ended or not.
        stored: set when what was told because of this look is stored for good by who heard it; ``void``: it is not.
        unfinished: set by who could not tell all of it at once: the next look is to come soon.
    """

    backend: Backend
    ended: tuple[Ended, ...]
    standing: frozenset[str]
    stored: asyncio.Event = field(default_factory=asyncio.Event)
    void: bool = False
    unfinished: bool = False

    @classmethod
    def of(cls, backend: Backend, raws: Collection[RawObject]) -> Look:
        """From an overview."""
        ended = [found for raw in raws if (found := Ended.of(raw)) is not None]
        uids = frozenset(str(raw["metadata"]["uid"]) for raw in raws)
        return cls(backend, tuple(sorted(ended, key=lambda e: (e.at, e.job.name))), uids)


async def looks(backend: Backend, *, clock: Clock, note: Callable[[str], object]) -> AsyncGenerator[Look, None]:
    """Looks without end: one when something has ended, and one every half minute for who joins later.

    Args:
        backend: the target.
        clock: what sleeps.
        note: told when the target does not answer, and when it does again; it is asked until it does.
    """
    watch = backend.watch_all()
    last, shown = Look(backend, (), frozenset(), unfinished=True), frozenset[str]()
    due, pause, rest = 0.0, 0.0, _REST
    try:
        while True:
            try:
                look = Look.of(backend, await in_thread(backend.overview))
            except BackendError as error:
                if not pause:
                    note(f"no answer from {backend.target}: {error}; trying again")
                pause = min(max(1.0, 2 * pause), _MOST_PAUSE)
                await clock.asleep(pause)
                continue
            if pause:
                note(f"{backend.target} answers again")
                pause = 0.0
            uids = frozenset(ended.job.uid for ended in look.ended)
            if uids != shown or clock.now() >= due or last.unfinished:
                last, shown, due, rest = look, uids, clock.now() + _LOOK, _REST
                yield look
            await clock.asleep(_REST)
            if not last.unfinished:
                left = max(0.0, due - clock.now())
                # Who hears of it takes a while to tell it, and may find only then that it is not all of it for now.
                await clock.asleep(left if last.stored.is_set() else min(left, rest), watch)
                rest *= 2
    finally:
        watch.close()


class Told:
    """Which trainings were told: a watermark that does not trust clocks.

    It keeps the uids of those that still stand: exact, whatever order they are seen in and whatever time they say. Only
    when there are very many, those that ended first are summed up by a time: what had ended by then was told.
    """

    # What Airflow stores of one key without a complaint is 64 KB.
    LIMIT = 1200

    def __init__(self, uids: Mapping[str, int] | None = None, before: int = 0) -> None:
        self._uids = dict(uids or {})
        self._before = before

    def __contains__(self, ended: Ended) -> bool:
        return ended.job.uid in self._uids or ended.at < self._before

    def add(self, ended: Iterable[Ended]) -> None:
        """These were told."""
        self._uids.update((one.job.uid, int(one.at)) for one in ended)
        over = len(self._uids) - self.LIMIT
        if over > 0:
            # Of the second in which the first that stays has ended, all stay: others may have ended in it too.
            self._before = max(self._before, sorted(self._uids.values())[over])
            self._uids = {uid: at for uid, at in self._uids.items() if at >= self._before}

    def forget(self, standing: Collection[str]) -> None:
        """Those that do not stand any more never come again."""
        self._uids = {uid: at for uid, at in self._uids.items() if uid in standing}

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"uids": dict(self._uids), "before": self._before}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Told:
        """The inverse of ``to_json``."""
        return cls(data["uids"], data["before"])
