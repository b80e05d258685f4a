"""Lengths of time as people type them: ``90``, ``30s``, ``10m``, ``1h30m``, ``2d``."""

from __future__ import annotations

import re

from trainer_ops.errors import InvalidRequest

__all__ = ["seconds"]

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")


def seconds(text: str | None, flag: str) -> float | None:
    """Seconds of a length of time; None for None.

    Raises:
        InvalidRequest: it is none; ``flag`` is the field.
    """
    if text is None:
        return None
    plain = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        return float(plain)
    parts = _PART.findall(plain)
    if not parts or "".join(number + unit for number, unit in parts) != plain:
        raise InvalidRequest(flag, f'"{text}" is not a length of time', "Write it like 90, 30s, 10m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
