"""A snapshot is whole or absent, and made once."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.initializers.stand_ins import MemoryProvider, Recorder, sha256, tree
from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers import fetch as fetching
from trainer_ops.initializers import folder_draft
from trainer_ops.initializers.folder_store import FolderStore
from trainer_ops.initializers.provider import Provider, RemoteFile, SnapshotError, SourceChanged
from trainer_ops.initializers.source import Source, parse
from trainer_ops.initializers.take import human, pinned_hit, take
from trainer_ops.model.snapshot import Snapshot
from trainer_ops.testing.clock import VirtualClock

FILES = {"a.txt": b"alpha", "sub/b.bin": bytes(range(256)) * 1000, "sub/deep/ü x": b"", "z": b"z" * 70_000}


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


@pytest.fixture
def remote() -> MemoryProvider:
    return MemoryProvider(dict(FILES))


def make(store: FolderStore, remote: Provider, source: Source | None = None, **given: Any) -> Snapshot:
    asked = source or parse("s3://bucket/data")
    return take(asked, store, kind="dataset", provider=remote, clock=VirtualClock(), **given)


def files_of(snapshot: Snapshot) -> Path:
    return Path(snapshot.location.removeprefix("file://"))


def leftovers(tmp_path: Path) -> list[str]:
    root = tmp_path / "store"
    return [
        path.name for where in (".partial", ".locks") if (root / where).exists() for path in (root / where).iterdir()
    ]


def test_whole(tmp_path: Path, store: FolderStore, remote: MemoryProvider) -> None:
    heard = Recorder()
    made = make(store, remote, listener=heard)
    assert tree(files_of(made)) == FILES
    assert (made.files, made.size, made.hit) == (4, sum(map(len, FILES.values())), False)
    assert made.key == files_of(made).parent.name
    assert store.verify(made.key) == ()
    assert leftovers(tmp_path) == []
    assert heard.starts == [(4, made.size, 0)]
    assert heard.progress[-1] == (made.size, 4)
    manifest = store.read(made.key)
    assert manifest is not None
    assert {entry.path: entry.sha256 for entry in manifest.files} == {p: sha256(d) for p, d in FILES.items()}


def test_files_are_read_only_and_folders_can_be_entered(store: FolderStore, remote: MemoryProvider) -> None:
    before = os.umask(0o077)
    try:
        made = files_of(make(store, remote))
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in made.rglob("*") if path.is_file()} == {0o444}
    folders = (made.parent, made, *(path for path in made.rglob("*") if path.is_dir()))
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o755}


def test_again_is_a_hit_that_fetches_nothing(store: FolderStore, remote: MemoryProvider) -> None:
    made = make(store, remote)
    remote.fetched.clear()
    again = make(store, remote)
    assert again == Snapshot(**{**{n: getattr(made, n) for n in made.__dataclass_fields__}, "hit": True})
    assert remote.fetched == []


def test_the_kind_does_not_matter_for_a_hit(store: FolderStore, remote: MemoryProvider) -> None:
    made = make(store, remote)
    other = take(parse("s3://bucket/data"), store, kind="model", provider=remote, clock=VirtualClock())
    assert (other.key, other.hit, other.kind) == (made.key, True, "model")


def test_new_content_is_a_new_snapshot_and_leaves_the_old_one(store: FolderStore, remote: MemoryProvider) -> None:
    old = make(store, remote)
    remote.files["a.txt"] = b"beta"
    new = make(store, remote)
    assert new.key != old.key
    assert tree(files_of(old)) == FILES
    assert tree(files_of(new))["a.txt"] == b"beta"


def test_other_patterns_are_another_snapshot(store: FolderStore, remote: MemoryProvider) -> None:
    made = make(store, remote, parse("s3://bucket/data", include=["sub/"], ignore=["*.bin"]))
    assert set(tree(files_of(made))) == {"sub/deep/ü x"}
    assert make(store, remote).key != made.key


COMMIT = "c" * 40


def test_a_pinned_revision_is_a_hit_without_asking(store: FolderStore, remote: MemoryProvider) -> None:
    remote.revision = COMMIT
    branch = make(store, remote, parse("hf://o/n@main"))
    assert remote.resolved == 1
    pinned = make(store, remote, parse(f"hf://o/n@{COMMIT}"))
    assert (pinned.key, pinned.hit) == (branch.key, True)
    assert remote.resolved == 1
    assert pinned_hit(parse("hf://o/n@main"), store, kind="model") is None
    assert pinned_hit(parse(f"hf://o/n@{COMMIT}", include=["a*"]), store, kind="model") is None


def test_elsewhere_a_revision_is_what_the_source_must_still_hold(store: FolderStore, remote: MemoryProvider) -> None:
    made = make(store, remote)
    assert make(store, remote, parse("s3://bucket/data", revision=made.revision)).key == made.key
    with pytest.raises(InvalidRequest, match='not "other"') as caught:
        make(store, remote, parse("s3://bucket/data", revision="other"))
    assert caught.value.field == "revision"


@pytest.mark.parametrize("store_url", ["file:///data/sub", "file:///data"])
def test_a_store_inside_its_source_is_refused(store_url: str, tmp_path: Path) -> None:
    inside = FolderStore(tmp_path, location=store_url)
    with pytest.raises(InvalidRequest, match="lies inside") as caught:
        make(inside, MemoryProvider({}), parse("file:///data"))
    assert caught.value.field == "to"


# Digests.

DAMAGED = {"z": b"y" * 70_000}


@pytest.mark.parametrize("known", ["sha256", "md5", "blob_sha1"])
@pytest.mark.parametrize("followed", [False, True])
def test_damage_is_seen_by_every_digest(
    known: str, followed: bool, store: FolderStore, remote: MemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    if followed:
        monkeypatch.setattr(fetching, "FOLLOWED", 1)
    remote.digests = (known,)
    make(store, remote)
    remote.files["a.txt"] = b"new"
    remote.spoil = lambda path, data: DAMAGED.get(path, data)
    with pytest.raises(SnapshotError, match=f"z is damaged: its {known} is") as caught:
        make(store, remote)
    assert caught.value.transient
    assert len(store.list()) == 1
    assert remote.fetched.count("z") == 3


def test_damage_on_the_way_is_fetched_again(store: FolderStore, remote: MemoryProvider) -> None:
    times = iter([DAMAGED["z"]])
    remote.spoil = lambda path, data: next(times, data) if path == "z" else data
    heard = Recorder()
    made = make(store, remote, listener=heard)
    assert tree(files_of(made)) == FILES
    assert len(heard.notes) == 1
    assert heard.progress[-1] == (made.size, 4)


@pytest.mark.parametrize("wrong", [b"", b"z" * 69_999, b"z" * 70_001], ids=["empty", "short", "long"])
def test_a_wrong_length_is_damage(wrong: bytes, store: FolderStore, remote: MemoryProvider) -> None:
    remote.digests = ()
    remote.spoil = lambda path, data: wrong if path == "z" else data
    with pytest.raises(SnapshotError, match=f"z has {len(wrong)} bytes instead of 70000"):
        make(store, remote)
    assert store.list() == ()


def test_a_source_that_knows_nothing_of_its_files(store: FolderStore, remote: MemoryProvider) -> None:
    remote.digests, remote.sizes, remote.versions = (), False, False
    made = make(store, remote)
    assert tree(files_of(made)) == FILES
    assert store.verify(made.key) == ()


# Going on.


class Cut(Exception):
    """The line is cut."""


def cut_at(remote: MemoryProvider, path: str, there: int) -> None:
    def after(file: RemoteFile, count: int) -> None:
        if (file.path, count) == (path, there):
            raise Cut

    remote.after_block = after


def test_a_broken_download_goes_on_where_it_stopped(store: FolderStore, remote: MemoryProvider) -> None:
    cut_at(remote, "sub/b.bin", 3 << 16)
    with pytest.raises(Cut):
        make(store, remote, jobs=1)
    assert store.list() == ()
    cut_at(remote, "", 0)
    remote.transferred.clear()
    heard = Recorder()
    made = make(store, remote, jobs=1, listener=heard)
    assert tree(files_of(made)) == FILES
    assert remote.transferred == {"sub/b.bin": 256_000 - (3 << 16), "z": 70_000}
    assert heard.starts == [(4, made.size, 5 + (3 << 16))]
    assert heard.progress[-1] == (made.size, 4)


def test_what_an_earlier_try_left_is_read_again_before_it_counts(
    tmp_path: Path, store: FolderStore, remote: MemoryProvider
) -> None:
    cut_at(remote, "z", 1 << 16)
    with pytest.raises(Cut):
        make(store, remote, jobs=1)
    (left,) = (tmp_path / "store" / ".partial").iterdir()
    spoiled = left / "tree/data/sub/b.bin"
    spoiled.chmod(0o644)
    spoiled.write_bytes(b"x" * 256_000)
    (left / "tree/data/a.txt").unlink()
    (left / "tree/data/stranger").write_bytes(b"?")
    cut_at(remote, "", 0)
    heard = Recorder()
    made = make(store, remote, listener=heard)
    assert tree(files_of(made)) == FILES
    assert heard.progress[-1] == (made.size, 4)


def test_damaged_first_bytes_are_fetched_again(tmp_path: Path, store: FolderStore, remote: MemoryProvider) -> None:
    cut_at(remote, "z", 1 << 16)
    with pytest.raises(Cut):
        make(store, remote, jobs=1)
    (part,) = (tmp_path / "store" / ".partial").glob("*/parts/*")
    part.write_bytes(b"y" * (1 << 16))
    cut_at(remote, "", 0)
    made = make(store, remote)
    assert tree(files_of(made)) == FILES


def test_first_bytes_without_a_digest_count_only_while_the_kernel_runs(
    store: FolderStore, remote: MemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.digests = ()
    cut_at(remote, "z", 1 << 16)
    for boot, transferred in (("one", 70_000 - (1 << 16)), ("two", 70_000)):
        monkeypatch.setattr(folder_draft, "boot_id", lambda: "one")
        remote.files["a.txt"] += b"+"
        with pytest.raises(Cut):
            make(store, remote, jobs=1)
        remote.transferred.clear()
        monkeypatch.setattr(folder_draft, "boot_id", lambda boot=boot: boot)
        cut, remote.after_block = remote.after_block, lambda file, count: None
        make(store, remote, jobs=1)
        remote.after_block = cut
        assert remote.transferred == {"z": transferred}


def test_a_journal_whose_end_is_torn(tmp_path: Path, store: FolderStore, remote: MemoryProvider) -> None:
    cut_at(remote, "z", 1 << 16)
    with pytest.raises(Cut):
        make(store, remote, jobs=1)
    (journal,) = (tmp_path / "store" / ".partial").glob("*/done.jsonl")
    journal.write_bytes(journal.read_bytes()[:-20] + b"\xff")
    cut_at(remote, "", 0)
    assert tree(files_of(make(store, remote))) == FILES


# A source that changes.


def change_once(remote: MemoryProvider, **files: bytes) -> None:
    changes = iter([files])

    def before(file: RemoteFile) -> None:
        if file.path == "z":
            remote.files.update(next(changes, {}))
            if file.version != sha256(remote.files["z"])[:8]:
                raise SourceChanged("z was changed")

    remote.before = before


def test_a_change_between_listing_and_download_is_listed_again(
    tmp_path: Path, store: FolderStore, remote: MemoryProvider
) -> None:
    change_once(remote, z=b"new")
    heard = Recorder()
    made = make(store, remote, jobs=1, listener=heard)
    assert tree(files_of(made)) == {**FILES, "z": b"new"}
    assert remote.resolved == 2
    assert "z was changed" in heard.notes[0]
    # What had not changed was not fetched again.
    assert remote.fetched == ["a.txt", "sub/b.bin", "sub/deep/ü x", "z", "z"]
    assert leftovers(tmp_path) == []


def test_a_source_that_never_rests(store: FolderStore, remote: MemoryProvider) -> None:
    def before(file: RemoteFile) -> None:
        remote.files["z"] += b"z"
        raise SourceChanged("z was changed")

    remote.before = before
    with pytest.raises(SnapshotError, match="changed while it was read, 5 times") as caught:
        make(store, remote)
    assert (remote.resolved, caught.value.transient, store.list()) == (5, True, ())
    assert not isinstance(caught.value, SourceChanged)


def test_names_that_are_one_here(store: FolderStore, remote: MemoryProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.files["A.TXT"] = b"other"
    assert len(tree(files_of(make(store, remote)))) == 5
    remote.files["A.TXT"] = b"another"
    monkeypatch.setattr(folder_draft, "_is_case_blind", lambda folder: True)
    with pytest.raises(SnapshotError, match=r'"A.TXT" and "a.txt", which are one name on this file system'):
        make(store, remote)


# No room.


def test_room_is_looked_at_before(store: FolderStore, remote: MemoryProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_draft.FolderDraft, "room", lambda self: 1_000_000)
    with pytest.raises(SnapshotError, match=r"needs 17\.1 MB more, and 1\.0 MB are free") as caught:
        make(store, remote)
    assert "snapshots gc" in caught.value.remedy
    assert remote.fetched == []


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk or the quota is full"),
        (errno.EDQUOT, "the disk or the quota is full"),
        (errno.EFBIG, "the file would be too large"),
        (errno.EROFS, "Read-only file system"),
    ],
)
def test_a_disk_that_runs_full(number: int, said: str, store: FolderStore, remote: MemoryProvider) -> None:
    def after(file: RemoteFile, there: int) -> None:
        if file.path == "z":
            raise OSError(number, os.strerror(number))

    remote.after_block = after
    with pytest.raises(SnapshotError, match=said) as caught:
        make(store, remote, jobs=1)
    assert caught.value.remedy
    assert store.list() == ()
    cut_at(remote, "", 0)
    remote.transferred.clear()
    make(store, remote)
    assert set(remote.transferred) == {"z"}


def test_a_root_that_cannot_be_written(tmp_path: Path, remote: MemoryProvider) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SnapshotError, match="cannot hold snapshots: Not a directory"):
        make(FolderStore(tmp_path / "file" / "store"), remote)


# Damage afterwards.


def test_a_hit_that_is_verified_and_damaged_is_made_anew(store: FolderStore, remote: MemoryProvider) -> None:
    made = make(store, remote)
    (files_of(made) / "a.txt").unlink()
    assert make(store, remote).hit
    heard = Recorder()
    again = make(store, remote, verify_hit=True, listener=heard)
    assert (again.key, again.hit) == (made.key, False)
    assert "a.txt: is missing" in heard.notes[0]
    assert tree(files_of(made)) == FILES
    assert make(store, remote, verify_hit=True).hit


def test_what_stands_there_without_a_manifest_is_no_snapshot(
    tmp_path: Path, store: FolderStore, remote: MemoryProvider
) -> None:
    made = make(store, remote)
    (files_of(made).parent / "manifest.json").write_text("{")
    assert store.find(made.key) is None
    again = make(store, remote)
    assert (again.key, again.hit) == (made.key, False)
    assert leftovers(tmp_path) == []


# Threads, listeners, sizes.


def test_files_are_fetched_at_once_and_no_more_than_asked(store: FolderStore) -> None:
    remote = MemoryProvider({f"f{n}": b"x" for n in range(12)})
    inside, most, lock = 0, 0, threading.Lock()
    meeting = threading.Barrier(4, timeout=60)

    def before(file: RemoteFile) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        meeting.wait()
        with lock:
            inside -= 1

    remote.before = before
    make(store, remote, jobs=4)
    assert most == 4


def test_a_listener_that_raises_ends_it(store: FolderStore, remote: MemoryProvider) -> None:
    class Cancel(Recorder):
        def on_progress(self, size: int, files: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(store, remote, listener=Cancel())
    assert make(store, remote).hit is False


def test_a_provider_that_waits_is_told_to_stop(store: FolderStore) -> None:
    class Waiting(MemoryProvider):
        def stop(self) -> None:
            stopped.set()

    stopped = threading.Event()
    remote = Waiting({"a": b"a", "b": b"b"})

    def before(file: RemoteFile) -> None:
        if file.path == "a":
            raise SnapshotError("gone")
        assert stopped.wait(60)

    remote.before = before
    with pytest.raises(SnapshotError, match="gone"):
        make(store, remote)
    assert stopped.is_set()


def test_one_failure_stops_the_others(store: FolderStore) -> None:
    remote = MemoryProvider({f"f{n:03}": b"x" * 10 for n in range(200)}, block=1)
    failed = threading.Event()

    def before(file: RemoteFile) -> None:
        if file.path == "f000":
            failed.set()
            raise SnapshotError("gone")
        failed.wait(60)

    remote.before = before
    with pytest.raises(SnapshotError, match="gone"):
        make(store, remote, jobs=4)
    assert len(remote.fetched) < 200


def test_two_threads_make_one(store: FolderStore, remote: MemoryProvider) -> None:
    meeting = threading.Barrier(2, timeout=60)
    both = MemoryProvider(remote.files)
    resolve = both.resolve

    def together() -> Any:
        found = resolve()
        meeting.wait()
        return found

    both.resolve = together  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as pool:
        found = [job.result() for job in [pool.submit(make, store, both) for _ in range(2)]]
    assert sorted(one.hit for one in found) == [False, True]
    assert sorted(both.fetched) == sorted(FILES)


@pytest.mark.parametrize("file_size", [1, 100_000, (1 << 20) + 1])
def test_digests_taken_while_it_is_written_are_right(
    file_size: int, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "FOLLOWED", 1)
    monkeypatch.setattr(fetching, "digests_of", None)  # Not read once more.
    data = os.urandom(file_size)
    remote = MemoryProvider({"x": data, "y": data + b"y"}, digests=("sha256", "md5", "blob_sha1"), block=7919)
    assert store.verify(make(store, remote).key) == ()


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (2_500_000_000, "2.5 GB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_sizes_for_people(size: int, said: str) -> None:
    assert human(size) == said
