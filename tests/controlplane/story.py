"""What one wait was told, and the clock that a test moves on under it.

Rows are those of the decision table in ``trainer_ops.status.classify``. Which of them decided is noted from the table
itself, so that a test proves a row by reaching it and not by a phase that several rows share.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from trainer_ops.backends.base import LogSource, Watch
from trainer_ops.backends.waker import Waker
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.submit import Submitted
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.phase import Phase, State
from trainer_ops.status import classify as table

__all__ = ["Movable", "Story", "noted_rows"]

_BY_PHASE = {Phase.NOT_OBSERVED: (1,), Phase.DELETED: (2,), Phase.REPLACED: (3,)}
_ELSE = 20
_INITIALIZERS = {14: "dataset", 15: "model"}
_last = threading.local()


@contextmanager
def noted_rows() -> Iterator[None]:
    """Within it, stories know the rows. A wait judges and tells in one thread, so the last row is the told one."""
    with mock.patch.object(table, "ROWS", tuple(map(_noting, table.ROWS))):
        yield


def _noting(row: Callable[[Any], State | None]) -> Callable[[Any], State | None]:
    numbers = tuple(int(number) for number in re.findall(r"_(\d\d)", row.__name__))
    assert numbers, row.__name__

    def noting(look: Any) -> State | None:
        state = row(look)
        _last.rows = (_ELSE,) if state is None else numbers
        return state

    return noting


def _rows(state: State) -> tuple[int, ...]:
    rows: tuple[int, ...] = _BY_PHASE.get(state.phase) or _last.rows
    if 14 in rows:
        rows = tuple(row for row in rows if _INITIALIZERS[row] in state.detail)
    return rows


class Movable(RealClock):
    """The real clock, moved on by hand: an hour in a queue costs a test nothing.

    Attributes:
        on_pause: called when somebody sleeps between two tries, and not for a change.
    """

    def __init__(self) -> None:
        self._ahead = 0.0
        self._moved = False
        self._watch: Watch | None = None
        self.on_pause: Callable[[], object] = lambda: None

    def now(self) -> float:
        return time.time() + self._ahead

    def move(self, seconds: float) -> None:
        """Let that much time pass, and wake whoever sleeps by this clock."""
        self._ahead += seconds
        self._moved = True
        if isinstance(self._watch, Waker):
            self._watch.notify()

    def sleep(self, seconds: float, watch: Watch | None = None) -> None:
        if not self._begin(watch):
            super().sleep(seconds, watch)

    async def asleep(self, seconds: float, watch: Watch | None = None) -> None:
        if not self._begin(watch):
            await super().asleep(seconds, watch)

    def _begin(self, watch: Watch | None) -> bool:
        """Whether time was moved since the last sleep, so that the one to come was measured by a clock of before."""
        if watch is None:
            self.on_pause()
        self._watch = watch
        moved, self._moved = self._moved, False
        return moved


class Story:
    """A listener that keeps everything, and lets another thread wait for what is told.

    Attributes:
        states: each state, once as long as it lasts.
        rows: rows of the decision table that were reached.
        looks: how often the target was looked at.
        lines: (node, text) of each log line.
        submitted: what ``submit`` said.
        outcome: how the wait ended.
        error: what was raised instead.
        standing: uid of the TrainJob of that name after the end, "" when there is none.
    """

    def __init__(self) -> None:
        self.states: list[State] = []
        self.rows: set[int] = set()
        self.looks = 0
        self.lines: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.submitted: Submitted | None = None
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self.standing = ""
        self._told = threading.Condition()
        self._going = threading.Event()
        self._going.set()
        self._halted = threading.Event()

    # -- as a listener ----------------------------------------------------------------------------------------------

    def on_state(self, state: State, obs: Observation | None) -> None:
        with self._told:
            if obs is not None:
                self.rows.update(_rows(state))
            if self.states[-1:] != [state]:
                self.states.append(state)
            self.looks += 1
            self._told.notify_all()
        if not self._going.is_set():
            self._halted.set()
            self._going.wait(60)

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        with self._told:
            self.lines += [(source.node, line) for line in lines]
            self._told.notify_all()

    def on_note(self, text: str) -> None:
        with self._told:
            self.notes.append(text)
            self._told.notify_all()

    # -- for the test -----------------------------------------------------------------------------------------------

    def halt(self, clock: Movable) -> None:
        """Keep the wait from looking again (only one that has a thread of its own)."""
        self._going.clear()
        clock.move(0)
        assert self._halted.wait(60), f"it does not look any more: {self}"

    def go_on(self) -> None:
        """Let it look."""
        self._going.set()

    def end(self, outcome: Outcome | None, error: BaseException | None) -> None:
        """It is over."""
        with self._told:
            self.outcome, self.error = outcome, error
            self._told.notify_all()

    @property
    def over(self) -> bool:
        """Whether it is over."""
        return self.outcome is not None or self.error is not None

    @property
    def phases(self) -> list[Phase]:
        """The phases seen, each once as long as it lasts."""
        phases = [state.phase for state in self.states]
        return [phase for index, phase in enumerate(phases) if index == 0 or phases[index - 1] is not phase]

    def until(self, what: str, holds: Callable[[Story], bool], *, seconds: float = 90.0) -> None:
        """Wait until something was told.

        Raises:
            AssertionError: the wait was over before, or it takes too long.
        """
        end = time.monotonic() + seconds
        with self._told:
            while not holds(self):
                assert not self.over, f"over before {what}: {self}"
                assert self._told.wait(end - time.monotonic()), f"not within {seconds:g} s: {what}: {self}"

    def now(self, phase: Phase, text: str = "") -> State:
        """Wait until it is in this phase, with this text in its reason or detail."""

        def holds(story: Story) -> bool:
            return bool(story.states) and _is(story.states[-1], phase, text)

        self.until(f"{phase} {text!r}", holds)
        return self.states[-1]

    def was(self, phase: Phase, text: str = "") -> bool:
        """Whether it ever was."""
        return any(_is(state, phase, text) for state in self.states)

    def __str__(self) -> str:
        return f"states {self.states}, rows {sorted(self.rows)}, notes {self.notes}, {self.outcome or self.error}"


def _is(state: State, phase: Phase, text: str) -> bool:
    return state.phase is phase and text in f"{state.reason}: {state.detail}"
