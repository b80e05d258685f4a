"""Kubernetes quantities (``100m``, ``2Gi``, ``1e3``) as exact numbers."""

from __future__ import annotations

from decimal import Decimal

__all__ = ["quantity"]

_SUFFIXES = {
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
}


def quantity(text: str | int | float) -> Decimal:
    """The number that a quantity means."""
    text = str(text)
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return Decimal(text[: -len(suffix)]) * factor
    return Decimal(text)
