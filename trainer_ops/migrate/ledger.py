"""Nothing is lost: what became of every leaf of a v1 job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from trainer_ops.migrate.paths import Path, leaves, text_of

__all__ = ["Entry", "Fate", "Ledger"]


class Fate(str, Enum):
    """The three ends of a leaf."""

    MAPPED = "mapped"
    DROPPED = "dropped"
    REFUSED = "refused"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Entry:
    """One leaf.

    Attributes:
        path: where it was, as text.
        value: what it was.
        fate: what became of it.
        v2_paths: where it is now, of a mapped one: ``trainjob:spec.trainer.image``; in several places when two need it.
        reason: why, of a dropped or refused one; what was changed, of a mapped one that was rewritten.
    """

    path: str
    value: Any
    fate: Fate
    v2_paths: tuple[str, ...] = ()
    reason: str = ""


class Ledger:
    """The leaves of one job. Each is taken once: by its own path, or with the subtree that it is in.

    The order of calls is the order of precision: what takes a subtree takes what nobody took before.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._leaves = dict(leaves(raw))
        self._taken: dict[Path, Entry] = {}

    def mapped(self, path: Path, *v2_paths: str, reason: str = "") -> None:
        """This leaf, or what is left of this subtree, is now there."""
        self._take(path, Fate.MAPPED, v2_paths, reason)

    def dropped(self, path: Path, reason: str) -> None:
        """This leaf, or what is left of this subtree, has no place and no effect there: why."""
        self._take(path, Fate.DROPPED, (), reason)

    def refused(self, path: Path, reason: str) -> None:
        """This leaf, or what is left of this subtree, cannot be carried: why."""
        self._take(path, Fate.REFUSED, (), reason)

    def left(self, path: Path = ()) -> tuple[Path, ...]:
        """The leaves below a path that nobody has taken."""
        return tuple(p for p in self._under(path) if p not in self._taken)

    def value(self, path: Path) -> Any:
        """The value of a leaf."""
        return self._leaves[path]

    def entries(self) -> tuple[Entry, ...]:
        """All that were taken, in the order of the job."""
        return tuple(self._taken[path] for path in self._leaves if path in self._taken)

    def _take(self, path: Path, fate: Fate, v2_paths: Iterable[str], reason: str) -> None:
        # A subtree that is all taken, or that the job does not have, is no error: rules say what they cover.
        for leaf in self.left(path):
            self._taken[leaf] = Entry(text_of(leaf), self._leaves[leaf], fate, tuple(v2_paths), reason)

    def _under(self, path: Path) -> Iterable[Path]:
        size = len(path)
        return (leaf for leaf in self._leaves if leaf[:size] == path)
