"""The wait on a terminal: one line that lives below the log lines. All that knows rich's Live is here."""

from __future__ import annotations

import sys
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from rich.console import RenderableType
from rich.live import Live as RichLive
from rich.text import Text

from trainer_ops.backends.base import LogSource
from trainer_ops.cli.glance import Glance
from trainer_ops.cli.render import status_line
from trainer_ops.cli.screen import Screen, styled
from trainer_ops.cli.views import View, log_line, note_line

__all__ = ["Live", "LiveLine"]


class LiveLine:
    """The one line at the foot of a terminal, drawn anew four times a second, so that its time moves.

    Args:
        screen: where.
        line: what it shows now.
    """

    def __init__(self, screen: Screen, line: Callable[[], RenderableType]) -> None:
        self._attributes: list[Any] | None = None
        self._live = RichLive(
            console=screen.console,
            get_renderable=line,
            refresh_per_second=4,
            transient=True,
            # What the training prints comes through on_lines; nothing else of this process should be caught.
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveLine:
        self._attributes = _hide_control_echo()
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        self._live.__exit__(kind, error, trace)
        if self._attributes is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._attributes)

    def refresh(self) -> None:
        """Draw it now."""
        self._live.refresh()


class Live(View):
    """Log lines scroll; below them lives the line of where it stands."""

    def __init__(self, screen: Screen, name: str, *, logs: bool) -> None:
        super().__init__(screen, name)
        self._logs = logs
        self._since = 0.0
        self._live = LiveLine(screen, self._line)

    def __enter__(self) -> Live:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the live line away."""
        self._live.__exit__(kind, error, trace)

    def changed(self, before: Glance | None, seen: Glance) -> None:
        """Leave the line of a phase that is over above the log."""
        if before is None or before.phase is not seen.phase:
            if before is not None and _lasting(before, seen, seen.at - self._since):
                self.screen.say(status_line(replace(before, at=seen.at), self.screen.width - 1, self.screen.signs))
            self._since = seen.at
        self._live.refresh()

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        """Print them above the live line, all at once: a training may print thousands a second."""
        if self._logs:
            text = Text("\n").join(styled(log_line(source.node, line)) for line in lines)
            self.screen.console.print(text, soft_wrap=True)

    def on_note(self, text: str) -> None:
        """Print it above the live line."""
        self.screen.say(note_line(text))

    def _line(self) -> RenderableType:
        seen = self.seen
        if seen is None:
            return Text(f"{self.name}  …", style="dim")
        if not seen.phase.finished:
            seen = replace(seen, at=max(seen.at, time.time()))
        return styled(status_line(seen, self.screen.width - 1, self.screen.signs))


def _lasting(before: Glance, seen: Glance, took: float) -> bool:
    """Whether the line of ``before`` is worth keeping above the log: what it waited for before it ran, and how long.

    Restarts and failures have notes of their own, and the end has its line.
    """
    waited = before.phase.waiting_in_queue or before.phase.starting
    return waited and not seen.phase.finished and took >= 2.0


def _hide_control_echo() -> list[Any] | None:
    """Keep the terminal from writing ``^C`` behind the live line, which would then not be where it is erased.

    Returns what to restore; None where there is no terminal to ask. Only this: should the process be killed, typing
    still shows.
    """
    try:
        before = termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError):
        return None
    changed = list(before)
    changed[3] &= ~termios.ECHOCTL
    try:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, changed)
    except termios.error:
        return None
    return before
