"""What changes a fingerprint, and what must not."""

from __future__ import annotations

import os
import py_compile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.fingerprint import fingerprint
from trainer_ops.model.snapshot import Snapshot

SNAPSHOT = Snapshot("dataset", "hf://datasets/org/digits", "abc", "0" * 32, "file:///s/0/data", "sha256:1", 2, 10)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    (folder / "lib" / "net.py").write_text("x = 1\n")
    return folder


def test_it_is_a_digest(code: Path) -> None:
    found = fingerprint(code)
    assert found.startswith("sha256:")
    assert len(found) == 7 + 64


SAME: dict[str, Callable[[Path], Any]] = {
    "elsewhere": lambda code: code.rename(code.parent / "checkout-2"),
    "touched": lambda code: os.utime(code / "train.py", (1, 1)),
    "compiled": lambda code: py_compile.compile(str(code / "train.py")),
    "its own folder linked into it": lambda code: (code / "lib" / "up").symlink_to(code),
}


@pytest.mark.parametrize("case", SAME)
def test_the_same_code(case: str, code: Path) -> None:
    before = fingerprint(code)
    moved = SAME[case](code)
    assert fingerprint(moved if isinstance(moved, Path) else code) == before


OTHER: dict[str, Callable[[Path], Any]] = {
    "a letter": lambda code: (code / "train.py").write_text("print(2)\n"),
    "a name": lambda code: (code / "train.py").rename(code / "fit.py"),
    "one more, though empty": lambda code: (code / "more.py").touch(),
    "one less": lambda code: (code / "lib" / "net.py").unlink(),
    "from one file into another": lambda code: [
        (code / "train.py").write_text("x = 1\n"),
        (code / "lib" / "net.py").write_text("print(1)\n"),
    ],
}


@pytest.mark.parametrize("case", OTHER)
def test_other_code(case: str, code: Path) -> None:
    before = fingerprint(code)
    OTHER[case](code)
    assert fingerprint(code) != before


def test_a_snapshot_counts_by_its_content() -> None:
    base = fingerprint(SNAPSHOT)
    assert fingerprint(replace(SNAPSHOT, hit=True)) == base
    assert fingerprint(replace(SNAPSHOT, location="pvc://claim/0/data")) == base
    assert fingerprint(SNAPSHOT.to_json()) == base
    assert fingerprint({**SNAPSHOT.to_json(), "bytes": 10.0, "hit": True}) == base  # as KFP carries it
    assert fingerprint(replace(SNAPSHOT, digest="sha256:2")) != base
    assert fingerprint(replace(SNAPSHOT, digest="")) != fingerprint(replace(SNAPSHOT, digest="", key="1" * 32))


def test_settings_count_by_value_and_not_by_order() -> None:
    assert fingerprint({"rounds": 20, "eta": 0.3}) == fingerprint({"eta": 0.3, "rounds": 20})
    assert fingerprint({"rounds": 20}) != fingerprint({"rounds": 21})


def test_parts_are_told_apart(code: Path) -> None:
    whole = fingerprint("ab")
    assert fingerprint("a", "b") != whole
    assert fingerprint("b", "a") != fingerprint("a", "b")
    assert fingerprint(code / "train.py") != fingerprint("print(1)\n")
    assert fingerprint() != fingerprint("")


REFUSED: dict[str, tuple[Any, str]] = {
    "a path that is nowhere": (Path("none.py"), '"none.py" cannot be read (No such file or directory)'),
    "a number": (3, "a part is a int. Give text, a Path"),
    "data that is no JSON": ({"at": Path("x")}, "a mapping is no JSON: "),
    "a number that JSON has not": ({"eta": float("nan")}, "a mapping is no JSON: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    part, text = REFUSED[case]
    with pytest.raises(InvalidRequest) as raised:
        fingerprint(part)
    assert f"fingerprint: {text}" in str(raised.value)


def test_a_link_that_leads_nowhere_is_no_file(code: Path) -> None:
    (code / "data").symlink_to(code / "gone")
    with pytest.raises(InvalidRequest, match=r"data\" cannot be read"):
        fingerprint(code)
