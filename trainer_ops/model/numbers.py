"""Numbers as a person reads them."""

from __future__ import annotations

from trainer_ops.model.lines import clean

__all__ = ["number_text"]


def number_text(value: float | str) -> str:
    """A metric: four digits that count; whole numbers whole."""
    if isinstance(value, str):
        return clean(value)
    if value == int(value) if abs(value) < 1e15 else False:
        return str(int(value))
    return f"{value:.4g}" if abs(value) < 10000 else f"{value:.0f}" if abs(value) < 1e9 else f"{value:.3g}"
