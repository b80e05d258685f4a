"""Recorded reality, change by change: what a waiter that saw everything would have said at each of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Category
from trainer_ops.model.phase import Phase
from trainer_ops.status.wait import GaveUp, Sleep, Step, Stop, Wait

if TYPE_CHECKING:
    from tests.status.conftest import Replay

S, P, R, F, C = Phase.SUBMITTED, Phase.PENDING, Phase.RUNNING, Phase.FAILING, Phase.COMPLETING
Q, RESUMING, RESTARTING = Phase.QUEUED, Phase.RESUMING, Phase.RESTARTING
CRASHES = [R, RESTARTING]
DONE, GAVE_UP, STOP, GOES_ON = "done", "gave_up", "stop", ""


@dataclass(frozen=True)
class Case:
    """One recorded watch and what must come of it.

    Attributes:
        phases: in order, each once as long as it lasts.
        ended: how the wait ends.
        phase: of the outcome.
        category: of the diagnosis; None for a success, or when the recording stops before an end.
        text: what the diagnosis says somewhere.
    """

    phases: list[Phase]
    ended: str
    phase: Phase
    category: Category | None = None
    text: str = ""
    limits: Limits = field(default_factory=Limits)
    job: str | None = None


CASES: dict[str, Case] = {
    "two": Case([S, P, R, C, Phase.SUCCEEDED], DONE, Phase.SUCCEEDED),
    "flaky": Case([S, P, R, F, R, C, Phase.SUCCEEDED], DONE, Phase.SUCCEEDED),
    "flaky, no restart allowed": Case([S, P, R, F], STOP, Phase.FAILED, Category.EXIT_CODE, "exit code 7 on node-0",
                                      Limits(max_restarts=0)),
    "flaky, one restart allowed": Case([S, P, R, F, R, C, Phase.SUCCEEDED], DONE, Phase.SUCCEEDED,
                                       limits=Limits(max_restarts=1)),
    "sigkill": Case([S, P, R, C, Phase.SUCCEEDED], DONE, Phase.SUCCEEDED),
    "never": Case([S, P, R, F, Phase.FAILED], DONE, Phase.FAILED, Category.EXIT_CODE, "exit code 3 on node-0"),
    "never, no restart allowed: it fails by itself": Case(
        [S, P, R, F, Phase.FAILED], DONE, Phase.FAILED, Category.EXIT_CODE, "on node-0", Limits(max_restarts=0)
    ),
    "never-one": Case([S, P, R, F, Phase.FAILED], DONE, Phase.FAILED, Category.EXIT_CODE, "exit code 3 on node-1"),
    "never-oom": Case([S, P, R, F, Phase.FAILED], DONE, Phase.FAILED, Category.OUT_OF_MEMORY, "node-0 ran out of"),
    # The pods are deleted seconds before Failed: the exit code is known only because it was seen in flight.
    "slowfail": Case([S, P, R, F, *CRASHES * 5, R, P, S, Phase.FAILED], DONE, Phase.FAILED, Category.EXIT_CODE,
                     "exit code 3, after 6 restarts"),
    "slowfail, two restarts": Case([S, P, R, F, *CRASHES * 2], STOP, Phase.FAILED, Category.RESTARTS_EXHAUSTED,
                                   "exit code 3 on node-0; max_restarts=2 was reached", Limits(max_restarts=2)),
    "oom": Case([S, P, R, F, *CRASHES * 4], GOES_ON, RESTARTING),
    "oom, one restart": Case([S, P, R, F, *CRASHES], STOP, Phase.FAILED, Category.RESTARTS_EXHAUSTED, "out of memory",
                             Limits(max_restarts=1)),
    "oom, no restart": Case([S, P, R, F], STOP, Phase.FAILED, Category.OUT_OF_MEMORY, "node-0 ran out of memory",
                            Limits(max_restarts=0)),
    "oomchild": Case([S, P, R, F, *CRASHES * 4], GOES_ON, RESTARTING),
    "oomchild, no restart": Case([S, P, R, F], STOP, Phase.FAILED, Category.OUT_OF_MEMORY, "exit code 1",
                                 Limits(max_restarts=0)),
    "badcmd": Case([S, P, F, RESTARTING], GOES_ON, RESTARTING),
    "badcmd, no restart": Case([S, P, F], STOP, Phase.FAILED, Category.CONFIG, "/no/such/binary",
                               Limits(max_restarts=0)),
    "image": Case([S, P, Phase.DELETED], DONE, Phase.DELETED, Category.DELETED, job="noimage"),
    "image, impatient": Case([S, P], GAVE_UP, P, Category.IMAGE, "no such host", Limits(startup_timeout=60),
                             job="noimage"),
    "imagelocal": Case([S, P, Phase.DELETED], DONE, Phase.DELETED, Category.DELETED),
    "imagelocal, impatient": Case([S, P], GAVE_UP, P, Category.IMAGE, "absent:1", Limits(startup_timeout=15)),
    "nocm": Case([S, P, Phase.DELETED], DONE, Phase.DELETED, Category.DELETED),
    "del-background": Case([S, P, R, Phase.DELETED], DONE, Phase.DELETED, Category.DELETED),
    "del-foreground": Case([S, P, R, Phase.DELETING, Phase.DELETED], DONE, Phase.DELETED, Category.DELETED),
    "del-plain": Case([S, P, R, Phase.DELETED], DONE, Phase.DELETED, Category.DELETED),
    "suspend": Case([S, P, R, Phase.SUSPENDED, RESUMING, P, R, Phase.DELETED], DONE, Phase.DELETED, Category.DELETED),
    "suspend, impatient": Case([S, P, R, Phase.SUSPENDED], GAVE_UP, Phase.SUSPENDED, Category.QUEUED_TOO_LONG,
                               "suspended", Limits(queue_timeout=2)),
    "kueue-k2": Case([S, Q, RESUMING, P, R, Q, RESUMING, P, R, Phase.DELETED], DONE, Phase.DELETED, Category.DELETED),
    # Queued for 9.5 s, then, preempted, for 20 s: each turn counts for itself.
    "kueue-k2, patient enough for each turn": Case(
        [S, Q, RESUMING, P, R, Q, RESUMING, P, R, Phase.DELETED], DONE, Phase.DELETED, Category.DELETED,
        limits=Limits(queue_timeout=25, startup_timeout=10),
    ),
    "kueue-k2, impatient": Case([S, Q, RESUMING, P, R, Q], GAVE_UP, Q, Category.QUEUED_TOO_LONG,
                                "queue_timeout=0:15", Limits(queue_timeout=15)),
}  # fmt: skip

Replays = Callable[..., "Replay"]


def play(replay: Replay, limits: Limits, every: int = 1) -> tuple[list[Phase], Wait, Step]:
    """Show all changes, or the state after every so many of them, as a poll would."""
    wait: Wait | None = None
    step: Step = Sleep(1)
    phases: list[Phase] = []
    looks: list[Observation] = list(replay.observations())
    for obs in [*looks[:-1:every], looks[-1]]:
        if wait is None:
            wait = Wait.begin(JobRef("memory://t", "default", replay.name, replay.uid), limits, now=obs.at)
        wait, step = Wait.from_json(json.loads(json.dumps(wait.to_json()))).see(obs, obs.at)
        if phases[-1:] != [wait.state.phase]:
            phases.append(wait.state.phase)
    assert wait is not None
    return phases, wait, step


@pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES.keys())
def test_replay(replay: Replays, name: str, case: Case) -> None:
    phases, wait, _ = play(replay(f"{name.split(',')[0]}.watch", case.job), case.limits)
    assert phases == case.phases
    assert wait.ended == case.ended
    told = itertools.groupby(change.phase for change in wait.course.phases)
    assert [phase for phase, _ in told] == [*phases, *([Phase.FAILED] if case.ended == STOP else [])]
    if case.ended == GOES_ON:
        assert wait.state.phase is case.phase
        return
    outcome = wait.outcome()
    assert outcome.phase is case.phase
    assert (outcome.diagnosis.category if outcome.diagnosis else None) is case.category
    assert case.text in str(outcome.diagnosis)


@pytest.mark.parametrize("every", [2, 3, 5, 7])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "," not in name and case.ended == DONE])
def test_what_a_poll_misses_does_not_change_the_end(replay: Replays, name: str, every: int) -> None:
    case = CASES[name]
    _, wait, _ = play(replay(f"{name}.watch", case.job), case.limits, every)
    outcome = wait.outcome()
    assert outcome.phase is case.phase
    assert (outcome.diagnosis.category if outcome.diagnosis else None) is case.category


def test_every_recorded_watch_is_replayed(evidence_cases: set[str]) -> None:
    assert {f"{name.split(',')[0]}.watch" for name in CASES} == {c for c in evidence_cases if c.endswith(".watch")}


def test_the_healthy_sibling_is_not_named(replay: Replays) -> None:
    _, wait, _ = play(replay("never-one.watch"), Limits())
    assert set(wait.evidence.nodes) == {"node-1"}


def test_a_replayed_stop_and_giving_up_are_what_the_caller_gets(replay: Replays) -> None:
    assert play(replay("slowfail.watch"), Limits(max_restarts=2))[2] == Stop()
    assert play(replay("imagelocal.watch"), Limits(startup_timeout=15))[2] == GaveUp()
