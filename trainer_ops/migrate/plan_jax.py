"""JAXJob: the nodes of one pod template under Trainer's jax policy.

Trainer gives ``JAX_COORDINATOR_ADDRESS``, ``JAX_NUM_PROCESSES`` and ``JAX_PROCESS_ID``, which a bare
``jax.distributed.initialize()`` reads; v1's operator gave the four names below, which only the job's own code reads.
Source: training-operator v1.9.3 ``pkg/controller.v1/jax/envvar.go``.
"""

from __future__ import annotations

from trainer_ops.migrate import metadata, pods, policy, shims
from trainer_ops.migrate.draft import NODE, Draft
from trainer_ops.migrate.hosts import address, rewrite_hosts
from trainer_ops.migrate.normalise import V1Job
from trainer_ops.migrate.options import Options

__all__ = ["plan_jax"]

_NAMES = "COORDINATOR_ADDRESS, COORDINATOR_PORT, NUM_PROCESSES and PROCESS_ID"


def plan_jax(job: V1Job, draft: Draft, options: Options) -> None:
    """Fill the draft."""
    draft.policy, draft.stock, draft.framework = {"jax": {}}, "jax-distributed", "jax"
    role = job.role("Worker")
    if role is None:
        draft.refuse("NOT-A-JOB", ("spec", job.kind.replica_specs), "there are no replicas at all")
        return
    part = draft.add_part(NODE, trains=True)
    pods.carry(draft, role, part)
    policy.restarts(draft, role, part)
    draft.num_nodes = role.replicas
    draft.link((*role.path, "replicas"), ("trainer", "numNodes"))
    metadata.name(draft)
    if role.replicas != 1:
        shims.unseen(draft, role)
    rewrite_hosts(draft, lambda _, index: (NODE, index))
    made = {
        **shims.UNBUFFERED,
        "COORDINATOR_ADDRESS": address(draft, NODE, 0),
        "COORDINATOR_PORT": str(shims.named_port(draft, role)),
        "NUM_PROCESSES": str(role.replicas),
        "PROCESS_ID": shims.INDEX,
    }
    if not options.env_shim:
        shims.without(draft, part, [role], list(made))
        return
    shims.give(draft, part, [role], made)
    draft.say(
        "ENV-SHIM", role.main_path, f"{_NAMES} are given by spec.trainer.env", remedy="Read JAX_*, then --no-env-shim"
    )
