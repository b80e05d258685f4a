"""One line of a training's log, made fit for a person's eyes."""

from __future__ import annotations

import re

__all__ = ["clean"]

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(line: str) -> str:
    """The line as it looks when it is done: no escape sequences, of what a \\r overwrote the last, no tabs.

    A log line may hold anything; what moves the cursor or sets the title must reach no terminal, and a NUL no database.
    """
    text = _ESCAPES.sub("", line)
    text = next((part for part in reversed(text.split("\r")) if part), "")
    return _CONTROLS.sub("�", text.expandtabs(8))
