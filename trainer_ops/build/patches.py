"""``runtimePatches``: the user's as they are, then what fields of the request need in the pods that train."""

from __future__ import annotations

import copy
from typing import Any, Final

from trainer_ops.build.mounts import mounts_of
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.request import TrainRequest
from trainer_ops.model.runtime import TrainingRuntime

__all__ = ["patches_of", "training_jobs"]

_MAX_PATCHES: Final = 16
_OURS: Final = (keys.PATCH_MANAGER, keys.PATCH_MANAGER_SECOND)


def patches_of(request: TrainRequest, runtime: TrainingRuntime | None) -> list[dict[str, Any]]:
    """All patches of a request that describes the job by fields.

    Raises:
        InvalidRequest: one of the user's has a manager of ours, or there is no room for ours.
    """
    patches = copy.deepcopy(request.runtime_patches)
    for index, patch in enumerate(patches):
        if patch.get("manager") in _OURS:
            raise InvalidRequest(
                f"runtime_patches[{index}].manager",
                f'"{patch["manager"]}" marks the patches made from this request',
                "Give another, such as your-domain.example/name",
            )
    own = _own(request, runtime)
    if len(patches) + len(own) > _MAX_PATCHES:
        raise _no_room(request, len(own), len(patches))
    return patches + own


def _own(request: TrainRequest, runtime: TrainingRuntime | None) -> list[dict[str, Any]]:
    """The first has the grace period and every mount but a second one of the same volume."""
    rows: tuple[list[dict[str, Any]], ...] = tuple([] for _ in _OURS)
    for job in training_jobs(runtime):
        specs = mounts_of(request.snapshots, runtime, job, request.runtime_patches)
        if request.termination_grace_period_seconds is not None:
            grace = {"terminationGracePeriodSeconds": request.termination_grace_period_seconds}
            specs[:1] = [{**grace, **(specs[0] if specs else {})}]
        for place, spec in zip(rows, specs, strict=False):
            place.append({"name": job, "template": {"spec": {"template": {"spec": spec}}}})
    return [
        {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
        for manager, jobs in zip(_OURS, rows, strict=True)
        if jobs
    ]


def _no_room(request: TrainRequest, needed: int, given: int) -> InvalidRequest:
    more = "one more entry" if needed == 1 else f"{needed} more entries"
    reason = f"needs {more} in runtime_patches, which already has {given} of the {_MAX_PATCHES} that are allowed"
    if request.termination_grace_period_seconds is not None:
        return InvalidRequest(
            "termination_grace_period_seconds", reason, "Write terminationGracePeriodSeconds into one of them"
        )
    return InvalidRequest(next(iter(request.snapshots)), f"its mount {reason}", "Join some of them into one")


def training_jobs(runtime: TrainingRuntime | None) -> list[str]:
    """The replicatedJobs in which the training's processes run: all but the initializers."""
    jobs = runtime.jobs if runtime else ()
    return [job.name for job in jobs if job.ancestor not in keys.INITIALIZERS] or [keys.STEP_NODE]
