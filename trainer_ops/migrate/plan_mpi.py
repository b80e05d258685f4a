"""Not yet."""

from __future__ import annotations

from trainer_ops.migrate.draft import Draft
from trainer_ops.migrate.normalise import V1Job
from trainer_ops.migrate.options import Options

__all__ = ["plan_mpi"]


def plan_mpi(job: V1Job, draft: Draft, options: Options) -> None:
    """Not yet."""
    del options
    draft.refuse("NOT-V1", ("kind",), f"{job.kind.name} is not converted yet")
