from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.errors import Unreachable
from trainer_ops.local import records
from trainer_ops.local.objects import new_trainjob, new_uid
from trainer_ops.local.store import SCHEMA_VERSION, Store, decode


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "root")
    yield made
    made.close()


def add(store: Store, name: str, **columns: Any) -> str:
    uid = new_uid()
    job = new_trainjob({"metadata": {"name": name}}, uid=uid, now=0.0, namespace="default")
    values: dict[str, Any] = {
        "cwd": "/",
        "python": "x",
        "max_jobs": 1,
        "created": 0.0,
        "want": "run",
        "stage": "waiting",
    }
    with store.write() as connection:
        records.insert_job(connection, job, {}, **{**values, **columns})
    return uid


def test_one_live_job_of_a_name(store: Store) -> None:
    first = add(store, "a")
    with pytest.raises(sqlite3.IntegrityError):
        add(store, "a")
    with store.write() as connection:
        connection.execute("UPDATE jobs SET want = 'delete' WHERE uid = ?", (first,))
    second = add(store, "a")
    with store.read() as connection:
        row = records.live_job(connection, "a")
    assert row is not None
    assert row["uid"] == second


def test_what_failed_is_undone(store: Store) -> None:
    uid = add(store, "a")

    def fail() -> None:
        with store.write() as connection:
            records.change_job(connection, uid, lambda job: job["metadata"].update(broken=True))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with store.read() as connection:
        row = records.job_by_uid(connection, uid)
    assert row is not None
    assert "broken" not in decode(row["object"])["metadata"]


def test_only_one_claims(store: Store) -> None:
    uid = add(store, "a")
    with store.write() as connection:
        assert records.claim(connection, uid, ("here", 1, "s", 2, "g"))
        assert not records.claim(connection, uid, ("here", 3, "s", 4, "g"))


@pytest.mark.parametrize("columns", [{"want": "suspend"}, {"want": "delete"}, {"stage": "finished"}], ids=str)
def test_what_is_not_to_run_cannot_be_claimed(store: Store, columns: dict[str, str]) -> None:
    uid = add(store, "a", **columns)
    with store.write() as connection:
        assert not records.claim(connection, uid, ("here", 1, "s", 2, "g"))


def test_events_are_counted_and_bounded(store: Store) -> None:
    uid = add(store, "a")
    with store.write() as connection:
        for i in range(3):
            records.add_event(connection, uid, "Pod", "p", "BackOff", "again", now=float(i), warning=True)
        for i in range(records.EVENT_LIMIT - 1):
            records.add_event(connection, uid, "Pod", "p", "Said", str(i), now=10.0 + i)
    with store.read() as connection:
        events = records.events_of(connection, uid)
    assert len(events) == records.EVENT_LIMIT
    assert events[0]["series"]["count"] == 3
    assert events[0]["type"] == "Warning"
    with store.write() as connection:
        records.add_event(connection, uid, "Pod", "p", "Said", "one more", now=999.0)
    with store.read() as connection:
        events = records.events_of(connection, uid)
    assert (len(events), events[0]["reason"], events[-1]["message"]) == (records.EVENT_LIMIT, "Said", "one more")


def test_places_are_given_in_order(store: Store) -> None:
    uids = [add(store, name, max_jobs=2) for name in ("a", "b", "c", "d")]
    with store.write() as connection:
        taken = [records.take_slot(connection, uid) for uid in reversed(uids)]
    assert [ok for ok, _ in taken] == [False, False, True, True]
    assert taken[0][1] == "0 of 2 trainings run on this machine; 3 ahead"


def test_another_schema_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    store = Store(tmp_path)
    with pytest.raises(Unreachable, match="another version"), store.read():
        pass


def test_a_root_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = Store(tmp_path / "file" / "root")
    with pytest.raises(Unreachable, match="cannot be used"), store.read():
        pass


def test_processes_that_open_it_first_at_once(tmp_path: Path) -> None:
    code = """
import sys
from trainer_ops.local.store import Store
from trainer_ops.local import records
store = Store(sys.argv[1])
for _ in range(50):
    with store.write() as connection:
        records.bump(connection, "queue")
store.close()
"""
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "root")]) for _ in range(4)]
    assert [child.wait(60) for child in children] == [0] * 4
    store = Store(tmp_path / "root")
    with store.write() as connection:
        assert records.bump(connection, "queue") == 201
    store.close()


def test_threads_and_forks_share_it(store: Store) -> None:
    def work() -> None:
        for _ in range(50):
            with store.write() as connection:
                records.bump(connection, "queue")

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with store.write() as connection:
        assert records.bump(connection, "queue") == 351


def test_a_root_that_was_removed_is_another_one(store: Store) -> None:
    add(store, "a")
    shutil.rmtree(store.root)
    with store.read() as connection:
        assert records.live_job(connection, "a") is None
    add(store, "a")


def test_uids_are_uuids() -> None:
    import uuid

    assert all(uuid.UUID(new_uid()).version == 4 for _ in range(100))
    assert uuid.UUID(new_uid()).variant == uuid.RFC_4122
