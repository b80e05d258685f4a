"""What the rows of the engine's database mean: every SQL statement about TrainJobs, pods, events and claims.

All functions take a connection inside a transaction of ``store``; none opens one, so that a caller can do several
things at once. May import: the standard library, ``store``, ``objects``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainer_ops.local.objects import new_event
from trainer_ops.local.store import decode, encode

__all__ = [
    "EVENT_LIMIT",
    "add_event",
    "add_process",
    "bump",
    "change_job",
    "claim",
    "drop_job",
    "drop_pods",
    "events_of",
    "insert_job",
    "job_by_uid",
    "live_job",
    "open_jobs",
    "pods_of",
    "processes_of",
    "put_pod",
    "queue_place",
    "release",
    "take_slot",
]

Raw = dict[str, Any]
EVENT_LIMIT = 200


def bump(connection: sqlite3.Connection, counter: str) -> int:
    """The next value of a counter."""
    connection.execute("UPDATE counters SET value = value + 1 WHERE name = ?", (counter,))
    row = connection.execute("SELECT value FROM counters WHERE name = ?", (counter,)).fetchone()
    return int(row["value"])


def insert_job(connection: sqlite3.Connection, job: Raw, runtime: Mapping[str, Any], **columns: Any) -> Raw:
    """Store a new TrainJob.

    Raises:
        sqlite3.IntegrityError: a live one has the name.
    """
    meta = job["metadata"]
    meta["resourceVersion"] = str(bump(connection, "resourceVersion"))
    values = {
        "uid": meta["uid"],
        "name": meta["name"],
        "object": encode(job),
        "runtime": encode(runtime),
        "queued": bump(connection, "queue"),
        **columns,
    }
    names = ", ".join(values)
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", tuple(values.values()))
    return job


def live_job(connection: sqlite3.Connection, name: str) -> sqlite3.Row | None:
    """The row of the TrainJob of that name; one that is being deleted is not there any more."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM jobs WHERE name = ? AND want != 'delete'", (name,)
    ).fetchone()
    return row


def job_by_uid(connection: sqlite3.Connection, uid: str) -> sqlite3.Row | None:
    """The row of that uid, also while it is being deleted."""
    row: sqlite3.Row | None = connection.execute("SELECT * FROM jobs WHERE uid = ?", (uid,)).fetchone()
    return row


def open_jobs(connection: sqlite3.Connection, uid: str | None = None) -> list[sqlite3.Row]:
    """The rows (of all TrainJobs or one) that somebody should be working on: to run, to stop or to remove."""
    columns = "uid, name, want, stage, spawned, spawns, python, claim_place, claim_pid, claim_start"
    query = (
        f"SELECT {columns}, guard_pid, guard_start FROM jobs"
        " WHERE (stage IN ('waiting', 'running') OR claim_pid IS NOT NULL OR want = 'delete')"
    )
    if uid is not None:
        return connection.execute(f"{query} AND uid = ?", (uid,)).fetchall()
    return connection.execute(f"{query} ORDER BY seq").fetchall()


def change_job(connection: sqlite3.Connection, uid: str, change: Callable[[Raw], None], **columns: Any) -> Raw | None:
    """Read a TrainJob, let ``change`` alter it, write it back with a new resourceVersion; None when it is gone."""
    row = job_by_uid(connection, uid)
    if row is None:
        return None
    job: Raw = decode(row["object"])
    change(job)
    job["metadata"]["resourceVersion"] = str(bump(connection, "resourceVersion"))
    columns["object"] = encode(job)
    _set(connection, uid, columns)
    return job


def _set(connection: sqlite3.Connection, uid: str, columns: Mapping[str, Any]) -> None:
    assignments = ", ".join(f"{name} = ?" for name in columns)
    connection.execute(f"UPDATE jobs SET {assignments} WHERE uid = ?", (*columns.values(), uid))


def drop_job(connection: sqlite3.Connection, uid: str) -> None:
    """Forget a TrainJob and all that it owns."""
    for table, column in (("jobs", "uid"), ("pods", "job"), ("events", "job"), ("processes", "job")):
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (uid,))


# -- pods, events, processes -----------------------------------------------------------------------------------


def put_pod(connection: sqlite3.Connection, job: str, pod: Raw) -> None:
    """Store a pod, new or changed."""
    meta = pod["metadata"]
    meta["resourceVersion"] = str(bump(connection, "resourceVersion"))
    changed = connection.execute("UPDATE pods SET object = ? WHERE uid = ?", (encode(pod), meta["uid"]))
    if changed.rowcount == 0:
        connection.execute("INSERT INTO pods (uid, job, object) VALUES (?, ?, ?)", (meta["uid"], job, encode(pod)))


def pods_of(connection: sqlite3.Connection, job: str) -> list[Raw]:
    """The pods of a TrainJob, oldest first."""
    rows = connection.execute("SELECT object FROM pods WHERE job = ? ORDER BY seq", (job,))
    return [decode(row["object"]) for row in rows]


def drop_pods(connection: sqlite3.Connection, job: str) -> None:
    """Forget the pods of a TrainJob and the processes noted for them."""
    connection.execute("DELETE FROM pods WHERE job = ?", (job,))
    connection.execute("DELETE FROM processes WHERE job = ?", (job,))


def add_event(
    connection: sqlite3.Connection,
    job: str,
    kind: str,
    name: str,
    reason: str,
    message: str,
    *,
    now: float,
    warning: bool = False,
    namespace: str = "default",
) -> None:
    """Add an event, or count one up that says the same about the same; the oldest over the limit are dropped."""
    event = new_event(kind, name, reason, message, warning=warning, now=now, namespace=namespace)
    about = encode([kind, name, reason, message])
    old = connection.execute("SELECT seq, object FROM events WHERE job = ? AND about = ?", (job, about)).fetchone()
    if old is not None:
        first = decode(old["object"])
        count = (first.get("series") or {}).get("count", 1) + 1
        event["metadata"], stamp = first["metadata"], event["eventTime"]
        event["eventTime"] = first["eventTime"]
        event["series"] = {"count": count, "lastObservedTime": stamp}
        connection.execute("DELETE FROM events WHERE seq = ?", (old["seq"],))
    seq = connection.execute(
        "INSERT INTO events (job, about, object) VALUES (?, ?, ?)", (job, about, encode(event))
    ).lastrowid
    event["metadata"]["name"] = event["metadata"].get("name") or f"{name}.{seq:x}"
    connection.execute("UPDATE events SET object = ? WHERE seq = ?", (encode(event), seq))
    connection.execute(
        "DELETE FROM events WHERE job = ? AND seq NOT IN"
        " (SELECT seq FROM events WHERE job = ? ORDER BY seq DESC LIMIT ?)",
        (job, job, EVENT_LIMIT),
    )


def events_of(connection: sqlite3.Connection, job: str) -> list[Raw]:
    """The events about a TrainJob and what it owns, oldest first."""
    rows = connection.execute("SELECT object FROM events WHERE job = ? ORDER BY seq", (job,))
    return [decode(row["object"]) for row in rows]


def add_process(connection: sqlite3.Connection, job: str, pid: int, start: str) -> None:
    """Note the first process of a container: its pid is also the number of its session."""
    connection.execute("INSERT INTO processes VALUES (?, ?, ?)", (job, pid, start))


def processes_of(connection: sqlite3.Connection, job: str) -> list[tuple[int, str]]:
    """What was noted: pid and start."""
    rows = connection.execute("SELECT pid, start FROM processes WHERE job = ?", (job,))
    return [(row["pid"], row["start"]) for row in rows]


# -- claims and places -----------------------------------------------------------------------------------------


def claim(connection: sqlite3.Connection, uid: str, holder: Iterable[Any]) -> bool:
    """Become the one supervisor of a TrainJob that is to run.

    Args:
        connection: in a write transaction.
        uid: the TrainJob.
        holder: place, pid, start, guard's pid, guard's start.
    """
    changed = connection.execute(
        "UPDATE jobs SET claim_place = ?, claim_pid = ?, claim_start = ?, guard_pid = ?, guard_start = ?"
        " WHERE uid = ? AND claim_pid IS NULL AND want = 'run' AND stage = 'waiting'",
        (*holder, uid),
    )
    return changed.rowcount == 1


def release(connection: sqlite3.Connection, uid: str, stage: str) -> None:
    """Nobody runs it any more; its place is free."""
    connection.execute(
        "UPDATE jobs SET stage = ?, slot = 0, spawned = 0, spawns = 0, claim_place = NULL, claim_pid = NULL,"
        " claim_start = NULL, guard_pid = NULL, guard_start = NULL WHERE uid = ?",
        (stage, uid),
    )
    connection.execute("DELETE FROM processes WHERE job = ?", (uid,))


def queue_place(connection: sqlite3.Connection, uid: str) -> tuple[int, int, int]:
    """How many run, how many may, and how many wait before this one."""
    row = connection.execute("SELECT queued, max_jobs FROM jobs WHERE uid = ?", (uid,)).fetchone()
    running = connection.execute("SELECT count(*) FROM jobs WHERE slot = 1").fetchone()[0]
    ahead = connection.execute(
        "SELECT count(*) FROM jobs WHERE stage = 'waiting' AND want = 'run' AND slot = 0 AND queued < ?",
        (row["queued"],),
    ).fetchone()[0]
    return int(running), int(row["max_jobs"]), int(ahead)


def take_slot(connection: sqlite3.Connection, uid: str) -> tuple[bool, str]:
    """Take a place to run in, when it is this one's turn; otherwise why not, for a person."""
    running, limit, ahead = queue_place(connection, uid)
    if running + ahead < limit:
        connection.execute("UPDATE jobs SET slot = 1, stage = 'running' WHERE uid = ?", (uid,))
        return True, ""
    return False, f"{running} of {limit} trainings run on this machine; {ahead} ahead"
