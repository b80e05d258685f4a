"""Every scheme over a network, from the source to the store: pinned, made once, gone on with after a cut."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.initializers.hubserver import Hub, HubRepo
from tests.initializers.s3server import KEY, SECRET, S3Server
from tests.initializers.webserver import Question, Reply, WebServer, serve
from trainer_ops.initializers import http, hub, objects
from trainer_ops.initializers.folder_store import FolderStore
from trainer_ops.initializers.patience import Patience
from trainer_ops.initializers.provider import Credentials, Provider, SnapshotError
from trainer_ops.initializers.source import parse
from trainer_ops.initializers.take import take
from trainer_ops.model.snapshot import Snapshot
from trainer_ops.testing.clock import VirtualClock

pytest.importorskip("huggingface_hub")
pytest.importorskip("moto.server")
pytest.importorskip("s3fs")

BIG = random.Random(11).randbytes(400_000)
TOKEN = "hf_letmein0123456789"


@dataclass
class World:
    """One source on a server.

    Attributes:
        uri: of it.
        open: its provider.
        put: changes its content; the files that it has then.
        asked: reads of content so far.
        trouble: what the server does to reads of content instead, None for nothing; may be set.
        env: what a pod would have.
    """

    uri: str
    open: Callable[[], Provider]
    put: Callable[[bytes], None]
    asked: Callable[[], list[Question]]
    set_trouble: Callable[[Callable[[Question], Reply | None]], None]
    files: dict[str, bytes]
    env: dict[str, str]


def impatient() -> Patience:
    return Patience(sleep=lambda _: None)


@pytest.fixture
def hub_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    server = Hub()
    server.tokens[TOKEN] = {"datasets/org/digits"}
    repo = server.repos["datasets/org/digits"] = HubRepo(private=True)
    files = {"a/big.bin": BIG, "small.txt": b"small"}

    def put(data: bytes) -> None:
        files["a/big.bin"] = data
        repo.commit(dict(files))

    def trouble(act: Callable[[Question], Reply | None]) -> None:
        server.before_store = act

    put(BIG)
    options = {"endpoint": server.url}
    uri = "hf://datasets/org/digits"
    yield World(
        uri,
        lambda: hub.open_source(parse(uri, revision="main"), Credentials(TOKEN, options), patience=impatient()),
        put,
        lambda: server.store.of("GET"),
        trouble,
        files,
        {"HF_ENDPOINT": server.url, "HF_TOKEN": TOKEN},
    )
    server.close()
    from huggingface_hub.utils import close_session

    close_session()


@pytest.fixture
def s3_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A real S3 server; content comes through a second one that can fail, as signed URLs of another place would."""
    server = S3Server()
    files = {"a/big.bin": BIG, "small.txt": b"small"}
    client = server.bucket("data", {f"set/{path}": data for path, data in files.items()})
    act: list[Callable[[Question], Reply | None]] = [lambda _: None]

    def answer(question: Question) -> Reply:
        early = act[0](question)
        if early is not None:
            return early
        found = client.get_object(Bucket="data", Key=question.path.removeprefix("/data/"))
        return serve(question, found["Body"].read(), etag=found["ETag"])

    front = WebServer(answer)

    def put(data: bytes) -> None:
        files["a/big.bin"] = data
        client.put_object(Bucket="data", Key="set/a/big.bin", Body=data)

    def open_it() -> Provider:
        provider: Any = objects.open_source(
            parse("s3://data/set"), Credentials(options=server.options()), patience=impatient()
        )
        provider._fs.url = lambda path, **_: f"{front.url}/{quote(path)}"
        return provider  # type: ignore[no-any-return]

    def trouble(what: Callable[[Question], Reply | None]) -> None:
        act[0] = what

    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": server.url}
    yield World("s3://data/set", open_it, put, lambda: front.of("GET"), trouble, files, keys)
    front.close()
    client.close()
    server.close()


@pytest.fixture
def http_world() -> Iterator[World]:
    files = {"big.bin": BIG}
    act: list[Callable[[Question], Reply | None]] = [lambda _: None]

    def answer(question: Question) -> Reply:
        if question.headers.get("authorization") != f"Bearer {TOKEN}":
            return Reply(401)
        early = act[0](question) if question.method == "GET" else None
        return early or serve(question, files["big.bin"], etag=f'"{hashlib.md5(files["big.bin"]).hexdigest()}"')

    server = WebServer(answer)
    uri = f"{server.url}/data/big.bin"

    def trouble(what: Callable[[Question], Reply | None]) -> None:
        act[0] = what

    yield World(
        uri,
        lambda: http.open_source(parse(uri), Credentials(TOKEN), patience=impatient()),
        lambda data: files.update({"big.bin": data}),
        lambda: server.of("GET"),
        trouble,
        files,
        {"HTTP_TOKEN": TOKEN},
    )
    server.close()


@pytest.fixture(params=["hub", "s3", "http"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.getfixturevalue(f"{request.param}_world")
    return found


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def snapshot(world: World, store: FolderStore) -> Snapshot:
    provider = world.open()
    revision = "main" if world.uri.startswith("hf") else ""
    try:
        source = parse(world.uri, revision=revision)
        return take(source, store, kind="dataset", provider=provider, clock=VirtualClock(), jobs=2)
    finally:
        provider.close()


def content(snapshot: Snapshot) -> dict[str, bytes]:
    root = Path(snapshot.location.removeprefix("file://"))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_made_once(world: World, store: FolderStore) -> None:
    made = snapshot(world, store)
    assert content(made) == world.files
    assert not made.hit
    asked = len(world.asked())
    again = snapshot(world, store)
    assert again.hit
    assert (again.key, again.revision, again.digest) == (made.key, made.revision, made.digest)
    assert len(world.asked()) == asked


def test_new_content_is_a_new_snapshot_and_the_old_one_stays(world: World, store: FolderStore) -> None:
    made = snapshot(world, store)
    before = content(made)
    world.put(b"another" * 1000)
    other = snapshot(world, store)
    assert (other.revision != made.revision, other.key != made.key) == (True, True)
    assert content(other) == world.files
    assert content(made) == before


def test_what_a_cut_left_is_gone_on_with(world: World, store: FolderStore) -> None:
    def cut(question: Question) -> Reply | None:
        if question.method != "GET" or question.path.endswith("small.txt"):
            return None
        first = question.range[0] if question.range else 0
        if first >= 150_000:
            return Reply(503)
        headers = {"Content-Range": f"bytes {first}-{len(BIG) - 1}/{len(BIG)}"} if first else {}
        return Reply(206 if first else 200, BIG, headers, start=first, cut=150_000 - first)

    world.set_trouble(cut)
    with pytest.raises(SnapshotError, match="no usable answer") as told:
        snapshot(world, store)
    assert told.value.transient
    assert store.list() == ()
    world.set_trouble(lambda _: None)
    asked = len(world.asked())
    made = snapshot(world, store)
    assert content(made) == world.files
    starts = [q.range for q in world.asked()[asked:] if not q.path.endswith("small.txt")]
    assert starts == [(150_000, None)]


def test_a_change_between_listing_and_download_is_listed_again(world: World, store: FolderStore) -> None:
    changed: list[bool] = []

    def change(question: Question) -> None:
        if not changed and not question.path.endswith("small.txt"):
            changed.append(True)
            world.put(bytes(reversed(BIG)))

    world.set_trouble(change)
    made = content(snapshot(world, store))
    if world.uri.startswith("hf"):
        # A commit stays what it is.
        assert made == {**world.files, "a/big.bin": BIG}
    else:
        assert made == world.files
        assert snapshot(world, store).hit


def test_bytes_that_are_not_what_the_hub_says_they_are(hub_world: World, store: FolderStore) -> None:
    hub_world.set_trouble(lambda q: serve(q, b"?" * len(BIG)))
    with pytest.raises(SnapshotError, match="sha256"):
        snapshot(hub_world, store)
    assert store.list() == ()


def test_a_pod(world: World, tmp_path: Path) -> None:
    """The whole program, with credentials as a pod has them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "AWS_", "HUGGING"))}
    env = {**kept, **world.env, "HF_HOME": str(tmp_path / "hf"), "TRAINER_OPS_RESULT_PATH": str(tmp_path / "result")}
    command = [sys.executable, "-m", "trainer_ops.initializers", "take", "--kind", "dataset", "--uri", world.uri]
    for hit in (False, True):
        done = subprocess.run(
            [*command, "--store", str(tmp_path / "store")], env=env, capture_output=True, text=True, timeout=90
        )
        assert done.returncode == 0, done.stderr
        told = Snapshot.from_json(json.loads((tmp_path / "result").read_text()))
        assert told.hit is hit
        assert content(told) == world.files
        assert TOKEN not in done.stdout + done.stderr + (tmp_path / "result").read_text()
        assert SECRET not in done.stdout + done.stderr
