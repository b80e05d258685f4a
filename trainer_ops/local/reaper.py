"""TrainJobs that lost their supervisor, or never got one: found by whoever looks, ended or started for good.

A ghost (state says it runs, nothing does) and a leftover process (something runs, no state says so) are both impossible
after ``heal``. May import: ``store``, ``records``, ``objects``, ``processes``, ``spawn``.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trainer_ops.local import processes, records
from trainer_ops.local.objects import LOST, set_condition, settle_pod
from trainer_ops.local.processes import Process
from trainer_ops.local.store import Store, decode
from trainer_ops.model.times import rfc3339

__all__ = ["HEARTBEAT_SECONDS", "after_supervisor", "heal", "kill_job", "reap", "remove"]

Raw = dict[str, Any]

UNCLAIMED_SECONDS = 2.0
SPAWN_LIMIT = 5
HEARTBEAT_SECONDS = 5.0
# Only where pids cannot be compared: another machine or container that shares the folder.
STALE_SECONDS = 60.0

SUPERVISOR_KILLED = "the supervisor of this training (pid {pid}) was killed or crashed; all its processes were ended"
GUARD_KILLED = "the guard of this training (pid {pid}) was killed; all its processes were ended"
NEVER_STARTED = "no supervisor could be started for this training in {spawns} attempts; see {log}"


def heal(store: Store, uid: str | None = None) -> None:
    """Put right what nobody works on although somebody should: of one TrainJob or of all."""
    with store.read() as connection:
        rows = records.open_jobs(connection, uid)
    for row in rows:
        _heal_one(store, row)


def _heal_one(store: Store, row: sqlite3.Row) -> None:
    if row["claim_pid"] is not None:
        if not _claim_holds(store, row):
            reap(store, row["uid"], SUPERVISOR_KILLED.format(pid=row["claim_pid"]), claim=row["claim_pid"])
    elif row["want"] == "delete":
        remove(store, row["uid"])
    elif row["want"] == "run" and row["stage"] == "waiting" and time.time() - row["spawned"] > UNCLAIMED_SECONDS:
        _start_again(store, row)


def _claim_holds(store: Store, row: sqlite3.Row) -> bool:
    """Whether supervisor or guard is there: the guard of a dead supervisor ends the TrainJob itself."""
    if row["claim_place"] == processes.place():
        holders = ((row["claim_pid"], row["claim_start"]), (row["guard_pid"], row["guard_start"]))
        return any(processes.is_alive(pid, start) for pid, start in holders)
    try:
        beat = os.stat(f"{store.folder(row['uid'])}/alive").st_mtime
    except OSError:
        return False
    return time.time() - beat < STALE_SECONDS


def _start_again(store: Store, row: sqlite3.Row) -> None:
    """The submitter died between storing and starting, or a supervisor died before it had claimed."""
    from trainer_ops.local.spawn import start_supervisor

    uid, now = row["uid"], time.time()
    if row["spawns"] >= SPAWN_LIMIT:
        text = NEVER_STARTED.format(spawns=row["spawns"], log=f"{store.folder(uid)}/supervisor.log")
        reap(store, uid, text, claim=None)
        return
    with store.write() as connection:
        mine = connection.execute(
            "UPDATE jobs SET spawned = ?, spawns = spawns + 1 WHERE uid = ? AND claim_pid IS NULL AND spawned = ?",
            (now, uid, row["spawned"]),
        )
        won = mine.rowcount == 1
    if won:
        store.make_folder(uid)
        start_supervisor(store, uid, row["python"])


# -- ending ------------------------------------------------------------------------------------------------------


def after_supervisor(root: str, uid: str, supervisor: int) -> None:
    """The guard's part: its supervisor has ended without having finished."""
    # Whatever the state says, and even if there is none any more: what descends from us is ours to end.
    processes.kill_all(lambda: _below(uid, os.getpid()))
    store = Store(root, make=False)
    reap(store, uid, SUPERVISOR_KILLED.format(pid=supervisor), claim=supervisor, below=os.getpid())
    store.close()


def _below(uid: str, pid: int) -> list[Process]:
    return [p for p in processes.descendants(pid, processes.snapshot()) if _belongs(p, uid, True)]


def reap(store: Store, uid: str, why: str, *, claim: int | None, below: int | None = None) -> None:
    """Kill what is left of a TrainJob, then make it what it has to be: Failed, or what was wanted of it before.

    Args:
        store: where it is.
        uid: the TrainJob.
        why: the message of the condition and the event.
        claim: the pid of the supervisor that is gone (None: there never was one); with another one nothing happens.
        below: also kill what descends from this process (which is spared): guard or supervisor.
    """
    with _one_at_a_time(store):
        _reap(store, uid, why, claim, below)
    store.touch(uid)


@contextmanager
def _one_at_a_time(store: Store) -> Iterator[None]:
    """Two who reap the same at once: the later could kill what was started anew after the earlier."""
    try:
        lock = os.open(f"{store.root}/reaper.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise store.unusable(error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _reap(store: Store, uid: str, why: str, claim: int | None, below: int | None) -> None:
    with store.read() as connection:
        row = records.job_by_uid(connection, uid)
    if row is None or row["claim_pid"] != claim:
        return
    kill_job(store, uid, below=below)
    with store.write() as connection:
        row = records.job_by_uid(connection, uid)
        if row is None or row["claim_pid"] != claim:
            return
        if row["want"] != "delete":
            _settle(connection, row, why)
    if row["want"] == "delete":
        remove(store, uid)


def kill_job(store: Store, uid: str, *, below: int | None = None, spare: tuple[int, ...] = ()) -> bool:
    """SIGKILL every process of a TrainJob: marked, in a noted session, writing its logs, or below that process.

    Returns:
        False when some would not die.
    """
    with store.read() as connection:
        noted = records.processes_of(connection, uid)
    select = _victims(uid, noted, below, {os.getpid(), *spare}, folder=store.folder(uid))
    return processes.kill_all(select, looks=1 if below else 2)


def _victims(
    uid: str, noted: list[tuple[int, str]], below: int | None, spare: set[int], *, folder: str
) -> Callable[[], list[Process]]:
    starts = dict(noted)

    def select() -> list[Process]:
        everything = processes.snapshot()
        # A number that now belongs to another process is no session of ours.
        sessions = {pid for pid, start in starts.items() if pid not in everything or everything[pid].start == start}
        under = {p.pid for p in processes.descendants(below, everything)} if below else set()
        return [
            p
            for p in everything.values()
            if p.pid not in spare
            and _belongs(p, uid, p.session in sessions or p.pid in under or processes.writes_below(p.pid, folder))
        ]

    return select


def _belongs(process: Process, uid: str, related: bool) -> bool:
    """A relative that carries another TrainJob's marker was submitted by the training and has a life of its own."""
    marker = processes.marker_of(process.pid)
    return marker == uid or (related and not marker)


def _settle(connection: sqlite3.Connection, row: sqlite3.Row, why: str) -> None:
    uid, now = row["uid"], time.time()
    job = decode(row["object"])
    ended = any(
        c["status"] == "True" and c["type"] in ("Complete", "Failed")
        for c in (job.get("status") or {}).get("conditions") or ()
    )
    if not ended and row["want"] == "suspend":
        records.drop_pods(connection, uid)
        records.release(connection, uid, "suspended")
        return
    for pod in records.pods_of(connection, uid):
        if _lose_pod(pod, why, now):
            records.put_pod(connection, uid, pod)
    if not ended:
        records.change_job(connection, uid, lambda job: _lose_job(job, why, now))
        records.add_event(connection, uid, "TrainJob", row["name"], LOST, why, now=now, warning=True)
    records.release(connection, uid, "finished")


def _lose_job(job: Raw, why: str, now: float) -> None:
    set_condition(job, "Failed", True, LOST, why, now)
    for counts in job["status"].get("jobsStatus") or ():
        if counts["active"]:
            counts.update(active=0, ready=0, failed=1)


def _lose_pod(pod: Raw, why: str, now: float) -> bool:
    status = pod["status"]
    if status["phase"] in ("Succeeded", "Failed"):
        return False
    status.update(phase="Failed", reason="NodeLost", message=why)
    for container in status["containerStatuses"]:
        running = container["state"].get("running")
        if running:
            ended = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": why}
            ended.update(startedAt=running["startedAt"], finishedAt=rfc3339(now, micro=True))
            container.update(state={"terminated": ended}, ready=False)
    settle_pod(pod, now)
    return True


def remove(store: Store, uid: str) -> None:
    """The folder first: one who is killed between the two leaves a row, and with it something to be found."""
    store.remove_folder(uid)
    with store.write() as connection:
        records.drop_job(connection, uid)
