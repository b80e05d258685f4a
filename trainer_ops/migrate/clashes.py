"""Jobs that would become TrainJobs of one name: v1 told them apart by kind, or by a dot that a TrainJob cannot have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.model.keys import KIND

__all__ = ["Named", "clashes"]


@dataclass(frozen=True, slots=True)
class Named:
    """One object that has a name of its own in a file.

    Attributes:
        file: the file's name.
        line: in the file.
        raw: the v1 job, or a TrainJob that is there already.
        trainjob: what it becomes; the same as ``raw`` for a TrainJob, None for a job that is refused.
    """

    file: str
    line: int
    raw: Mapping[str, Any]
    trainjob: Mapping[str, Any] | None

    @property
    def is_new(self) -> bool:
        """It is a v1 job, of which a finding can be told."""
        return self.raw.get("kind") != KIND


def clashes(held: Iterable[Named]) -> Iterator[tuple[Named, Finding]]:
    """What to tell of jobs whose TrainJob would take the place of another's.

    In one file it is refused: the file is applied as one, and the later of two would overwrite the earlier. Two files
    may be for two clusters or namespaces, so there it is a warning. What was one object in v1 too (the same kind and
    name twice) is no clash.

    Args:
        held: all of a call, in order.
    """
    first: dict[tuple[str, str], Named] = {}
    # A TrainJob that is there keeps its name wherever in the call it stands.
    for one in sorted((one for one in held if one.trainjob is not None), key=lambda one: one.is_new):
        place = _place(one.trainjob or {})
        other = first.setdefault(place, one)
        if not place[1] or not one.is_new or _identity(other) == _identity(one):
            continue
        same = other.file == one.file
        where = f"line {other.line}" if same else f"{other.file}, line {other.line}"
        whose = f"{other.raw.get('kind')} {_place(other.raw)[1]} ({where})"
        told = f"{whose} {'becomes' if other.is_new else 'is'} the TrainJob {place[1]} too; one would replace the other"
        yield one, finding("NAME-CLASH", ("metadata", "name"), told, severity="refused" if same else "warning")


def _place(raw: Mapping[str, Any]) -> tuple[str, str]:
    metadata = raw.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _identity(one: Named) -> tuple[str, str, str]:
    return (str(one.raw.get("kind")), *_place(one.raw))
