"""The engine's memory: one SQLite file under the root, and the folders beside it.

Many processes have it open at once (submitter, supervisors, worker, triggerer, CLI), so every change is one short
transaction that reads what it changes. WAL: readers never wait for the writer. After a change the TrainJob's
``changed`` file is touched: that, not the database, is what waiters look at. May import: the standard library,
``errors``.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainer_ops.errors import BackendError, Unreachable

__all__ = ["SCHEMA_VERSION", "Store", "decode", "encode"]

SCHEMA_VERSION = 1
BUSY_SECONDS = 20.0

# stage: waiting (for a supervisor, or in the queue), running, suspended, finished.
# want: run, suspend, delete: what its users asked for last; the supervisor follows.
# The long texts come last: what is looked at often is then read without them.
# claim_*: the one supervisor and its guard; NULL when nobody runs it. spawned/spawns: attempts to start a supervisor.
_SCHEMA = """
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counters VALUES ('resourceVersion', 0), ('queue', 0);
CREATE TABLE jobs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  uid TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  max_jobs INTEGER NOT NULL,
  created REAL NOT NULL,
  resumed REAL,
  want TEXT NOT NULL,
  stage TEXT NOT NULL,
  queued INTEGER NOT NULL,
  slot INTEGER NOT NULL DEFAULT 0,
  spawned REAL NOT NULL DEFAULT 0,
  spawns INTEGER NOT NULL DEFAULT 0,
  claim_place TEXT,
  claim_pid INTEGER,
  claim_start TEXT,
  guard_pid INTEGER,
  guard_start TEXT,
  cwd TEXT NOT NULL,
  python TEXT NOT NULL,
  workload TEXT,
  jobset TEXT,
  object TEXT NOT NULL,
  runtime TEXT NOT NULL
);
CREATE UNIQUE INDEX live_name ON jobs (name) WHERE want != 'delete';
CREATE INDEX job_name ON jobs (name);
CREATE TABLE pods (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  uid TEXT NOT NULL UNIQUE,
  job TEXT NOT NULL,
  object TEXT NOT NULL
);
CREATE INDEX pod_job ON pods (job);
CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  job TEXT NOT NULL,
  about TEXT NOT NULL,
  object TEXT NOT NULL
);
CREATE INDEX event_job ON events (job, about);
CREATE TABLE processes (job TEXT NOT NULL, pid INTEGER NOT NULL, start TEXT NOT NULL);
CREATE INDEX process_job ON processes (job);
"""

# Connections that a fork has inherited must be neither used nor closed in the child: kept here, for ever.
_ABANDONED: list[sqlite3.Connection] = []


def encode(value: Any) -> str:
    """An object as it is stored."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def decode(text: str) -> Any:
    """The inverse of ``encode``."""
    return json.loads(text)


class Store:
    """The database and the folders under one root. Safe for threads and across forks.

    Args:
        root: the folder.
        make: make it when it is missing; a supervisor whose root was removed must not.
    """

    def __init__(self, root: str | os.PathLike[str], *, make: bool = True) -> None:
        self._make = make
        self.root = os.path.abspath(root)
        self._idle: list[sqlite3.Connection] = []
        self._file: tuple[int, int] | None = None  # which file they have open: a root may be removed and made again
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = False

    # -- folders -----------------------------------------------------------------------------------------------

    def folder(self, uid: str) -> str:
        """The folder of one TrainJob."""
        return f"{self.root}/jobs/{uid}"

    def log_path(self, uid: str, pod: str, container: str, restart: int) -> str:
        """The log of one run of one container."""
        return f"{self.folder(uid)}/logs/{pod}.{container}.{restart}.log"

    def make_folder(self, uid: str) -> None:
        """Make the folder of a TrainJob, if it is not there; only its owner may look into it."""
        folder = self.folder(uid)
        os.makedirs(f"{folder}/logs", exist_ok=True)
        os.chmod(folder, 0o700)
        with open(f"{folder}/changed", "ab"):
            pass
        if not os.path.exists(f"{folder}/wake"):
            os.mkfifo(f"{folder}/wake", 0o600)

    def remove_folder(self, uid: str) -> None:
        """Remove it with all that is in it; none is no error."""
        import shutil  # late: a supervisor that starts has no use for it

        shutil.rmtree(self.folder(uid), ignore_errors=True)

    def touch(self, uid: str) -> None:
        """Say that something about this TrainJob changed. Its waiters look at the time of this file."""
        now = time.time_ns()
        try:
            os.utime(f"{self.folder(uid)}/changed", ns=(now, now))
        except OSError:
            pass

    def wake(self, uid: str) -> None:
        """Wake its supervisor, if there is one: it reads what is wanted of it."""
        try:
            fifo = os.open(f"{self.folder(uid)}/wake", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return
        try:
            os.write(fifo, b"!")
        except OSError:
            pass
        finally:
            os.close(fifo)

    # -- transactions ------------------------------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One consistent look at the database."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One change of the database; an exception undoes it."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._borrow()
        except (sqlite3.Error, OSError) as error:
            raise self.unusable(error) from error
        try:
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")
        except sqlite3.IntegrityError:
            raise  # a rule of the schema: the caller knows which
        except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
            raise self.unusable(error) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._give_back(connection)

    def unusable(self, error: Exception) -> BackendError:
        """What to raise when files under the root cannot be used."""
        return Unreachable(
            f"the engine's state at {self.root} cannot be used: {error}",
            remedy="Look at the disk's free space and the folder's permissions; the trainings go on meanwhile",
        )

    def _borrow(self) -> sqlite3.Connection:
        with self._lock:
            if self._pid != os.getpid():
                _ABANDONED.extend(self._idle)
                self._idle, self._pid = [], os.getpid()
            stale = []
            if self._idle and self._file != self._identity():
                stale, self._idle = self._idle, []
            idle = self._idle.pop() if self._idle else None
        for connection in stale:
            connection.close()
        if idle is not None:
            return idle
        opened = self._open()
        with self._lock:
            self._file = self._identity()
        return opened

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(f"{self.root}/state.db")
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < 4:
                self._idle.append(connection)
                return
        connection.close()

    def _open(self) -> sqlite3.Connection:
        if self._make:
            os.makedirs(self.root, exist_ok=True, mode=0o700)
        connection = sqlite3.connect(
            f"{self.root}/state.db", timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.row_factory = sqlite3.Row
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version != SCHEMA_VERSION:
                self._make_schema(connection)
            # The file's owner outlives a crash of the machine with at most the last changes lost, never torn ones.
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_schema(self, connection: sqlite3.Connection) -> None:
        _retry_busy(connection, "PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, SCHEMA_VERSION):
            connection.execute("ROLLBACK")
            raise sqlite3.DatabaseError(f"it was written by another version of trainer_ops (schema {version})")
        if version == 0:
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")

    def close(self) -> None:
        """Close the idle connections; idempotent."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            if self._pid != os.getpid():
                _ABANDONED.extend(idle)
                return
        for connection in idle:
            connection.close()


def _retry_busy(connection: sqlite3.Connection, statement: str) -> None:
    """Changing the journal mode does not wait for a busy file by itself, and two first users may meet here."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
