"""Snapshots by the API: here, and by Jobs of a cluster that is a table in memory."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.backends.base import LogChunk, LogSource
from trainer_ops.backends.steps import StepView
from trainer_ops.errors import AlreadyExists, Forbidden, InvalidRequest, Unreachable
from trainer_ops.initializers.provider import Credentials, SnapshotError
from trainer_ops.lifecycle.snapshot_told import Told
from trainer_ops.lifecycle.snapshots import (
    SnapshotWait,
    begin_snapshot,
    cancel_snapshot,
    gc_snapshots,
    list_snapshots,
    made_here,
    see_snapshot,
    take_snapshot,
    verify_snapshot,
)
from trainer_ops.local.engine import LocalBackend
from trainer_ops.model.snapshot import Snapshot
from trainer_ops.testing import MemoryBackend, VirtualClock

SNAPSHOT = Snapshot("dataset", "hf://datasets/a/b", "c0ffee", "5a" * 16, "pvc://data/5a/data", "sha256:1", 2, 8)


class Table:
    """A cluster of Jobs and claims that stand still until a test moves them."""

    target = "kubernetes://prod/team-a"
    namespace = "team-a"

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, Any] = {"trainer-ops-snapshots": {"metadata": {"name": "trainer-ops-snapshots"}}}
        self.log: list[str] = []
        self.on_create: Callable[[str], None] = lambda name: None
        self.on_look: Callable[[str], None] = lambda name: None
        self.on_claim: Callable[[], None] = lambda: None

    @property
    def steps(self) -> Table:
        return self

    def find(self, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        return [copy.deepcopy(row) for row in self.rows.values() if labels.items() <= row["metadata"]["labels"].items()]

    def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        name = manifest["metadata"]["name"]
        if name in self.rows:
            raise AlreadyExists(f"{name} exists")
        row = copy.deepcopy(dict(manifest))
        row["metadata"]["uid"] = f"uid-of-{name}"
        self.rows[name] = row
        self.pods[name] = {"metadata": {"name": f"{name}-x", "uid": f"pod-{name}"}, "spec": {}, "status": {}}
        self.on_create(name)
        return copy.deepcopy(row)

    def get(self, name: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.rows.get(name))

    def look(self, name: str, *, uid: str, claim: str = "") -> StepView:
        self.on_look(name)
        if name not in self.rows:
            return StepView(None)
        return StepView(copy.deepcopy(self.rows[name]), (copy.deepcopy(self.pods[name]),))

    def delete(self, name: str, *, uid: str) -> bool:
        return self.rows.pop(name, None) is not None

    def claim(self, name: str) -> Any:
        self.on_claim()
        return self.claims.get(name)

    def create_claim(self, manifest: Mapping[str, Any]) -> Any:
        self.claims[manifest["metadata"]["name"]] = manifest
        return manifest

    def logs(self, source: LogSource, *, after: str = "", tail: int | None = None, limit_bytes: int = 1) -> LogChunk:
        start = int(after or 0)
        return LogChunk(tuple(self.log[start:]), str(len(self.log)))

    def end(self, name: str, answer: Mapping[str, Any], kind: str = "Complete") -> None:
        """The Job is over."""
        phase, code = ("Succeeded", 0) if kind == "Complete" else ("Failed", 1)
        state = {"terminated": {"exitCode": code, "message": json.dumps(answer)}}
        self.rows[name]["status"] = {"conditions": [{"type": kind, "status": "True", "reason": "x"}]}
        self.pods[name]["status"] = {"phase": phase, "containerStatuses": [{"name": "snapshot", "state": state}]}


@pytest.fixture
def table() -> Any:
    return Table()


@pytest.fixture
def begin(table: Any, clock: VirtualClock) -> Callable[..., SnapshotWait]:
    def make(uri: str = "hf://a/b", **asked: Any) -> SnapshotWait:
        return begin_snapshot(table, uri, clock=clock, **asked)

    return make


class Heard:
    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def on_start(self, files: int, size: int, done: int) -> None:
        self.told.append(("start", files, size, done))

    def on_progress(self, size: int, files: int) -> None:
        self.told.append(("progress", size, files))

    def on_note(self, text: str) -> None:
        self.told.append(("note", text))


# ------------------------------------------------------------------------------------------------------------- here


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "train.csv").write_text("1\n")
    return folder


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    backend = LocalBackend(tmp_path / "engine")
    yield backend
    backend.close()


def test_the_engine_keeps_them_in_a_folder_of_its_root(engine: Any, source: Path, clock: VirtualClock) -> None:
    assert made_here(engine)
    made = take_snapshot(engine, f"file://{source}", clock=clock)
    folder = engine.root / "snapshots" / made.key / "data"
    assert (made.location, made.hit) == (folder.as_uri(), False)
    assert (folder / "train.csv").read_text() == "1\n"
    assert take_snapshot(engine, f"file://{source}", clock=clock).hit


def test_or_where_it_is_told_to(engine: Any, source: Path, clock: VirtualClock, tmp_path: Path) -> None:
    made = take_snapshot(engine, f"file://{source}", to=f"file://{tmp_path}/elsewhere", clock=clock)
    assert made.location == f"file://{tmp_path}/elsewhere/{made.key}/data"
    at: dict[str, Any] = {"to": f"file://{tmp_path}/elsewhere", "clock": clock}
    assert [one.key for one in list_snapshots(engine, **at)] == [made.key]
    assert list_snapshots(engine, clock=clock) == ()
    assert verify_snapshot(engine, made.key, **at) == ()
    assert [one.key for one in gc_snapshots(engine, keep_last=0, **at).snapshots] == [made.key]


def test_a_refresh_makes_a_damaged_one_anew(engine: Any, source: Path, clock: VirtualClock) -> None:
    made = take_snapshot(engine, f"file://{source}", clock=clock)
    file = engine.root / "snapshots" / made.key / "data" / "train.csv"
    file.chmod(0o644)
    file.write_text("spoiled")
    assert take_snapshot(engine, f"file://{source}", clock=clock).hit
    assert not take_snapshot(engine, f"file://{source}", clock=clock, refresh=True).hit
    assert file.read_text() == "1\n"


def test_what_only_a_cluster_uses_is_said(engine: Any, source: Path, clock: VirtualClock) -> None:
    heard = Heard()
    take_snapshot(engine, f"file://{source}", clock=clock, storage="1Gi", secret_ref="s", listener=heard)
    assert heard.told[0] == ("note", f"not used on {engine.target}: secret_ref, storage")


def test_its_time_ends_here_too(engine: Any, source: Path, clock: VirtualClock) -> None:
    class Slow(Heard):
        def on_start(self, files: int, size: int, done: int) -> None:
            clock.advance(60)

    with pytest.raises(SnapshotError, match=r"was not done within 0:30 \(wait_timeout\)") as caught:
        take_snapshot(engine, f"file://{source}", clock=clock, wait_timeout=30, listener=Slow())
    assert caught.value.transient


def test_a_claim_is_no_place_for_it_here(engine: Any, source: Path, clock: VirtualClock) -> None:
    with pytest.raises(InvalidRequest, match="to: pvc://data can be written on its cluster only"):
        take_snapshot(engine, f"file://{source}", to="pvc://data", clock=clock)


def test_a_target_without_a_folder_must_be_told_where(source: Path, clock: VirtualClock) -> None:
    with pytest.raises(InvalidRequest, match=r"to: memory://memory has no store of its own\. Give file:///folder"):
        take_snapshot(MemoryBackend(clock), f"file://{source}", clock=clock)


# ------------------------------------------------------------------------------------------------------ on a cluster

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a folder of this machine": (
        {"uri": "file:///data"},
        "uri: file:///data is on one machine, and the Job runs on kubernetes://prod/team-a",
    ),
    "credentials": (
        {"credentials": Credentials(token="t")},
        "credentials: would stand readable in the Job. Put them into a Secret of the namespace and give secret_ref",
    ),
    "a store on this machine": ({"to": "file:///x"}, "to: file:///x cannot keep a cluster's snapshots"),
    "no such claim": ({"to": "pvc://x"}, 'to: there is no claim "x" in namespace team-a. Give storage'),
    "a scheme that nobody knows": ({"uri": "ftp://x"}, "uri: ftp:// cannot be fetched"),
    "a variable that is a list": ({"env": {"A": [1]}}, "env.A: is a list. Give text or a number"),
}


@pytest.mark.parametrize(("asked", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_before_anything_is_made(
    table: Any, begin: Callable[..., SnapshotWait], asked: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        begin(**asked)
    assert text in str(caught.value)
    assert table.rows == {}


def test_no_cluster_no_job(engine: Any, clock: VirtualClock) -> None:
    with pytest.raises(InvalidRequest, match=r"target: local://.* is no cluster"):
        begin_snapshot(engine, "hf://a/b", clock=clock)


def test_a_claim_is_made_with_the_size_that_is_given(table: Any, begin: Callable[..., SnapshotWait]) -> None:
    heard = Heard()
    begin(to="pvc://new/folder", storage="20Gi", storage_class="fast", access_mode="ReadWriteOnce", listener=heard)
    assert table.claims["new"]["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "20Gi"}},
        "storageClassName": "fast",
    }
    assert heard.told[0] == ("note", "made the claim new of 20Gi")
    begin(to="pvc://new/other", listener=heard)
    assert heard.told[2] == (
        "note",
        "the claim new is ReadWriteOnce: a training on several machines cannot read it on all of them at once",
    )
    begin(to="pvc://new/folder", storage="99Gi")
    assert table.claims["new"]["spec"]["resources"]["requests"]["storage"] == "20Gi"


def test_a_claim_that_leaves_is_no_place(table: Any, begin: Callable[..., SnapshotWait]) -> None:
    table.claims["old"] = {"metadata": {"name": "old", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    with pytest.raises(InvalidRequest, match='to: the claim "old" is being deleted'):
        begin(to="pvc://old")


def test_who_may_not_read_claims_goes_on_without(table: Any, begin: Callable[..., SnapshotWait]) -> None:
    def forbidden() -> None:
        raise Forbidden("no", status=403)

    table.on_claim = forbidden
    assert begin(to="pvc://x").name in table.rows


def test_the_same_ask_is_joined_while_it_goes_on(begin: Callable[..., SnapshotWait]) -> None:
    first, second = begin(revision="main"), begin(revision="main")
    assert (second.uid, first.joined, second.joined) == (first.uid, False, True)
    assert begin(revision="v1").uid != first.uid


def test_a_branch_is_looked_up_anew_by_the_next_call(table: Any, begin: Callable[..., SnapshotWait]) -> None:
    first = begin(revision="main")
    table.end(first.name, SNAPSHOT.to_json())
    second = begin(revision="main")
    assert (second.attempt, second.joined) == (2, False)
    table.end(second.name, {"error": {}}, "Failed")
    assert begin(revision="main").attempt == 3


def test_the_same_asker_has_its_own_answer_and_no_failure(table: Any, begin: Callable[..., SnapshotWait]) -> None:
    first = begin(key="run-1")
    assert not begin(key="run-1").joined
    table.end(first.name, SNAPSHOT.to_json())
    assert begin(key="run-1").uid == first.uid
    assert begin(key="run-2").attempt == 2


def test_a_failed_job_of_the_same_asker_is_followed_by_another(table: Any, begin: Callable[..., SnapshotWait]) -> None:
    table.end(begin(key="run-1").name, {"error": {}}, "Failed")
    assert begin(key="run-1").attempt == 2


def test_a_refresh_joins_nobody_but_itself(begin: Callable[..., SnapshotWait]) -> None:
    first = begin()
    assert begin(refresh=True).uid not in (first.uid, begin(refresh=True).uid)
    assert begin(refresh=True, key="k").uid == begin(refresh=True, key="k").uid


def test_a_creation_whose_answer_was_lost_is_its_own(table: Any, begin: Callable[..., SnapshotWait]) -> None:
    def lose(name: str) -> None:
        # What the client sees when it has tried again.
        raise AlreadyExists(name)

    table.on_create = lose
    wait = begin()
    assert (len(table.rows), wait.attempt, wait.joined) == (1, 1, False)


def test_one_who_was_faster_is_joined_even_when_that_is_over(table: Any, begin: Callable[..., SnapshotWait]) -> None:
    table.end(begin().name, SNAPSHOT.to_json())
    create = table.create
    raced: list[bool] = []

    def slower(manifest: Mapping[str, Any]) -> Any:
        if not raced:
            raced.append(True)
            other = copy.deepcopy(dict(manifest))
            other["metadata"]["annotations"]["trainer-ops/asked-by"] = "other"
            table.end(create(other)["metadata"]["name"], SNAPSHOT.to_json())
        return create(manifest)

    table.create = slower
    wait = begin()
    assert (wait.attempt, wait.joined, len(table.rows)) == (2, True, 2)


def test_a_cluster_that_is_away_is_waited_for(
    table: Any, begin: Callable[..., SnapshotWait], clock: VirtualClock
) -> None:
    wait = begin(unreachable_timeout=60)

    def away(name: str) -> None:
        raise Unreachable("no answer")

    table.on_look = away
    assert see_snapshot(table, wait, clock.now() + 59) == (wait, None)
    with pytest.raises(Unreachable, match=r"no answer\. Job snapshot-b-\w+-1 in namespace team-a may go on"):
        see_snapshot(table, wait, clock.now() + 60)


def test_seen_until_it_is_there(table: Any, begin: Callable[..., SnapshotWait], clock: VirtualClock) -> None:
    wait, heard = begin(), Heard()
    table.pods[wait.name]["status"] = {
        "phase": "Running",
        "containerStatuses": [{"name": "snapshot", "state": {"running": {}}}],
    }
    table.log = ["fetching 2 files, 8 bytes"]
    wait, snapshot = see_snapshot(table, wait, clock.now(), listener=heard)
    assert (snapshot, wait.phase) == (None, "running")
    table.log += ["snapshot 5a is whole: 2 files, 8 bytes", json.dumps(SNAPSHOT.to_json())]
    table.end(wait.name, SNAPSHOT.to_json())
    _, snapshot = see_snapshot(table, wait, clock.now(), listener=heard)
    assert snapshot == SNAPSHOT
    assert heard.told == [("start", 2, 8, 0), ("note", "snapshot 5a is whole: 2 files, 8 bytes")]


def test_an_answer_of_another_version(table: Any, begin: Callable[..., SnapshotWait], clock: VirtualClock) -> None:
    wait = begin(image="old:1")
    table.end(wait.name, {"pvc": "x"})
    with pytest.raises(SnapshotError, match=r"is no snapshot: .* Its image old:1 is not of this version"):
        see_snapshot(table, wait, clock.now())


def test_an_answer_that_never_comes_is_not_asked_for_for_ever(table: Any, clock: VirtualClock) -> None:
    def silent(name: str) -> None:
        table.end(name, {})
        table.pods[name]["status"] = {}

    table.on_create = silent
    with pytest.raises(SnapshotError, match=r"is complete, but its answer cannot be read, 4 times\. Look for what"):
        take_snapshot(table, "hf://a/b", clock=clock)
    assert len(table.rows) == 4


def test_what_interrupts_takes_the_job_away(table: Any, clock: VirtualClock) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    table.on_look = interrupt
    with pytest.raises(KeyboardInterrupt):
        take_snapshot(table, "hf://a/b", clock=clock)
    assert table.rows == {}


def test_its_own_failure_leaves_the_job_to_be_looked_at(table: Any, clock: VirtualClock) -> None:
    table.on_create = lambda name: table.end(name, {"error": {"field": "uri", "reason": "none"}}, "Failed")
    with pytest.raises(InvalidRequest, match="uri: none"):
        take_snapshot(table, "hf://a/b", clock=clock)
    assert len(table.rows) == 1


def test_cancelled_by_the_one_who_has_started_it(table: Any, begin: Callable[..., SnapshotWait]) -> None:
    first, second = begin(), begin()
    assert (cancel_snapshot(table, second), cancel_snapshot(table, first)) == (False, True)
    assert not cancel_snapshot(table, first)


ROW = {
    "format": 1,
    "key": "5a" * 16,
    "uri": "hf://datasets/a/b",
    "revision": "c0ffee",
    "created": 5.0,
    "count": 2,
    "bytes": 8,
    "digest": "sha256:1",
    "used": 7.0,
    "location": "pvc://x",
}


def test_a_list_that_a_message_cannot_hold_is_read_from_the_log(table: Any, clock: VirtualClock) -> None:
    whole = json.dumps({"snapshots": [ROW, ROW]})
    table.log = ["a line", whole[:50], whole[50:]]
    table.on_create = lambda name: table.end(name, {"snapshots": [ROW], "left_out": 1})
    found = list_snapshots(table, clock=clock)
    assert [(one.key, one.count, one.size, one.used) for one in found] == [("5a" * 16, 2, 8, 7.0)] * 2
    assert table.rows == {}


def test_cleared_by_a_job(table: Any, clock: VirtualClock) -> None:
    commands: list[list[str]] = []

    def answer(name: str) -> None:
        commands.append(table.rows[name]["spec"]["template"]["spec"]["containers"][0]["command"])
        table.end(name, {"snapshots": [ROW], "partials": ["77"], "bytes": 8, "busy": []})

    table.on_create = answer
    freed = gc_snapshots(table, to="pvc://trainer-ops-snapshots/x", keep=["b", "a"], older_than=60, clock=clock)
    assert (len(freed.snapshots), freed.partials, freed.size, freed.busy) == (1, ("77",), 8, ())
    said = " ".join(commands[0])
    assert said.endswith("--keep a --keep b --older-than 60 --partials-older-than 86400")


TOLD: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "the start": ("fetching 3 files, 1.5 GB", [("start", 3, 1_500_000_000, 0)]),
    "what is there": ("fetching 1 files, 8 bytes, 2.0 kB are there already", [("start", 1, 8, 2000)]),
    "progress": ("2.5 MB of 3.0 MB, 1 of 2 files, 1.0 MB/s", [("progress", 2_500_000, 1)]),
    "a note": ("waiting for x", [("note", "waiting for x")]),
    "the answer": ('{"key": "k"}', []),
    "an error": ("error: s3://a/b: credentials wrong", []),  # the wait tells it
    "nothing": ("  ", []),
}


@pytest.mark.parametrize(("line", "told"), TOLD.values(), ids=TOLD.keys())
def test_lines_of_a_job_are_told_as_if_it_were_here(line: str, told: list[tuple[Any, ...]]) -> None:
    heard = Heard()
    Told(heard)(line)
    assert heard.told == told
