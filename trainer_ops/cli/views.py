"""What listens to a wait and shows it: nothing, plain lines, or (``live``) one live line below the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType

from trainer_ops.backends.base import LogSource
from trainer_ops.cli.glance import Glance, glance
from trainer_ops.cli.render import node_style, status_line
from trainer_ops.cli.screen import Screen
from trainer_ops.cli.text import Spans
from trainer_ops.model.lines import clean
from trainer_ops.model.observed import Observation
from trainer_ops.model.phase import State

__all__ = ["Plain", "View", "view_for"]

# A pipe is told of progress in steps of so many per cent, or a log of a day would be all progress.
_STEP = 10


class View:
    """Remembers what was seen last and shows nothing: ``--quiet``. A context: entered while the wait goes on."""

    def __init__(self, screen: Screen, name: str) -> None:
        self.screen = screen
        self.name = name
        self.seen: Glance | None = None

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop showing."""

    def on_state(self, state: State, obs: Observation | None) -> None:
        """Remember."""
        before = self.seen
        if obs is not None and obs.job is not None:
            self.seen = glance(obs, state)
        elif before is not None:
            self.seen = replace(before, state=state, at=obs.at if obs is not None else before.at)
        else:
            self.seen = Glance(self.name, state, obs.at if obs is not None else 0.0)
        self.changed(before, self.seen)

    def changed(self, before: Glance | None, seen: Glance) -> None:
        """Called after every look."""

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        """Show nothing."""

    def on_note(self, text: str) -> None:
        """Show nothing."""


class Plain(View):
    """Lines for a file or a pipe: states as they change, progress in steps, log lines. No control characters."""

    def __init__(self, screen: Screen, name: str, *, logs: bool) -> None:
        super().__init__(screen, name)
        self._logs = logs
        self._shown: tuple[object, ...] = ()

    def changed(self, before: Glance | None, seen: Glance) -> None:
        """A line when phase, detail or the tens of the percentage are new."""
        if seen.phase.finished:
            return  # the end has a line of its own
        tens = seen.percentage // _STEP if seen.percentage is not None else None
        now = (seen.phase, seen.state.detail, tens)
        if now != self._shown:
            self._shown = now
            self.screen.say(status_line(seen, self.screen.width, self.screen.signs))

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        """Each line with its node before it."""
        if self._logs:
            self.screen.say(*(log_line(source.node, line) for line in lines))

    def on_note(self, text: str) -> None:
        """The note."""
        self.screen.say(note_line(text))


def log_line(node: str, line: str) -> Spans:
    """``[node-1] text``."""
    return [(f"[{node}]", prefix_style(node)), (f" {clean(line)}", "")]


def note_line(text: str) -> Spans:
    """A note stands out from log lines by having no bracket."""
    return [("· ", "yellow"), (clean(text), "yellow")]


def prefix_style(node: str) -> str:
    """The colour of a node: by its number, so that it is the same tomorrow."""
    number = re.fullmatch(r"node-(\d+)", node)
    return node_style(int(number[1])) if number else "bright_black"


def view_for(screen: Screen, name: str, *, quiet: bool, logs: bool) -> View:
    """The view that fits: silent when asked to be, live on a terminal, else plain."""
    if quiet:
        return View(screen, name)
    if screen.terminal:
        from trainer_ops.cli.live import Live

        return Live(screen, name, logs=logs)
    return Plain(screen, name, logs=logs)
