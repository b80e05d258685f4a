"""A snapshot on its way, and its end: the line at every width, rates and estimates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trainer_ops.cli.fetchview import Progress, block, files_text, made, progress_line, short
from trainer_ops.cli.render import Signs
from trainer_ops.cli.text import plain, size_text, wide
from trainer_ops.model.snapshot import Snapshot

T0 = 1_800_000_000.0
GB, MB = 10**9, 10**6
KEY = "4f2a0c1b2d3e4f5a6b7c8d9e0f1a2b3c"


def progress(uri: str = "hf://datasets/org/digits", *, size: int | None = 1_700 * MB, **moved: Any) -> Progress:
    seen = Progress(uri, T0)
    seen.start(T0 + 2, 200, size, 0)
    seen.move(T0 + 12, moved.get("done", 480 * MB), moved.get("files", 57))
    return seen


LINES = {
    "120 has room for all": (
        progress(), 120,
        "digits  0:12  ━━━━━━━━──────────────────────   28 %  480 MB of 1.7 GB  48 MB/s  25 s left  57 of 200 files",
    ),
    "100 has a shorter bar": (
        progress(), 100,
        "digits  0:12  ━━━━━━╸─────────────────   28 %  480 MB of 1.7 GB  48 MB/s  25 s left  57 of 200 files",
    ),
    "80 has no files": (
        progress(), 80,
        "digits  0:12  ━━━━━╸───────────────   28 %  480 MB of 1.7 GB  48 MB/s  25 s left",
    ),
    "64 has no estimate": (progress(), 64, "digits  0:12  ━━━━╸───────────   28 %  480 MB of 1.7 GB  48 MB/s"),
    "50 has the bar alone": (progress(), 50, "digits  0:12  ━━━────────   28 %  480 MB of 1.7 GB"),
    "one unit is said once": (
        progress(done=1_200 * MB), 64,
        "digits  0:12  ━━━━━╸──   70 %  1.2 of 1.7 GB  120 MB/s  4 s left",
    ),
    "a source that says no sizes": (progress(size=None), 80, "digits  0:12  480 MB  48 MB/s  57 of 200 files"),
    "nothing but empty files": (progress(size=0, done=0), 80, "digits  0:12  0 B  57 of 200 files"),
    "a long name is cut": (
        progress("s3://bucket/a-very-long-name-of-a-folder-with-data"), 80,
        "a-very-long-name-of-a-fol…  0:12  ━━━─────────   28 %  480 MB of 1.7 GB  48 MB/s",
    ),
    "not asked yet": (Progress("s3://bucket/digits", T0), 80, "digits  0:12  looking at what is there"),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "width", "wanted"), LINES.values(), ids=LINES.keys())
def test_a_line(seen: Progress, width: int, wanted: str) -> None:
    line = plain(progress_line(seen, T0 + 12, width, Signs()))
    assert line == wanted
    assert wide(line) <= width


def test_a_line_without_utf8() -> None:
    assert plain(progress_line(progress(), T0 + 12, 50, Signs.of("ascii"))).isascii()


def test_the_rate_is_that_of_the_last_seconds() -> None:
    seen = Progress("s3://b/x", T0)
    seen.start(T0, 2, 1000, 0)
    assert seen.rate(T0) is None
    for second in range(1, 101):
        seen.move(T0 + second, second, 0)  # slow for long
    for second in range(1, 31):
        seen.move(T0 + 100 + second, 100 + 10 * second, 0)
    assert seen.rate(T0 + 130) == pytest.approx(10, rel=0.1)
    assert seen.left(T0 + 130) == pytest.approx(60, rel=0.1)


def test_what_was_there_from_before_is_no_speed() -> None:
    seen = Progress("s3://b/x", T0)
    seen.start(T0, 2, 1000, 900)
    seen.move(T0 + 10, 920, 1)
    assert (seen.percent, seen.rate(T0 + 10), seen.left(T0 + 10)) == (92, 2.0, 40.0)


def test_a_piece_that_had_to_be_thrown_away_makes_no_negative_speed() -> None:
    seen = Progress("s3://b/x", T0)
    seen.start(T0, 2, 1000, 0)
    seen.move(T0 + 10, -5, 0)
    assert (seen.percent, seen.rate(T0 + 10), seen.left(T0 + 10)) == (0, None, None)


SIZES = {0: "0 B", 999: "999 B", 1000: "1.0 kB", 9_949: "9.9 kB", 9_999: "10 kB", 999_499: "999 kB", 999_500: "1.0 MB",
         1_700 * MB: "1.7 GB", 48 * MB: "48 MB", 3 * 10**12: "3.0 TB"}  # fmt: skip


@pytest.mark.parametrize(("size", "wanted"), SIZES.items())
def test_sizes(size: int, wanted: str) -> None:
    assert size_text(size) == wanted


@pytest.mark.parametrize(
    ("uri", "wanted"),
    [
        ("hf://datasets/org/digits", "digits"), ("s3://bucket", "bucket"), ("https://h/a.csv?sig=1", "a.csv"),
        ("file:///data/", "data"), ("https://h/", "h"),
    ],
)  # fmt: skip
def test_what_a_person_calls_it(uri: str, wanted: str) -> None:
    assert short(uri) == wanted


def test_counts() -> None:
    assert files_text(1, 5) == "1 file, 5 B"
    assert files_text(12_000, None) == "12 000 files"


SNAPSHOT = Snapshot(
    "dataset", "hf://datasets/org/digits", "9d3c", KEY, f"file:///s/{KEY}/data", files=200, size=1_700 * MB
)


def test_the_end_says_what_and_how_to_go_on() -> None:
    lines = [plain(line) for line in made(SNAPSHOT, 36.0, "trainer-ops run --dataset 4f2a …", 99, Signs())]
    assert lines == [
        "✔ dataset hf://datasets/org/digits fetched in 0:36   200 files, 1.7 GB",
        f"  key      {KEY}",
        "  revision 9d3c",
        f"  where    file:///s/{KEY}/data",
        "  use      trainer-ops run --dataset 4f2a …",
    ]


def test_a_long_source_has_a_line_of_its_own() -> None:
    long = replace(SNAPSHOT, uri="s3://team-a-training-data-eu-west-1/recommender/embeddings/2026/11/30/full")
    lines = [plain(line) for line in made(long, 36.0, "", 79, Signs())]
    assert lines[:2] == ["✔ dataset full fetched in 0:36   200 files, 1.7 GB", f"  source   {long.uri}"]


def test_a_hit_says_so() -> None:
    (head, *_) = made(replace(SNAPSHOT, hit=True), None, "", 99, Signs())
    assert plain(head) == "✔ dataset hf://datasets/org/digits was there already   200 files, 1.7 GB"


def test_a_block_is_wrapped_but_its_commands_are_not() -> None:
    command = "trainer-ops init dataset " + "x" * 80
    lines = [plain(line) for line in block([("head", "")], "word " * 30, "do it", 60, [("again", command)])]
    assert lines[0] == "head"
    assert lines[1].startswith("  what    word")
    assert lines[-2:] == ["  do      do it", f"  again   {command}"]
    assert all(wide(line) <= 60 for line in lines[:-1])
