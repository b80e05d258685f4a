"""TrainJob + runtime -> processes. Pure.

What Trainer's plugins, JobSet, the Job controller and the kubelet would make of a TrainJob, with loopback addresses
and a free port in place of pod names and 29500. ``DIFFERENCES`` lists what is not as on a cluster, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer_ops.local.plan_values import LOOPBACK, ContainerPlan, JobPlan, Place, PodPlan, Role, StepPlan
from trainer_ops.model.runtime import TrainingRuntime

__all__ = ["LOOPBACK", "ContainerPlan", "JobPlan", "Place", "PodPlan", "Role", "StepPlan", "plan"]


def plan(trainjob: Mapping[str, Any], runtime: TrainingRuntime, *, place: Place) -> JobPlan:
    """What to run for this TrainJob on this machine.

    Raises:
        InvalidRequest: this machine cannot run it; names the path in the TrainJob or the runtime.
    """
    raise NotImplementedError
