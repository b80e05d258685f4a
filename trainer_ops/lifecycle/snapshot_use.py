"""Which snapshots trainings read now, so that nobody clears them away."""

from __future__ import annotations

import json
import re

from trainer_ops.backends.base import Backend
from trainer_ops.lifecycle.attempts import Attempt

__all__ = ["keys_in_use"]

# A location ends so, in whatever field of a TrainJob it stands: a variable, a mount's subPath, a storageUri.
_LOCATION = re.compile(r"\b([0-9a-f]{32})/data\b")


def keys_in_use(backend: Backend, *, now: float) -> frozenset[str]:
    """The keys of the snapshots that trainings of this target read which have not ended.

    Those that failed and may be tried again are not among them, nor is what another target or namespace trains.

    Raises:
        BackendError: the trainings cannot be listed.
    """
    going = [raw for raw in backend.list() if not Attempt.from_raw(raw, now=now).phase.finished]
    return frozenset(_LOCATION.findall(json.dumps([raw.get("spec") for raw in going])))
