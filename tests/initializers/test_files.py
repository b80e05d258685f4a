"""A folder of this machine as a source."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.initializers.stand_ins import MemoryProvider, tree
from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.files import FileProvider
from trainer_ops.initializers.folder_store import FolderStore
from trainer_ops.initializers.open import open_provider
from trainer_ops.initializers.provider import Provider, RemoteFile, SnapshotError, SourceChanged
from trainer_ops.initializers.source import Source, parse
from trainer_ops.initializers.take import take
from trainer_ops.model.snapshot import Snapshot
from trainer_ops.testing.clock import VirtualClock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "my data"
    (made / "sub" / "deep").mkdir(parents=True)
    (made / "a.csv").write_bytes(b"1,2\n")
    (made / "sub" / "ü").write_bytes(os.urandom(3_000_000))
    (made / "sub" / "deep" / "empty").touch()
    return made


def source_of(path: Path) -> Source:
    return parse(f"file://{path}")


def provider_of(path: Path) -> FileProvider:
    return FileProvider(source_of(path), path)


def make(path: Path, store: Path, provider: Provider | None = None, ignore: str = "") -> Snapshot:
    source = replace(source_of(path), ignore=(ignore,) if ignore else ())
    opened = provider or open_provider(source)
    return take(source, FolderStore(store), kind="dataset", provider=opened, clock=VirtualClock())


def test_a_folder(folder: Path, tmp_path: Path) -> None:
    made = make(folder, tmp_path / "store")
    assert made.uri == f"file://{tmp_path}/my%20data"
    assert tree(Path(made.location.removeprefix("file://"))) == tree(folder)
    assert make(folder, tmp_path / "store").hit


def test_one_file(folder: Path, tmp_path: Path) -> None:
    made = make(folder / "a.csv", tmp_path / "store")
    assert tree(Path(made.location.removeprefix("file://"))) == {"a.csv": b"1,2\n"}


def change(folder: Path, how: str) -> None:
    path = folder / "a.csv"
    before = path.stat()
    if how == "content":
        path.write_bytes(b"3,4\n")
    elif how == "content-with-the-old-time":
        path.write_bytes(b"3,4\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif how == "longer":
        path.write_bytes(b"1,2\n3")
    elif how == "new-file":
        (folder / "b").touch()
    elif how == "gone":
        path.unlink()
    elif how == "renamed":
        path.rename(folder / "c.csv")


@pytest.mark.parametrize("how", ["content", "content-with-the-old-time", "longer", "new-file", "gone", "renamed"])
def test_every_change_is_another_revision(how: str, folder: Path) -> None:
    provider = provider_of(folder)
    first = provider.resolve()
    assert provider.resolve() == first
    change(folder, how)
    assert provider.resolve().revision != first.revision


def test_a_file_that_was_just_written_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    newest = max((one.stat().st_ctime for one in folder.rglob("*") if one.is_file()), default=0.0)
    monkeypatch.setattr("trainer_ops.initializers.files.time.time", lambda: newest + 0.005)
    monkeypatch.setattr("trainer_ops.initializers.files.time.sleep", slept.append)
    provider_of(folder).resolve()
    assert len(slept) == 1
    assert 0 < slept[0] < 2
    monkeypatch.setattr("trainer_ops.initializers.files.time.time", lambda: newest + 10)
    provider_of(folder).resolve()
    assert len(slept) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_change_under_the_reader_is_seen(when: str, folder: Path, tmp_path: Path) -> None:
    provider = provider_of(folder)
    file = next(file for file in provider.resolve().files if file.path == "a.csv")
    if when == "before":
        change(folder, "content")
    with pytest.raises(SourceChanged, match=r"a\.csv was changed"):
        provider.fetch(file, tmp_path / "part", lambda count: change(folder, "longer"))


def test_a_file_that_is_gone_was_changed(folder: Path, tmp_path: Path) -> None:
    provider = provider_of(folder)
    file = next(file for file in provider.resolve().files if file.path == "a.csv")
    change(folder, "gone")
    with pytest.raises(SourceChanged, match="cannot be read any more"):
        provider.fetch(file, tmp_path / "part", lambda count: None)


def test_goes_on_from_what_is_there(folder: Path, tmp_path: Path) -> None:
    provider = provider_of(folder)
    file = next(file for file in provider.resolve().files if file.path == "sub/ü")
    content = (folder / "sub" / "ü").read_bytes()
    counts: list[int] = []
    for there in (b"", content[:1_000_000], content, content + b"too much"):
        counts.clear()
        (tmp_path / "part").write_bytes(there)
        provider.fetch(file, tmp_path / "part", counts.append)
        assert (tmp_path / "part").read_bytes() == content
        assert sum(counts) == len(content) - len(there)


def test_links_are_followed_and_circles_are_not(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"x")
    (folder / "to-file").symlink_to(outside / "x")
    (folder / "to-folder").symlink_to(outside)
    (folder / "sub" / "circle").symlink_to(folder)
    (folder / "sub" / "deep" / "self").symlink_to(folder / "sub" / "deep")
    made = make(folder, tmp_path / "store")
    found = tree(Path(made.location.removeprefix("file://")))
    assert found["to-file"] == found["to-folder/x"] == b"x"
    assert not [path for path in found if "circle" in path or "self" in path]


def test_links_to_nowhere_are_named(folder: Path) -> None:
    (folder / "dangling").symlink_to("nowhere")
    with pytest.raises(SnapshotError, match=r"dangling', a link to what is not there\. Mend the link"):
        provider_of(folder).resolve()


@pytest.mark.parametrize("kind", ["pipe", "dangling link"])
def test_what_cannot_be_copied_is_left_out_as_the_error_says(kind: str, folder: Path, tmp_path: Path) -> None:
    (folder / "odd").symlink_to("nowhere") if kind == "dangling link" else os.mkfifo(folder / "odd")
    with pytest.raises(SnapshotError, match="out with an ignore pattern"):
        make(folder, tmp_path / "store")
    made = make(folder, tmp_path / "store", ignore="odd")
    assert "odd" not in tree(Path(made.location.removeprefix("file://")))
    assert made.files > 0


def test_a_file_that_this_user_may_not_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is the test's."""
    opened: list[Path] = []
    real = Path.open

    def refuse(path: Path, *given: Any, **more: Any) -> Any:
        if path == folder / "a.csv":
            opened.append(path)
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *given, **more)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SnapshotError, match=r"a\.csv cannot be read: Permission denied\. Let this user read it"):
        make(folder, tmp_path / "store")
    assert len(opened) == 1, "listing again does not help"


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="No such file or directory") as caught:
        provider_of(tmp_path / "nowhere").resolve()
    assert caught.value.field == "uri"


def test_what_is_no_file_is_named(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(SnapshotError, match="no regular file"):
        provider_of(folder).resolve()


def test_a_name_that_is_not_utf_8_is_named(folder: Path, tmp_path: Path) -> None:
    try:
        (folder / os.fsdecode(b"bad\xff")).touch()
    except OSError:
        pytest.skip("this file system takes no such names")
    with pytest.raises(SnapshotError, match="not valid UTF-8"):
        make(folder, tmp_path / "store")


def test_a_claim_is_read_where_it_is_mounted(folder: Path) -> None:
    source = parse("pvc://claim/sub")
    found = open_provider(source, mounts={"claim": str(folder)}).resolve()
    assert (found.uri, [file.path for file in found.files]) == ("pvc://claim/sub", ["deep/empty", "ü"])
    with pytest.raises(InvalidRequest, match="claim claim is not mounted here"):
        open_provider(source)


@pytest.mark.parametrize(
    ("uri", "missing", "extra"),
    [("gs://b/x", "objects", "gcs"), ("az://b/x", "objects", "azure"), ("hf://o/n", "hub", "initializers")],
)
def test_a_driver_that_is_not_installed(uri: str, missing: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, f"trainer_ops.initializers.{missing}", None)
    with pytest.raises(InvalidRequest, match="not installed") as caught:
        open_provider(parse(uri))
    assert caught.value.remedy == f"pip install 'trainer-ops[{extra}]'"


def test_providers_fit_the_protocol() -> None:
    fits: tuple[Provider, ...] = (MemoryProvider({}), provider_of(Path("/x")))
    assert fits
    provider_of(Path("/x")).close()
    assert RemoteFile("x").size is None
