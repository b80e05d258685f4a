"""The side of the shared stream that Airflow 3.3 asks for: it says when events are in its database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from airflow.triggers.shared_stream import SharedStreamProducer

if TYPE_CHECKING:
    from trainer_ops.airflow.events import TrainJobEventTrigger
    from trainer_ops.lifecycle.endings import Look

__all__ = ["Producer"]


class Producer(SharedStreamProducer):  # type: ignore[misc]  # Airflow is Any to mypy
    """Looks at one target, for all its watchers.

    There is nothing to acknowledge at a cluster: each watcher keeps what it told, when it hears that it is stored.
    """

    def __init__(self, trigger: TrainJobEventTrigger) -> None:
        self._trigger = trigger

    async def open_stream(self) -> AsyncIterator[tuple[Look, Look]]:
        """Look after look; each is its own payload."""
        async with aclosing(self._trigger.looks()) as looks:
            async for look in looks:
                yield look, look

    async def advance(self, batch: Sequence[Any]) -> None:
        """Of these looks all watchers have told all, and it is stored; or one has failed."""
        for item in batch:
            item.broker_payload.void = item.outcome.failed > 0
            item.broker_payload.stored.set()
