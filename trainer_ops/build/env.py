"""Values of a request as environment variables. Imports nothing heavy: a wait carries some in its process."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from trainer_ops.errors import InvalidRequest

__all__ = ["env_entry", "text_of"]

_SOURCES: Final = ("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef")
# Whole numbers beyond this are not exact as floats, and a float is all that KFP's structs carry.
_EXACT: Final = 2.0**53


def env_entry(name: str, value: Any, field: str) -> dict[str, Any]:
    """One EnvVar: text and numbers as ``value``, a mapping as ``valueFrom``.

    Raises:
        InvalidRequest: a mapping that is no source of a value, or a value that is no text.
    """
    if isinstance(value, Mapping):
        source = value["valueFrom"] if set(value) == {"valueFrom"} else value
        if not isinstance(source, Mapping) or len(source) != 1 or next(iter(source)) not in _SOURCES:
            raise InvalidRequest(
                f"{field}.{name}",
                f"{dict(value)!r} is no source of a value",
                f'Give one of {", ".join(_SOURCES)}, such as {{"secretKeyRef": {{"name": "s", "key": "k"}}}}',
            )
        return {"name": name, "valueFrom": copy.deepcopy(dict(source))}
    return {"name": name, "value": text_of(value, f"{field}.{name}")}


def text_of(value: Any, field: str) -> str:
    """A value as an environment variable or a quantity; whole floats are ints, as front ends with JSON mean them.

    Raises:
        InvalidRequest: it is no text and no number.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidRequest(field, f"is a {type(value).__name__}", "Give text or a number")
