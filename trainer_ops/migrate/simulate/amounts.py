"""Quantities of Kubernetes as numbers."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import Final

__all__ = ["amount", "whole"]

_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(m|u|n|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei))?")
_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{name: Fraction(1000) ** power for power, name in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{name: Fraction(1024) ** power for power, name in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")) if power},
}


def amount(value: object) -> Fraction | None:
    """The number that a quantity is; None for what is none."""
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        return None
    power = int(match[2][1:]) if match[2] else 0
    # Beyond any amount there is; the number itself would be a large one to make.
    if abs(power) > 64:
        return None
    return Fraction(match[1]) * _SUFFIXES[match[3] or ""] * Fraction(10) ** power


def whole(value: object) -> int:
    """The amount, rounded up, as Kubernetes gives it where a whole number is wanted; 0 for what is none."""
    found = amount(value)
    return 0 if found is None else ceil(found)
