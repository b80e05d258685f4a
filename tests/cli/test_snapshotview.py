"""The snapshots of a store: the table that fits a terminal, JSON, what verify and gc say."""

from __future__ import annotations

import json
from dataclasses import replace

from trainer_ops.cli.render import Signs
from trainer_ops.cli.snapshotview import freed_lines, freed_to_json, snapshots_table, to_json, verified_lines
from trainer_ops.cli.text import plain, wide
from trainer_ops.initializers.manifest import Manifest
from trainer_ops.initializers.store import Freed

NOW = 1_800_000_000.0
DIGITS = Manifest(
    key="4f2a0c1b2d3e4f5a6b7c8d9e0f1a2b3c",
    uri="hf://datasets/org/digits",
    revision="9d3c1f2e4b5a69788796a5b4c3d2e1f00f1e2d3c",
    asked="main",
    include=("*.parquet",),
    created=NOW - 3 * 86400,
    used=NOW - 600,
    count=200,
    size=1_700_000_000,
    digest="sha256:" + "a" * 64,
)
LONG = replace(
    DIGITS,
    key="00112233445566778899aabbccddeeff",
    uri="s3://team-a-training-data-eu-west-1/recommender/embeddings/2026/11/30/full",
    revision="sha256:" + "b" * 64,
    include=(),
    ignore=("*.tmp",),
    count=12_000,
)


def test_the_table_fits_a_hundred_columns() -> None:
    lines = [plain(line) for line in snapshots_table([DIGITS, LONG], now=NOW, width=99)]
    assert lines == [
        "KEY           FILES    SIZE    AGE    USED  REVISION      SOURCE",
        "4f2a0c1b2d3e    200  1.7 GB  3.0 d  10 min  9d3c1f2e4b5a  hf://datasets/org/digits +*.parquet",
        "001122334455  12000  1.7 GB  3.0 d  10 min  bbbbbbbbbbbb  s3://team-a-training-data-eu-west-1/reco…",
    ]
    assert max(map(wide, lines)) <= 99


def test_it_fits_eighty() -> None:
    lines = [plain(line) for line in snapshots_table([DIGITS, LONG], now=NOW, width=79)]
    assert max(map(wide, lines)) <= 79


def test_wide_cuts_nothing() -> None:
    _, row = (plain(line) for line in snapshots_table([LONG], now=NOW, width=99, locations=["pvc://data/x"]))
    assert LONG.key in row
    assert LONG.revision in row
    assert row.endswith(f"main   pvc://data/x  {LONG.uri} -*.tmp")


def test_the_json_of_one() -> None:
    said = to_json(DIGITS, "file:///s/data")
    json.dumps(said)
    assert set(said) == {
        "key", "uri", "revision", "asked", "include", "ignore", "files", "bytes", "digest", "created_at", "used_at",
        "location",
    }  # fmt: skip
    assert (said["used_at"], said["bytes"]) == ("2027-01-15T07:50:00Z", 1_700_000_000)


def test_verify_says_sound_or_what_is_wrong() -> None:
    (sound,) = verified_lines(DIGITS, (), Signs())
    assert plain(sound) == "✔ 4f2a0c1b2d3e  sound  200 files, 1.7 GB  hf://datasets/org/digits"
    head, fault = verified_lines(DIGITS, ("train.csv: is not there",), Signs())
    assert plain(head).startswith("✘ 4f2a0c1b2d3e  1 fault  200 files")
    assert plain(fault) == "  train.csv: is not there"


def test_gc_says_what_went_and_what_would() -> None:
    freed = Freed((DIGITS,), ("ab" * 16,), 2_000_000_000, (LONG.key,))
    assert [plain(line) for line in freed_lines(freed, dry_run=False)] == [
        "4f2a0c1b2d3e  removed  200 files, 1.7 GB  hf://datasets/org/digits +*.parquet",
        "abababababab  removed  a broken download",
        "001122334455  stays  another process works on it",
        "freed 2.0 GB",
    ]
    assert plain(freed_lines(freed, dry_run=True)[-1]) == "would free 2.0 GB"
    assert [plain(line) for line in freed_lines(Freed(), dry_run=False)] == ["nothing to remove"]
    assert freed_to_json(freed, dry_run=True)["partials"] == ["ab" * 16]
