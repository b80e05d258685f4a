"""The history of phases: what is told apart, what is merged, and what is known of the time before the first look."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.model.phase import Phase, State
from trainer_ops.status import trail
from trainer_ops.status.trail import PHASES_LIMIT, Trail

if TYPE_CHECKING:
    from tests.status.conftest import Scene

RUN, AGAIN, WAIT, QUEUE = Phase.RUNNING, Phase.RESTARTING, Phase.PENDING, Phase.QUEUED
Looks = list[tuple[float, Phase, str, str]]

TOLD: dict[str, tuple[Looks, list[tuple[float, Phase, str, str]]]] = {
    "the same again is nothing new": ([(0, RUN, "", ""), (9, RUN, "", "")], [(0, RUN, "", "")]),
    "a phase after the other": ([(0, WAIT, "", ""), (9, RUN, "", "")], [(0, WAIT, "", ""), (9, RUN, "", "")]),
    "another reason is another turn": (
        [(0, WAIT, "Unschedulable", "no room"), (600, WAIT, "Pulling", "pulling image")],
        [(0, WAIT, "Unschedulable", "no room"), (600, WAIT, "Pulling", "pulling image")],
    ),
    "reasons that change in a blink are one": (
        [(0, WAIT, "Scheduled", "a"), (0.5, WAIT, "Pulling", "b"), (30, WAIT, "Created", "c"), (31, RUN, "", "")],
        [(0, WAIT, "Pulling", "b"), (30, WAIT, "Created", "c"), (31, RUN, "", "")],
    ),
    "the newest detail of a reason counts": (
        [(0, QUEUE, "Pending", "2 ahead"), (60, QUEUE, "Pending", "1 ahead")],
        [(0, QUEUE, "Pending", "1 ahead")],
    ),
    "phases are told apart however short": (
        [(0, RUN, "", ""), (0.1, AGAIN, "Error", "x"), (0.2, RUN, "", "")],
        [(0, RUN, "", ""), (0.1, AGAIN, "Error", "x"), (0.2, RUN, "", "")],
    ),
    "a clock that goes back does not reorder": (
        [(5, WAIT, "", ""), (3, RUN, "", "")],
        [(5, WAIT, "", ""), (5, RUN, "", "")],
    ),
    "long details are cut": ([(0, WAIT, "", "x" * 999)], [(0, WAIT, "", "x" * 199 + "…")]),
}  # fmt: skip


def make(looks: Looks) -> Trail:
    made: Trail = ()
    for at, phase, reason, detail in looks:
        made = trail.add(made, State(phase, reason, detail), at)
    return made


def plain(changes: Trail) -> Looks:
    return [(change.at, change.phase, change.reason, change.detail) for change in changes]


@pytest.mark.parametrize(("looks", "wanted"), TOLD.values(), ids=TOLD.keys())
def test_add(looks: Looks, wanted: Looks) -> None:
    assert plain(make(looks)) == wanted


def test_a_crash_loop_of_days_stays_small_and_says_what_it_left_out() -> None:
    looks: Looks = [(0, QUEUE, "Pending", "quota"), (100, WAIT, "", ""), (200, RUN, "", "")]
    for i in range(1000):
        looks += [(300.0 + 310 * i, AGAIN, "Error", f"restart {i + 1}"), (600.0 + 310 * i, RUN, "", "")]
    looks += [(400_000, Phase.FAILED, "BackoffLimitExceeded", "over")]
    made = make(looks)
    assert len(made) <= PHASES_LIMIT
    assert plain(made[:2]) == looks[:2]
    assert made[-1].phase is Phase.FAILED
    assert made[-2].phase is RUN
    assert [c.at for c in made] == sorted(c.at for c in made)
    # Each change that is gone is counted in one that is left, or joined two alike, which counts too.
    assert sum(c.folded for c in made) + len(made) <= len(looks)
    assert sum(c.folded for c in made) > 900


def test_what_is_merged_is_the_shortest_of_the_middle() -> None:
    made = make([(0, QUEUE, "", ""), (100, WAIT, "", ""), (101, RUN, "", ""), (500, AGAIN, "", ""), (900, RUN, "", "")])
    assert plain(trail.bounded(made, 4)) == plain((*made[:1], *made[2:]))
    assert [change.folded for change in trail.bounded(made, 4)] == [1, 0, 0, 0]


def test_what_was_parted_by_something_merged_is_one_again() -> None:
    made = make([(0, WAIT, "", ""), (9, RUN, "", ""), (50, AGAIN, "", ""), (51, RUN, "", ""), (80, WAIT, "", "")])
    assert plain(trail.bounded(made, 4)) == [(0, WAIT, "", ""), (9, RUN, "", ""), (80, WAIT, "", "")]


PAST: dict[str, tuple[Callable[[Any], Observation], list[tuple[float, Phase]]]] = {
    "nothing but its creation": (lambda s: s.look(s.job(), at=500), [(0, Phase.SUBMITTED)]),
    "there is no TrainJob": (lambda s: s.look(None, at=500), []),
    "admitted, pulled, running": (
        lambda s: s.look(
            s.job(rows={"node": "active=1"}, queue="q"),
            s.pod("node-0", s.running(200), created=100),
            s.pod("node-1", s.running(230), created=100),
            workload=s.workload(s.condition("QuotaReserved", at=90), s.condition("Admitted", at=90), admitted="cq"),
            at=500,
        ),
        [(0, Phase.SUBMITTED), (0, QUEUE), (90, Phase.RESUMING), (100, WAIT), (230, RUN)],
    ),
    "queued again after a preemption": (
        lambda s: s.look(
            s.job(queue="q", suspend=True),
            workload=s.workload(s.condition("QuotaReserved", "False", at=300), s.condition("Admitted", "False")),
            at=500,
        ),
        [(0, Phase.SUBMITTED), (300, QUEUE)],
    ),
    "initialized before": (
        lambda s: s.look(
            s.job(rows={"node": "active=1"}),
            s.pod("dataset-initializer", s.ended(0, at=60), created=2),
            s.pod("node-0", s.running(80), created=70),
            at=500,
        ),
        [(0, Phase.SUBMITTED), (2, Phase.INITIALIZING), (70, WAIT), (80, RUN)],
    ),
    "restarted, as far as the pod remembers": (
        lambda s: s.look(
            s.job(rows={"node": "active=1"}),
            s.pod("node-0", s.running(310), restarts=4, last=s.ended(3, at=300, start=200)),
            at=500,
        ),
        [(0, Phase.SUBMITTED), (1, WAIT), (200, RUN), (300, AGAIN), (310, RUN)],
    ),
    "failed": (
        lambda s: s.look(s.job(rows={"node": "active=1"}), s.pod("node-0", s.ended(3, at=300), phase="Failed"), at=500),
        [(0, Phase.SUBMITTED), (1, WAIT), (5, RUN), (300, Phase.FAILING)],
    ),
    "one node has not started: it has not run": (
        lambda s: s.look(
            s.job(rows={"node": "active=1"}), s.pod("node-0", s.running()), s.pod("node-1", s.waiting()), at=500
        ),
        [(0, Phase.SUBMITTED), (1, WAIT)],
    ),
    "what never started started in 1970": (
        lambda s: s.look(
            s.job(rows={"node": "active=1"}),
            s.pod("node-0", s.ended(128, "StartError", at=-s.zero, start=-s.zero)),
            at=5,
        ),
        [(0, Phase.SUBMITTED), (1, WAIT)],
    ),
    "a cluster whose clock is ahead tells nothing of the future": (
        lambda s: s.look(s.job(rows={"node": "active=1"}), s.pod("node-0", s.running(99)), at=20),
        [(0, Phase.SUBMITTED), (1, WAIT)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("look", "wanted"), PAST.values(), ids=PAST.keys())
def test_the_time_before_the_first_look(scene: Scene, look: Any, wanted: list[tuple[float, Phase]]) -> None:
    assert [(change.at - scene.zero, change.phase) for change in trail.past(look(scene))] == wanted


def test_a_wait_that_begins_late_knows_the_past_and_one_that_saw_it_does_not_ask(scene: Scene) -> None:
    running = scene.look(scene.job(rows={"node": "active=1 ready=1"}), scene.pod("node-0", scene.running(40)), at=400)
    late, _ = scene.see(scene.begin(at=390), running)
    assert [change.phase for change in late.course.phases] == [Phase.SUBMITTED, WAIT, RUN]
    saw, _ = scene.see(scene.begin(at=1), scene.look(None, at=2), scene.look(scene.job(), at=3), running)
    assert [(c.at - scene.zero, c.phase) for c in saw.course.phases] == [(0, Phase.SUBMITTED), (400, RUN)]


def test_the_end_is_when_the_controller_says_it_was(scene: Scene) -> None:
    done = scene.look(scene.job(scene.condition("Complete", at=61)), at=75)
    wait, _ = scene.see(scene.begin(), scene.look(scene.job(), at=2), done)
    last = wait.outcome().phases[-1]
    assert (last["phase"], last["at"]) == ("succeeded", scene.at(61).replace("Z", ".000000Z"))


def test_a_used_up_limit_is_the_end_of_the_trail(scene: Scene) -> None:
    crash = scene.look(
        scene.job(rows={"node": "active=1"}), scene.pod("node-0", scene.ended(3), restarts=2, phase="Running"), at=50
    )
    wait, _ = scene.see(scene.begin(Limits(max_restarts=1)), crash)
    assert [(p["phase"], p["detail"]) for p in wait.outcome().phases[-1:]] == [("failed", "node-0: max_restarts=1")]
    assert wait.see(scene.look(None, at=90), scene.zero + 90)[0] == wait


def test_giving_up_adds_no_phase(scene: Scene) -> None:
    queued = scene.look(scene.job(queue="q", suspend=True), at=60)
    wait, _ = scene.see(scene.begin(Limits(queue_timeout=10)), scene.look(scene.job(queue="q", suspend=True)), queued)
    later, _ = wait.see(scene.look(scene.job(queue="q", suspend=True), at=99), scene.zero + 99)
    assert later.ended == "gave_up"
    assert later.outcome().phases[-1]["phase"] == "queued"
    assert later.outcome().seen_at == scene.at(99)


def test_times_of_the_outcome_never_go_back(scene: Scene) -> None:
    looks = [scene.look(scene.job(rows={"node": "active=1"}), at=t) for t in (5, 80)]
    wait, _ = scene.see(scene.begin(), *looks, scene.look(scene.job(scene.condition("Failed", at=3)), at=90))
    times = [change["at"] for change in wait.outcome().phases]
    assert all(a <= b for a, b in itertools.pairwise(times))
