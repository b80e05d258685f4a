"""TrainJobEventTrigger: trainings that end become asset events, and DAGs run because of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from trainer_ops.lifecycle.clock import Clock, RealClock

if TYPE_CHECKING:
    from trainer_ops.lifecycle.endings import Ended, Look
    from trainer_ops.status.until import Until

__all__ = ["TrainJobEventTrigger"]

# So many are told before Airflow has stored them: what a killed triggerer tells again is never more.
_BATCH = 50
# Where Airflow does not say when an event is in its database: it is there after so many seconds.
_STORED_SECONDS = 5.0
# After so many seconds a scheduler has made the run for what was told. What comes before that starts none, and waits
# for the next event (apache/airflow#54659, seen in 3.3.2).
_RUN_SECONDS = 5.0


class TrainJobEventTrigger(BaseEventTrigger):  # type: ignore[misc]  # Airflow is Any to mypy
    """An event for each training that ends, whoever made it, for asset watchers.

    As in::

        ends = TrainJobEventTrigger(labels={"team": "a"}, state="success")
        trained = Asset("trained", watchers=[AssetWatcher(name="trained", trigger=ends)])

        @dag(schedule=[trained])

    Each is told once, by its uid: ``{"name", "namespace", "uid", "target", "phase", "model_uri", "metrics",
    "finished_at", "reason", "message"}`` (``triggering_asset_events``, there under ``extra["payload"]``). What had
    ended before the watcher first ran is not told, unless ``backlog``; what ends while no triggerer runs is told by the
    next one. A training that is deleted before its end, or before a triggerer sees it, is not.

    What was told is kept with the asset (Airflow 3.3's ``asset_state_store``), and only when Airflow has confirmed that
    the event is in its database. So no stop, restart or crash loses one; only what was told in the last second or two
    before a crash, at most 50, comes again then, with the uid it had. Before Airflow 3.3 it is kept in an Airflow
    Variable (``trainer_ops_events_…``), five seconds after the event.

    Of several that end within five seconds the last is told five seconds after the others: until then Airflow (seen in
    3.3.2) may be about to make the run for those, and would start none for it. So a run may be for several: read all
    of ``triggering_asset_events[trained]``.

    Any number of watchers on one target share one look at it, and one watch per kind with all other waits.

    Args:
        labels: only trainings with all these labels; a mapping, or text: ``a=b,c=d``.
        state: ``success``, ``failed`` or ``end`` (the default): which ends are told.
        metric: only those that reported this metric,
        at_least: with at least this value,
        at_most: with at most this value.
        backlog: at the very first start tell what had ended before, too, as far as it still stands.
        conn_id: as ``TrainJobOperator``.
        namespace: as ``TrainJobOperator``.

    Raises:
        InvalidRequest: a state that is no end, a metric without a limit, what is no label.
    """

    def __init__(
        self,
        *,
        labels: Mapping[str, str] | str | None = None,
        state: str = "end",
        metric: str | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
        backlog: bool = False,
        conn_id: str | None = None,
        namespace: str | None = None,
    ) -> None:
        super().__init__()
        self.labels = _wanted(labels)
        self.state = state
        self.metric = metric
        self.at_least = at_least
        self.at_most = at_most
        self.backlog = backlog
        self.conn_id = conn_id
        self.namespace = namespace
        _until(state, metric, at_least, at_most)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Plain JSON, free of secrets. Watchers with equal arguments are one to Airflow."""
        given = {name: getattr(self, name) for name in _DEFAULTS}
        return (
            "trainer_ops.airflow.events.TrainJobEventTrigger",
            {name: value for name, value in given.items() if value != _DEFAULTS[name]},
        )

    def clock(self) -> Clock:
        """What sleeps."""
        return RealClock()

    # -- one look for all watchers of a target ------------------------------------------------------------------------

    def shared_stream_key(self) -> Hashable:
        """Who has the same target shares its looks."""
        return ("trainer_ops.airflow.events", self.conn_id or "", self.namespace or "")

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> Any:
        """Airflow 3.3: looks, each confirmed when all that was told of it is in the database."""
        from trainer_ops.airflow.stream import Producer

        return Producer(cls(**kwargs))

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncGenerator[Look, None]:
        """Where Airflow shares streams without confirming events."""
        async with aclosing(cls(**kwargs).looks()) as looks:
            async for look in looks:
                asyncio.get_running_loop().call_later(_STORED_SECONDS, look.stored.set)
                yield look

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Look]) -> AsyncIterator[TriggerEvent]:
        """This watcher's events."""
        from trainer_ops.airflow.reported import Reported, store_of

        reported, quiet_from = Reported(store_of(self)), 0.0
        try:
            async for look in shared_stream:
                await reported.begin(look, backlog=self.backlog)
                chosen = [ended for ended in look.ended if ended not in reported.told and self._is_meant(ended)]
                quiet = self.clock().now() >= quiet_from
                ready = await self._ready(look, chosen[: max(0, _BATCH - reported.unstored)], quiet=quiet)
                look.unfinished = look.unfinished or len(ready) < len(chosen)
                for payload in filter(self._is_good, ready):
                    yield TriggerEvent(payload)
                    quiet_from = self.clock().now() + _RUN_SECONDS
                reported.told_of(look, chosen[: len(ready)])
        finally:
            await reported.close()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Alone: where Airflow does not share streams."""
        kwargs = self.serialize()[1]
        async with aclosing(type(self).open_shared_stream(kwargs)) as looks:
            async for event in self.filter_shared_stream(looks):
                yield event

    async def looks(self) -> AsyncGenerator[Look, None]:
        """Look after look at the target, without end."""
        from trainer_ops.airflow.leases import leased
        from trainer_ops.lifecycle.endings import looks

        async with (
            leased(self.conn_id, self.namespace) as backend,
            aclosing(looks(backend, clock=self.clock(), note=self.log.warning)) as seen,
        ):
            async for look in seen:
                yield look

    # -- what is told -------------------------------------------------------------------------------------------------

    def _is_meant(self, ended: Ended) -> bool:
        kinds = {"success": "succeeded", "failed": "failed"}
        if kinds.get(self.state, ended.phase.value) != ended.phase.value:
            return False
        return self.labels.items() <= ended.job.labels.items()

    def _is_good(self, payload: Mapping[str, Any]) -> bool:
        from trainer_ops.model.phase import Phase
        from trainer_ops.status.until import Answer

        until = _until(self.state, self.metric, self.at_least, self.at_most)
        return until.judge(Phase(payload["phase"]), payload["metrics"]) is Answer.MET

    async def _ready(self, look: Look, chosen: Sequence[Ended], *, quiet: bool) -> list[dict[str, Any]]:
        """What is told now of these, the first ones; the last event of several, or too soon after others, is not."""
        if len(chosen) == 1 and not quiet:
            return []
        payloads = await asyncio.gather(*(self._payload(look, ended) for ended in chosen))
        ready: list[dict[str, Any]] = []
        for payload in payloads:
            if payload is None:
                break
            ready.append(payload)
        good = [number for number, payload in enumerate(ready) if self._is_good(payload)]
        holds = bool(good) and (len(good) > 1 or not quiet)
        return ready[: good[-1]] if holds else ready

    async def _payload(self, look: Look, ended: Ended) -> dict[str, Any] | None:
        """What is told of a training; None when the target does not say it now."""
        from trainer_ops.errors import BackendError
        from trainer_ops.lifecycle.selection import reported
        from trainer_ops.lifecycle.threads import in_thread
        from trainer_ops.model.times import rfc3339

        job = ended.job
        try:
            result = await in_thread(lambda: reported(look.backend, ended.raw, self.clock().now()))
        except BackendError as error:
            self.log.warning("the result of %s cannot be read now: %s", job.name, error)
            return None
        return {
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.uid,
            "target": look.backend.target,
            "phase": ended.phase.value,
            "model_uri": result.model_uri,
            "metrics": dict(result.metrics),
            "finished_at": rfc3339(ended.at),
            "reason": ended.reason,
            "message": ended.message[:500],
        }


def _until(state: str, metric: str | None, at_least: float | None, at_most: float | None) -> Until:
    from trainer_ops.errors import InvalidRequest
    from trainer_ops.status.until import Until

    if state not in ("success", "failed", "end"):
        raise InvalidRequest("state", f"{state!r} is none of success, failed, end", "Give one of them")
    return Until.of(state, metric=metric, at_least=at_least, at_most=at_most)


def _wanted(labels: Mapping[str, str] | str | None) -> dict[str, str]:
    if not labels:
        return {}  # nothing to import for
    from trainer_ops.lifecycle.selection import wanted_labels

    return wanted_labels(labels)


_DEFAULTS: dict[str, Any] = {
    "labels": {},
    "state": "end",
    "metric": None,
    "at_least": None,
    "at_most": None,
    "backlog": False,
    "conn_id": None,
    "namespace": None,
}
