from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_ops.local.logs import LINE_LIMIT, _split, read_log


def read_all(path: Path, *, limit: int = 1 << 20, over: bool = True) -> list[str]:
    lines: list[str] = []
    position = ""
    while True:
        chunk = read_log(path, after=position, tail=None, limit_bytes=limit, over=over)
        lines += chunk.lines
        assert chunk.position != position or not chunk.more, "no progress"
        position = chunk.position
        if not chunk.more:
            assert chunk.ended == over
            return lines


def log(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "log"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"a\nb\n", ["a", "b"], id="two lines"),
        pytest.param(b"a\n\nb", ["a", "", "b"], id="an empty line, and no end of the last"),
        pytest.param(b"a\r\nb\r\n", ["a", "b"], id="line ends of Windows"),
        pytest.param(b"\xff\xfe ok\n", ["�� ok"], id="no UTF-8"),
        pytest.param(b"10%\r50%\r100%\ndone\n", ["100%", "done"], id="a progress bar is what it shows in the end"),
        pytest.param(b"10%\r50%\r", ["50%"], id="a progress bar that was cut off"),
        pytest.param("€".encode() + b"\n", ["€"], id="more than one byte a character"),
    ],
)
def test_lines(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    assert read_all(log(tmp_path, content)) == lines


def test_an_unfinished_line_waits_for_its_end(tmp_path: Path) -> None:
    path = log(tmp_path, b"one\ntw")
    first = read_log(path, after="", tail=None, limit_bytes=1000, over=False)
    assert (first.lines, first.position, first.more, first.ended) == (("one",), "4", False, False)
    path.write_bytes(b"one\ntwo\n")
    second = read_log(path, after=first.position, tail=None, limit_bytes=1000, over=False)
    assert (second.lines, second.position) == (("two",), "8")
    third = read_log(path, after=second.position, tail=None, limit_bytes=1000, over=True)
    assert (third.lines, third.ended) == ((), True)


def test_a_redrawn_line_is_shown_while_it_is_drawn(tmp_path: Path) -> None:
    path = log(tmp_path, b"1%\r2%\r3%")
    first = read_log(path, after="", tail=None, limit_bytes=1000, over=False)
    assert (first.lines, first.position) == (("2%",), "6")


def test_a_character_cut_by_the_writer_is_not_replaced(tmp_path: Path) -> None:
    whole = "naïve €\n".encode()
    for cut in range(len(whole)):
        path = log(tmp_path, whole[:cut])
        first = read_log(path, after="", tail=None, limit_bytes=1000, over=False)
        path.write_bytes(whole)
        second = read_log(path, after=first.position, tail=None, limit_bytes=1000, over=True)
        assert first.lines + second.lines == ("naïve €",)


@pytest.mark.parametrize("limit", [1, 1000, LINE_LIMIT, 1 << 20], ids=str)
@pytest.mark.parametrize("character", ["x", "é", "€", "𝛑"], ids=["1 byte", "2 bytes", "3 bytes", "4 bytes"])
def test_a_line_of_5_mb_comes_in_parts(tmp_path: Path, limit: int, character: str) -> None:
    text = character * (5_000_000 // len(character.encode()))
    lines = read_all(log(tmp_path, f"{text}\nnext\n".encode()), limit=limit)
    assert "".join(lines[:-1]) == text
    assert lines[-1] == "next"
    assert all(len(line.encode()) <= LINE_LIMIT for line in lines)
    assert len(lines) < 90


def test_what_is_read_at_once_is_bounded(tmp_path: Path) -> None:
    path = log(tmp_path, b"0123456789\n" * 1_000_000)
    chunk = read_log(path, after="", tail=None, limit_bytes=1 << 20, over=True)
    assert chunk.more
    assert sum(len(line) + 1 for line in chunk.lines) <= 1 << 20
    small = read_log(path, after="", tail=None, limit_bytes=100, over=True)
    assert len(small.lines) == 9


@pytest.mark.parametrize(
    ("content", "tail", "lines"),
    [
        pytest.param(b"a\nb\nc\n", 2, ("b", "c"), id="ends clean"),
        pytest.param(b"a\nb\nc", 2, ("b", "c"), id="without line end"),
        pytest.param(b"a\nb\n", 9, ("a", "b"), id="more than there are"),
        pytest.param(b"a\nb\n", 0, (), id="none"),
        pytest.param(b"", 3, (), id="empty"),
        pytest.param(b"x" * 300_000 + b"\n" + b"y\n" * 3, 3, ("y", "y", "y"), id="over a block"),
    ],
)
def test_tail(tmp_path: Path, content: bytes, tail: int, lines: tuple[str, ...]) -> None:
    chunk = read_log(log(tmp_path, content), after="", tail=tail, limit_bytes=1 << 20, over=True)
    assert chunk.lines == lines
    assert chunk.position == str(len(content))


def test_tail_looks_back_no_further_than_the_limit(tmp_path: Path) -> None:
    path = log(tmp_path, b"line\n" * 400_000)
    chunk = read_log(path, after="", tail=10**6, limit_bytes=1 << 19, over=True)
    assert 100_000 < len(chunk.lines) < 200_000
    assert set(chunk.lines) == {"line"}


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    chunk = read_log(tmp_path / "none", after="", tail=None, limit_bytes=10, over=False)
    assert (chunk.lines, chunk.position, chunk.ended) == ((), "", False)


@given(st.lists(st.binary(max_size=8).filter(lambda b: b"\r" not in b), max_size=12).map(b"\n".join))
def test_lines_do_not_depend_on_when_they_are_read(content: bytes) -> None:
    """Read in every two pieces: the same lines as at once."""
    whole, _ = _split(content, True)
    for cut in range(len(content)):
        first, used = _split(content[:cut], False)
        rest, _ = _split(content[used:], True)
        assert first + rest == whole
