"""The drawings of a page, as SVG by hand: the bar of phases, and curves. Each says in words what it shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor, log10

from trainer_ops.model.numbers import number_text
from trainer_ops.model.phase import Phase
from trainer_ops.model.times import duration
from trainer_ops.pages.markup import Markup, el
from trainer_ops.pages.story import Curve, Span, Story, span_text

__all__ = ["colour", "curve", "ticks", "time_ticks", "timeline"]

_COLOURS = {
    Phase.QUEUED: "queue",
    Phase.EXTERNAL: "queue",
    Phase.SUSPENDED: "held",
    Phase.INITIALIZING: "prepare",
    Phase.RUNNING: "run",
    Phase.COMPLETING: "run",
    Phase.RESTARTING: "again",
    Phase.BLOCKED: "bad",
    Phase.FAILING: "bad",
    Phase.FAILED: "bad",
    Phase.DELETING: "gone",
    Phase.DELETED: "gone",
    Phase.REPLACED: "gone",
    Phase.SUCCEEDED: "good",
}
# A phase of a second within a day is still to be seen: this many per cent of the width.
_NARROWEST = 0.4
# A phone's chart is this wide; a word is drawn where it has room there too.
_PHONE, _CHARACTER = 330, 7.0
_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
_LEVEL_CHARACTERS = 7  # what fits left of a curve's axis
_MARKS = 40  # points of a curve that say their value under the pointer


def colour(phase: Phase) -> str:
    """The class that colours a phase."""
    return _COLOURS.get(phase, "start")


def timeline(story: Story) -> Markup:
    """The phases as one bar over time. Widths are per cent, so that words keep their size on any screen."""
    total = max(story.end - story.start, 0.001)
    words = ", ".join(f"{span.phase.word} {span_text(span.seconds)}" for span in story.spans[:30])
    bars = [_bar(span, story.start, total) for span in story.spans]
    axis = [_tick(at, total) for at in time_ticks(total, 6)]
    return el(
        "svg",
        el("title", "Phases over time", id="timeline-title"),
        el("desc", words or "no phase was seen", id="timeline-words"),
        bars,
        el("line", x1="0", x2="100%", y1="44", y2="44", class_="axis"),
        axis,
        role="img",
        aria_labelledby="timeline-title timeline-words",
        width="100%",
        height="64",
        class_="timeline",
    )


def _bar(span: Span, start: float, total: float) -> Markup:
    left = min(100 * (span.start - start) / total, 100 - _NARROWEST)
    width = max(100 * span.seconds / total, _NARROWEST)
    word = span.phase.word
    fits = width / 100 * _PHONE > len(word) * _CHARACTER + 8
    label = el("text", word, x="50%", y="23", text_anchor="middle", class_="on-bar")
    tip = f"{word} {span_text(span.seconds)}, from {duration(span.start - start)} on"
    return el(
        "g",
        el("title", f"{tip}\n{span.why}" if span.why else tip),
        el("rect", x=f"{left:.3f}%", y="2", width=f"{width:.3f}%", height="34", class_=f"bar {colour(span.phase)}"),
        el("svg", label, x=f"{left:.3f}%", y="0", width=f"{width:.3f}%", height="38") if fits else None,
    )


def _tick(at: float, total: float) -> Markup:
    place = 100 * at / total
    anchor = "start" if place < 4 else "end" if place > 96 else "middle"
    return el(
        "g",
        el("line", x1=f"{place:.3f}%", x2=f"{place:.3f}%", y1="40", y2="48", class_="axis"),
        el("text", duration(at), x=f"{place:.3f}%", y="61", text_anchor=anchor, class_="tick"),
    )


def time_ticks(total: float, count: int) -> list[float]:
    """Moments from 0 to ``total`` seconds, at most ``count`` and one, that read well."""
    step = next((s for s in _STEPS if total / s <= count), 0) or 86400 * max(1, -int(-total // (86400 * count)))
    return [float(step * i) for i in range(int(total // step) + 1)]


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round values from ``low`` or below to ``high`` or above, about ``count`` of them and two at least."""
    if high <= low:
        around = abs(low) / 2 or 1.0
        low, high = low - around, low + around
    raw = (high - low) / max(1, count - 1)
    power = 10.0 ** floor(log10(raw))
    step = next((power * f for f in (1, 2, 2.5, 5, 10) if power * f >= raw * 0.999), power * 10)
    first, last = floor(low / step + 1e-9), -floor(-high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class _Frame:
    """From seconds and values to the units of a chart's viewBox."""

    start: float
    end: float
    levels: tuple[float, ...]

    left = 44.0
    right = 310.0
    top = 10.0
    bottom = 128.0

    def x(self, at: float) -> str:
        share = min(1.0, max(0.0, (at - self.start) / max(self.end - self.start, 0.001)))
        return f"{self.left + (self.right - self.left) * share:.1f}"

    def y(self, value: float) -> str:
        share = (value - self.levels[0]) / (self.levels[-1] - self.levels[0])
        return f"{self.bottom - (self.bottom - self.top) * share:.1f}"

    def grid(self) -> Iterator[Markup]:
        for level, word in zip(self.levels, _level_words(self.levels), strict=True):
            y = self.y(level)
            yield el("line", x1=self.left, x2=self.right, y1=y, y2=y, class_="grid")
            yield el("text", word, x=self.left - 5, y=y, dy="0.32em", text_anchor="end", class_="tick")
        for at, anchor in ((self.start, "start"), (self.end, "end")):
            yield el("text", duration(at - self.start), x=self.x(at), y="144", text_anchor=anchor, class_="tick")

    def mark(self, at: float) -> Markup:
        tip = el("title", f"restarted at {duration(at - self.start)}")
        return el("line", tip, x1=self.x(at), x2=self.x(at), y1=self.top, y2=self.bottom, class_="mark")

    def point(self, at: float, value: float) -> Markup:
        tip = el("title", f"{number_text(value)} at {duration(at - self.start)}")
        return el("circle", tip, cx=self.x(at), cy=self.y(value), r="5", class_="point")


def _level_words(levels: Sequence[float]) -> list[str]:
    """Beside the axis, where a long number would lose its beginning: ``1e11`` then."""
    words = [number_text(level) for level in levels]
    if max(map(len, words)) > _LEVEL_CHARACTERS:
        short = [f"{level:.3g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-") for level in levels]
        words = short if len(set(short)) == len(levels) else words
    return words if len(set(words)) == len(levels) else [f"{level:.10g}" for level in levels]


def curve(number: int, data: Curve, start: float, end: float, restarts: Sequence[float] = ()) -> Markup:
    """One metric over time.

    Args:
        number: of the chart on its page.
        data: at least two points.
        start: where the axis of time begins, seconds since the epoch.
        end: where it ends.
        restarts: when it was restarted.
    """
    values = [value for _, value in data.points]
    low, high = min(values), max(values)
    frame = _Frame(start, end, (0.0, 50.0, 100.0) if data.percent else tuple(ticks(low, high, 4)))
    (first_at, first), (last_at, last) = data.points[0], data.points[-1]
    words = (
        f"From {number_text(first)} to {number_text(last)} in {duration(last_at - first_at)}; "
        f"lowest {number_text(low)}, highest {number_text(high)}; {len(values)} reports."
    )
    every = -(-len(data.points) // _MARKS)
    return el(
        "svg",
        el("title", data.name, id=f"chart-{number}-title"),
        el("desc", words, id=f"chart-{number}-words"),
        frame.grid(),
        map(frame.mark, restarts[:_MARKS]),
        el("polyline", points=" ".join(f"{frame.x(at)},{frame.y(value)}" for at, value in data.points), class_="curve"),
        el("circle", cx=frame.x(last_at), cy=frame.y(last), r="3.5", class_="dot"),
        (frame.point(at, value) for at, value in data.points[::-every]),
        role="img",
        aria_labelledby=f"chart-{number}-title chart-{number}-words",
        viewBox="0 0 320 150",
        class_="chart",
    )
