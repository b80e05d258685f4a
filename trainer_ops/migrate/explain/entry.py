"""One explanation."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Explained"]


@dataclass(frozen=True, slots=True)
class Explained:
    """What is to be known about a code.

    Attributes:
        v1: what v1 did.
        v2: what v2 does, and what the conversion makes of it.
        matters: what goes wrong when nobody looks.
        do: what settles it.
        example: lines that show it, "" where words are enough.
        issues: upstream threads, ``trainer #2903``.
    """

    v1: str
    v2: str
    matters: str
    do: str
    example: str = ""
    issues: tuple[str, ...] = ()
