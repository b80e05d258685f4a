"""Each limit has a clock of its own, and none runs while another phase lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Category, Ending
from trainer_ops.model.phase import Phase
from trainer_ops.status.clocks import Clocks, until
from trainer_ops.status.wait import Done, GaveUp, Sleep, Step, Stop

if TYPE_CHECKING:
    from tests.status.conftest import Scene


def queued(s: Scene, at: float) -> Observation:
    return s.look(s.job(s.condition("Suspended"), suspend=True, queue="lq"), at=at)


def pending(s: Scene, at: float) -> Observation:
    return s.look(s.job(rows={"node": "active=1"}), s.pod("node-0", s.waiting()), at=at)


def running(s: Scene, at: float) -> Observation:
    return s.look(s.job(rows={"node": "active=1 ready=1"}), at=at)


PHASES = {"Q": queued, "P": pending, "R": running}

# Phases and their seconds, the limits, and when the wait is given up (None: never) and by which limit.
CASES: dict[str, tuple[str, Limits, float | None, str]] = {
    "queued just below": ("Q0 Q99.9", Limits(queue_timeout=100), None, ""),
    "at the very deadline it is over": ("Q0 Q100", Limits(queue_timeout=100), 100, "queue_timeout"),
    "pending at the very deadline": ("P10 P100", Limits(startup_timeout=100), 100, "startup_timeout"),
    "wait at the very deadline": ("R0 R100", Limits(wait_timeout=100), 100, "wait_timeout"),
    "the queue does not start the startup clock": ("Q0 Q500 P501 P550", Limits(startup_timeout=100), None, ""),
    "the startup clock starts when it leaves the queue": (
        "Q0 Q500 P501 P550 P601",
        Limits(startup_timeout=100),
        601,
        "startup_timeout",
    ),
    "starting does not run the queue clock": ("P0 P500", Limits(queue_timeout=100), None, ""),
    "running runs neither": ("P1 R2 R9999", Limits(queue_timeout=10, startup_timeout=10), None, ""),
    "preempted: the queue clock starts anew": ("Q0 Q90 R95 Q200 Q299", Limits(queue_timeout=100), None, ""),
    "preempted for too long": ("Q0 Q90 R95 Q200 Q300", Limits(queue_timeout=100), 300, "queue_timeout"),
    "after preemption it may start slowly again": (
        "P1 R5 Q200 P300 P399",
        Limits(startup_timeout=100),
        None,
        "",
    ),
    "and has the same limit then": ("P1 R5 Q200 P300 P400", Limits(startup_timeout=100), 400, "startup_timeout"),
    "a restart is no slow start": ("P1 R5 P10 P9999", Limits(startup_timeout=100), None, ""),
    "the wait clock runs through all": ("Q1 P30 R60 P90 R100", Limits(wait_timeout=100), 100, "wait_timeout"),
    "the more telling limit is named": (
        "Q0 Q100",
        Limits(queue_timeout=100, wait_timeout=100),
        100,
        "queue_timeout",
    ),
    "a limit of nothing": ("Q5", Limits(queue_timeout=0), 5, "queue_timeout"),
}


@pytest.mark.parametrize(("play", "limits", "at", "limit"), CASES.values(), ids=CASES.keys())
def test_limit(scene: Scene, play: str, limits: Limits, at: float | None, limit: str) -> None:
    wait, step, ended = scene.begin(limits), Sleep(1), None
    for word in play.split():
        seconds = float(word[1:])
        now: Step
        wait, now = wait.see(PHASES[word[0]](scene, seconds), scene.zero + seconds)
        if isinstance(now, GaveUp):
            ended = seconds
            break
        assert now != step or isinstance(now, Sleep)
    assert (ended, wait.limit) == (at, limit)


SLEEPS: dict[str, tuple[str, float, Limits, float]] = {
    "the poll interval": ("R", 5, Limits(), 10),
    "up to the queue's deadline": ("Q", 0, Limits(queue_timeout=4), 4),
    "up to the startup deadline, counted from the begin": ("P", 7, Limits(startup_timeout=10), 3),
    "up to the end of the wait": ("R", 95, Limits(wait_timeout=100), 5),
    "a deadline of a phase that is not this one does not shorten": ("R", 5, Limits(queue_timeout=6), 10),
}


@pytest.mark.parametrize(("phase", "at", "limits", "seconds"), SLEEPS.values(), ids=SLEEPS.keys())
def test_sleep(scene: Scene, phase: str, at: float, limits: Limits, seconds: float) -> None:
    _, step = scene.see(scene.begin(limits), PHASES[phase](scene, at))
    assert isinstance(step, Sleep)
    assert step.seconds == pytest.approx(seconds)


def test_poll_is_a_parameter(scene: Scene) -> None:
    assert scene.see(scene.begin(poll=2.5), running(scene, 1))[1] == Sleep(2.5)


def test_missing_looks_again_at_the_end_of_its_grace(scene: Scene) -> None:
    wait, step = scene.see(scene.begin(Limits(missing_grace=30)), scene.look(None, at=25))
    assert (wait.state.phase, step) == (Phase.NOT_OBSERVED, Sleep(5))
    wait, step = scene.see(wait, scene.look(None, at=30))
    assert (wait.state.phase, step) == (Phase.DELETED, Done())


@given(
    st.floats(1e9, 4e9),
    st.floats(0, 1e6),
    st.floats(0, 1e6, allow_subnormal=False),
    st.floats(0.001, 1e4),
    st.booleans(),
)
def test_a_sleep_is_never_nothing(began: float, later: float, limit: float, poll: float, answered: bool) -> None:
    now = began + later
    seconds = until(Clocks.begin(began), Limits(limit, limit, limit, limit), now, poll, answered=answered)
    assert 0 < seconds <= max(poll, 0.001)
    assert now + seconds > now


def test_unreachable_counts_from_the_last_answer(scene: Scene) -> None:
    limits = Limits(unreachable_timeout=100)
    wait, _ = scene.see(scene.begin(limits), running(scene, 50))
    wait, step = wait.unreachable("connection refused", scene.zero + 149)
    assert step == Sleep(1)
    wait, _ = scene.see(wait, running(scene, 149.5))
    wait, step = wait.unreachable("connection refused", scene.zero + 200)
    assert step == Sleep(10)
    wait, step = wait.unreachable("connection refused", scene.zero + 249.5)
    assert step == GaveUp()
    assert wait.unreachable("x", scene.zero + 999)[1] == GaveUp()
    outcome = wait.outcome()
    assert outcome.diagnosis is not None
    assert outcome.diagnosis.category is Category.UNREACHABLE
    assert outcome.ending is Ending.UNREACHABLE
    assert outcome.finished_at is None


def test_unreachable_from_the_begin(scene: Scene) -> None:
    wait, step = scene.begin(Limits(unreachable_timeout=60)).unreachable("503", scene.zero + 60)
    assert step == GaveUp()
    assert wait.limit == "unreachable_timeout"


def test_what_nobody_sees_is_not_held_against_the_training(scene: Scene) -> None:
    wait, _ = scene.see(scene.begin(Limits(queue_timeout=100)), queued(scene, 10))
    wait, step = wait.unreachable("503", scene.zero + 500)
    assert step == Sleep(10)
    assert scene.see(wait, running(scene, 510))[1] == Sleep(10)


def test_wait_timeout_counts_also_while_unreachable(scene: Scene) -> None:
    wait, _ = scene.see(scene.begin(Limits(wait_timeout=100)), running(scene, 10))
    assert wait.unreachable("503", scene.zero + 95)[1] == Sleep(5)
    assert wait.unreachable("503", scene.zero + 100)[1] == GaveUp()


def test_the_end_of_the_training_goes_before_a_limit(scene: Scene) -> None:
    done = scene.look(scene.job(scene.condition("Complete")), at=500)
    assert scene.see(scene.begin(Limits(wait_timeout=100)), done)[1] == Done()


def test_used_up_restarts_go_before_the_limits_of_time(scene: Scene) -> None:
    pod = scene.pod("node-0", scene.ended(3), phase="Running", restarts=1)
    look = scene.look(scene.job(rows={"node": "active=1"}), pod, at=500)
    assert scene.see(scene.begin(Limits(wait_timeout=100, max_restarts=1)), look)[1] == Stop()


def test_given_up_stays_given_up(scene: Scene) -> None:
    wait, _ = scene.see(scene.begin(Limits(queue_timeout=10)), queued(scene, 0), queued(scene, 10))
    done = scene.look(scene.job(scene.condition("Complete")), at=20)
    again, step = wait.see(done, scene.zero + 20)
    assert step == GaveUp()
    assert again == wait
    assert wait.outcome().ending is Ending.GAVE_UP
