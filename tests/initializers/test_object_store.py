"""Snapshots in a bucket, against a real S3 server."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.initializers.s3server import S3Server
from tests.initializers.stand_ins import MemoryProvider, Recorder, tree
from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.bucket import Bucket, ObjectClaim
from trainer_ops.initializers.claims import Holder
from trainer_ops.initializers.collect import collect
from trainer_ops.initializers.locks import STALE
from trainer_ops.initializers.object_store import ObjectStore
from trainer_ops.initializers.provider import Credentials, RemoteFile, SnapshotError
from trainer_ops.initializers.source import parse
from trainer_ops.initializers.take import take
from trainer_ops.model.snapshot import Snapshot
from trainer_ops.testing.clock import VirtualClock

pytest.importorskip("moto.server")
pytest.importorskip("s3fs")

FILES = {"a.txt": b"alpha", "sub/ü #1%.bin": bytes(range(256)) * 1000, "empty": b"", "z": b"z" * 70_000}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def client(server: S3Server) -> Iterator[Any]:
    yield server.bucket("store", {})
    server.tell("reset")


@pytest.fixture
def store(server: S3Server, client: Any, tmp_path: Path) -> ObjectStore:
    return opened(server, tmp_path)


def opened(server: S3Server, tmp_path: Path, url: str = "s3://store/snapshots", **options: object) -> ObjectStore:
    return ObjectStore(url, Credentials(options=server.options(**options)), scratch=tmp_path / "scratch")


@pytest.fixture
def remote() -> MemoryProvider:
    return MemoryProvider(dict(FILES), uri="hf://datasets/o/n")


def make(store: ObjectStore, remote: MemoryProvider, **given: Any) -> Snapshot:
    given.setdefault("clock", VirtualClock())
    return take(parse("hf://datasets/o/n"), store, kind="dataset", provider=remote, **given)


def objects(client: Any) -> dict[str, bytes]:
    found = client.list_objects_v2(Bucket="store").get("Contents", [])
    return {one["Key"]: client.get_object(Bucket="store", Key=one["Key"])["Body"].read() for one in found}


def test_whole(store: ObjectStore, remote: MemoryProvider, client: Any, tmp_path: Path) -> None:
    heard = Recorder()
    made = make(store, remote, listener=heard)
    assert made.location == f"s3://store/snapshots/{made.key}/data"
    assert set(objects(client)) == {
        f"snapshots/{made.key}/manifest.json",
        *(f"snapshots/{made.key}/data/{path}" for path in FILES),
    }
    assert objects(client)[f"snapshots/{made.key}/data/z"] == FILES["z"]
    assert store.verify(made.key) == ()
    assert heard.progress[-1] == (made.size, 4)
    assert not (tmp_path / "scratch" / made.key).exists()
    again = make(store, remote)
    assert (again.hit, again.key, again.digest) == (True, made.key, made.digest)


def test_the_manifest_comes_last(
    store: ObjectStore, remote: MemoryProvider, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(bucket: Bucket, path: str, data: bytes) -> None:
        assert not path.endswith("manifest.json") or len(objects(client)) == 5
        raise SnapshotError("the line is cut")

    monkeypatch.setattr(Bucket, "write", refuse)
    with pytest.raises(SnapshotError, match="the line is cut"):
        make(store, remote)
    assert store.list() == ()


class Cut(Exception):
    """The line is cut."""


@pytest.mark.parametrize("machine", ["same", "other"])
def test_what_went_up_already_does_not_go_up_again(
    machine: str, server: S3Server, client: Any, remote: MemoryProvider, tmp_path: Path
) -> None:
    def after(file: RemoteFile, there: int) -> None:
        if file.path == "z":
            raise Cut

    remote.after_block = after
    with pytest.raises(Cut):
        make(opened(server, tmp_path / "one"), remote, jobs=1)
    remote.after_block = lambda file, there: None
    remote.transferred.clear()
    store = opened(server, tmp_path / ("one" if machine == "same" else "two"))
    heard = Recorder()
    made = make(store, remote, listener=heard)
    assert remote.transferred == {"z": 70_000 - (65_536 if machine == "same" else 0)}
    assert store.verify(made.key) == ()
    assert heard.progress[-1] == (made.size, 4)
    assert not [key for key in objects(client) if "/.partial/" in key or "/.locks/" in key]


def test_what_does_not_belong_is_removed(store: ObjectStore, remote: MemoryProvider, client: Any) -> None:
    key = make(store, remote).key
    client.delete_object(Bucket="store", Key=f"snapshots/{key}/manifest.json")
    client.put_object(Bucket="store", Key=f"snapshots/{key}/data/stranger", Body=b"?")
    client.put_object(Bucket="store", Key=f"snapshots/{key}/data/a.txt", Body=b"omega")
    assert store.list() == ()
    assert make(store, remote).hit is False
    assert store.verify(key) == ()


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("content", "a.txt: its content has changed"),
        ("length", "a.txt: has 1 bytes instead of 5"),
        ("gone", "a.txt: is missing"),
        ("extra", "stranger: does not belong to it"),
        ("manifest", "there is no manifest that can be read: the snapshot is not whole"),
    ],
)
def test_verify(what: str, said: str, store: ObjectStore, remote: MemoryProvider, client: Any) -> None:
    key = make(store, remote).key
    place = f"snapshots/{key}/"
    if what == "gone":
        client.delete_object(Bucket="store", Key=place + "data/a.txt")
    else:
        name = {"manifest": "manifest.json", "extra": "data/stranger"}.get(what, "data/a.txt")
        client.put_object(Bucket="store", Key=place + name, Body=b"omega" if what == "content" else b"?")
    assert store.verify(key) == (said,)
    again = make(store, remote, verify_hit=True)
    assert (again.key, again.hit) == (key, False)
    assert store.verify(key) == ()


def test_gc(store: ObjectStore, remote: MemoryProvider, client: Any) -> None:
    clock = VirtualClock()
    old = make(store, remote, clock=clock)
    clock.advance(10)
    remote.files["a.txt"] = b"beta"
    new = make(store, remote, clock=clock)
    assert [one.key for one in store.list()] == [old.key, new.key]
    with store.lock(old.key, clock=clock, timeout=0, note=print):
        assert collect(store, now=clock.now(), keep_last=1).busy == (old.key,)
    assert [one.key for one in collect(store, now=clock.now(), keep_last=1).snapshots] == [old.key]
    assert {key.split("/")[1] for key in objects(client)} == {new.key}


def test_gc_of_broken_uploads(store: ObjectStore, remote: MemoryProvider, client: Any, tmp_path: Path) -> None:
    whole = make(store, remote)
    remote.files["a.txt"] = b"beta"
    remote.spoil = lambda path, data: b"" if path == "z" else data
    with pytest.raises(SnapshotError):
        make(store, remote, jobs=1)
    now = VirtualClock().now() + 1e8
    assert collect(store, now=0).partials == ()
    assert len(collect(store, now=now).partials) == 1
    assert {key.split("/")[1] for key in objects(client)} == {whole.key}
    assert store.verify(whole.key) == ()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_one_maker(server: S3Server, store: ObjectStore, tmp_path: Path) -> None:
    clock = VirtualClock()
    other = opened(server, tmp_path / "other")
    key = "0" * 32
    with (
        store.lock(key, clock=clock, timeout=0, note=print) as held,
        pytest.raises(SnapshotError, match="is being worked on by process"),
        other.lock(key, clock=clock, timeout=5, note=print),
    ):
        pass
    held.check(ask=False)
    with other.lock(key, clock=clock, timeout=0, note=print) as taken:
        taken.check(ask=True)


def test_a_dead_maker_of_another_machine(server: S3Server, store: ObjectStore) -> None:
    clock = VirtualClock()
    key = "0" * 32
    claim = ObjectClaim(Bucket(store.url, Credentials(options=server.options())), f".locks/{key}")
    assert claim.create(Holder("node-b", 7, clock.now(), "elsewhere", "t").dump())
    assert not claim.create(b"x")
    with (
        pytest.raises(SnapshotError, match="process 7 on node-b"),
        store.lock(key, clock=clock, timeout=STALE / 2, note=print),
    ):
        pass
    with store.lock(key, clock=clock, timeout=2 * STALE, note=print) as held:
        held.check(ask=True)


def test_a_local_disk_that_runs_full(
    store: ObjectStore, remote: MemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after(file: RemoteFile, there: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    remote.after_block = after
    with pytest.raises(SnapshotError, match=r"by way of .*scratch.*the disk or the quota is full"):
        make(store, remote)


def test_local_room_is_looked_at_before(
    store: ObjectStore, remote: MemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_ops.initializers.folder_draft.FolderDraft.room", lambda self: 200_000)
    with pytest.raises(SnapshotError, match=r"a file of 256000 bytes comes by way of .*, where 200000 are free"):
        make(store, remote)
    assert remote.fetched == []


def test_no_such_bucket(server: S3Server, client: Any, remote: MemoryProvider, tmp_path: Path) -> None:
    store = opened(server, tmp_path, "s3://nowhere/x")
    # Not "no snapshots": a wrong name or endpoint would look like an empty store.
    for act in (store.list, lambda: store.verify("0" * 32), lambda: make(store, remote)):
        with pytest.raises(InvalidRequest, match=r"there is no bucket nowhere at 127\.0\.0\.1") as caught:
            act()
        assert caught.value.field == "to"


def test_a_bucket_in_which_nothing_is_yet(server: S3Server, client: Any, tmp_path: Path) -> None:
    assert opened(server, tmp_path, "s3://store/not-yet").list() == ()


def test_half_of_the_credentials(server: S3Server, remote: MemoryProvider, tmp_path: Path) -> None:
    options = {"key": "k", "endpoint_url": server.url}
    store = ObjectStore("s3://store/x", Credentials(options=options), scratch=tmp_path)
    with pytest.raises(SnapshotError, match="s3://store/x: credentials incomplete: AWS_SECRET_ACCESS_KEY") as caught:
        make(store, remote)
    assert (caught.value.credentials, caught.value.transient) == ("missing", False)


def test_nobody_answers(remote: MemoryProvider, tmp_path: Path) -> None:
    options = {
        "key": "k",
        "secret": "s",
        "endpoint_url": "http://127.0.0.1:9",
        "config_kwargs": {"retries": {"max_attempts": 1}},
    }
    store = ObjectStore("s3://store/x", Credentials(options=options), scratch=tmp_path)
    with pytest.raises(SnapshotError, match="s3://store/x") as caught:
        make(store, remote)
    assert caught.value.transient


def test_a_training_reads_the_same_files(
    store: ObjectStore, remote: MemoryProvider, server: S3Server, tmp_path: Path
) -> None:
    import fsspec

    made = make(store, remote)
    fs = fsspec.filesystem("s3", **server.options(skip_instance_cache=True))
    fs.get(made.location, str(tmp_path / "copy"), recursive=True)
    assert tree(tmp_path / "copy") == FILES
