"""Targets that the triggers of one process share: a thousand waits on one cluster need one client, not a thousand."""

from __future__ import annotations

import asyncio
import hashlib
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from trainer_ops.airflow.hook import TrainerHook
from trainer_ops.lifecycle.threads import in_thread

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend

__all__ = ["leased"]


class _Lease:
    """A target that is being opened, or is open, and how many use it."""

    def __init__(self, opening: asyncio.Task[Backend]) -> None:
        self.opening = opening
        self.users = 0


_leases: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, ...], _Lease]] = (
    weakref.WeakKeyDictionary()
)


@asynccontextmanager
async def leased(conn_id: str | None, namespace: str | None) -> AsyncIterator[Backend]:
    """The target of a connection, open; closed when the last of those who share it is done with it.

    A connection that was edited in the meantime is another one.

    Raises:
        InvalidRequest: there is no such connection, or it names no target.
    """
    hook = TrainerHook(conn_id, namespace)
    conn = await hook.afind()
    # A digest: the text has the connection's secrets in it.
    told = "" if conn is None else hashlib.sha256(conn.get_uri().encode()).hexdigest()
    key = (conn_id or "", namespace or "", told)
    ours = _leases.setdefault(asyncio.get_running_loop(), {})
    lease = ours.get(key)
    if lease is None:
        lease = ours[key] = _Lease(asyncio.ensure_future(in_thread(lambda: hook.open(conn))))
    lease.users += 1
    try:
        # Shielded: who is cancelled must not cancel the others' opening.
        yield await asyncio.shield(lease.opening)
    finally:
        lease.users -= 1
        if not lease.users:
            del ours[key]
            await _close(lease.opening)


async def _close(opening: asyncio.Task[Backend]) -> None:
    try:
        backend = await opening
    except Exception:  # it was never open; who waited for it has heard why
        return
    await in_thread(backend.close)
