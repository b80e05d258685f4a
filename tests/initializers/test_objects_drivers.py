"""gs:// and az:// by the adapter for any driver of fsspec, with drivers that say what gcsfs and adlfs say."""

from __future__ import annotations

import base64
import hashlib
import importlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers import objects
from trainer_ops.initializers.folder_store import FolderStore
from trainer_ops.initializers.open import open_provider
from trainer_ops.initializers.patience import Patience
from trainer_ops.initializers.pieces import Pieces
from trainer_ops.initializers.provider import Credentials, Provider, SnapshotError, SourceChanged
from trainer_ops.initializers.source import parse
from trainer_ops.initializers.take import take
from trainer_ops.testing.clock import VirtualClock

fsspec: Any = pytest.importorskip("fsspec")

BIG = random.Random(9).randbytes(100_000)
FILES = {"train.bin": BIG, "a/b ü.csv": b"a,b\n", "empty": b""}
SECRET = "sas-3f9c2b7e61"


class HttpError(Exception):
    """What a driver raises for what is neither absent nor forbidden."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{code} of https://account.example/?sig={SECRET}")
        self.code = code


class StandIn(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """Objects in memory; ``calls`` may be given something to do before each call."""

    cachable = False
    objects: ClassVar[dict[str, bytes]] = {}
    written: ClassVar[dict[str, int]] = {}
    before: ClassVar[list[Callable[[str, str], None]]] = []

    @classmethod
    def put_object(cls, name: str, data: bytes) -> None:
        cls.objects[name] = data
        cls.written[name] = cls.written.get(name, 0) + 1

    def describe(self, name: str) -> dict[str, Any]:
        raise NotImplementedError

    def _called(self, what: str, path: str) -> None:
        for act in self.before:
            act(what, path)

    def ls(self, path: str, detail: bool = True, **_: object) -> list[Any]:
        self._called("ls", path)
        root = self._strip_protocol(path).rstrip("/")
        if not any(name.startswith(f"{root}/") for name in self.objects):
            raise FileNotFoundError(root)
        found: dict[str, dict[str, Any]] = {}
        for name in self.objects:
            if name.startswith(f"{root}/"):
                child, below, _rest = name[len(root) + 1 :].partition("/")
                full = f"{root}/{child}"
                found[full] = {"name": full, "size": 0, "type": "directory"} if below else self.describe(name)
        return list(found.values()) if detail else list(found)

    def info(self, path: str, **_: object) -> dict[str, Any]:
        self._called("info", path)
        name = self._strip_protocol(path)
        if name in self.objects:
            return self.describe(name)
        if any(each.startswith(f"{name}/") for each in self.objects):
            return {"name": name, "size": 0, "type": "directory"}
        raise FileNotFoundError(name)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: object) -> bytes:
        self._called("cat_file", path)
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[path][start:end]


class Google(StandIn):
    protocol = ("gs", "gcs")

    def describe(self, name: str) -> dict[str, Any]:
        data = self.objects[name]
        digest = base64.b64encode(hashlib.md5(data).digest()).decode()
        return {
            "name": name, "size": len(data), "type": "file", "etag": "CJ==", "generation": str(self.written[name]),
            "md5Hash": digest,
        }  # fmt: skip


class Azure(StandIn):
    protocol = ("az", "abfs")

    def __init__(self, account_name: str = "", sas_token: str = "", **more: Any) -> None:
        if not account_name:
            raise ValueError(f"Must provide either a connection_string or account_name, not {sas_token}")
        super().__init__(**more)

    def describe(self, name: str) -> dict[str, Any]:
        return {
            "name": name, "size": len(self.objects[name]), "type": "file", "etag": f"0x8D{self.written[name]}",
            "content_settings": {"content_md5": None},
        }  # fmt: skip


OPTIONS: dict[str, dict[str, object]] = {"gs": {}, "az": {"account_name": "account", "sas_token": SECRET}}


@pytest.fixture
def store() -> Iterator[type[StandIn]]:
    registered = importlib.import_module("fsspec.registry")._registry
    before = dict(registered)
    fsspec.register_implementation("gs", Google, clobber=True)
    fsspec.register_implementation("az", Azure, clobber=True)
    for path, data in FILES.items():
        StandIn.put_object(f"data/set/{path}", data)
    StandIn.put_object("data/other", b"")
    yield StandIn
    registered.clear()
    registered.update(before)
    for kept in (StandIn.objects, StandIn.written, StandIn.before):
        kept.clear()


@pytest.fixture(params=["gs", "az"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


Open = Callable[..., Provider]


@pytest.fixture
def opened(store: type[StandIn], scheme: str) -> Iterator[Open]:
    providers: list[Provider] = []

    def make(place: str = "data/set", pieces: Pieces | None = None) -> Provider:
        credentials = Credentials(options=OPTIONS[scheme])
        patience = Patience(sleep=lambda _: None)
        providers.append(
            objects.open_source(parse(f"{scheme}://{place}"), credentials, patience=patience, pieces=pieces)
        )
        return providers[-1]

    yield make
    for provider in providers:
        provider.close()


def taken(provider: Provider, folder: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for number, file in enumerate(provider.resolve().files):
        counted: list[int] = []
        there = (folder / str(number)).stat().st_size if (folder / str(number)).exists() else 0
        provider.fetch(file, folder / str(number), counted.append)
        found[file.path] = (folder / str(number)).read_bytes()
        assert sum(counted) == len(found[file.path]) - there
    return found


def test_everything_below_a_prefix(opened: Open, tmp_path: Path) -> None:
    assert taken(opened(), tmp_path) == FILES
    assert opened().resolve().revision == opened().resolve().revision


def test_large_objects_one_object_and_a_part(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(BIG[:33_333])
    pieces = Pieces(size=10_000, at_once=3)
    assert taken(opened("data/set/train.bin", pieces), tmp_path) == {"train.bin": BIG}


def test_google_knows_digests(opened: Open, scheme: str) -> None:
    file = opened("data/set/train.bin").resolve().files[0]
    assert file.md5 == (hashlib.md5(BIG).hexdigest() if scheme == "gs" else "")


@pytest.mark.parametrize("moment", ["before", "in the middle", "at the end", "gone"])
def test_an_object_that_changes_leaves_no_bytes_behind(
    store: type[StandIn], opened: Open, tmp_path: Path, moment: str
) -> None:
    reads = {"before": 1, "in the middle": 5, "at the end": 10, "gone": 3}[moment]
    seen: list[str] = []

    def act(what: str, path: str) -> None:
        if what == "cat_file":
            seen.append(path)
            if len(seen) == reads and moment == "gone":
                store.objects.pop("data/set/train.bin", None)
            elif len(seen) == reads:
                # The same bytes once more: it is another object all the same.
                store.put_object("data/set/train.bin", BIG)

    store.before.append(act)
    with pytest.raises(SourceChanged, match="changed while"):
        taken(opened("data/set/train.bin", Pieces(size=10_000, at_once=1)), tmp_path)
    assert moment == "gone" or (tmp_path / "0").read_bytes() == b""


def failing(error: Exception, what: str, times: int) -> Callable[[str, str], None]:
    left = [times]

    def act(called: str, _path: str) -> None:
        if called == what and left[0]:
            left[0] -= 1
            raise error

    return act


def test_trouble_is_tried_again_and_told_without_secrets(store: type[StandIn], opened: Open, tmp_path: Path) -> None:
    store.before.append(failing(HttpError(503), "cat_file", 1))
    assert taken(opened(), tmp_path) == FILES
    store.before.append(failing(HttpError(503), "cat_file", 99))
    with pytest.raises(SnapshotError, match="no usable answer from data after 2 tries") as told:
        taken(opened(), tmp_path / "..")
    assert told.value.transient


REFUSALS = {
    "credentials wrong": (HttpError(401), "credentials wrong"),
    "not allowed": (HttpError(403), "credentials are not allowed to read the"),
    "not allowed, as a file system says it": (PermissionError("no"), "credentials are not allowed to read the"),
    "nothing found to sign with": (
        type("DefaultCredentialsError", (Exception,), {})("File not found"), "credentials missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_which(store: type[StandIn], opened: Open, case: str) -> None:
    error, words = REFUSALS[case]
    store.before.append(failing(error, "info", 9))
    store.before.append(failing(error, "ls", 9))
    with pytest.raises(SnapshotError, match=words) as told:
        opened().resolve()
    assert told.value.remedy
    assert SECRET not in str(told.value)


def test_a_folder_that_cannot_be_listed_is_not_left_out(store: type[StandIn], opened: Open) -> None:
    def act(what: str, path: str) -> None:
        if what == "ls" and path.endswith("/a"):
            raise PermissionError(path)

    store.before.append(act)
    with pytest.raises(SnapshotError, match="credentials are not allowed"):
        opened().resolve()


def test_from_the_source_to_the_store(store: type[StandIn], opened: Open, scheme: str, tmp_path: Path) -> None:
    source, kept = parse(f"{scheme}://data/set"), FolderStore(tmp_path / "store")
    store.before.append(failing(HttpError(503), "cat_file", 99))
    with pytest.raises(SnapshotError):
        take(source, kept, kind="model", provider=opened(), clock=VirtualClock(), jobs=1)
    assert kept.list() == ()
    store.before.clear()
    changed: list[str] = []

    def change(what: str, path: str) -> None:
        if what == "cat_file" and path.endswith("train.bin") and not changed:
            changed.append(path)
            store.put_object(path, b"newer")

    store.before.append(change)
    made = take(source, kept, kind="model", provider=opened(), clock=VirtualClock())
    root = Path(made.location.removeprefix("file://"))
    assert {path: (root / path).read_bytes() for path in FILES} == {**FILES, "train.bin": b"newer"}
    assert take(source, kept, kind="model", provider=opened(), clock=VirtualClock()).hit


def test_nothing_of_that_name(opened: Open, scheme: str) -> None:
    with pytest.raises(InvalidRequest, match=f"there is no object {scheme}://data/sett") as told:
        opened("data/sett").resolve()
    assert told.value.remedy == f"In {scheme}://data there are: other, set."
    kind = "container" if scheme == "az" else "bucket"
    with pytest.raises(InvalidRequest, match=f"there is no {kind} dat"):
        opened("dat/set").resolve()


def test_credentials_that_the_driver_does_not_take(store: type[StandIn]) -> None:
    with pytest.raises(InvalidRequest, match="credentials: the driver of az:// does not take them") as told:
        objects.open_source(parse("az://data"), Credentials(options={"sas_token": SECRET}))
    assert SECRET not in str(told.value)


@pytest.mark.parametrize(("uri", "extra"), [("gs://data", "gcs"), ("az://data", "azure")])
def test_a_driver_that_is_not_installed(uri: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in ("gcsfs", "adlfs"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidRequest) as told:
        open_provider(parse(uri))
    assert told.value.remedy == f"pip install 'trainer-ops[{extra}]'"
