"""What an event trigger has told already, kept where the next triggerer finds it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from trainer_ops.lifecycle.endings import Ended, Look, Told

if TYPE_CHECKING:
    from trainer_ops.airflow.events import TrainJobEventTrigger

__all__ = ["AssetStore", "Reported", "Store", "VariableStore", "store_of"]

_KEY = "trainer_ops_told"


class Store(Protocol):
    """Where it is kept."""

    async def load(self) -> dict[str, Any] | None:
        """What was saved last; None when nothing was."""

    async def save(self, data: dict[str, Any]) -> None:
        """Keep it in place of what was saved before."""


class AssetStore:
    """With the asset that is watched, by Airflow 3.3's ``asset_state_store``."""

    def __init__(self, accessor: Any) -> None:
        self._accessor = accessor

    async def load(self) -> dict[str, Any] | None:
        """What was saved last."""
        found: dict[str, Any] | None = await self._accessor.aget(_KEY)
        return found

    async def save(self, data: dict[str, Any]) -> None:
        """Keep it."""
        await self._accessor.aset(_KEY, data)


class VariableStore:
    """In an Airflow Variable, for versions without that; its name is made from the trigger's arguments."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def load(self) -> dict[str, Any] | None:
        """What was saved last."""
        from airflow.sdk import Variable
        from asgiref.sync import sync_to_async

        text = await sync_to_async(Variable.get)(self.name, default=None)
        return None if text is None else dict(json.loads(text))

    async def save(self, data: dict[str, Any]) -> None:
        """Keep it."""
        from airflow.sdk import Variable
        from asgiref.sync import sync_to_async

        await sync_to_async(Variable.set)(self.name, json.dumps(data), description="trainings told by an asset watcher")


def store_of(trigger: TrainJobEventTrigger) -> Store:
    """Where this trigger's word is kept."""
    store = getattr(trigger, "asset_state_store", None)
    if store is not None:
        return AssetStore(_one(store))
    text = json.dumps(trigger.serialize(), sort_keys=True)
    return VariableStore(f"trainer_ops_events_{hashlib.sha256(text.encode()).hexdigest()[:16]}")


def _one(store: Any) -> Any:
    """The accessor of one asset: the first by name, where several are watched by one trigger."""
    by_name = getattr(store, "_by_name", None) or {}
    return by_name[min(by_name)] if len(by_name) > 1 else store


class Reported:
    """What was told; saved, in order, as soon as it is known to be stored where it was told.

    Attributes:
        told: the trainings that were told, stored or not: none of them is told again by this process.
        unstored: how many of them are not known to be stored.
    """

    def __init__(self, store: Store) -> None:
        self.told = Told()
        self.unstored = 0
        self._store = store
        self._begun = False
        self._waiting: asyncio.Queue[tuple[Look, int, dict[str, Any]]] = asyncio.Queue()
        self._saver: asyncio.Task[None] | None = None

    async def begin(self, look: Look, *, backlog: bool) -> None:
        """At the first look: go on where the last triggerer was, or begin with what ends from now on."""
        if self._begun:
            return
        data = await self._store.load()
        if data is None:
            self.told.add(() if backlog else look.ended)
            await self._store.save(self.told.to_json())
        else:
            self.told = Told.from_json(data)
        self._begun = True
        self._saver = asyncio.create_task(self._save())

    def told_of(self, look: Look, told: Iterable[Ended]) -> None:
        """These were told because of this look."""
        told = tuple(told)
        if not told:
            return
        self.told.add(told)
        self.told.forget(look.standing)
        self.unstored += len(told)
        self._waiting.put_nowait((look, len(told), self.told.to_json()))

    async def close(self) -> None:
        """What is not known to be stored is not saved: the next triggerer tells it again rather than never."""
        if self._saver is not None:
            self._saver.cancel()
            await asyncio.gather(self._saver, return_exceptions=True)

    async def _save(self) -> None:
        while True:
            look, count, data = await self._waiting.get()
            await look.stored.wait()
            if not look.void:
                await self._store.save(data)
            self.unstored -= count
