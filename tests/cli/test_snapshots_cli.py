"""``trainer-ops snapshots``, and a snapshot as ``--dataset`` of a training; on the engine's own store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.cli.data import data_of, pick_key
from trainer_ops.errors import InvalidRequest
from trainer_ops.local.engine import LocalBackend
from trainer_ops.model.snapshot import Snapshot
from trainer_ops.testing import VirtualClock

Cli = Callable[..., Any]
KEY = "4f2a0c1b2d3e4f5a6b7c8d9e0f1a2b3c"
OTHER = "4f2affff2d3e4f5a6b7c8d9e0f1a2b3c"


@pytest.fixture
def at(cli: Cli, local_trainer: LocalBackend) -> Cli:
    """A command on an engine."""
    return lambda *argv, words=(): cli(*argv, "--target", local_trainer.target, *words)


@pytest.fixture
def made(at: Cli, tmp_path: Path, virtual_clock: VirtualClock) -> Callable[[str], dict[str, Any]]:
    """Makes a snapshot of a file with this text."""

    def make(text: str) -> dict[str, Any]:
        folder = tmp_path / "digits"
        folder.mkdir(exist_ok=True)
        virtual_clock.advance(10)
        (folder / "train.csv").write_text(text)
        said: dict[str, Any] = json.loads(at("init", "dataset", f"file://{folder}", "-o", "json").out)
        return said

    return make


Made = Callable[[str], dict[str, Any]]


def test_nothing_to_list(at: Cli, local_trainer: LocalBackend) -> None:
    assert at("snapshots", "list").out.startswith(f"no snapshots on {local_trainer.target}   a first one: ")


def test_the_list_is_newest_first_and_fits(at: Cli, made: Made) -> None:
    first, second = made("1\n"), made("1,2\n")
    header, *rows = at("snapshots", "list").out.splitlines()
    assert header.split() == ["KEY", "FILES", "SIZE", "AGE", "USED", "REVISION", "SOURCE"]
    assert [row.split()[0] for row in rows] == [second["key"][:12], first["key"][:12]]
    assert max(map(len, [header, *rows])) <= 100


def test_wide_and_json_say_where_they_lie(at: Cli, made: Made) -> None:
    one = made("1\n")
    assert one["location"] in at("snapshots", "list", "-o", "wide").out
    (said,) = json.loads(at("snapshots", "list", "-o", "json").out)["snapshots"]
    assert (said["key"], said["location"], said["bytes"]) == (one["key"], one["location"], 2)


def test_verify_finds_a_changed_byte(at: Cli, made: Made) -> None:
    one = made("1\n")
    assert at("snapshots", "verify").code == 0
    file = Path(one["location"].removeprefix("file://"), "train.csv")
    os.chmod(file.parent, 0o755)
    os.chmod(file, 0o644)
    file.write_text("2\n")
    ran = at("snapshots", "verify", one["key"][:6])
    assert ran.code == 1
    assert ran.out.startswith(f"✘ {one['key'][:12]}  1 fault")
    assert "train.csv" in ran.out
    said = json.loads(at("snapshots", "verify", "-o", "json").out)
    assert len(said["snapshots"][0]["problems"]) == 1


def test_verify_finds_one_that_is_damaged_so_that_it_is_not_listed(at: Cli, made: Made) -> None:
    one = made("1\n")
    Path(one["location"].removeprefix("file://")).with_name("manifest.json").write_text("half a")
    assert at("snapshots", "list").out.startswith("no snapshots")
    ran = at("snapshots", "verify")
    assert (ran.code, ran.out.splitlines()) == (
        1,
        [
            f"✘ {one['key'][:12]}  1 fault  of what it was cannot be read",
            "  its manifest cannot be read, or belongs to another snapshot",
        ],
    )
    assert at("init", "dataset", one["uri"], "-q").code == 0  # asked for again it is made anew
    assert at("snapshots", "verify").code == 0


def test_verify_of_a_key_that_is_not_there(at: Cli, made: Made) -> None:
    made("1\n")
    ran = at("snapshots", "verify", "00000")
    assert ran.code == 2
    assert 'KEY: no snapshot has a key that begins with "00000". See them: trainer-ops snapshots list' in ran.err


def test_gc_keeps_the_newest(at: Cli, made: Made) -> None:
    first, second = made("1\n"), made("1,2\n")
    ran = at("snapshots", "gc", "--keep", "1", "--dry-run")
    assert ran.out.splitlines()[0].startswith(f"{first['key'][:12]}  would go  1 file, 2 B")
    assert len(at("snapshots", "list").out.splitlines()) == 3
    said = json.loads(at("snapshots", "gc", "--keep", "1", "-o", "json").out)
    assert [one["key"] for one in said["snapshots"]] == [first["key"]]
    (left,) = json.loads(at("snapshots", "list", "-o", "json").out)["snapshots"]
    assert left["key"] == second["key"]


def test_gc_without_words_says_which_there_are(at: Cli, made: Made) -> None:
    made("1\n")
    assert at("snapshots", "gc").out.splitlines() == [
        "nothing to remove",
        "  snapshots go by --older-than 30d or --keep 3",
    ]


def test_what_a_training_reads_now_stays(at: Cli, made: Made, tmp_path: Path) -> None:
    one = made("1\n")
    file = tmp_path / "train.py"
    file.write_text("")
    ran = at("submit", "--runtime", "plain", "--dataset", one["key"][:8], "--suspend", words=("--", str(file)))
    assert ran.code == 0, ran.err
    ran = at("snapshots", "gc", "--keep", "0")
    assert ran.out.splitlines()[0] == "nothing to remove"
    name = json.loads(at("list", "-o", "json").out)["trainings"][0]["name"]
    at("cancel", name)
    assert "removed" in at("snapshots", "gc", "--keep", "0").out


PRINT = """\
import os, trainer_ops
folder = os.environ["TRAINER_OPS_DATASET_DIR"]
trainer_ops.report({"bytes": os.path.getsize(os.path.join(folder, "train.csv"))})
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["key", "location", "file"])
def test_a_training_reads_it(
    form: str, made: Made, local_trainer: LocalBackend, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from trainer_ops.cli import main

    one = made("1,2,3\n")
    script, file = tmp_path / "train.py", tmp_path / "digits.json"
    script.write_text(PRINT)
    file.write_text(json.dumps(one))
    data = {"key": one["key"][:8], "location": one["location"], "file": str(file)}[form]
    manifest = Path(one["location"].removeprefix("file://")).with_name("manifest.json")
    os.utime(manifest, (0, 0))
    capsys.readouterr()
    flags = ["--runtime", "plain", "--dataset", data, "--target", local_trainer.target, "-o", "json"]
    code = main(["run", *flags, "--", str(script)])
    said = capsys.readouterr()
    assert code == 0, said.err
    assert json.loads(said.out)["metrics"] == {"bytes": 6}
    assert manifest.stat().st_mtime > 0, "what a training read was asked for, as gc --older-than counts"


def _find(prefix: str, kind: Any) -> Snapshot:
    return Snapshot(kind, "s3://b", "r", pick_key(prefix, [KEY, OTHER], f"--{kind}"), "file:///s")


def data(text: str) -> Any:
    return data_of(text, "dataset", read={"digits.json": ' {"key": 1}', "train.csv": "1,2"}.get, find=_find)


MEANT: dict[str, tuple[str, Any]] = {
    "a URI": ("hf://datasets/org/digits", "hf://datasets/org/digits"),
    "a folder that is no snapshot": ("file:///data/digits/data", "file:///data/digits/data"),
    "JSON as it is": ('{"key": 1}', '{"key": 1}'),
    "a file of JSON": ("digits.json", ' {"key": 1}'),
    "a location": (
        f"pvc://claim/store/{KEY}/data",
        Snapshot("dataset", f"pvc://claim/store/{KEY}/data", "", KEY, f"pvc://claim/store/{KEY}/data"),
    ),
    "the start of a key": ("4f2a0", Snapshot("dataset", "s3://b", "r", KEY, "file:///s")),
}


@pytest.mark.parametrize(("text", "wanted"), MEANT.values(), ids=MEANT.keys())
def test_what_dataset_means(text: str, wanted: Any) -> None:
    assert data(text) == wanted


REFUSED = {
    "4f2a": f'--dataset: "4f2a" is the start of 2 keys: {KEY}, {OTHER}. Write more of it',
    "0000": '--dataset: no snapshot has a key that begins with "0000". See them: trainer-ops snapshots list',
    "train.csv": '"train.csv" is a file, but not the JSON of a snapshot',
    "digits": '"digits" is no URI, no file and no key of a snapshot',
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_it_does_not_mean(text: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        data(text)
    assert REFUSED[text] in str(raised.value)


def test_a_file_that_was_meant_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy can be typed as it stands, from wherever."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidRequest) as raised:
        data_of("train.csv", "dataset", read=lambda _name: "1,2", find=lambda *_: pytest.fail("looked up"))
    assert raised.value.remedy == f"For the data itself: file://{tmp_path}/train.csv"


def test_on_a_cluster_a_part_of_a_key_is_not_looked_up(monkeypatch: pytest.MonkeyPatch, memory_backend: Any) -> None:
    from trainer_ops.cli.stored import snapshot_of
    from trainer_ops.lifecycle import snapshots

    monkeypatch.setattr(snapshots, "made_here", lambda _backend: False)
    with pytest.raises(InvalidRequest, match="it takes a Job to look the rest up"):
        snapshot_of(memory_backend, "4f2a", "dataset")
    assert snapshot_of(memory_backend, KEY, "dataset").location == f"pvc://trainer-ops-snapshots/{KEY}/data"
