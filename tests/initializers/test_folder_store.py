"""What a folder keeps, what is wrong with it, and what gc may take away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.initializers.stand_ins import MemoryProvider, tree
from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.collect import collect, superfluous
from trainer_ops.initializers.folder_store import FolderStore
from trainer_ops.initializers.manifest import FileEntry, Manifest
from trainer_ops.initializers.object_store import ObjectStore
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.initializers.source import parse
from trainer_ops.initializers.store import open_store
from trainer_ops.initializers.take import take
from trainer_ops.model.snapshot import Snapshot
from trainer_ops.testing.clock import VirtualClock

ROOT = Path(__file__).parents[2]
DAY = 86400.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def make(store: FolderStore, clock: VirtualClock, content: str = "x", uri: str = "s3://bucket/data") -> Snapshot:
    remote = MemoryProvider({"a": content.encode(), "sub/b": b"b"})
    return take(parse(uri), store, kind="dataset", provider=remote, clock=clock)


@pytest.mark.parametrize(
    ("url", "location", "shown"),
    [
        pytest.param("/data/store", "", "file:///data/store/K/data", id="path"),
        pytest.param("/data/my store/", "", "file:///data/my%20store/K/data", id="path-with-space"),
        pytest.param("file:///data/my%20store", "", "file:///data/my%20store/K/data", id="url"),
        pytest.param("/mnt", "pvc://claim/store/", "pvc://claim/store/K/data", id="claim"),
    ],
)
def test_locations(url: str, location: str, shown: str) -> None:
    assert open_store(url, location=location).location("K") == shown


def test_object_storage() -> None:
    store = open_store("s3://bucket/folder/")
    assert isinstance(store, ObjectStore)
    assert (store.url, store.location("K")) == ("s3://bucket/folder", "s3://bucket/folder/K/data")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "it is empty"),
        ("pvc://claim/x", "on its cluster only"),
        ("https://host/x", "cannot keep snapshots"),
        ("hf://org/name", "cannot keep snapshots"),
        ("nfs://host/x", "cannot keep snapshots"),
    ],
)
def test_where_nothing_can_be_kept(url: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        open_store(url)
    assert caught.value.field == "to"


def test_an_empty_store_is_not_made_by_looking(store: FolderStore, tmp_path: Path) -> None:
    assert store.list() == ()
    assert store.find("0" * 32) is None
    assert collect(store, now=0, keep_last=0).snapshots == ()
    assert not (tmp_path / "store").exists()


def test_list_is_oldest_first(store: FolderStore, clock: VirtualClock) -> None:
    keys = []
    for content in "abc":
        keys.append(make(store, clock, content).key)
        clock.advance(1)
    assert [one.key for one in store.list()] == keys
    assert all(one.files == () for one in store.list())


def test_a_read_only_store_still_hits(store: FolderStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(store, clock)

    def refuse(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    for name in ("utime", "mkdir", "link", "open"):
        monkeypatch.setattr(os, name, refuse)
    assert make(store, clock).key == made.key


def spoil(data: Path, what: str) -> None:
    path = data / "a"
    if what == "content":
        path.chmod(0o644)
        path.write_bytes(b"y")
    elif what == "length":
        path.chmod(0o644)
        path.write_bytes(b"yy")
    elif what == "missing":
        path.unlink()
    elif what == "folder-gone":
        (data / "sub" / "b").unlink()
        (data / "sub").rmdir()
        (data / "sub").touch()
    elif what == "extra":
        (data / "new").touch()
    elif what == "manifest-cut":
        (data.parent / "manifest.json").write_text((data.parent / "manifest.json").read_text()[:-9])
    elif what == "manifest-gone":
        (data.parent / "manifest.json").unlink()


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("content", ["a: its content has changed"]),
        ("length", ["a: has 2 bytes instead of 1"]),
        ("missing", ["a: is missing"]),
        ("folder-gone", ["sub/b: is missing", "sub: does not belong to it"]),
        ("extra", ["new: does not belong to it"]),
        ("manifest-cut", ["its manifest cannot be read, or belongs to another snapshot"]),
        ("manifest-gone", ["there is no manifest: the snapshot is not whole"]),
    ],
)
def test_verify(what: str, said: Sequence[str], store: FolderStore, clock: VirtualClock, tmp_path: Path) -> None:
    made = make(store, clock)
    assert store.verify(made.key) == ()
    spoil(tmp_path / "store" / made.key / "data", what)
    assert list(store.verify(made.key)) == said


@pytest.mark.parametrize("lost", ["data", "manifest.json"])
def test_what_is_damaged_so_that_it_is_not_listed(
    lost: str, store: FolderStore, clock: VirtualClock, tmp_path: Path
) -> None:
    made = make(store, clock)
    assert store.broken() == ()
    (tmp_path / "store" / made.key / lost).rename(tmp_path / "lost")
    assert (store.list(), store.broken()) == ((), (made.key,))
    assert store.verify(made.key)


@pytest.mark.parametrize("key", ["0" * 32, "../" * 10, "", ".partial"])
def test_verify_of_what_is_not_there(key: str, store: FolderStore, clock: VirtualClock) -> None:
    make(store, clock)
    assert store.verify(key) == ("there is no manifest: the snapshot is not whole",)


def manifest(key: str, uri: str, created: float, used: float = 0.0, include: tuple[str, ...] = ()) -> Manifest:
    source = parse(uri, include=include)
    made = Manifest.of(key, source, key, [FileEntry("a", 1, "0" * 64)], now=created, tool="t")
    return Manifest(**{**{n: getattr(made, n) for n in made.__dataclass_fields__}, "used": used})


THERE = (
    manifest("a1", "s3://a", 10),
    manifest("a2", "s3://a", 20, used=95),
    manifest("a3", "s3://a", 30),
    manifest("ap", "s3://a", 5, include=("x",)),
    manifest("b1", "s3://b", 40),
)


@pytest.mark.parametrize(
    ("rules", "gone"),
    [
        pytest.param({}, "", id="no-rule-removes-nothing"),
        pytest.param({"keep_last": 1}, "a1 a2", id="keep-last-of-each-source-and-patterns"),
        pytest.param({"keep_last": 2}, "a1", id="keep-two"),
        pytest.param({"keep_last": 0}, "a1 a2 a3 ap b1", id="keep-none"),
        pytest.param({"keep_last": 9}, "", id="keep-more-than-there-are"),
        pytest.param({"older_than": 65}, "a1 a3 ap", id="older-than-counts-from-the-last-use"),
        pytest.param({"older_than": 0}, "a1 a2 a3 ap b1", id="older-than-nothing"),
        pytest.param({"older_than": 75, "keep_last": 1}, "a1", id="both-must-let-go"),
        pytest.param({"keep_last": 0, "keep": ("a1", "b1", "zz")}, "a2 a3 ap", id="in-use"),
    ],
)
def test_what_nothing_keeps(rules: dict[str, Any], gone: str) -> None:
    given: dict[str, Any] = {"keep": (), "keep_last": None, "older_than": None, **rules}
    assert sorted(one.key for one in superfluous(THERE, now=100, **given)) == gone.split()


def test_gc_removes_and_says_what(store: FolderStore, clock: VirtualClock, tmp_path: Path) -> None:
    old = make(store, clock, "old")
    clock.advance(1)
    new = make(store, clock, "new")
    said = collect(store, now=clock.now(), keep_last=1, dry_run=True)
    assert [one.key for one in said.snapshots] == [old.key]
    assert len(store.list()) == 2
    freed = collect(store, now=clock.now(), keep_last=1)
    assert (freed.snapshots, freed.size) == (said.snapshots, 4)
    assert [one.key for one in store.list()] == [new.key]
    assert set(os.listdir(tmp_path / "store")) == {new.key, ".locks", ".partial"}


def test_gc_says_that_it_may_not_and_not_that_somebody_is_busy(
    store: FolderStore, clock: VirtualClock, tmp_path: Path
) -> None:
    make(store, clock)
    locks = tmp_path / "store" / ".locks"
    shutil.rmtree(locks)
    locks.touch()  # also root cannot lock anything there
    with pytest.raises(SnapshotError, match="cannot hold snapshots: File exists"):
        collect(store, now=clock.now(), keep_last=0)
    assert len(store.list()) == 1


def test_a_store_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for look in (FolderStore(tmp_path / "file").list, FolderStore(tmp_path / "file").broken):
        with pytest.raises(SnapshotError, match=r"file cannot be read: Not a directory\. Check that it is a folder of"):
            look()


def test_a_hit_makes_it_young_again(store: FolderStore, clock: VirtualClock, tmp_path: Path) -> None:
    made = make(store, clock)
    os.utime(tmp_path / "store" / made.key / "manifest.json", (0, 0))
    now = clock.now() + 10 * DAY
    assert len(collect(store, now=now, older_than=DAY, dry_run=True).snapshots) == 1
    make(store, clock)
    used = store.list()[0].used
    assert collect(store, now=used + DAY / 2, older_than=DAY).snapshots == ()


def test_what_was_used_while_gc_decided_stays(
    store: FolderStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(store, clock)
    there = store.list()
    os.utime(Path(made.location.removeprefix("file://")).parent / "manifest.json", (0, clock.now() + 5))
    monkeypatch.setattr(store, "list", lambda: there)
    freed = collect(store, now=clock.now() + DAY, older_than=60)
    assert (freed.snapshots, freed.busy) == ((), (made.key,))
    assert store.verify(made.key) == ()


def test_what_is_locked_stays(store: FolderStore, clock: VirtualClock) -> None:
    made = make(store, clock)
    with store.lock(made.key, clock=clock, timeout=0, note=print):
        freed = collect(store, now=clock.now(), keep_last=0)
        assert (freed.snapshots, freed.busy) == ((), (made.key,))
    assert store.verify(made.key) == ()
    assert len(collect(store, now=clock.now(), keep_last=0).snapshots) == 1


def test_a_download_under_way_stays_and_a_broken_one_goes(
    store: FolderStore, clock: VirtualClock, tmp_path: Path
) -> None:
    remote = MemoryProvider({"a": b"a" * 10, "b": b"b"})

    def gc(**given: Any) -> Any:
        return collect(store, now=clock.now() + 30 * DAY, **given)

    seen: list[Any] = []

    def during(*_: Any) -> None:
        seen.append(gc(keep_last=0))
        raise KeyboardInterrupt

    remote.after_block = during
    with pytest.raises(KeyboardInterrupt):
        take(parse("s3://bucket/data"), store, kind="dataset", provider=remote, clock=clock, jobs=1)
    assert (seen[0].partials, len(seen[0].busy)) == ((), 1)
    assert gc(partials_older_than=1000 * DAY).partials == ()
    (key,) = gc(dry_run=True).partials
    freed = gc()
    assert (freed.partials, freed.size >= 10) == ((key,), True)
    assert list((tmp_path / "store" / ".partial").iterdir()) == []


def test_the_store_of_a_foreign_folder_is_left_alone(store: FolderStore, clock: VirtualClock, tmp_path: Path) -> None:
    mine = tmp_path / "store" / "my notes"
    mine.mkdir(parents=True)
    (mine / "x").touch()
    (tmp_path / "store" / ("f" * 32)).mkdir()
    make(store, clock)
    collect(store, now=clock.now() + 9 * DAY, keep_last=0, older_than=0)
    assert set(os.listdir(tmp_path / "store")) == {"my notes", "f" * 32, ".locks", ".partial"}


TWO = """
import json, sys, time
from tests.initializers.killer import Clock
from tests.initializers.stand_ins import MemoryProvider
from trainer_ops.initializers.folder_store import FolderStore
from trainer_ops.initializers.source import parse
from trainer_ops.initializers.take import take
remote = MemoryProvider({f"f{n}": bytes([n]) * 1000 for n in range(50)})
print("ready", flush=True)
sys.stdin.readline()
made = take(parse("s3://bucket/data"), FolderStore(sys.argv[1]), kind="dataset", provider=remote, clock=Clock())
print(json.dumps([made.hit, len(remote.fetched)]))
"""


def test_two_processes_make_one(tmp_path: Path) -> None:
    both = [
        subprocess.Popen(
            [sys.executable, "-c", TWO, str(tmp_path / "store")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for one in both:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    said = []
    for one in both:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in both:
        said.append(one.communicate(timeout=100)[0].strip())
    assert sorted(said) == ["[false, 50]", "[true, 0]"]
    (made,) = FolderStore(tmp_path / "store").list()
    assert len(tree(tmp_path / "store" / made.key / "data")) == 50


@pytest.mark.skipif(not os.path.ismount("/dev/shm") or os.getuid() != 0, reason="needs a small file system of its own")
def test_a_file_system_that_is_really_full(tmp_path: Path, clock: VirtualClock) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "none", small], capture_output=True).returncode:
        pytest.skip("mount is not allowed here")
    try:
        store = FolderStore(small / "store")
        old = make(store, clock, "old")
        remote = MemoryProvider({"big": b"x" * 25_000_000, "a": b"a"})
        with pytest.raises(Exception, match="are free in"):
            take(parse("s3://bucket/big"), store, kind="dataset", provider=remote, clock=clock, jobs=1)
        assert remote.fetched == []
        remote.sizes = False
        with pytest.raises(Exception, match="the disk or the quota is full"):
            take(parse("s3://bucket/big"), store, kind="dataset", provider=remote, clock=clock, jobs=1)
        assert [one.key for one in store.list()] == [old.key]
        assert store.verify(old.key) == ()
        # Full as it is, room can be made.
        freed = collect(store, now=clock.now() + 1e9, keep_last=0)
        assert [one.key for one in freed.snapshots] == [old.key]
        assert len(freed.partials) == 1
        assert os.statvfs(small).f_bavail * 4096 > 19_000_000
    finally:
        subprocess.run(["umount", small], check=True)
