"""The port for steps that are no trainings: Jobs of one pod, and the claims that they write to.

Only a cluster has it (``steps_of``); this machine and the memory run such steps in the caller's own process. Objects
are plain dicts in the shape of the Kubernetes API. Every method may raise ``errors.Forbidden`` and
``errors.Unreachable``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from trainer_ops.backends.base import Backend, RawObject, RawObjects

__all__ = ["StepView", "Steps", "steps_of"]


@dataclass(frozen=True, slots=True)
class StepView:
    """One Job and what there is to see of it, read together.

    Attributes:
        job: None when there is none of that uid.
        pods: its own, oldest first.
        events: about the Job, its pods and the claim, oldest first; () where they may not be read.
        claim: the claim that it writes to; None when there is none, or none was asked for.
    """

    job: RawObject | None
    pods: tuple[RawObject, ...] = ()
    events: tuple[RawObject, ...] = ()
    claim: RawObject | None = None


class Steps(Protocol):
    """Jobs and claims of one namespace."""

    def find(self, labels: Mapping[str, str]) -> RawObjects:
        """The Jobs with all these labels, oldest first."""

    def create(self, manifest: Mapping[str, Any]) -> RawObject:
        """Create a Job; returns it as stored.

        Raises:
            AlreadyExists: the name is taken.
            Rejected: admission refuses it.
        """

    def get(self, name: str) -> RawObject | None:
        """The Job of that name."""

    def look(self, name: str, *, uid: str, claim: str = "") -> StepView:
        """The Job and what belongs to it."""

    def delete(self, name: str, *, uid: str) -> bool:
        """Delete the Job with its pods; False when there is none of that name and uid."""

    def claim(self, name: str) -> RawObject | None:
        """The PersistentVolumeClaim of that name."""

    def create_claim(self, manifest: Mapping[str, Any]) -> RawObject:
        """Create a PersistentVolumeClaim.

        Raises:
            AlreadyExists: the name is taken.
            Rejected: admission or quota refuses it.
        """


def steps_of(backend: Backend) -> Steps | None:
    """A backend's steps; None where they run in the caller's own process."""
    return cast("Steps | None", getattr(backend, "steps", None))
