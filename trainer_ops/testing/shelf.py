"""The runtimes of a target in memory."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from trainer_ops.backends.base import RawObject, RawObjects
from trainer_ops.testing import objects

__all__ = ["Shelf"]

_MPI = {"numProcPerNode": 1, "mpiImplementation": "OpenMPI", "sshAuthMountPath": "/home/mpiuser/.ssh"}


class Shelf:
    """Runtimes by kind and name; what it takes and gives are copies.

    Args:
        runtimes: None: those of the names that Trainer ships.
    """

    def __init__(self, runtimes: Sequence[Mapping[str, Any]] | None = None) -> None:
        self._raws = [copy.deepcopy(dict(raw)) for raw in (_shipped() if runtimes is None else runtimes)]

    def all(self) -> RawObjects:
        """All of them."""
        return copy.deepcopy(self._raws)

    def get(self, name: str, kind: str) -> RawObject | None:
        """The one of that name and kind."""
        return copy.deepcopy(self._find(name, kind))

    def apply(self, manifest: Mapping[str, Any]) -> RawObject:
        """Store it, in place of the one of its name and kind."""
        new = copy.deepcopy(dict(manifest))
        old = self._find(new["metadata"]["name"], new["kind"])
        if old is None:
            self._raws.append(new)
            return copy.deepcopy(new)
        for notes in ("labels", "annotations"):
            merged = {**(old["metadata"].get(notes) or {}), **(new["metadata"].get(notes) or {})}
            old["metadata"].update({notes: merged} if merged else {})
        old["spec"] = new["spec"]
        return copy.deepcopy(old)

    def _find(self, name: str, kind: str) -> RawObject | None:
        return next((raw for raw in self._raws if raw["metadata"]["name"] == name and raw["kind"] == kind), None)


def _shipped() -> RawObjects:
    """Runtimes of the names that Trainer ships."""
    return [
        objects.runtime("torch-distributed", "torch", {"torch": {"numProcPerNode": "auto"}}),
        objects.runtime("torchtune-llama3.2-1b", "torchtune", {"torch": {"numProcPerNode": "auto"}}, initializers=True),
        objects.runtime("deepspeed-distributed", "deepspeed", {"mpi": _MPI}),
        objects.runtime("jax-distributed", "jax", {"jax": {}}),
        objects.runtime("xgboost-distributed", "xgboost", {"xgboost": {}}),
    ]
