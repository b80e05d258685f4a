"""What a code of a finding stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Code"]


@dataclass(frozen=True, slots=True)
class Code:
    """One code.

    Attributes:
        title: a few words.
        severity: how bad it is when a rule does not say otherwise.
        remedy: what settles it when a rule does not say otherwise.
        explanation: for ``--explain``: what v1 did, what v2 does, why it matters.
    """

    title: str
    severity: Literal["info", "warning", "refused"]
    remedy: str = ""
    explanation: str = ""
