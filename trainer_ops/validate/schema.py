"""The structure of a whole TrainJob or runtime: names, types, required fields and fixed values, at every depth.

The fields are those of ``fields.json``: type -> field -> what it holds, such as ``text``, ``PodSpec``, ``[Container]``
for a list, ``{quantity}`` for a map; a ``!`` at the end: required. The table is made of the models of
``kubeflow_trainer_api`` 2.3, which take most of a second to import, and compared with them by a test. The models could
not validate anyway: they drop unknown names silently and stop at the first wrong type. Null is what the API server
makes of it: a field that was left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib import resources
from typing import Any

from trainer_ops.model.times import parse_time
from trainer_ops.validate.findings import Finding, error
from trainer_ops.validate.hints import hint_for
from trainer_ops.validate.peek import close_to, number, show
from trainer_ops.validate.values import ENUMS, MINIMUM, QUANTITY, WIDE

__all__ = ["Shape", "check_structure", "shape_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What may stand in one place.

    Attributes:
        kind: ``object``, ``list``, ``map``, or a scalar: ``text``, ``int``, ``number``, ``bool``, ``time``,
            ``quantity``, ``int-or-text``, ``any``.
        name: an object's type, such as ``PodSpecPatch``.
        fields: an object's fields by their name in JSON.
        required: those that may not be left out.
        of: what a list or a map holds.
    """

    kind: str
    name: str = ""
    fields: Mapping[str, Shape] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    of: Shape | None = None


def check_structure(manifest: Any, kind: str = "TrainJob") -> list[Finding]:
    """All unknown names, wrong types, missing fields and unknown values of a manifest, in its own order.

    Args:
        manifest: the object, of any shape.
        kind: ``TrainJob``, ``ClusterTrainingRuntime`` or ``TrainingRuntime``.
    """
    return list(_walk(shape_of(kind), manifest, "", kind))


@cache
def shape_of(kind: str) -> Shape:
    """The shape of a type, by its name in the table."""
    fields = _table()[kind]
    required = frozenset(name for name, held in fields.items() if held.endswith("!"))
    return Shape("object", kind, {name: _shape(held.removesuffix("!")) for name, held in fields.items()}, required)


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = json.loads(
        resources.files("trainer_ops.validate").joinpath("fields.json").read_bytes()
    )
    return found


@cache
def _shape(held: str) -> Shape:
    """What an expression of the table stands for; scalars begin in lower case."""
    if held[0] in "[{":
        return Shape("list" if held[0] == "[" else "map", of=_shape(held[1:-1]))
    return shape_of(held) if held[0].isupper() else Shape(held)


def _walk(shape: Shape, value: Any, path: str, place: str) -> Iterator[Finding]:
    if shape.kind == "object":
        yield from _object(shape, value, path, place)
    elif shape.kind == "map":
        yield from _map(shape, value, path)
    elif shape.kind == "list":
        yield from _list(shape, value, path, place)
    else:
        yield from _scalar(shape.kind, value, path, place)


def _object(shape: Shape, value: Any, path: str, place: str) -> Iterator[Finding]:
    if not isinstance(value, Mapping):
        yield _type(path or place, value, "a mapping", f"Write its fields: {_some(shape.fields)}")
        return
    for name, held in value.items():
        own = name if isinstance(name, str) and name else show(name)
        below = f"{path}.{own}" if path else own
        known = shape.fields.get(name) if isinstance(name, str) else None
        if known is None:
            yield _unknown(shape, name, below)
        elif held is not None:
            yield from _walk(known, held, below, f"{shape.name}.{name}")
    for name in sorted(shape.required):
        if value.get(name) is None:
            yield error("missing-field", f"{path}.{name}" if path else name, "is missing", "It is required: give it")


def _map(shape: Shape, value: Any, path: str) -> Iterator[Finding]:
    if not isinstance(value, Mapping):
        yield _type(path, value, "a mapping", "Write name: value pairs")
        return
    for name, held in value.items():
        if not isinstance(name, str):
            yield _type(f"{path}[{name}]", name, "text as a key", "Write it in quotes")
        elif held is not None and shape.of is not None:
            yield from _walk(shape.of, held, f"{path}[{name}]", "")


def _list(shape: Shape, value: Any, path: str, place: str) -> Iterator[Finding]:
    if not isinstance(value, list | tuple):
        remedy = f"Write [{show(value)}]" if isinstance(value, str | Mapping) else "Write a list"
        yield _type(path, value, "a list", remedy)
        return
    for i, item in enumerate(value):
        if item is None:
            yield error("null-item", f"{path}[{i}]", "is null, and a list may not hold that", "Leave the item out")
        elif shape.of is not None:
            yield from _walk(shape.of, item, f"{path}[{i}]", place)


def _scalar(kind: str, value: Any, path: str, place: str) -> Iterator[Finding]:
    wrong = _CHECKS[kind](path, value)
    if wrong is not None:
        yield wrong
        return
    if place in ENUMS and value not in ENUMS[place]:
        close = close_to(str(value), ENUMS[place])
        hint = (
            f"Did you mean {close}?"
            if close
            else f"Give one of {', '.join(v or 'an empty text' for v in ENUMS[place])}"
        )
        yield error("unknown-value", path, f"{show(value)} is no value of this field", hint)
    if kind == "int":
        yield from _range(path, number(value) or 0, place)


def _range(path: str, value: int, place: str) -> Iterator[Finding]:
    bits = 63 if place.rsplit(".", 1)[-1] in WIDE else 31
    low = MINIMUM.get(place)
    if not -(2**bits) <= value < 2**bits:
        yield error("number-range", path, f"{value} does not fit a number of {bits + 1} bits", "Give a smaller one")
    elif low is not None and value < low:
        yield error("number-range", path, f"{value} is not at least {low}", f"Give {low} or more")


def _unknown(shape: Shape, name: Any, path: str) -> Finding:
    hint = hint_for(shape.name, str(name))
    if hint is not None:
        return error(hint.rule, path, hint.reason, hint.remedy)
    close = close_to(str(name), shape.fields)
    remedy = f"Did you mean {close}?" if close else f"Known here: {_some(shape.fields)}"
    return error("unknown-field", path, f"is no field of {path.rpartition('.')[0] or shape.name}", remedy)


def _some(names: Mapping[str, Any], limit: int = 12) -> str:
    shown = ", ".join(sorted(names)[:limit])
    return f"{shown}, …" if len(names) > limit else shown


def _type(path: str, value: Any, wanted: str, remedy: str) -> Finding:
    return error("wrong-type", path, f"{show(value)} is not {wanted}", remedy)


def _text(path: str, value: Any) -> Finding | None:
    if isinstance(value, str):
        return None
    plain = isinstance(value, bool | int | float)
    return _type(path, value, "text", f'Write "{show(value)}", in quotes' if plain else "Write text")


def _int(path: str, value: Any) -> Finding | None:
    if number(value) is not None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= 2**63:
        return error("number-range", path, f"{show(value)} does not fit a number of 64 bits", "Give a smaller one")
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d+\s*", value, re.ASCII):
        return _type(path, value, "a whole number but text", f"Write {value.strip()} without quotes")
    return _type(path, value, "a whole number", "Write a whole number")


def _number(path: str, value: Any) -> Finding | None:
    fine = isinstance(value, int | float) and not isinstance(value, bool)
    return None if fine else _type(path, value, "a number", "Write a number")


def _bool(path: str, value: Any) -> Finding | None:
    return None if isinstance(value, bool) else _type(path, value, "true or false", "Write true or false, no quotes")


def _time(path: str, value: Any) -> Finding | None:
    if isinstance(value, str) and parse_time(value) is not None:
        return None
    remedy = "Write it in quotes" if isinstance(value, date) else 'Write it like "2026-01-31T12:00:00Z"'
    return _type(path, value, "a time in text", remedy)


def _quantity(path: str, value: Any) -> Finding | None:
    if number(value) is not None or (isinstance(value, str) and QUANTITY.fullmatch(value)):
        return None
    if isinstance(value, float):
        remedy = f'Write "{value}" in quotes, or in units such as 500m'
        return error("quantity", path, f"{value} is a fraction, and the API takes those as text only", remedy)
    return error("quantity", path, f"{show(value)} is no quantity", "Write it like 2, 500m, 4Gi")


def _int_or_text(path: str, value: Any) -> Finding | None:
    if isinstance(value, str) or number(value) is not None:
        return None
    return _type(path, value, "a whole number or text", "Write a whole number or text")


def _any(path: str, value: Any) -> Finding | None:
    return None


_CHECKS = {
    "text": _text,
    "int": _int,
    "number": _number,
    "bool": _bool,
    "time": _time,
    "quantity": _quantity,
    "int-or-text": _int_or_text,
    "any": _any,
}
