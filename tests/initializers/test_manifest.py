"""Which files patterns take, which names are refused, and a manifest's text."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.manifest import FileEntry, Manifest, check_clashes, select
from trainer_ops.initializers.provider import Listing, RemoteFile, SnapshotError
from trainer_ops.initializers.source import Source, parse

FILES = ("README.md", "data/train.csv", "data/test.csv", "data/old/train.csv", "model.bin")


def listing(paths: Sequence[str]) -> Listing:
    return Listing("s3://b", "r", tuple(RemoteFile(path, size=1) for path in paths))


def source(include: Sequence[str] = (), ignore: Sequence[str] = ()) -> Source:
    return parse("s3://b", include=include, ignore=ignore)


@pytest.mark.parametrize(
    ("include", "ignore", "taken"),
    [
        pytest.param((), (), FILES, id="all"),
        pytest.param(("*.csv",), (), ("data/old/train.csv", "data/test.csv", "data/train.csv"), id="star-over-slash"),
        pytest.param(("data/",), ("data/old/",), ("data/test.csv", "data/train.csv"), id="folders"),
        pytest.param(("data/t*.csv", "*.md"), (), ("README.md", "data/test.csv", "data/train.csv"), id="two"),
        pytest.param(("*",), ("*.csv", "*.md"), ("model.bin",), id="ignore-wins"),
        pytest.param(("readme.md", "model.bin"), (), ("model.bin",), id="case-counts"),
        pytest.param(("data/t[er]*.csv",), (), ("data/test.csv", "data/train.csv"), id="class"),
    ],
)
def test_patterns(include: Sequence[str], ignore: Sequence[str], taken: Sequence[str]) -> None:
    assert [file.path for file in select(listing(FILES), source(include, ignore))] == sorted(taken)


@pytest.mark.parametrize(
    ("include", "ignore", "field", "said"),
    [
        pytest.param(("*.parquet",), (), "include", "*.parquet matches none of the 5 files", id="include"),
        pytest.param((), ("*",), "ignore", "* leaves none of the 5 files", id="ignore"),
        pytest.param(("*.md",), ("*",), "include", "*.md without * matches none", id="both"),
    ],
)
def test_nothing_matched_shows_what_there_is(
    include: Sequence[str], ignore: Sequence[str], field: str, said: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        select(listing(FILES), source(include, ignore))
    assert caught.value.field == field
    assert said in caught.value.reason
    assert "data/train.csv" in caught.value.remedy


def test_of_many_names_a_few_are_shown() -> None:
    with pytest.raises(InvalidRequest, match=r"and 992 more"):
        select(listing([f"f{n:04}" for n in range(1000)]), source(["x"]))


def test_an_empty_source_is_refused() -> None:
    for paths in ((), ("folder/",)):
        with pytest.raises(InvalidRequest, match="holds no files"):
            select(Listing("s3://b", "r", tuple(RemoteFile(path, size=0) for path in paths)), source())


def test_folder_markers_are_no_files() -> None:
    found = select(Listing("s3://b", "r", (RemoteFile("a/", size=0), RemoteFile("a/x", size=0))), source())
    assert [file.path for file in found] == ["a/x"]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/etc/passwd", id="absolute"),
        pytest.param("../x", id="above"),
        pytest.param("a/../../x", id="above-inside"),
        pytest.param("a/..", id="above-at-the-end"),
        pytest.param("./a", id="dot"),
        pytest.param("a//b", id="empty-part"),
        pytest.param("a/", id="folder-with-content"),
        pytest.param("", id="nothing"),
        pytest.param("a\0b", id="nul"),
        pytest.param("a\udc80b", id="not-utf-8"),
        pytest.param("a" * 256, id="long-name"),
        pytest.param("ü" * 128, id="long-in-bytes"),
        pytest.param("/".join(["a" * 100] * 11), id="long-path"),
    ],
)
def test_names_that_are_no_file_below_a_folder(path: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        select(listing(["good", path]), source())
    assert "ignore pattern" in caught.value.remedy
    str(caught.value).encode()


def test_names_that_are_fine() -> None:
    paths = ["a b", "ü/日本", "...", "a\\b", "-x", "CON", ".hidden", "a" * 255]
    assert [file.path for file in select(listing(paths), source())] == sorted(paths)


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        pytest.param(["a", "b", "a"], 'lists "a" twice', id="twice"),
        pytest.param(["a", "a/b"], '"a" as a file and "a/b" below it', id="file-and-folder"),
        pytest.param(["a/b/c/d", "a/b", "a/b!"], '"a/b" as a file and "a/b/c/d" below it', id="deep"),
    ],
)
def test_names_that_exclude_each_other(paths: Sequence[str], said: str) -> None:
    with pytest.raises(SnapshotError, match=said):
        select(listing(paths), source())


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(["a/X", "a/x"], id="case"),
        pytest.param(["A/x", "a/y"], id="folder-case"),
        pytest.param(["\u00fc", "u\u0308"], id="accent"),
        pytest.param(["stra\u00dfe", "STRASSE"], id="fold"),
    ],
)
def test_names_that_are_one_on_a_file_system_without_case(paths: Sequence[str]) -> None:
    files = select(listing(paths), source())
    with pytest.raises(SnapshotError, match="one name on this file system"):
        check_clashes(files, source())


def test_equal_folders_do_not_clash() -> None:
    check_clashes(select(listing(["A/x", "A/y", "b/x"]), source()), source())


def made(files: Sequence[FileEntry]) -> Manifest:
    return Manifest.of("0" * 32, parse("hf://o/n@main", include=["*"]), "c" * 40, files, now=5.0, tool="trainer-ops 1")


ENTRIES = (FileEntry("b\n\u2028ü", 3, "1" * 64), FileEntry("a", 4, "2" * 64))


def test_text_and_back() -> None:
    manifest = made(ENTRIES)
    assert Manifest.load(manifest.dump()) == manifest
    assert [entry.path for entry in manifest.files] == ["a", "b\n\u2028ü"]
    assert (manifest.count, manifest.size, manifest.asked) == (2, 7, "main")
    assert json.loads(manifest.dump())["files"][0] == {"path": "a", "size": 4, "sha256": "2" * 64}


def test_the_first_line_is_enough_for_all_but_the_files() -> None:
    manifest = made(ENTRIES)
    head = Manifest.head(manifest.dump().partition("\n")[0])
    assert head.files == ()
    assert (head.key, head.digest, head.count, head.size) == (manifest.key, manifest.digest, 2, 7)


def test_digest_is_over_content_wherever_it_comes_from() -> None:
    other = Manifest.of("1" * 32, parse("s3://b"), "r", reversed(ENTRIES), now=9.0, tool="x")
    assert other.digest == made(ENTRIES).digest
    assert made(ENTRIES[:1]).digest != made(ENTRIES).digest
    assert made([FileEntry("a", 1, "3" * 64)]).digest != made([FileEntry("a 1", 1, "3" * 64)]).digest


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(made(ENTRIES).dump()[:-10], id="cut"),
        pytest.param(made(ENTRIES).dump().replace('"size": 4', '"size": 5'), id="changed"),
        pytest.param(made(ENTRIES).dump().replace('"format": 1', '"format": 9'), id="of-another-format"),
        pytest.param(made(ENTRIES).dump().replace('"path"', '"name"'), id="other-names"),
        pytest.param("[]", id="a-list"),
        pytest.param('{"format": 1, "key": "x"}', id="half"),
    ],
)
def test_what_is_no_manifest(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Manifest.load(text)
