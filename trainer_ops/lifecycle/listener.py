"""What a front end hears while a training is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trainer_ops.backends.base import LogSource
from trainer_ops.model.observed import Observation
from trainer_ops.model.phase import State

__all__ = ["Listener", "Silent"]


class Listener(Protocol):
    """Hears what happens, in order. Called from the waiting thread or event loop: a slow one slows the wait.

    An error raised here ends the wait and reaches its caller; the training goes on.
    """

    def on_state(self, state: State, obs: Observation | None) -> None:
        """After every look, whether something changed or not; ``obs`` is None when the target gave no answer."""

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        """New log lines of one source, each line once, without line ends."""

    def on_note(self, text: str) -> None:
        """One line for a person: a restart, a target that is away, logs that may not be read."""


class Silent:
    """Hears everything and says nothing; a base for listeners that care for one thing."""

    def on_state(self, state: State, obs: Observation | None) -> None:
        """Say nothing."""

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        """Say nothing."""

    def on_note(self, text: str) -> None:
        """Say nothing."""
