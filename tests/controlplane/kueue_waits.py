"""A wait in a thread of its own, whose clock a test can put forward: what the tests of queues look through."""

from __future__ import annotations

import threading
from collections.abc import Callable

import trainer_ops
from tests.controlplane.plane import wait_until
from trainer_ops.backends.base import Watch
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.listener import Silent
from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.phase import Phase, State

__all__ = ["Waiting"]


class _Abandoned(Exception):
    """The test is over."""


class _Clock(RealClock):
    """The real clock, put forward by hand: an hour in a queue costs a test nothing."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self.abandoned = False

    def now(self) -> float:
        return super().now() + self.ahead

    def sleep(self, seconds: float, watch: Watch | None = None) -> None:
        if self.abandoned:
            raise _Abandoned
        # Short looks, so that a clock that was put forward is seen.
        super().sleep(min(seconds, 0.2), watch)


class Waiting(Silent):
    """``trainer_ops.wait`` in a thread; a context manager, which leaves the training alone.

    Attributes:
        states: each state seen, once as long as it lasts.
    """

    def __init__(self, ref: JobRef, *, limits: Limits | None = None) -> None:
        self.states: list[State] = []
        self._clock = _Clock()
        self._ended: Outcome | BaseException | None = None
        self._thread = threading.Thread(target=self._wait, args=(ref, limits), daemon=True)

    def _wait(self, ref: JobRef, limits: Limits | None) -> None:
        try:
            self._ended = trainer_ops.wait(ref, limits=limits, listener=self, clock=self._clock)
        except BaseException as error:
            self._ended = error

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._clock.abandoned = True
        self._thread.join(30)

    def on_state(self, state: State, obs: Observation | None) -> None:
        if self.states[-1:] != [state]:
            self.states.append(state)

    @property
    def phases(self) -> list[Phase]:
        """The phases seen, each once as long as it lasts."""
        phases = [state.phase for state in self.states]
        return [phase for index, phase in enumerate(phases) if index == 0 or phases[index - 1] is not phase]

    def put_forward(self, seconds: float) -> None:
        """Let that much time pass for this wait."""
        self._clock.ahead += seconds

    def state(self, phase: Phase, text: str = "", *, seconds: float = 60.0) -> State:
        """Wait until it is in that phase now, with that text in its detail."""
        self._until(f"{phase} {text!r}", lambda: _is(self.states[-1:], phase, text), seconds)
        return self.states[-1]

    def outcome(self, *, seconds: float = 60.0) -> Outcome:
        """Wait for its end."""
        self._until("the end of the wait", lambda: self._ended is not None, seconds)
        assert isinstance(self._ended, Outcome)
        return self._ended

    def _until(self, what: str, holds: Callable[[], bool], seconds: float) -> None:
        def done() -> bool:
            ended = self._ended
            if isinstance(ended, BaseException):
                raise ended
            # What has ended will not come to what is wanted any more.
            if not (held := holds()) and ended is not None:
                raise AssertionError(f"{what}: it ended; seen: {self.states}")
            return held

        try:
            wait_until(what, done, seconds=seconds)
        except TimeoutError as error:
            raise AssertionError(f"{error}; seen: {self.states}") from None


def _is(states: list[State], phase: Phase, text: str) -> bool:
    return bool(states) and states[0].phase is phase and text in states[0].detail
