"""The one thread pool in which an event loop's backend calls run."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

__all__ = ["in_thread", "pending_calls"]

T = TypeVar("T")

_WORKERS = 32
_pending: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, int] = weakref.WeakKeyDictionary()


@cache
def _pool() -> ThreadPoolExecutor:
    # Ours and not the loop's default one: a triggerer's other work must not wait behind a slow API server.
    return ThreadPoolExecutor(_WORKERS, thread_name_prefix="trainer-ops")


# Airflow and multiprocessing fork: threads do not come along, and a pool without its threads would never answer.
os.register_at_fork(after_in_child=_pool.cache_clear)


async def in_thread(call: Callable[[], T]) -> T:
    """The call's answer, without blocking the loop; at most 32 run at a time in a process."""
    loop = asyncio.get_running_loop()
    _pending[loop] = _pending.get(loop, 0) + 1
    try:
        return await loop.run_in_executor(_pool(), call)
    finally:
        _pending[loop] -= 1


def pending_calls(loop: asyncio.AbstractEventLoop) -> int:
    """Calls that this loop waits for; how a virtual clock knows that nobody is busy."""
    return _pending.get(loop, 0)
