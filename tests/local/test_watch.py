from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

GATE = """
import os, sys, time
print("on", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print("off", flush=True)
while True:
    time.sleep(1)
"""


def quiet(watch: Any) -> None:
    """Until nothing has changed for a while."""
    while watch.wait(0.5):
        pass


def test_changes_and_logs_wake(engine: Any, tmp_path: Path) -> None:
    engine.create("seen", [sys.executable, "-c", GATE, str(tmp_path / "gate")])
    engine.printed("seen", "on")
    watch = engine.backend.watch("seen")
    quiet(watch)
    assert watch.wait(0.05) is False
    (tmp_path / "gate").touch()
    assert watch.wait(30)
    engine.printed("seen", "off")
    quiet(watch)
    engine.backend.set_suspended("seen", True)
    assert watch.wait(30)
    watch.close()
    watch.close()


def test_it_wakes_without_blocking_the_event_loop(engine: Any, tmp_path: Path) -> None:
    engine.create("seen", [sys.executable, "-c", GATE, str(tmp_path / "gate")])
    engine.printed("seen", "on")
    watch = engine.backend.watch("seen")
    quiet(watch)

    async def both() -> tuple[bool, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticker = asyncio.create_task(tick())
        assert not await watch.wait_async(0.2)
        (tmp_path / "gate").touch()
        woken = await watch.wait_async(30)
        ticker.cancel()
        return woken, ticks

    woken, ticks = asyncio.run(both())
    assert woken
    assert ticks > 3


def test_it_sees_one_that_is_created_later_and_its_deletion(engine: Any) -> None:
    watch = engine.backend.watch("later")
    assert watch.wait(0.05) is False
    uid = engine.create("later", "pass")
    assert watch.wait(30)
    engine.finished("later")
    engine.settled(uid)
    quiet(watch)
    engine.deleted("later", uid)
    assert watch.wait(30)
    engine.create("later", "pass")
    quiet(watch)
    assert engine.finished("later").job.uid != uid


def test_close_wakes_the_waiter(engine: Any) -> None:
    watch = engine.backend.watch("nothing")
    timer = threading.Timer(0.1, watch.close)
    timer.start()
    began = time.monotonic()
    assert watch.wait(60)
    assert time.monotonic() - began < 50
    timer.join()
