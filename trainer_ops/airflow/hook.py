"""From an Airflow connection to a target: the one place that knows what a connection's fields mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseHook

from trainer_ops.airflow.cluster import ClusterConnection
from trainer_ops.airflow.compat import exception
from trainer_ops.airflow.provider_info import CONN_TYPE
from trainer_ops.errors import InvalidRequest, TrainerOpsError

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend
    from trainer_ops.model.identity import JobRef

__all__ = ["TrainerHook", "target_of"]

_CLUSTER = "kubernetes"


class TrainerHook(BaseHook):  # type: ignore[misc]  # Airflow is Any to mypy
    """Opens the target that a connection names.

    Args:
        conn_id: a connection of type ``trainer-local`` (this machine) or ``kubernetes`` (a cluster). None: the target
            in ``TRAINER_OPS_TARGET``, else the engine in the user's own state folder.
        namespace: instead of the connection's; the engine on this machine knows no namespaces.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "trainer_local_default"
    conn_type = CONN_TYPE
    hook_name = "Trainer on this machine"

    def __init__(self, conn_id: str | None = None, namespace: str | None = None) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.namespace = namespace

    def get_conn(self) -> Backend:
        """The target, opened. The caller closes it.

        Raises:
            InvalidRequest: there is no such connection, or it names no target that can be opened.
        """
        return self.open(self._lookup())

    async def aget_conn(self, ref: JobRef) -> Backend:
        """The target that a training is on, opened without blocking the event loop.

        An engine is found by ``ref`` alone: a triggerer needs no connection for it, and one that was edited in the
        meantime does not lead elsewhere.
        """
        from trainer_ops.lifecycle.target import open_backend
        from trainer_ops.lifecycle.threads import in_thread

        if self.conn_id is None or ref.target.startswith("local:"):
            return await in_thread(lambda: open_backend(ref.target))
        conn = await self._alookup()
        return await in_thread(lambda: self.open(conn))

    async def afind(self) -> Any:
        """The connection, looked up without blocking the event loop; None where none is named. For ``open``."""
        return None if self.conn_id is None else await self._alookup()

    def test_connection(self) -> tuple[bool, str]:
        """Whether the target answers, and what it says; for the button in Airflow's connection form."""
        try:
            backend = self.get_conn()
            try:
                known = [str(runtime["metadata"]["name"]) for runtime in backend.runtimes()]
            finally:
                backend.close()
        except TrainerOpsError as exc:
            return False, str(exc)
        return True, f"{backend.target} answers; {len(known)} runtimes: {', '.join(sorted(known)) or 'none'}"

    def open(self, conn: Any) -> Backend:
        """The target that a connection names, opened; None: see ``conn_id``. The caller closes it."""
        from trainer_ops.lifecycle.target import open_backend

        if conn is not None and conn.conn_type == _CLUSTER:
            return ClusterConnection.of(conn, self.namespace).open()
        return open_backend(None if conn is None else target_of(conn, self.namespace))

    def _lookup(self) -> Any:
        if self.conn_id is None:
            return None
        try:
            return self.get_connection(self.conn_id)
        except exception("AirflowNotFoundException") as exc:
            raise _no_connection(self.conn_id) from exc

    async def _alookup(self) -> Any:
        """The connection from inside an event loop; before Airflow 3.2 only a thread of asgiref may ask for it."""
        find = getattr(self, "aget_connection", None)
        if find is None:
            from asgiref.sync import sync_to_async

            find = sync_to_async(self.get_connection)
        try:
            return await find(self.conn_id)
        except exception("AirflowNotFoundException") as exc:
            raise _no_connection(str(self.conn_id)) from exc


def _no_connection(conn_id: str) -> InvalidRequest:
    return InvalidRequest(
        "conn_id",
        f'there is no connection "{conn_id}"',
        f"Make one of type {CONN_TYPE} or kubernetes, or set AIRFLOW_CONN_{conn_id.upper()}",
    )


def target_of(conn: Any, namespace: str | None = None) -> str:
    """The target URL that a connection stands for.

    Raises:
        InvalidRequest: a connection of another type, or with fields that make no target.
    """
    # A connection given as text (a URI or JSON in the environment) has its type's dashes turned into underscores.
    kind = str(conn.conn_type or "").replace("_", "-")
    make = _TARGETS.get(kind)
    if make is None:
        raise InvalidRequest(
            "conn_id",
            f'connection "{conn.conn_id}" has the type "{conn.conn_type}"',
            f"Name one of type {' or '.join(_TARGETS)}",
        )
    return make(conn, namespace)


def _local_target(conn: Any, _namespace: str | None) -> str:
    """``trainer-local``: fields ``root`` and ``max_jobs``; as a URI also ``trainer-local:///var/lib/trainings``."""
    from trainer_ops.lifecycle.target import default_target

    extra = conn.extra_dejson
    given = str(extra.get("root") or "") or (f"/{conn.schema}" if conn.schema else "")
    jobs = _max_jobs(conn, extra)
    target = f"local://{quote(str(_absolute(given)))}" if given else default_target()
    return f"{target}?max_jobs={jobs}" if jobs and target.startswith("local:") else target


def _absolute(root: str) -> Path:
    """Relative to AIRFLOW_HOME and not to the working folder, which differs between worker and triggerer."""
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    return (home / Path(root).expanduser()).absolute()


def _max_jobs(conn: Any, extra: Mapping[str, Any]) -> int | None:
    value = extra.get("max_jobs")
    if value in (None, ""):
        return None
    text = str(value)
    if not text.isdigit() or int(text) < 1:
        raise InvalidRequest(
            "max_jobs",
            f'{text!r} in connection "{conn.conn_id}" is no whole number from 1',
            "Correct it, or empty it",
        )
    return int(text)


_TARGETS: dict[str, Callable[[Any, str | None], str]] = {
    CONN_TYPE: _local_target,
    _CLUSTER: lambda conn, namespace: ClusterConnection.of(conn, namespace).target,
}
