"""A wait as plain lines in a step's log: every change of state once, every line of every node."""

from __future__ import annotations

from collections.abc import Sequence

from trainer_ops.backends.base import LogSource
from trainer_ops.kfp.body import say
from trainer_ops.lifecycle.listener import Silent
from trainer_ops.model.observed import Observation
from trainer_ops.model.phase import State
from trainer_ops.model.times import duration

__all__ = ["Printer"]


class Printer(Silent):
    """Prints what it hears."""

    def __init__(self, name: str, began_at: float) -> None:
        """Make it.

        Args:
            name: the TrainJob's, before each line about it.
            began_at: seconds since the epoch; times are shown from here.
        """
        self._name = name
        self._began_at = began_at
        self._last: tuple[str, str] | None = None

    def on_state(self, state: State, obs: Observation | None) -> None:
        """A line when it changed."""
        if (state.phase.value, state.detail) == self._last:
            return
        self._last = (state.phase.value, state.detail)
        elapsed = duration((obs.at if obs else self._began_at) - self._began_at)
        say(f"{self._name}  {state.phase.value:<10} {elapsed:>7}  {state.detail}".rstrip())

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        """Each with the node's name before it."""
        say("\n".join(f"[{source.node}] {line}" for line in lines))

    def on_note(self, text: str) -> None:
        """A line of its own."""
        say(f"{self._name}  {text}")
