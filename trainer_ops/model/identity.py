"""Who asked for a training (``RunKey``) and which TrainJob it became (``JobRef``)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["JobRef", "RunKey"]


@dataclass(frozen=True, slots=True)
class RunKey:
    """Who asked for this training, once. Equal keys are the same training, on any machine, at any time.

    Attributes:
        kind: the front end: ``airflow``, ``kfp``, ``cli``, ``api``.
        parts: the identity in readable form, in order, such as
            ``(("dag_id", "digits"), ("run_id", "manual__1"), ("task_id", "train"), ("map_index", "-1"))``.
        generation: counts deliberate new starts of the same subject (Airflow's ``clear_number``). It is part of
            the key, not of the subject: clearing a task trains again and supersedes the older training.
        slug: what a person should recognise in the TrainJob's name; not part of the identity.
    """

    kind: str
    parts: tuple[tuple[str, str], ...]
    generation: int = 0
    slug: str = ""

    @classmethod
    def of(cls, kind: str, parts: Mapping[str, object], *, generation: int = 0, slug: str = "") -> RunKey:
        """A key from a mapping; values are written with ``str``."""
        return cls(kind, tuple((name, str(value)) for name, value in parts.items()), generation, slug)

    @property
    def digest(self) -> str:
        """The key as a label value: 20 hex digits."""
        return _digest([self.kind, self.parts, self.generation])

    @property
    def subject(self) -> str:
        """What is trained, whatever the generation: 20 hex digits."""
        return _digest([self.kind, self.parts])

    @property
    def readable(self) -> str:
        """The identity for an annotation or an error message: ``airflow: dag_id=digits run_id=… task_id=train``."""
        pairs = " ".join(f"{name}={value}" for name, value in self.parts)
        return f"{self.kind}: {pairs}" + (f" generation={self.generation}" if self.generation else "")


def _digest(value: object) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class JobRef:
    """One TrainJob, for good: the uid tells it from an earlier or later one of the same name."""

    target: str
    namespace: str
    name: str
    uid: str

    def to_json(self) -> dict[str, str]:
        """Plain data, free of secrets, for what crosses a process."""
        return {"target": self.target, "namespace": self.namespace, "name": self.name, "uid": self.uid}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> JobRef:
        """The inverse of ``to_json``."""
        return cls(data["target"], data["namespace"], data["name"], data["uid"])

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
