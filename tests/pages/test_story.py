"""From an Outcome to the axis of time: where it begins and ends, what lasted how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.model.outcome import Category, Diagnosis, Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.model.times import rfc3339
from trainer_ops.pages.story import span_text, story

NOON = 1795953600.0
LEFT = Diagnosis(Category.QUEUED_TOO_LONG, "x")

Make = Callable[..., Outcome]


def change(phase: str, seconds: float, **more: Any) -> dict[str, Any]:
    return {"phase": phase, "reason": "", "detail": "", "at": rfc3339(NOON + seconds, micro=True), "folded": 0, **more}


def point(seconds: float, percentage: object, **metrics: object) -> dict[str, Any]:
    return {"at": rfc3339(NOON + seconds), "percentage": percentage, "eta_seconds": None, "metrics": metrics}


def test_spans_follow_each_other_and_the_end_is_apart(make: Make) -> None:
    told = story(make(), now=NOON + 99_999)
    assert [(s.phase, s.start - NOON, s.seconds) for s in told.spans] == [
        (Phase.QUEUED, 0, 540), (Phase.PENDING, 540, 60), (Phase.RUNNING, 600, 3000),
    ]  # fmt: skip
    assert told.final is not None
    assert (told.final.phase, told.start - NOON, told.end - NOON, told.open) == (Phase.SUCCEEDED, 0, 3600, False)
    assert (told.waited, told.ran) == (600, 3000)


def test_a_moment_is_no_span(make: Make) -> None:
    phases = (change("submitted", 0), change("pending", 0.01), change("running", 5), change("succeeded", 60))
    assert [s.phase for s in story(make(phases=phases, finished_at=rfc3339(NOON + 60)), None).spans] == [
        Phase.PENDING,
        Phase.RUNNING,
    ]


ENDS: dict[str, tuple[dict[str, Any], float | None, float, bool]] = {
    "it ended": ({}, 9999, 3600, False),
    "it goes on: until now": ({"phase": Phase.RUNNING, "finished_at": None}, 5000, 5000, True),
    "it goes on, and nobody says what time it is": (
        {"phase": Phase.RUNNING, "finished_at": None, "seen_at": rfc3339(NOON + 4000)}, None, 4000, True
    ),
    "given up": ({"phase": Phase.QUEUED, "finished_at": None, "diagnosis": LEFT}, 700, 3600, True),
    "deleted": ({"phase": Phase.DELETED, "finished_at": rfc3339(NOON + 3700)}, None, 3700, False),
    "the last phase was entered later than it ended": ({"finished_at": rfc3339(NOON + 3000)}, None, 3600, False),
    "phases were not known then": ({"phases": ()}, None, 3600, False),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "now", "end", "open_"), ENDS.values(), ids=ENDS.keys())
def test_the_end_of_the_axis(make: Make, parts: dict[str, Any], now: float | None, end: float, open_: bool) -> None:
    told = story(make(**parts), now=None if now is None else NOON + now)
    assert (told.end - NOON, told.open) == (end, open_)
    assert all(span.seconds >= 0 for span in told.spans)


def test_nothing_at_all_is_known() -> None:
    told = story(Outcome("n", "d", "u", "t", Phase.NOT_OBSERVED), now=None)
    assert (told.spans, told.final, told.curves, told.ran) == ((), None, (), None)


def test_totals_count_how_often_a_phase_was_entered(make: Make) -> None:
    phases = (
        change("pending", 0, reason="Unschedulable"),
        change("pending", 60, reason="Pulling"),
        change("running", 100),
        change("restarting", 200),
        change("running", 210),
        change("failed", 300),
    )
    told = story(make(phases=phases, phase=Phase.FAILED, finished_at=rfc3339(NOON + 300)), None)
    assert [(word, seconds, times) for word, _, seconds, times in told.totals()] == [
        ("starting", 100, 1), ("running", 190, 2), ("restarting", 10, 1),
    ]  # fmt: skip


def test_gpus_are_held_while_it_runs_not_while_it_queues_again(make: Make) -> None:
    phases = (change("running", 0), change("queued", 100), change("running", 1100), change("succeeded", 1200))
    told = story(make(phases=phases, finished_at=rfc3339(NOON + 1200)), None)
    assert (told.ran, told.waited) == (200, 1000)


def test_curves_are_of_numbers(make: Make) -> None:
    progress = (
        point(0, 10, loss=2.0, note="warm", once=1.0, huge=1e301, flag=True),
        point(60, None, loss="nan", note="hot", huge=1e301, flag=True, nothing=None),
        point(120, 130, loss=0.5),
        {"at": None, "percentage": 50, "metrics": {"loss": 3.0}},
        {"at": rfc3339(NOON), "percentage": 50, "metrics": "none"},
    )
    told = story(make(progress=progress), None)
    assert [(c.name, c.percent, [v for _, v in c.points]) for c in told.curves] == [
        ("progress, %", True, [10, 100, 50]),
        ("loss", False, [2.0, 0.5]),
    ]


def test_what_another_version_wrote_is_left_out(make: Make) -> None:
    phases: Any = (change("running", 0), {"phase": "dreaming", "at": rfc3339(NOON + 5)}, {"phase": "running"}, {})
    assert [s.phase for s in story(make(phases=phases), None).spans] == [Phase.RUNNING]


SPANS = {"a moment": (0.04, "0.0 s"), "seconds": (2.34, "2.3 s"), "longer": (12.7, "0:12"), "hours": (3723, "1:02:03")}


@pytest.mark.parametrize(("seconds", "text"), SPANS.values(), ids=SPANS.keys())
def test_span_text(seconds: float, text: str) -> None:
    assert span_text(seconds) == text
