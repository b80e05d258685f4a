"""Waiting for trainings that others started: one, all of a selection, or the first of them.

A selection may grow while it is waited for: what appears with its labels is waited for too, and a newer attempt takes
the place of the one before. ``await_for`` costs no thread; ``wait_for`` needs no event loop. A training is only looked
at, unless its limits in the rule say ``max_restarts``.
"""

from __future__ import annotations

import asyncio
from functools import partial
from math import inf

from trainer_ops.backends.base import Backend, RawObjects
from trainer_ops.errors import BackendError
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.drive import Turns, adrive
from trainer_ops.lifecycle.group import Eye, Group, ListenerFor, Met, Rule, Verdict, Waited
from trainer_ops.lifecycle.selection import Scout, Selection
from trainer_ops.lifecycle.threads import in_thread
from trainer_ops.model.outcome import Outcome
from trainer_ops.status.wait import Wait

__all__ = ["Rule", "Verdict", "Waited", "await_for", "wait_for"]

# Seconds between two looks at who is selected: at most, when nothing wakes; and at least, when everything does.
_LOOK, _REST = 30.0, 0.5


def wait_for(
    backend: Backend,
    selection: Selection,
    rule: Rule,
    *,
    clock: Clock,
    listener_for: ListenerFor | None = None,
) -> Verdict:
    """Wait in this thread. Interrupting it leaves every training alone.

    Args:
        backend: where.
        selection: for which.
        rule: until when.
        clock: what sleeps.
        listener_for: makes what hears of each training.

    Raises:
        InvalidRequest: nothing is selected, and the rule refuses that.
        BackendError: the target refused, or gave no answer for half an hour.
    """
    group, pace = Group(backend, selection, rule, listener_for), _Pace(rule.deadline)
    scout = Scout(backend, selection)
    lanes: list[_Lane] = []
    try:
        while True:
            if group.looks and pace.due <= clock.now():
                pace.looked(clock.now())
                new = group.take(_look(scout, group, clock), clock.now())
                lanes += [_Lane(backend, wait, eye, clock) for wait, eye in new]
            lanes = [lane for lane in lanes if lane.turn(group)]
            verdict = group.verdict(clock.now())
            if verdict is not None:
                return verdict
            until = min([pace.until(group.looks), *(lane.due for lane in lanes)])
            clock.sleep(max(0.0, until - clock.now()), scout.watch)
            if clock.now() < until:
                pace.stirred()
    finally:
        scout.close()
        for lane in lanes:
            lane.close()


class _Pace:
    """When to look at who is selected: soon after something stirred, not every time that something does."""

    def __init__(self, deadline: float | None) -> None:
        self.due = 0.0
        self._deadline = inf if deadline is None else deadline
        self._looked = 0.0

    def looked(self, now: float) -> None:
        """A look is being taken."""
        self._looked, self.due = now, now + _LOOK

    def stirred(self) -> None:
        """There may be news."""
        self.due = min(self.due, self._looked + _REST)

    @property
    def listens(self) -> bool:
        """Whether news would make a difference."""
        return self.due > self._looked + _REST

    def until(self, looks: bool) -> float:
        """How long to sleep at the longest."""
        return min(self.due, self._deadline) if looks else self._deadline


def _look(scout: Scout, group: Group, clock: Clock) -> RawObjects:
    try:
        return group.answered(scout.look(clock.now()))
    except BackendError as error:
        return group.unanswered(error, clock.now())


async def await_for(
    backend: Backend,
    selection: Selection,
    rule: Rule,
    *,
    clock: Clock,
    listener_for: ListenerFor | None = None,
) -> Verdict:
    """``wait_for`` for an event loop; see ``adrive``. Cancelling it leaves every training alone."""
    group, pace = Group(backend, selection, rule, listener_for), _Pace(rule.deadline)
    scout = Scout(backend, selection)
    tasks: set[asyncio.Task[None]] = set()
    try:
        while True:
            if group.looks and pace.due <= clock.now():
                pace.looked(clock.now())
                raws = await in_thread(partial(_look, scout, group, clock))
                new = group.take(raws, clock.now())
                tasks |= {asyncio.create_task(_lane(backend, wait, eye, group, clock)) for wait, eye in new}
            verdict = group.verdict(clock.now())
            if verdict is not None:
                return verdict
            tasks = await _nap(tasks, pace, pace.until(group.looks), scout, clock)
    finally:
        scout.close()
        await _cancel(tasks)


async def _nap(
    tasks: set[asyncio.Task[None]], pace: _Pace, until: float, scout: Scout, clock: Clock
) -> set[asyncio.Task[None]]:
    """Sleep until then, until a training has ended, or until something stirs; the tasks that still go on."""
    if until == inf:
        done, going = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    else:
        watch = scout.watch if pace.listens else None
        nap = asyncio.create_task(clock.asleep(max(0.0, until - clock.now()), watch))
        try:
            done, going = await asyncio.wait({*tasks, nap}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel({nap})
        done.discard(nap)
        going.discard(nap)
    if clock.now() < until:
        pace.stirred()  # also when it was a training that ended: a stir in the same moment would be lost with the nap
    for task in done:
        task.result()
    return going


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _lane(backend: Backend, wait: Wait, eye: Eye, group: Group, clock: Clock) -> None:
    try:
        outcome = await adrive(backend, wait, clock=clock, listener=eye, follow_logs=False)
    except Met:
        return
    group.ended(wait.ref, outcome)


class _Lane:
    """A training that ``wait_for`` waits for beside others."""

    def __init__(self, backend: Backend, wait: Wait, eye: Eye, clock: Clock) -> None:
        self.due = clock.now()
        self._ref, self._clock = wait.ref, clock
        self._watch = backend.watch(wait.ref.name)
        self._turns = Turns(backend, wait, clock=clock, listener=eye, follow_logs=False)

    def turn(self, group: Group) -> bool:
        """Go on if it is time or something changed; whether it goes on after that."""
        if not self._watch.wait(0) and self._clock.now() < self.due:
            return True
        try:
            turn = self._turns.go_on()
        except Met:
            self.close()
            return False
        if not isinstance(turn, Outcome):
            self.due = self._clock.now() + turn
            return True
        group.ended(self._ref, turn)
        self.close()
        return False

    def close(self) -> None:
        """Let go of its watch."""
        self._watch.close()
