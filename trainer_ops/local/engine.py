"""The embedded engine behind the port: TrainJobs as processes of this machine.

``LocalBackend`` stores what is wanted and reads what is; the work is done by one detached supervisor per TrainJob, so
that any number of processes may open the same root, and any of them may die.
"""

from __future__ import annotations

import difflib
import os
import re
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trainer_ops.backends.base import LogChunk, LogSource, RawObject, RawObjects, Streams
from trainer_ops.errors import AlreadyExists, InvalidRequest, NotFound, PreconditionFailed, Rejected, RuntimeNotFound
from trainer_ops.local import reaper, records
from trainer_ops.local.initialize import check_source
from trainer_ops.local.logs import read_log
from trainer_ops.local.objects import jobs_status, new_trainjob, new_uid, set_suspend
from trainer_ops.local.plan import JobPlan, plan
from trainer_ops.local.spawn import start_supervisor
from trainer_ops.local.store import Store, decode
from trainer_ops.local.surroundings import trial_place
from trainer_ops.local.watch import LocalWatch, RootWatch
from trainer_ops.model import keys
from trainer_ops.model.observed import Observation
from trainer_ops.model.runtime import TrainingRuntime

__all__ = ["NAMESPACE", "LocalBackend", "default_max_jobs"]

NAMESPACE = "default"


def default_max_jobs() -> int:
    """How many trainings run at once when nobody says: one per CPU, at least two."""
    return max(2, os.cpu_count() or 1)


class LocalBackend:
    """The engine at one root folder; implements ``backends.base.Backend``.

    Args:
        root: where state, logs and job folders are; made when it is missing. A local file system (SQLite WAL).
        max_jobs: how many trainings of this root may run at once; later ones queue, first in, first out. It is kept
            with each TrainJob that is created here. None: one per CPU, at least two.
        runtimes: files or folders with (Cluster)TrainingRuntimes, besides the catalogue and ``root/runtimes``.
    """

    def __init__(
        self, root: str | os.PathLike[str], *, max_jobs: int | None = None, runtimes: Sequence[Path] = ()
    ) -> None:
        if max_jobs is not None and max_jobs < 1:
            raise InvalidRequest("max_jobs", f"{max_jobs} is not at least 1", "Give 1 or more, or leave it out")
        self._store = Store(root)
        self._max_jobs = max_jobs
        self._runtime_paths = tuple(runtimes)

    @property
    def root(self) -> Path:
        """The folder that everything is in."""
        return Path(self._store.root)

    @property
    def target(self) -> str:
        """The URL that opens the same engine again."""
        query = f"?max_jobs={self._max_jobs}" if self._max_jobs is not None else ""
        return f"local://{quote(self._store.root)}{query}"

    @property
    def namespace(self) -> str:
        """The one namespace of the engine."""
        return NAMESPACE

    # -- writing -----------------------------------------------------------------------------------------------

    def create(self, manifest: Mapping[str, Any]) -> RawObject:
        """Store a TrainJob and start it; see ``Backend.create``."""
        name = _admit_name(manifest)
        now, uid = time.time(), new_uid()
        job = new_trainjob(manifest, uid=uid, now=now, namespace=NAMESPACE)
        runtime = self._runtime_of(job)
        planned = self._plan(job, runtime, uid)
        suspended = bool(job["spec"]["suspend"])
        if suspended:
            set_suspend(job, True, now)
            job["status"]["jobsStatus"] = jobs_status((s.name, {"suspended": 1}) for s in planned.steps)
        columns = {
            "cwd": _current_folder(),
            "python": sys.executable,
            "max_jobs": self._max_jobs or default_max_jobs(),
            "created": now,
            "want": "suspend" if suspended else "run",
            "stage": "suspended" if suspended else "waiting",
            "spawned": now,
            "spawns": 1,
        }
        try:
            with self._store.write() as connection:
                records.insert_job(connection, job, runtime.raw, **columns)
                wanted = manifest["metadata"].get("namespace")
                if wanted not in (None, "", NAMESPACE):
                    note = f'this machine has one namespace, "{NAMESPACE}": "{wanted}" is not used'
                    records.add_event(connection, uid, "TrainJob", name, "RunsLocally", note, now=now)
        except sqlite3.IntegrityError as error:
            raise AlreadyExists(f'a TrainJob "{name}" exists at {self.target}', status=409) from error
        # From here on it exists. Where we die before it is started, whoever looks next starts it (reaper).
        self._store.make_folder(uid)
        if not suspended:
            start_supervisor(self._store, uid, sys.executable)
        return job

    def _runtime_of(self, job: RawObject) -> TrainingRuntime:
        ref = job["spec"]["runtimeRef"]
        name, kind = str(ref.get("name") or ""), str(ref["kind"])
        raw = self.runtime(name, kind)
        if raw is None:
            known = sorted(name for _, name in self._catalogue())
            close = difflib.get_close_matches(name, known, n=1)
            raise RuntimeNotFound(name, target=self.target, known=known, close=close[0] if close else None)
        return TrainingRuntime.from_raw(raw)

    def _plan(self, job: RawObject, runtime: TrainingRuntime, uid: str) -> JobPlan:
        if job["spec"]["managedBy"] == keys.MULTIKUEUE:
            raise InvalidRequest("spec.managedBy", "this machine has no Kueue", "Leave it out, or choose a cluster")
        place = trial_place(self._store.folder(uid), python=sys.executable, namespace=NAMESPACE)
        planned = plan(job, runtime, place=place)
        for step in planned.steps:
            if step.storage_uri is not None and any(p.main.role == "initializer" for p in step.pods):
                check_source(step.storage_uri, f"spec.initializer.{step.ancestor.partition('-')[0]}.storageUri")
        return planned

    def delete(self, name: str, *, uid: str | None = None) -> bool:
        """Delete a TrainJob and stop what it runs; see ``Backend.delete``."""
        with self._store.write() as connection:
            row = self._expect(records.live_job(connection, name), name, uid)
            if row is None:
                return False
            connection.execute("UPDATE jobs SET want = 'delete' WHERE uid = ?", (row["uid"],))
        self._store.touch(row["uid"])
        self._store.wake(row["uid"])
        reaper.heal(self._store, row["uid"])  # nobody runs it (any more): remove it at once
        return True

    def set_suspended(self, name: str, suspended: bool, *, uid: str | None = None) -> RawObject:
        """Suspend or resume a TrainJob; see ``Backend.set_suspended``."""
        with self._store.write() as connection:
            row = self._expect(records.live_job(connection, name), name, uid)
            if row is None:
                raise NotFound(f'no TrainJob "{name}" at {self.target}', status=404)
            job, start = self._suspend(connection, row, suspended)
        self._store.touch(row["uid"])
        self._store.wake(row["uid"])
        if start:
            start_supervisor(self._store, row["uid"], row["python"])
        else:
            reaper.heal(self._store, row["uid"])
        return job

    def _suspend(self, connection: sqlite3.Connection, row: sqlite3.Row, suspended: bool) -> tuple[RawObject, bool]:
        """The changed TrainJob, and whether a supervisor is to be started for it."""
        uid, now = row["uid"], time.time()
        job: RawObject = decode(row["object"])
        if row["stage"] == "finished" or bool(job["spec"]["suspend"]) == suspended:
            if row["stage"] == "finished":
                job["spec"]["suspend"] = suspended
                records.change_job(connection, uid, lambda stored: stored["spec"].update(suspend=suspended))
            return job, False
        columns: dict[str, Any] = {"want": "suspend" if suspended else "run"}
        idle = row["claim_pid"] is None
        if not suspended:
            columns["resumed"] = now
            if idle:
                queued = records.bump(connection, "queue")
                columns.update(stage="waiting", queued=queued, spawned=now, spawns=1)
        elif idle:
            columns["stage"] = "suspended"

        def change(stored: RawObject) -> None:
            set_suspend(stored, suspended, now)
            for counts in stored["status"].get("jobsStatus") or () if idle else ():
                counts.update(active=0, ready=0, suspended=int(suspended))

        changed = records.change_job(connection, uid, change, **columns)
        assert changed is not None
        return changed, idle and not suspended

    def _expect(self, row: sqlite3.Row | None, name: str, uid: str | None) -> sqlite3.Row | None:
        if row is not None and uid is not None and row["uid"] != uid:
            raise PreconditionFailed(f'the TrainJob "{name}" at {self.target} is another one: its uid is {row["uid"]}')
        return row

    # -- reading -----------------------------------------------------------------------------------------------

    def get(self, name: str) -> RawObject | None:
        """The TrainJob of that name, or None."""
        self._heal(name)
        with self._store.read() as connection:
            row = records.live_job(connection, name)
        return decode(row["object"]) if row is not None else None

    def list(self, labels: Mapping[str, str] | None = None) -> RawObjects:
        """All TrainJobs that carry all these labels, oldest first."""
        reaper.heal(self._store)
        with self._store.read() as connection:
            rows = connection.execute("SELECT object FROM jobs WHERE want != 'delete' ORDER BY seq").fetchall()
        found = [decode(row["object"]) for row in rows]
        wanted = (labels or {}).items()
        return [job for job in found if wanted <= (job["metadata"].get("labels") or {}).items()]

    def overview(self, labels: Mapping[str, str] | None = None) -> RawObjects:
        """``list``: nothing is cheaper here."""
        return self.list(labels)

    def pods(self, name: str, *, uid: str) -> RawObjects:
        """Its pods, also those of a deleted TrainJob that still end."""
        reaper.heal(self._store, uid)
        with self._store.read() as connection:
            return records.pods_of(connection, uid)

    def events(self, name: str, *, uid: str) -> RawObjects:
        """The newest events about it, oldest first."""
        with self._store.read() as connection:
            return records.events_of(connection, uid)

    def observe(self, name: str, *, now: float) -> Observation:
        """Everything about it, of one moment."""
        self._heal(name)
        with self._store.read() as connection:
            row = records.live_job(connection, name)
            if row is None:
                return Observation.from_raw(now, None)
            pods = records.pods_of(connection, row["uid"])
            events = records.events_of(connection, row["uid"])
        jobset, workload = (decode(row[key]) if row[key] else None for key in ("jobset", "workload"))
        return Observation.from_raw(now, decode(row["object"]), pods, events, jobset, workload)

    def _heal(self, name: str) -> None:
        with self._store.read() as connection:
            row = records.live_job(connection, name)
        if row is not None and (row["stage"] in ("waiting", "running") or row["claim_pid"] is not None):
            reaper.heal(self._store, row["uid"])

    def logs(
        self, source: LogSource, *, after: str = "", tail: int | None = None, limit_bytes: int = 1 << 20
    ) -> LogChunk:
        """Lines of one run of one container; see ``Backend.logs``."""
        with self._store.read() as connection:
            row = connection.execute("SELECT job, object FROM pods WHERE uid = ?", (source.pod_uid,)).fetchone()
        if row is None:
            return LogChunk(position=after, ended=True)
        over = _is_over(decode(row["object"]), source)  # before reading: nothing is written after that
        path = self._store.log_path(row["job"], source.pod, source.container, source.restart)
        return read_log(path, after=after, tail=tail, limit_bytes=limit_bytes, over=over)

    def watch(self, name: str) -> LocalWatch:
        """Wake-ups for changes of that TrainJob, its pods and its logs."""

        def find() -> str | None:
            with self._store.read() as connection:
                row = records.live_job(connection, name)
            return str(row["uid"]) if row is not None else None

        return LocalWatch(self._store, find)

    def watch_all(self, labels: Mapping[str, str] | None = None) -> RootWatch:
        """Wake-ups for changes of any TrainJob and its pods."""
        return RootWatch(self._store)

    def exec(self, pod: str, container: str, argv: Sequence[str], streams: Streams) -> int:
        """Run a command as one more process of a container; see ``Backend.exec``."""
        from trainer_ops.local.exec import execute  # late: few ask for it

        return execute(self._store, pod, container, argv, streams)

    # -- runtimes ----------------------------------------------------------------------------------------------

    def runtime(self, name: str, kind: str) -> RawObject | None:
        """The runtime of that name and kind, or None."""
        found = self._catalogue().get((kind, name))
        return dict(found) if found is not None else None

    def runtimes(self) -> RawObjects:
        """The catalogue and the files given; of two with one name the later wins."""
        return [dict(raw) for raw in self._catalogue().values()]

    def apply_runtime(self, manifest: Mapping[str, Any]) -> RawObject:
        """Write it to a file in ``root/runtimes``; see ``Backend.apply_runtime``."""
        from trainer_ops.local.runtime_files import apply  # late: it reads YAML

        meta = manifest["metadata"]
        standing = self.runtime(str(meta["name"]), str(manifest["kind"]))
        wanted = meta.get("namespace")
        if wanted not in (None, "", NAMESPACE):
            reason = f'this machine has one namespace, "{NAMESPACE}"'
            raise InvalidRequest("metadata.namespace", reason, "Leave it out", what="invalid runtime")
        return apply(manifest, standing, own=self.root / "runtimes", others=self._runtime_paths)

    def _catalogue(self) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        from trainer_ops.local.catalogue import catalogue  # late: it reads YAML

        own = self.root / "runtimes"
        return catalogue([*([own] if own.is_dir() else []), *self._runtime_paths]).runtimes

    def close(self) -> None:
        """Close the database; idempotent. Trainings go on."""
        self._store.close()


def _admit_name(manifest: Mapping[str, Any]) -> str:
    """The name, checked as the API server would: paths are made from it here."""
    name = (manifest.get("metadata") or {}).get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest("metadata.name", "is missing", "Give the TrainJob a name")
    if len(name) > 63 or not re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", name):
        remedy = "Use at most 63 of a-z, 0-9 and -, with a letter first and no - at the end"
        raise Rejected(f'TrainJob "{name}" is invalid: metadata.name', status=422, remedy=remedy)
    return name


def _current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.path.expanduser("~")


def _is_over(pod: RawObject, source: LogSource) -> bool:
    """Whether that run of that container has ended; afterwards nothing is written to its log."""
    status = pod["status"]
    if status["phase"] in ("Succeeded", "Failed"):
        return True
    for container in (*status["initContainerStatuses"], *status["containerStatuses"]):
        if container["name"] == source.container:
            ended = "running" not in container["state"] and (
                "terminated" in container["state"] or container["lastState"]
            )
            return bool(container["restartCount"] > source.restart or ended)
    return False
