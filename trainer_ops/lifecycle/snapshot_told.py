"""What a snapshot's Job prints, told to a listener as if the snapshot were made here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trainer_ops.initializers.fetch import SnapshotListener

__all__ = ["Told"]

_UNITS: Final = {"bytes": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE: Final = r"([\d.]+) (bytes|kB|MB|GB|TB)"
# The lines of ``python -m trainer_ops.initializers take``.
_START: Final = re.compile(rf"fetching (\d+) files, {_SIZE}(?:, {_SIZE} are there already)?")
_PROGRESS: Final = re.compile(rf"{_SIZE} of {_SIZE}, (\d+) of \d+ files, .*")


class Told:
    """Hears lines, tells a listener."""

    def __init__(self, listener: SnapshotListener) -> None:
        self._listener = listener

    def __call__(self, line: str) -> None:
        """One line. Neither the result itself (JSON) nor an error is news: how a try ended is told by the wait."""
        if found := _START.fullmatch(line):
            done = _bytes(found[4], found[5]) if found[4] else 0
            self._listener.on_start(int(found[1]), _bytes(found[2], found[3]), done)
        elif found := _PROGRESS.fullmatch(line):
            self._listener.on_progress(_bytes(found[1], found[2]), int(found[5]))
        elif line.strip() and not line.startswith(("{", "error: ")):
            self._listener.on_note(line)


def _bytes(amount: str, unit: str) -> int:
    return int(float(amount) * _UNITS[unit])
