"""Scales that read well, bars in proportion, and what a drawing says in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.model.outcome import Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.pages.charts import colour, curve, ticks, time_ticks, timeline
from trainer_ops.pages.markup import Markup
from trainer_ops.pages.story import Curve, Span, Story, story
from trainer_ops.pages.style import CSS

TICKS: dict[str, tuple[float, float, list[float]]] = {
    "a loss": (0.12, 2.3, [0, 1, 2, 3]),
    "a share": (0, 1, [0, 0.5, 1]),
    "small": (0.0001, 0.0003, [0.0001, 0.0002, 0.0003]),
    "large": (11_800, 13_400, [11_000, 12_000, 13_000, 14_000]),
    "below nothing": (-3, -1, [-3, -2, -1]),
    "across nothing": (-4, 5, [-5, 0, 5]),
    "always the same": (2, 2, [1, 2, 3]),
    "always nothing": (0, 0, [-1, 0, 1]),
}


@pytest.mark.parametrize(("low", "high", "wanted"), TICKS.values(), ids=TICKS.keys())
def test_ticks(low: float, high: float, wanted: list[float]) -> None:
    assert ticks(low, high, 4) == pytest.approx(wanted)


@pytest.mark.parametrize("low", [-1e299, -1e-300, 0.0, 1e-300, 3.0, 1e299])
@pytest.mark.parametrize("high", [-1e299, 0.0, 1e-300, 3.0000001, 1e299])
def test_ticks_span_whatever_there_is(low: float, high: float) -> None:
    if low <= high:
        found = ticks(low, high, 4)
        assert 2 <= len(found) <= 9
        assert found == sorted(set(found))
        # A billionth of a step is nothing that could be seen.
        speck = (found[1] - found[0]) * 1e-8
        assert found[0] - speck <= low <= high <= found[-1] + speck


TIME_TICKS: dict[str, tuple[float, list[float]]] = {
    "a moment": (0.5, [0]),
    "seconds": (4, [0, 1, 2, 3, 4]),
    "minutes": (400, [0, 120, 240, 360]),
    "hours": (20_000, [0, 3600, 7200, 10_800, 14_400, 18_000]),
    "days": (86_400 * 20, [86_400.0 * 4 * i for i in range(6)]),
}


@pytest.mark.parametrize(("total", "wanted"), TIME_TICKS.values(), ids=TIME_TICKS.keys())
def test_time_ticks(total: float, wanted: list[float]) -> None:
    assert time_ticks(total, 6) == wanted


def bars(drawn: Markup) -> list[tuple[float, float, str]]:
    found = re.findall(r'<rect x="([\d.]+)%" y="2" width="([\d.]+)%" height="34" class="bar (\w+)"', drawn)
    return [(float(x), float(width), kind) for x, width, kind in found]


def test_bars_are_in_proportion(make: Callable[..., Outcome]) -> None:
    drawn = timeline(story(make(), None))
    assert bars(drawn) == [(0, 15, "queue"), (15, 1.667, "start"), (16.667, 83.333, "run")]
    # What is too narrow for its word has none, and all say theirs under the pointer and to those who hear.
    assert re.findall(r'class="on-bar">(\w+)<', drawn) == ["running"]
    assert "<title>queued 9:00, from 0:00 on\n2 ahead</title>" in drawn
    assert ">queued 9:00, starting 1:00, running 50:00</desc>" in drawn


def test_a_moment_in_a_day_is_still_to_be_seen() -> None:
    spans = (Span(Phase.RUNNING, 0, 86_399), Span(Phase.RESTARTING, 86_399, 86_400))
    drawn = bars(timeline(Story(spans, None, 0, 86_400, False, ())))
    assert drawn[1] == (99.6, 0.4, "again")


@pytest.mark.parametrize("phase", Phase)
def test_each_phase_has_a_colour_that_the_style_knows(phase: Phase) -> None:
    assert f".{colour(phase)}{{fill:var(--{colour(phase)})}}" in CSS.replace("\n", "")
    assert f"i.{colour(phase)}{{background:var(--{colour(phase)})}}" in CSS.replace("\n", "")


CURVES: dict[str, list[tuple[float, float]]] = {
    "falling": [(0, 2.0), (60, 0.5), (120, 0.25)],
    "always the same": [(0, 7.0), (60, 7.0)],
    "at one moment": [(5, 1.0), (5, 2.0)],
    "enormous": [(0, -9e299), (60, 9e299)],
    "tiny": [(0, 1e-300), (60, 2e-300)],
    "going back in time": [(60, 1.0), (0, 2.0), (30, 3.0)],
    "a lot": [(i, i % 7) for i in range(200)],
}


@pytest.mark.parametrize("points", CURVES.values(), ids=CURVES.keys())
def test_a_curve_stays_in_its_frame(points: Any) -> None:
    drawn = curve(1, Curve("loss", tuple(points)), 0, 120)
    (path,) = re.findall(r'points="([^"]*)"', drawn)
    places = [tuple(map(float, pair.split(","))) for pair in path.split()]
    assert len(places) == len(points)
    assert all(44 <= x <= 310 and 10 <= y <= 128 for x, y in places)
    assert drawn.count('class="point"') <= 40


def test_a_curve_says_what_it_shows() -> None:
    drawn = curve(3, Curve("loss", ((0.0, 2.0), (60.0, 0.1), (120.0, 0.25))), 0, 120, [30.0])
    words = "From 2 to 0.25 in 2:00; lowest 0.1, highest 2; 3 reports."
    assert f'<desc id="chart-3-words">{words}</desc>' in drawn
    assert "<title>0.25 at 2:00</title>" in drawn
    assert "<title>restarted at 0:30</title>" in drawn


def test_levels_that_differ_have_words_that_differ() -> None:
    drawn = curve(1, Curve("images", ((0.0, 12847.1), (60.0, 12847.4))), 0, 60)
    levels = re.findall(r'text-anchor="end" class="tick">([^<]*)<', drawn)[:-1]
    assert levels == ["12847.1", "12847.2", "12847.3", "12847.4"]


# The highest of a curve -> the words of its levels, none so long that its beginning is cut off beside the axis.
LARGE = {
    299e9: ["0", "1e11", "2e11", "3e11"],
    3e6: ["0", "1000000", "2000000", "3000000"],
    -6e7: ["-6e7", "-4e7", "-2e7", "0"],
    1e-9: ["0", "5e-10", "1e-09"],
}


@pytest.mark.parametrize("highest", LARGE)
def test_levels_fit_beside_the_axis(highest: float) -> None:
    drawn = curve(1, Curve("tokens", ((0.0, 0.0), (60.0, highest))), 0, 60)
    assert re.findall(r'text-anchor="end" class="tick">([^<]*)<', drawn)[:-1] == LARGE[highest]


def test_per_cent_is_always_of_a_hundred() -> None:
    drawn = curve(1, Curve("progress, %", ((0.0, 3.0), (60.0, 20.0)), percent=True), 0, 60)
    assert re.findall(r'text-anchor="end" class="tick">([^<]*)<', drawn)[:3] == ["0", "50", "100"]
