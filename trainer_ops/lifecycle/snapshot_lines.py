"""A snapshot being made, as lines for a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trainer_ops.lifecycle.clock import Clock

__all__ = ["SnapshotLines"]

# A log of a day would be all progress: a line for each so many per cent, or after so many seconds.
_STEP: Final = 10
_SILENCE: Final = 60.0


class SnapshotLines:
    """A SnapshotListener that says what it hears.

    Args:
        say: is given each line.
        uri: what is fetched.
        clock: for the lines that say that it still goes on.
    """

    def __init__(self, say: Callable[[str], object], uri: str, clock: Clock) -> None:
        self._say = say
        self._uri = uri
        self._clock = clock
        self._size: int | None = None
        self._files = 0
        self._tens = 0
        self._said = clock.now()

    def on_start(self, files: int, size: int | None, done: int) -> None:
        """What there is to do."""
        self._size, self._files, self._said = size, files, self._clock.now()
        self._tens = self._tens_of(done)
        kept = f"; {done:,} bytes are there from an earlier try" if done else ""
        self._say(f"{self._uri}: {files} files, {_bytes(size)}{kept}")

    def on_progress(self, bytes_done: int, files_done: int) -> None:
        """A line now and then."""
        tens, now = self._tens_of(bytes_done), self._clock.now()
        if tens > self._tens or now - self._said >= _SILENCE:
            self._tens, self._said = tens, now
            self._say(f"{self._uri}: {_bytes(bytes_done)}, {files_done} of {self._files} files")

    def on_note(self, text: str) -> None:
        """Say it."""
        self._say(text)

    def _tens_of(self, done: int) -> int:
        return done * 100 // self._size // _STEP if self._size else 0


def _bytes(size: int | None) -> str:
    return "size unknown" if size is None else f"{size:,} bytes"
