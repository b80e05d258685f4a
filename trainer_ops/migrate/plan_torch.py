"""PyTorchJob: nodes of one pod template under Trainer's torch policy."""

from __future__ import annotations

from trainer_ops.migrate import metadata, pods, policy
from trainer_ops.migrate.draft import NODE, Draft
from trainer_ops.migrate.normalise import V1Job
from trainer_ops.migrate.options import Options

__all__ = ["plan_torch"]


def plan_torch(job: V1Job, draft: Draft, options: Options) -> None:
    """Fill the draft."""
    draft.policy, draft.stock, draft.framework = {"torch": {}}, "torch-distributed", "torch"
    part = draft.add_part(NODE, trains=True)
    role = job.roles[-1]
    pods.carry(draft, role, part)
    policy.restarts(draft, role, part)
    draft.num_nodes = sum(r.replicas for r in job.roles if isinstance(r.replicas, int))
    for r in job.roles:
        draft.link((*r.path, "replicas"), ("trainer", "numNodes"), "the nodes of all roles", exact=False)
    for other in job.roles[:-1]:
        pods.same(draft, other, part, "not in the other role's template")
        policy.same_restarts(draft, other, part, "the other role's is taken")
    metadata.name(draft)
