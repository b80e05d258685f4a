"""The history of what a training reported, thinned so that it stays small however long the training is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

from trainer_ops.model.outcome import ProgressPoint

__all__ = ["CURVES", "HISTORY_LIMIT", "add", "few", "from_plain", "to_plain"]

HISTORY_LIMIT = 200
# Trainer takes up to 256 metrics in a report. The newest report is kept whole; of earlier ones so many make curves.
CURVES = 16


def add(history: tuple[ProgressPoint, ...], point: ProgressPoint | None) -> tuple[ProgressPoint, ...]:
    """The history with one more report; the same again changes nothing.

    Over 200 points the one goes whose neighbours are nearest to each other in time, never the first or the newest: so
    what is left stays spread over the whole length of the training.
    """
    if point is None or (history and history[-1] == point):
        return history
    earlier = history[-2].metrics if len(history) > 1 else {}
    longer = (*history[:-1], *(few(last, earlier) for last in history[-1:]), point)
    if len(longer) <= HISTORY_LIMIT:
        return longer
    closest = min(range(1, len(longer) - 1), key=lambda i: longer[i + 1].at - longer[i - 1].at)
    return (*longer[:closest], *longer[closest + 1 :])


def few(point: ProgressPoint, earlier: Collection[str] = ()) -> ProgressPoint:
    """The report with at most 16 of its metrics: those in ``earlier``, so that a curve goes on, then other numbers."""
    if len(point.metrics) <= CURVES:
        return point
    order = sorted(point.metrics, key=lambda name: (name not in earlier, isinstance(point.metrics[name], str)))
    return replace(point, metrics={name: point.metrics[name] for name in order[:CURVES]})


def to_plain(history: tuple[ProgressPoint, ...]) -> list[dict[str, Any]]:
    """Plain data with exact times; ``from_plain`` gives an equal history."""
    return [asdict(point) for point in history]


def from_plain(data: list[Mapping[str, Any]]) -> tuple[ProgressPoint, ...]:
    """The inverse of ``to_plain``."""
    return tuple(ProgressPoint(**point) for point in data)
