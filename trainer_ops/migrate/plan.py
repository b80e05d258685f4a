"""``plan``: what is to become of a job. The kinds' own rules are in ``plan_<kind>``, one function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from trainer_ops.migrate import metadata, pods, policy
from trainer_ops.migrate.draft import Draft
from trainer_ops.migrate.ledger import Ledger
from trainer_ops.migrate.normalise import V1Job
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.plan_jax import plan_jax
from trainer_ops.migrate.plan_mpi import plan_mpi
from trainer_ops.migrate.plan_paddle import plan_paddle
from trainer_ops.migrate.plan_tf import plan_tf
from trainer_ops.migrate.plan_torch import plan_torch
from trainer_ops.migrate.plan_xgboost import plan_xgboost
from trainer_ops.migrate.selectors import rewrite_selectors

__all__ = ["plan"]

_KINDS: Final[Mapping[str, Callable[[V1Job, Draft, Options], None]]] = {
    "PyTorchJob": plan_torch,
    "TFJob": plan_tf,
    "MPIJob": plan_mpi,
    "XGBoostJob": plan_xgboost,
    "PaddleJob": plan_paddle,
    "JAXJob": plan_jax,
}


def plan(job: V1Job, options: Options, ledger: Ledger) -> Draft:
    """The draft of a job; findings of severity ``refused`` in it mean that nothing is to be made of it."""
    draft = Draft(job, ledger, options, findings=list(job.findings))
    metadata.object_metadata(draft)
    _KINDS[job.kind.name](job, draft, options)
    if draft.trainer is not None:
        policy.run_policy(draft, outlive=draft.outlive)
        pods.sidecars(draft)
        rewrite_selectors(draft)
    return draft
