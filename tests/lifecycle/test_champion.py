"""What every registry promises: a folder, object storage without conditions, a real S3 server, MLflow."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.champion import POINTER, Registry, open_registry
from trainer_ops.lifecycle.model_files import ModelFile, model_files
from trainer_ops.model.champion import Candidate, Champion, ChampionChanged, RegistryError
from trainer_ops.testing import VirtualClock

KINDS = ("folder", "memory", "s3", "mlflow file")
COPYING = ("folder", "memory", "s3")
NEEDS = {"memory": ("fsspec",), "s3": ("moto", "s3fs"), "mlflow file": ("mlflow",)}


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, Any]]:
    """A real S3 server on loopback; the options for fsspec's driver."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {"key": "test", "secret": "test", "endpoint_url": f"http://{host}:{port}"}
    server.stop()


@pytest.fixture
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Registry]:
    """Opens one and the same registry, again and again, as different processes do."""
    kind = request.param
    for package in NEEDS.get(kind, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed here")
    options: dict[str, Any] | None = None
    if kind == "folder":
        url = (tmp_path / "registry").as_uri()
    elif kind == "memory":
        url = f"memory://{tmp_path.name}/registry"
    elif kind == "s3":
        import s3fs

        options = request.getfixturevalue("s3")
        bucket = tmp_path.name.replace("_", "-").lower()
        s3fs.S3FileSystem(**options).mkdir(bucket)
        url = f"s3://{bucket}/team/digits"
    else:
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3.17 wants it said
        monkeypatch.setenv("MLFLOW_REGISTRY_URI", (tmp_path / "mlruns").as_uri())
        url = "mlflow://digits"
    return lambda **more: open_registry(url, clock=clock, options=options, **more)


every = pytest.mark.parametrize("opened", KINDS, indirect=True)
copying = pytest.mark.parametrize("opened", COPYING, indirect=True)


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Candidate]:
    """A model in a file, and the candidate that it is."""

    def make(name: str, accuracy: float = 0.9, **more: Any) -> Candidate:
        file = tmp_path / "trained" / name / "digits.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"model {name}")
        return Candidate(file.as_uri(), {"accuracy": accuracy}, f"sha256:{name}", **more)

    return make


def text_of(champion: Champion, options: Any = None) -> str:
    (file,) = model_files(champion.model_uri, options).files
    return read(file).decode()


def read(file: ModelFile) -> bytes:
    with file.open() as stream:
        return stream.read()


@every
def test_first_and_next(opened: Any, model: Any, clock: VirtualClock) -> None:
    assert opened().champion() is None
    assert opened().keep(3) == []
    first = opened().promote(model("one", note={"trainjob": "digits-1"}), expect=0)
    assert opened().champion() == first
    assert first.version == 1
    assert first.metrics == {"accuracy": 0.9}
    assert first.fingerprint == "sha256:one"
    assert first.note == {"trainjob": "digits-1"}
    assert first.promoted_at.endswith("Z")
    second = opened().promote(model("two", 0.95), expect=1)
    assert opened().champion() == second
    assert (second.version, second.metrics) == (2, {"accuracy": 0.95})


@every
def test_promoting_the_same_twice_is_once(opened: Any, model: Any) -> None:
    first = opened().promote(model("one"), expect=0)
    assert opened().promote(model("one", 0.91), expect=0) == first
    assert opened().promote(model("one"), expect=7) == first  # a retry does not know what came of the first try
    assert opened().champion() == first


@every
def test_nobody_takes_the_place_of_a_champion_it_was_not_judged_against(opened: Any, model: Any) -> None:
    opened().promote(model("one"), expect=0)
    second = opened().promote(model("two"), expect=1)
    for expect, judged in ((1, "version 1"), (0, "none"), (3, "version 3")):
        with pytest.raises(ChampionChanged, match=rf"judged against .*{judged}.*champion is version 2"):
            opened().promote(model("three"), expect=expect)
    assert opened().champion() == second


@every
def test_a_model_can_come_back(opened: Any, model: Any) -> None:
    for version, name in enumerate(("one", "two", "one")):
        champion = opened().promote(model(name), expect=version)
    assert opened().champion() == champion
    assert (champion.version, champion.fingerprint) == (3, "sha256:one")


@every
def test_keep(opened: Any, model: Any) -> None:
    for version in range(5):
        champion = opened().promote(model(f"m{version}"), expect=version)
    gone = opened().keep(2)
    assert len(gone) == 3
    assert opened().keep(2) == []
    assert opened().champion() == champion
    assert opened().keep(1) != []
    assert opened().champion() == champion
    with pytest.raises(InvalidRequest, match="keep: 0 is not at least 1"):
        opened().keep(0)


@copying
def test_the_copy_outlives_the_training(opened: Any, model: Any, tmp_path: Path, request: Any) -> None:
    candidate = model("one")
    champion = opened().promote(candidate, expect=0)
    (tmp_path / "trained" / "one" / "digits.json").unlink()
    assert champion.model_uri == f"{opened().url}/versions/{champion.folder}/model/digits.json"
    assert champion.source_uri == candidate.model_uri
    options = request.getfixturevalue("s3") if champion.model_uri.startswith("s3:") else None
    assert text_of(champion, options) == "model one"


@copying
def test_a_model_that_is_a_folder(opened: Any, tmp_path: Path, request: Any) -> None:
    folder = tmp_path / "my model"
    (folder / "weights").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "weights" / "größe 1.bin").write_bytes(b"\0" * 10)
    (folder / "empty").touch()
    champion = opened().promote(Candidate(folder.as_uri()), expect=0)
    assert champion.model_uri == f"{opened().url}/versions/{champion.folder}/model"
    options = request.getfixturevalue("s3") if champion.model_uri.startswith("s3:") else None
    found = model_files(champion.model_uri, options).files
    assert {(file.path, file.size) for file in found} == {("config.json", 2), ("weights/größe 1.bin", 10), ("empty", 0)}


@pytest.mark.parametrize("opened", ["folder", "s3"], indirect=True)
@pytest.mark.parametrize("name", ["model.json", "weights", "größe 1"])
def test_a_model_in_object_storage(name: str, opened: Any, s3: dict[str, Any], tmp_path: Path) -> None:
    import s3fs

    fs = s3fs.S3FileSystem(**s3)
    bucket = f"m-{tmp_path.name.replace('_', '-').lower()}"[:60].rstrip("-")
    fs.mkdir(bucket)
    content = {"a.bin": b"a", "deep/b.bin": b"bb"} if name == "weights" else {"": b"one file"}
    for path, data in content.items():
        fs.pipe_file(f"{bucket}/run/{name}/{path}".rstrip("/"), data)
    fs.pipe_file(f"{bucket}/run/{name}-other", b"another model")
    local = opened().url.startswith("file:")
    registry = opened() if not local else open_registry(opened().url, options=s3)
    champion = registry.promote(Candidate(f"s3://{bucket}/run/{name}"), expect=0)
    found = model_files(champion.model_uri, None if local else s3)
    assert {file.path: read(file) for file in found.files} == {path or name: data for path, data in content.items()}
    assert found.name == ("" if name == "weights" else name)


@copying
def test_without_a_copy_only_the_pointer_changes(opened: Any) -> None:
    candidate = Candidate("pvc://models/digits/model.json", {"accuracy": 0.9})
    champion = opened(copy=False).promote(candidate, expect=0)
    assert champion.model_uri == candidate.model_uri
    assert opened().champion() == champion
    second = opened(copy=False).promote(Candidate("file:///models/nowhere"), expect=1)
    assert opened().keep(1) == [champion.folder]
    assert opened().champion() == second


BAD_MODELS = {
    "nowhere": ("file:///nowhere/model", "is not on this machine. Where it is in a pod's volume, mount that here"),
    "an empty folder": ("", "holds no file"),
    "a volume": ("pvc://models/digits", "is in a volume. Mount it here and give its path, or promote it where it is"),
    "a relative path": ("model.json", "is no absolute path"),
    "another machine's file": ("file://other/model", "is no absolute path"),
    "no driver": ("weird://x/model", "cannot be read here"),
}


@copying
@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_model_that_cannot_be_copied_leaves_the_champion(case: str, opened: Any, model: Any, tmp_path: Path) -> None:
    first = opened().promote(model("one"), expect=0)
    (tmp_path / "void").mkdir()
    uri, text = BAD_MODELS[case]
    with pytest.raises(InvalidRequest) as raised:
        opened().promote(Candidate(uri or (tmp_path / "void").as_uri()), expect=1)
    assert raised.value.field == "model_uri"
    assert text in str(raised.value)
    assert opened().champion() == first


@pytest.mark.parametrize("opened", ["folder"], indirect=True)
def test_the_pointer_is_for_others_to_read(opened: Any, model: Any, tmp_path: Path) -> None:
    opened().promote(model("one"), expect=0)
    champion = opened().promote(model("two"), expect=1)
    data = json.loads((tmp_path / "registry" / POINTER).read_text())
    assert data == champion.to_json()
    assert data["previous"] == [f"000001-{model('one').id}"]
    record = tmp_path / "registry" / "versions" / champion.folder / "promotion.json"
    assert json.loads(record.read_text())["model_uri"] == champion.model_uri


@pytest.mark.parametrize("opened", ["folder"], indirect=True)
@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"model_uri": "x"}', '{"version": "x"}'])
def test_a_pointer_that_is_none_of_ours(text: str, opened: Any, model: Any, tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / POINTER).write_text(text)
    for call in (opened().champion, lambda: opened().promote(model("one"), expect=0), lambda: opened().keep(1)):
        with pytest.raises(RegistryError, match="is no pointer of ours"):
            call()
    assert (tmp_path / "registry" / POINTER).read_text() == text


@pytest.mark.parametrize("opened", ["folder"], indirect=True)
def test_a_damaged_pointer_is_mended_as_the_error_says(opened: Any, model: Any, tmp_path: Path) -> None:
    champion = opened().promote(model("one"), expect=0)
    pointer = tmp_path / "registry" / POINTER
    pointer.write_text("half a")
    with pytest.raises(RegistryError, match=r"copy the newest versions/\*/promotion.json over the pointer"):
        opened().champion()
    shutil.copy(max(pointer.parent.glob("versions/*/promotion.json")), pointer)
    assert opened().champion() == champion


@copying
def test_a_champion_that_is_gone_from_its_registry_is_told(opened: Any, model: Any) -> None:
    champion = opened().promote(model("one"), expect=0)
    opened()._place.remove(champion.folder)
    with pytest.raises(RegistryError, match=r"version 1, and that is gone from the registry\. Bring versions/000001-"):
        opened().champion()


@copying
def test_one_that_was_never_copied_is_not_looked_for(opened: Any, model: Any) -> None:
    champion = opened(copy=False).promote(model("one"), expect=0)
    assert opened().champion() == champion


@pytest.mark.parametrize("opened", ["folder"], indirect=True)
def test_a_pointer_of_a_later_format_is_left_alone(opened: Any, model: Any, tmp_path: Path) -> None:
    champion = opened().promote(model("one"), expect=0)
    text = json.dumps({**champion.to_json(), "format": 2})
    (tmp_path / "registry" / POINTER).write_text(text)
    with pytest.raises(RegistryError, match="format 2 is of a later trainer-ops"):
        opened().promote(model("two"), expect=1)
    assert (tmp_path / "registry" / POINTER).read_text() == text


def test_a_driver_that_connects_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer_ops.lifecycle import champion

    def away(*_given: Any) -> Any:
        raise OSError("Name or service not known")

    monkeypatch.setattr(champion, "ObjectPlace", away)
    with pytest.raises(RegistryError, match="registry ftp://x cannot be opened: Name or service not known"):
        open_registry("ftp://x")


@pytest.mark.parametrize("opened", ["folder"], indirect=True)
def test_a_folder_that_cannot_be_written(opened: Any, model: Any, tmp_path: Path) -> None:
    (tmp_path / "registry").write_text("a file is in the way")
    with pytest.raises(
        RegistryError, match=r"registry file:///.*/registry cannot be written: .*Not a directory.*Check its URL"
    ):
        opened().promote(model("one"), expect=0)


BAD_URLS = {
    "": "registry: is empty",
    "models": "is no absolute path",
    "weird://x": "cannot be read here",
    "s3://": "names no bucket",
    "mlflow://": "names no model",
    "mlflow://digits?allias=x": "names no model",
    "mlflow://digits": "mlflow:// names no server. Set MLFLOW_REGISTRY_URI",
}


@pytest.mark.parametrize("url", BAD_URLS)
def test_bad_urls(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(InvalidRequest) as raised:
        open_registry(url)
    assert raised.value.field == "registry"
    assert BAD_URLS[url] in str(raised.value)


@pytest.mark.skipif(importlib.util.find_spec("s3fs") is None, reason="s3fs is not installed here")
def test_a_server_that_is_away(clock: VirtualClock) -> None:
    options = {
        "key": "a",
        "secret": "b",
        "endpoint_url": "http://127.0.0.1:9",
        "config_kwargs": {"retries": {"max_attempts": 1}},
    }
    registry = open_registry("s3://bucket/x", options=options, clock=clock)
    with pytest.raises(RegistryError, match="cannot be read: "):
        registry.champion()


DATABASE = """
import sys
from trainer_ops.lifecycle.champion import open_registry
from trainer_ops.model.champion import Candidate

registry = open_registry(f"mlflow://digits?registry=sqlite:///{sys.argv[1]}")
assert registry.champion() is None
first = registry.promote(Candidate("s3://m/1", {"accuracy": 0.9}, "sha256:1"), expect=0)
second = registry.promote(Candidate("s3://m/2", {"accuracy": 0.95}, "sha256:2"), expect=1)
assert registry.promote(Candidate("s3://m/2", {"accuracy": 0.95}, "sha256:2"), expect=0) == second
assert registry.champion() == second and second.metrics == {"accuracy": 0.95}
assert registry.keep(1) == [str(first.version)]
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed here")
def test_mlflow_in_a_database(tmp_path: Path) -> None:
    """A process of its own: mlflow 3.17 uses what SQLAlchemy 2.1 deprecates."""
    command = [sys.executable, "-c", DATABASE, str(tmp_path / "ml.db")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ml.db"]


@pytest.mark.parametrize("opened", ["mlflow file"], indirect=True)
def test_mlflow_versions_of_others_are_left_alone(opened: Any, model: Any) -> None:
    from mlflow import MlflowClient

    store = os.environ["MLFLOW_REGISTRY_URI"]
    client = MlflowClient(store, store)
    opened().promote(model("one"), expect=0)
    theirs = client.create_model_version("digits", source="s3://theirs")
    pinned = opened().promote(model("two"), expect=1)
    client.set_registered_model_alias("digits", "pinned", str(pinned.version))
    opened().promote(model("three"), expect=pinned.version)
    assert opened().keep(1) == ["1"]
    assert client.get_model_version("digits", theirs.version).source == "s3://theirs"
    client.set_registered_model_alias("digits", "champion", theirs.version)
    by_hand = opened().champion()
    assert (by_hand.version, by_hand.model_uri, by_hand.metrics) == (int(theirs.version), "s3://theirs", {})
