"""A snapshot being made, on a screen: one live line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
from types import TracebackType

from trainer_ops.cli.fetchview import Progress, files_text, progress_line, short
from trainer_ops.cli.screen import Screen, styled
from trainer_ops.cli.text import size_text
from trainer_ops.cli.views import note_line
from trainer_ops.lifecycle.clock import Clock

__all__ = ["Fetching", "fetching_for"]

# A pipe is told in steps of so many per cent, but not more often than so many seconds, nor less often than that.
_STEP = 10
_BREATH = 5.0
_SILENCE = 60.0


class Fetching:
    """A listener that remembers and shows nothing: ``--quiet``. A context: entered while the snapshot is made.

    It is told by the threads that fetch, one at a time, while another one draws.
    """

    def __init__(self, screen: Screen, clock: Clock, uri: str) -> None:
        self.screen = screen
        self.clock = clock
        self.progress = Progress(uri, clock.now())
        self._lock = threading.Lock()

    def __enter__(self) -> Fetching:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop showing."""

    def on_start(self, files: int, size: int | None, done: int) -> None:
        """The source has been asked: so many files of so many bytes; ``done`` are there from an earlier try."""
        with self._lock:
            self.progress.start(self.clock.now(), files, size, done)
        self.started()

    def on_progress(self, bytes_done: int, files_done: int) -> None:
        """So much is there now."""
        with self._lock:
            self.progress.move(self.clock.now(), bytes_done, files_done)
        self.moved()

    def on_note(self, text: str) -> None:
        """Show nothing."""

    def started(self) -> None:
        """Called when it is known what there is to do."""

    def moved(self) -> None:
        """Called after each piece."""


class Plain(Fetching):
    """Lines for a file or a pipe. No control characters."""

    def __init__(self, screen: Screen, clock: Clock, uri: str) -> None:
        super().__init__(screen, clock, uri)
        self._tens = 0
        self._said = clock.now()

    def started(self) -> None:
        """What there is to do, and what of it is done."""
        seen = self.progress
        self.screen.text(f"{short(seen.uri)}  {files_text(seen.files or 0, seen.size)}")
        if seen.done:
            self.on_note(_kept(seen))

    def moved(self) -> None:
        """A line when the tens of the percentage are new, or when nothing was said for a minute."""
        now, percent = self.clock.now(), self.progress.percent
        tens = percent // _STEP if percent is not None else self._tens
        silent = now - self._said
        # The end has lines of its own.
        if (self._tens < tens < 100 // _STEP and silent >= _BREATH) or silent >= _SILENCE:
            self._tens, self._said = tens, now
            self.screen.say(progress_line(self.progress, now, self.screen.width, self.screen.signs))

    def on_note(self, text: str) -> None:
        """The note."""
        self.screen.say(note_line(text))


def _kept(seen: Progress) -> str:
    return f"{size_text(seen.done)} are here from an earlier try"


class Live(Fetching):
    """The line of where it stands, drawn anew four times a second."""

    def __enter__(self) -> Live:
        from rich.text import Text

        from trainer_ops.cli.live import LiveLine

        def line() -> Text:
            with self._lock:
                now = self.clock.now()
                return styled(progress_line(self.progress, now, self.screen.width - 1, self.screen.signs))

        self._live = LiveLine(self.screen, line)
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        self._live.__exit__(kind, error, trace)

    def started(self) -> None:
        """What of it is done."""
        if self.progress.done:
            self.on_note(_kept(self.progress))

    def on_note(self, text: str) -> None:
        """The note, above the line."""
        self.screen.say(note_line(text))


def fetching_for(screen: Screen, clock: Clock, uri: str, *, quiet: bool) -> Fetching:
    """The view that fits: silent when asked to be, live on a terminal, else plain."""
    if quiet:
        return Fetching(screen, clock, uri)
    return Live(screen, clock, uri) if screen.terminal else Plain(screen, clock, uri)
