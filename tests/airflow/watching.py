"""A triggerer's process in small: one event trigger over the shared stream of Airflow, its database two files.

    python watching.py EVENTS STATE

Runs until it is killed. An event is stored when it is a line of EVENTS; then that is confirmed, as Airflow does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any


class FileStore:
    """What Airflow injects as ``asset_state_store``, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def aget(self, key: str, default: Any = None) -> Any:
        if not self._path.exists():
            return default
        return json.loads(self._path.read_text()).get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        aside = self._path.with_suffix(".new")
        aside.write_text(json.dumps({key: value}))
        os.replace(aside, self._path)


async def watch(events: Path, state: Path) -> None:
    from airflow.triggers.shared_stream import SharedStreamManager

    from trainer_ops.airflow import TrainJobEventTrigger

    manager = SharedStreamManager()
    trigger = TrainJobEventTrigger(labels={"crowd": "events"}, conn_id="training")
    trigger.asset_state_store = FileStore(state)
    key = trigger.shared_stream_key()
    seqs: list[Any] = []

    async def confirm() -> None:
        # Airflow's supervisor does so once in its turn, about a second later.
        while True:
            await asyncio.sleep(0.5)
            sent, seqs[:] = list(seqs), []
            manager.confirm_persisted(sent)

    confirming = asyncio.create_task(confirm())
    with events.open("a") as file:
        async for event in trigger.filter_shared_stream(manager.subscribe(trigger_id=1, trigger=trigger, key=key)):
            seqs.append(manager.bind_pending_event(trigger_id=1, key=key))
            file.write(json.dumps(event.payload) + "\n")
            file.flush()
    await confirming


if __name__ == "__main__":
    asyncio.run(watch(Path(sys.argv[1]), Path(sys.argv[2])))
