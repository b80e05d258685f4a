"""PaddleJob: Trainer has no policy for Paddle, so a runtime of its own, and all of v1's variables.

Without a Master v1 trained collectively, met at worker 0; with one the Masters were parameter servers.
Source: training-operator v1.9.3 ``pkg/controller.v1/paddlepaddle/{envvar,paddlepaddle_controller}.go``.
"""

from __future__ import annotations

from typing import Any, Final

from trainer_ops.migrate import metadata, pods, policy, shims
from trainer_ops.migrate.draft import NODE, Draft, Part
from trainer_ops.migrate.hosts import address, rewrite_hosts
from trainer_ops.migrate.normalise import Role, V1Job
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.torch_elastic import elastic_policy, pinned

__all__ = ["plan_paddle"]

_IP: Final = {"fieldRef": {"fieldPath": "status.podIP"}}
_NAMES: Final = "PADDLE_MASTER, PADDLE_NNODES and PADDLE_JOB_ID"
_SERVERS: Final = "master"


def plan_paddle(job: V1Job, draft: Draft, options: Options) -> None:
    """Fill the draft."""
    del options
    draft.framework = "paddle"
    master, worker = job.role("Master"), job.role("Worker")
    parts = _parts(draft, master, worker)
    if not parts:
        return
    if not _numbers(draft, parts):
        return
    metadata.name(draft)
    of_role = {role.name: part.name for role, part in parts}
    rewrite_hosts(draft, lambda role, index: (of_role[role], index) if role in of_role else None)
    if master is not None and worker is not None:
        draft.jobset["spec"]["successPolicy"] = {"operator": "All", "targetReplicatedJobs": [_SERVERS]}
        draft.outlive = ("Worker",)
        draft.say("PS-ROLE", master.path, "Masters are a replicated job of their own; the training ends when they have")
    if draft.pods != 1:
        shims.unseen(draft, parts[0][0])
    # Also without the shim of other kinds: nothing of Trainer's takes the place of these.
    _environment(draft, parts)


def _parts(draft: Draft, master: Role | None, worker: Role | None) -> list[tuple[Role, Part]]:
    """Workers are what spec.trainer controls; Masters beside them are servers."""
    if master is None and worker is None:
        draft.refuse("NOT-A-JOB", ("spec", draft.job.kind.replica_specs), "there are no replicas at all")
        return []
    for absent in draft.job.roles:
        if absent not in (master, worker):
            draft.drop(absent.path, "no replicas, so no pods")
    found: list[tuple[Role, Part]] = []
    for role in (worker, master):
        if role is None:
            continue
        trains = not found
        part = draft.add_part(NODE if trains else _SERVERS, trains=trains)
        pods.carry(draft, role, part)
        policy.restarts(draft, role, part)
        found.append((role, part))
    return found


def _numbers(draft: Draft, parts: list[tuple[Role, Part]]) -> bool:
    """numNodes, the pods of servers, and an elastic policy, of which v1 gave nothing to the code."""
    elastic = elastic_policy(draft)
    for role, part in parts:
        number: int | str | None = role.replicas
        if elastic is not None and role.name == "Worker":
            number = pinned(draft, role, elastic)
            if number is None:
                return False
        if part.trains:
            draft.num_nodes = number if number is not None else 1
            changed = "" if number == role.replicas else "pinned"
            draft.link((*role.path, "replicas"), ("trainer", "numNodes"), changed, exact=not changed)
        else:
            part.pods = number
            draft.link((*role.path, "replicas"), ("job", part.name, "parallelism"))
    draft.drop(("spec", "elasticPolicy", "maxRestarts"), "no operator of v1 read it")
    draft.drop(("spec", "elasticPolicy"), "the number of nodes is fixed")
    if draft.pods is None and len(parts) > 1:
        draft.refuse("PLACEHOLDER", (*parts[0][0].path, "replicas"), "PADDLE_NNODES is Masters and Workers together")
        return False
    return True


def _environment(draft: Draft, parts: list[tuple[Role, Part]]) -> None:
    """v1's variables. The pods of the part with the rendezvous come last in ``parts``."""
    meeting, served_by = parts[-1]
    port = shims.named_port(draft, meeting)
    there = f"{address(draft, served_by.name, 0)}:{port}"
    total = draft.num_nodes if draft.pods is None else draft.pods
    for role, part in parts:
        made: dict[str, Any] = {
            **shims.UNBUFFERED,
            "PADDLE_JOB_ID": draft.name or "$(TRAINJOB_NAME)",
            "PADDLE_NNODES": str(total),
        }
        if part is served_by:
            made["POD_IP_DUMMY"] = _IP
        alone = part is served_by and (draft.num_nodes if part.trains else part.pods) == 1
        made["PADDLE_MASTER"] = f"$(POD_IP_DUMMY):{port}" if alone else there
        if any(one.name == "Master" for one, _ in parts):
            made["PADDLE_SERVER_NUM" if role.name == "Master" else "PADDLE_TRAINER_NUM"] = "1"
        shims.give(draft, part, [role], made)
        if part is served_by and not alone:
            _serve(draft, part, role, port)
    draft.say(
        "ENV-SHIM", parts[0][0].main_path, f"{_NAMES} are given as v1 gave them", remedy="Change them with numNodes"
    )


def _serve(draft: Draft, part: Part, role: Role, port: int) -> None:
    """The first pod has to find its own IP address in PADDLE_MASTER, or nobody serves the rendezvous."""
    script = f'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then export PADDLE_MASTER="$POD_IP_DUMMY:{port}"; fi'
    if shims.wrap(draft, part, script, "behind a line of shell that says to the first pod that it is the master"):
        message = "the first pod's PADDLE_MASTER is its own IP address, set by a line of shell before the command"
        draft.say("PADDLE-MASTER", (*role.main_path, "command"), message)
        return
    draft.refuse(
        "PADDLE-MASTER",
        role.main_path,
        "the first pod has to find its own IP address in PADDLE_MASTER, and the image's entry point cannot be told",
        remedy="Give the container its command",
    )
