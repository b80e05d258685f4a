"""Arguments of a function in a pipeline, as they were. Pure.

A value of the pipeline (a parameter, an output of a task) is not known when the pipeline is written, and what KFP puts
in its place inside of a mapping is text, whatever its type. So the places of these values and their types travel along.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.inputs import plain

__all__ = ["CHANNEL", "joined", "noted", "places"]

# How KFP's compiler names the input that carries a value of the pipeline.
CHANNEL = "pipelinechannel--"

_FIELD = "function_arguments"
_Path = tuple[str | int, ...]


def places(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Every leaf of plain data with the path to it; of other things they themselves."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from places(item, (*path, name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))
    else:
        yield path, value


def noted(constants: Mapping[str, Any], late: Mapping[_Path, tuple[str, str]]) -> str:
    """What travels beside the arguments that hold values of the pipeline.

    Args:
        constants: arguments that hold none.
        late: path of each such value -> (KFP's name of it, its type).
    """
    rows = [[list(path), name, kind] for path, (name, kind) in late.items()]
    return json.dumps({"constants": dict(constants), "late": rows})


def joined(kwargs: Mapping[str, Any] | None, notes: str, channels: Mapping[str, Any]) -> dict[str, Any]:
    """The function's keyword arguments.

    Args:
        kwargs: the component's input ``function_kwargs``.
        notes: what ``noted`` gave; "" for none.
        channels: the pipeline's values that went into this task's inputs, by KFP's names.

    Raises:
        InvalidRequest: the notes are none, or a value is not of its type.
    """
    try:
        told = json.loads(notes) if notes else {}
        constants, rows = dict(told.get("constants") or {}), list(told.get("late") or ())
    except (ValueError, AttributeError, TypeError) as exc:
        raise InvalidRequest(_FIELD, f"is not understood: {exc}", "Leave it out, and use function_kwargs") from exc
    made = plain(copy.deepcopy(dict(kwargs or {})))
    for path, name, kind in rows:
        *way, last = path
        place: Any = made
        for step in way:
            place = place[step]
        value = channels.get(CHANNEL + name, place[last])
        place[last] = _typed(value, kind, ".".join(map(str, path)))
    return {**constants, **made}


def _typed(value: Any, kind: str, where: str) -> Any:
    """A value as the type that KFP declares for it."""
    try:
        if kind in ("Integer", "int"):
            return int(float(value))
        if kind in ("Float", "float"):
            return float(value)
        if kind in ("Boolean", "bool"):
            return value if isinstance(value, bool) else str(value).lower() == "true"
    except (TypeError, ValueError) as exc:
        raise InvalidRequest(
            f"function_kwargs.{where}", f"{value!r} is no {kind}", "Pass a value of that type"
        ) from exc
    return value
