"""What a page needs to know of an Outcome beside what it says: spans of phases, the axis of time, sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainer_ops.model.outcome import Ending, Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.model.times import duration, parse_time

__all__ = ["Curve", "Span", "Story", "span_text", "story"]

# On this machine a training can be submitted, blocked and pending within a moment that nobody needs to know of.
_MOMENT = 0.05
# What is larger, and what is no number, has no place on a scale.
_DRAWABLE = 1e300
_HELD = frozenset({Phase.RUNNING, Phase.RESTARTING, Phase.FAILING, Phase.COMPLETING})


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in one phase, in seconds since the epoch."""

    phase: Phase
    start: float
    end: float
    reason: str = ""
    detail: str = ""
    folded: int = 0

    @property
    def seconds(self) -> float:
        """How long."""
        return self.end - self.start

    @property
    def why(self) -> str:
        """The detail, which is for people; without one the cluster's word."""
        return self.detail or self.reason


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric's course: seconds since the epoch and values, in the order of the reports; ``percent``: 0 to 100."""

    name: str
    points: tuple[tuple[float, float], ...]
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Story:
    """An Outcome in the terms of a page.

    Attributes:
        spans: phases with a length, oldest first.
        final: the finished phase that closes it; None while it goes on or when the wait for it was given up.
        start: where the axis of time begins.
        end: where it ends: the end, or the time of the last that is known.
        open: whether it goes on beyond ``end``.
        curves: progress in per cent first, then metrics with two numbers or more.
    """

    spans: tuple[Span, ...]
    final: Span | None
    start: float
    end: float
    open: bool
    curves: tuple[Curve, ...]

    @property
    def ran(self) -> float | None:
        """Seconds in which its nodes had what they run on, restarts among them; None when it never ran."""
        held = [span.seconds for span in self.spans if span.phase in _HELD]
        return sum(held) if held else None

    @property
    def waited(self) -> float:
        """Seconds in queues and of starting."""
        return sum(span.seconds for span in self.spans if span.phase.waiting_in_queue or span.phase.starting)

    def totals(self) -> list[tuple[str, Phase, float, int]]:
        """For each word of a phase: an example of it, the seconds in it altogether, and how often it was entered."""
        seconds: Counter[str] = Counter()
        times: Counter[str] = Counter()
        example: dict[str, Phase] = {}
        before = ""
        for span in self.spans:
            word = span.phase.word
            example.setdefault(word, span.phase)
            seconds[word] += span.seconds  # type: ignore[assignment]
            times[word] += word != before
            before = word
        return [(word, phase, seconds[word], times[word]) for word, phase in example.items()]


def span_text(seconds: float) -> str:
    """A length of time: ``0.4 s`` where that matters, else ``1:02``."""
    return f"{max(0.0, seconds):.1f} s" if seconds < 10 else duration(seconds)


def story(outcome: Outcome, now: float | None) -> Story:
    """Put an outcome's parts on one axis of time; ``now`` is where an open end is drawn."""
    changes = list(_changes(outcome))
    curves = tuple(_curves(outcome))
    over = outcome.phase.finished
    latest = [at for curve in curves for at, _ in curve.points] + [change.start for change in changes]
    latest += [at for at in (parse_time(outcome.started_at), parse_time(outcome.seen_at)) if at is not None]
    start = min([change.start for change in changes] or latest or [now or 0.0])
    finished = parse_time(outcome.finished_at)
    if over:
        end = finished if finished is not None else max(latest, default=start)
    else:
        end = now if now is not None else max(latest, default=start)
    end = max(end, start, *(change.start for change in changes))
    final = next((change for change in reversed(changes) if change.phase.finished), None)
    ends = [*(change.start for change in changes[1:]), end]
    spans = tuple(
        replace(change, end=at)
        for change, at in zip(changes, ends, strict=False)  # without changes there is one end too many
        if not change.phase.finished and (at - change.start >= _MOMENT or change is changes[-1])
    )
    return Story(spans, final, start, end, not over and outcome.ending is not Ending.CANCELLED, curves)


def _changes(outcome: Outcome) -> Iterator[Span]:
    for raw in outcome.phases:
        at = parse_time(str(raw.get("at")))
        if at is not None and raw.get("phase") in _PHASES:
            reason, detail, folded = str(raw.get("reason", "")), str(raw.get("detail", "")), raw.get("folded", 0)
            yield Span(Phase(raw["phase"]), at, at, reason, detail, folded if isinstance(folded, int) else 0)


_PHASES = frozenset(phase.value for phase in Phase)


def _curves(outcome: Outcome) -> Iterator[Curve]:
    points: dict[str, list[tuple[float, float]]] = {}
    percent: list[tuple[float, float]] = []
    for raw in outcome.progress:
        at = parse_time(str(raw.get("at")))
        if at is None:
            continue
        _append(percent, at, raw.get("percentage"))
        metrics = raw.get("metrics")
        for name, value in metrics.items() if isinstance(metrics, Mapping) else ():
            _append(points.setdefault(str(name), []), at, value)
    if len(percent) > 1:
        yield Curve("progress, %", tuple((at, min(100.0, max(0.0, value))) for at, value in percent), percent=True)
    for name, found in points.items():
        if len(found) > 1:
            yield Curve(name, tuple(found))


def _append(points: list[tuple[float, float]], at: float, value: Any) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool) and -_DRAWABLE < value < _DRAWABLE:
        points.append((at, float(value)))
