"""Places in the result, before it is known whether a stock or a generated runtime carries the job.

A place is a tuple: a head that says in which object of the draft, then a path in it. Items of lists that have names
are meant by ``Key``, so that a place stays right when the list is put in another order.

Heads: ``("pod", PART)`` a pod template, ``("job", PART)`` the spec of its Job, ``("jobset",)`` the JobSet template,
``("runtime",)`` the runtime's spec, ``("trainer",)`` the TrainJob's spec.trainer, ``("trainjob",)`` the TrainJob.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer_ops.migrate.paths import Path

__all__ = ["MISSING", "Key", "Place", "find"]


@dataclass(frozen=True, slots=True)
class Key:
    """The item of a list of which ``field`` is ``name``."""

    name: Any
    field: str = "name"


Place = tuple["str | int | Key", ...]


class _Missing:
    """The type of ``MISSING``."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""What ``find`` gives for a place that is not there: None is a value."""


def find(value: Any, place: Place) -> tuple[Path, Any]:
    """The plain path of a place and what is there, ``MISSING`` when nothing is."""
    path: list[str | int] = []
    for part in place:
        if isinstance(part, Key):
            items = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
            part = next(
                (i for i, x in enumerate(items) if isinstance(x, Mapping) and x.get(part.field) == part.name), -1
            )
        if not _has(value, part):
            return (), MISSING
        value = value[part]
        path.append(part)
    return tuple(path), value


def _has(value: Any, part: Any) -> bool:
    if isinstance(value, Mapping):
        return part in value
    return isinstance(part, int) and isinstance(value, list | tuple) and 0 <= part < len(value)
