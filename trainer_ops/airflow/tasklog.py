"""What the task's log page shows while a training runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainer_ops.backends.base import LogSource
from trainer_ops.model.identity import JobRef
from trainer_ops.model.observed import Observation
from trainer_ops.model.phase import State

__all__ = ["TaskLog", "how_to_reach"]


class TaskLog:
    """A lifecycle Listener that writes to a task's log: each change of state once, each line with its node.

    Args:
        log: Airflow's logger: the task's in a worker, the trigger's in a triggerer; the log page shows both.
        name: the TrainJob's name.
        check: called after every look; what it raises ends the wait.
    """

    def __init__(self, log: Any, name: str, check: Callable[[], None] | None = None) -> None:
        self._log = log
        self._name = name
        self._check = check
        self._last: State | None = None

    def on_state(self, state: State, obs: Observation | None) -> None:
        """Write it where it differs from the last one."""
        if self._check is not None:
            self._check()
        if state != self._last:
            self._last = state
            why = ": ".join(text for text in (state.reason, state.detail) if text)
            self._log.info("%s  %s%s", self._name, state.phase, f"  {why}" if why else "")

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        """Write them with the node's name before each."""
        for line in lines:
            self._log.info("[%s] %s", source.node, line)

    def on_note(self, text: str) -> None:
        """Write it."""
        self._log.info("%s  %s", self._name, text)


def how_to_reach(ref: JobRef) -> str:
    """Two commands for a person who wants to follow or stop it from a terminal."""
    where = f"TRAINER_OPS_TARGET='{ref.target}' trainer-ops"
    return f"follow it: {where} logs -f {ref.name}     stop it: {where} cancel {ref.name}"
