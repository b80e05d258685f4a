from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_ops.backends.kubernetes.podlogs import (
    MAX_LINE,
    Gap,
    Part,
    Position,
    Reading,
    Run,
    lines_of,
    run_of,
    window,
)
from trainer_ops.model.times import parse_time


def stamp(nanos: int) -> str:
    return f"2026-11-30T12:00:{nanos // 10**9:02}.{nanos % 10**9:09}Z"


def parts(*lines: tuple[int, str]) -> Iterator[Part]:
    return iter([Part(f"{stamp(nanos)} {text}") for nanos, text in lines])


def read(
    lines: Iterator[Part], after: str = "", *, strict: bool = False, tail: bool = False, limit: int = 10**9
) -> Any:
    reading = Reading(lines, Position.parse(after), strict=strict, tail=tail)
    return reading.take(limit), str(reading.position), reading


LOG = ((1, "a"), (5, "b"), (5, "c"), (5, "d"), (9, "e"))


@pytest.mark.parametrize("text", ["", "2026-11-30T12:00:00Z|3", "2026-11-30T12:00:00.5Z|*"])
def test_a_position_is_plain_text(text: str) -> None:
    assert str(Position.parse(text)) == text


@pytest.mark.parametrize(
    ("after", "new"),
    [
        ("", "abcde"),
        (f"{stamp(1)}|1", "bcde"),
        (f"{stamp(5)}|1", "cde"),
        (f"{stamp(5)}|3", "e"),
        (f"{stamp(5)}|*", "e"),
        (f"{stamp(9)}|1", ""),
        (f"{stamp(9)}|*", ""),
    ],
)
def test_what_was_read_is_not_read_again(after: str, new: str) -> None:
    lines, position, reading = read(parts(*LOG), after, strict=True)
    assert "".join(lines) == new
    assert position == (f"{stamp(9)}|1" if new or "|1" in after else after)
    assert reading.proven is bool(after) or after.endswith("*")
    assert reading.whole


@pytest.mark.parametrize(
    ("lines", "gap"),
    [
        pytest.param(((5, "d"), (9, "e")), False, id="begins with the position's own line"),
        pytest.param(((1, "a"), (5, "d"), (9, "e")), False, id="begins before it"),
        pytest.param(((9, "e"),), True, id="begins after it"),
        pytest.param(((1, "a"), (9, "e")), True, id="does not hold it: another run"),
        pytest.param(((1, "a"),), False, id="ends before it: nothing new"),
        pytest.param((), False, id="empty"),
    ],
)
@pytest.mark.parametrize("count", ["1", "*"])
def test_a_gap_is_seen(lines: tuple[tuple[int, str], ...], gap: bool, count: str) -> None:
    after = f"{stamp(5)}|{count}"
    if not gap:
        taken, _, _ = read(parts(*lines), after, strict=True)
        assert taken == tuple(text for nanos, text in lines if nanos > 5)
        return
    with pytest.raises(Gap):
        read(parts(*lines), after, strict=True)
    taken, _, reading = read(parts(*lines), after)
    assert taken == ("e",)
    assert not reading.proven


def test_in_pieces() -> None:
    lines = parts(*LOG)
    reading = Reading(lines, Position(), strict=False)
    taken: list[str] = []
    while not reading.whole:
        piece = reading.take(2)
        assert len(piece) <= 1
        taken += piece
    assert taken == list("abcde")


def test_a_tail_goes_on_after_all_lines_of_its_last_moment() -> None:
    lines, position, _ = read(parts(*LOG[3:4]), tail=True)
    assert (lines, position) == (("d",), f"{stamp(5)}|*")
    assert read(parts(*LOG), position, strict=True)[0] == ("e",)


def test_a_clock_that_is_set_back_hides_nothing() -> None:
    lines = ((100, "a"), (105, "b"), (50, "c"), (60, "d"))
    assert read(parts(*lines), f"{stamp(105)}|1", strict=True)[0] == ("c", "d")
    assert read(parts(*lines), f"{stamp(105)}|*", strict=True)[0] == ("c", "d")


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("2026-11-30T12:00:10.49Z", "2026-11-30T12:00:10.5Z"),
        ("2026-11-30T12:00:10Z", "2026-11-30T12:00:10.000000001Z"),
        ("2026-11-30T12:00:09.999Z", "2026-11-30T12:00:10Z"),
    ],
)
def test_stamps_are_compared_as_times(earlier: str, later: str) -> None:
    with pytest.raises(Gap):
        read(iter([Part(f"{later} x")]), f"{earlier}|1", strict=True)
    assert read(iter([Part(f"{earlier} x")]), f"{later}|1", strict=True)[0] == ()


def test_the_kubelet_says_that_a_log_is_gone() -> None:
    lines, _, reading = read(iter([Part("unable to retrieve container logs for containerd://1")]))
    assert (lines, reading.collected) == ((), True)


def test_other_words_of_the_kubelet_are_shown() -> None:
    assert read(iter([Part("rpc error"), Part(f"{stamp(1)} a")]))[0] == ("rpc error", "a")


@pytest.mark.parametrize("text", ["", " ", "x y", "2026-11-30T12:00:00Z is no stamp here"])
def test_the_text_is_left_as_it_is(text: str) -> None:
    assert read(iter([Part(f"{stamp(1)} {text}")]))[0] == (text,)


def test_a_long_line_is_read_in_parts_and_from_the_middle() -> None:
    text = "2026-11-30T12:00:00Z " + "x" * (3 * MAX_LINE)
    stream = f"{stamp(1)} {text}\n{stamp(2)} end\n".encode()
    whole, position, _ = read(lines_of([stream]))
    assert "".join(whole[:-1]) == text
    assert (whole[-1], position) == ("end", f"{stamp(2)}|1")
    first, middle, _ = read(lines_of([stream]), limit=MAX_LINE)
    rest, end, _ = read(lines_of([stream]), middle, strict=True)
    assert (first + rest, end) == (whole, position)


def test_a_line_of_five_megabytes_costs_no_more_than_its_parts() -> None:
    pieces = (b"x" * 65536 for _ in range(80))
    sizes = [len(part.text) for part in lines_of(pieces)]
    assert sum(sizes) == 80 * 65536
    assert max(sizes) <= MAX_LINE


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (b"a\xff\xfeb\n", ["a\ufffd\ufffdb"]),
        (b"a\r\nb", ["a", "b"]),
        (b"\n\n", ["", ""]),
        ("ä".encode()[:1], ["\ufffd"]),
        (b"progress 1\rprogress 2\n", ["progress 1\rprogress 2"]),
        (b"", []),
    ],
)
def test_bytes_become_lines(stream: bytes, lines: list[str]) -> None:
    assert [part.text for part in lines_of([stream])] == lines


@settings(deadline=None)
@given(st.text(alphabet="aä€\n😀\r", max_size=60), st.randoms(use_true_random=False))
def test_where_the_stream_is_cut_does_not_matter(text: str, rng: random.Random) -> None:
    data = text.encode()
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(5))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert list(lines_of(pieces)) == list(lines_of([data]))


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.lists(st.integers(1, 6), min_size=40, max_size=40),
    st.data(),
)
def test_however_it_is_cut_each_line_is_read_once(steps: list[int], limits: list[int], data: st.DataObject) -> None:
    """A log grows while it is read; several lines may bear the same stamp; each answer starts somewhere before."""
    now, log = 0, []
    for number, step in enumerate(steps):
        now += step
        log.append((now, f"{number:03}"))
    read_lines: list[str] = []
    position, there = "", 0
    for limit in limits:
        there = data.draw(st.integers(there, len(log)))
        at = Position.parse(position)
        since = next((i for i, (nanos, _) in enumerate(log[:there]) if stamp(nanos) == at.stamp), 0)
        begin = data.draw(st.integers(0, since))
        begin = next(i for i, (nanos, _) in enumerate(log) if nanos == log[begin][0])
        lines, position, _ = read(parts(*log[begin:there]), position, strict=True, limit=limit)
        read_lines += lines
    lines, position, _ = read(parts(*log), position, strict=True)
    assert [*read_lines, *lines] == [text for _, text in log]


@pytest.mark.parametrize(
    ("after", "now", "margin", "seconds"),
    [
        ("", 100.0, 2.0, None),
        (f"{stamp(0)}|1", 0.0, 2.0, 2),
        (f"{stamp(0)}|1", 10.2, 2.0, 13),
        (f"{stamp(0)}|1", 10.2, -5.0, 6),
        (f"{stamp(0)}|1", -60.0, 2.0, 1),
    ],
)
def test_the_window_that_is_asked_for(after: str, now: float, margin: float, seconds: int | None) -> None:
    zero = parse_time(stamp(0))
    assert zero is not None
    assert window(Position.parse(after), zero + now, margin) == seconds


@pytest.mark.parametrize(
    ("status", "run"),
    [
        ({}, Run(0, False, True)),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, Run(0, False, True)),
        ({"state": {"running": {}}}, Run(0, False, False)),
        ({"state": {"terminated": {"exitCode": 3}}}, Run(0, True, False)),
        ({"state": {"waiting": {}}, "lastState": {"terminated": {}}, "restartCount": 2}, Run(2, False, False)),
        ({"state": {"running": {}}, "restartCount": 1}, Run(1, False, False)),
    ],
)
def test_where_a_container_stands(status: dict[str, Any], run: Run) -> None:
    pod = {"status": {"containerStatuses": [{"name": "sidecar"}, {"name": "node", **status}]}}
    assert run_of(pod, "node") == run
    assert run_of({}, "node") == Run()
