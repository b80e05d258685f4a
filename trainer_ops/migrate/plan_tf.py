"""TFJob: Trainer has no policy for TensorFlow, so a runtime of its own, and TF_CONFIG written out.

One replicatedJob a role: ``node`` are the workers (or what there is), which spec.trainer.numNodes counts; chief,
master, ps and evaluator are beside it. TF_CONFIG is the same text for all pods of a role but for the index, which
Kubernetes fills in.
Source: training-operator v1.9.3 ``pkg/controller.v1/tensorflow/{tensorflow,util,tfjob_controller}.go``.
"""

from __future__ import annotations

import json
from typing import Any, Final

from trainer_ops.migrate import metadata, pods, policy, shims
from trainer_ops.migrate.draft import NODE, Draft, Part
from trainer_ops.migrate.hosts import address, rewrite_hosts
from trainer_ops.migrate.normalise import Role, V1Job
from trainer_ops.migrate.options import Options

__all__ = ["plan_tf"]

_DYNAMIC: Final = ("spec", "enableDynamicWorker")
_SUCCESS: Final = ("spec", "successPolicy")
_HEADS: Final = ("Chief", "Master")
# Their pods run until they are told to end.
_SERVERS: Final = ("PS", "Evaluator")
# Who is ``node``, the first of these that there is.
_TRAINS: Final = ("Worker", "Chief", "Master", "Evaluator", "PS")

Parts = list[tuple[Role, Part]]


def plan_tf(job: V1Job, draft: Draft, options: Options) -> None:
    """Fill the draft."""
    del options
    draft.framework = "tensorflow"
    if not _valid(draft):
        return
    distributed = sum(role.replicas if isinstance(role.replicas, int) else 2 for role in job.roles) != 1
    if distributed and shims.number_of_pods(draft, job.roles, "TF_CONFIG, which lists every pod,") is None:
        return
    parts = _parts(draft)
    if not parts:
        return
    metadata.name(draft)
    of_role = {role.name: part.name for role, part in parts}
    rewrite_hosts(draft, lambda role, index: (of_role[role], index) if role in of_role else None)
    _success(draft, parts)
    if not distributed:
        return
    shims.unseen(draft, parts[0][0])
    # Also without the shim of other kinds: nothing of Trainer's takes the place of TF_CONFIG.
    _tf_config(draft, parts)


def _valid(draft: Draft) -> bool:
    dynamic = draft.job.spec.get("enableDynamicWorker")
    if dynamic:
        draft.refuse("TF-DYNAMIC", _DYNAMIC, "workers that come and go: a TrainJob has a fixed number")
        return False
    draft.drop(_DYNAMIC, "the default")
    heads = [role for role in draft.job.roles if role.name in _HEADS and role.replicas != 0]
    if len(heads) > 1:
        draft.refuse("NOT-A-JOB", heads[1].path, "v1 refuses a Chief and a Master in one TFJob")
        return False
    if heads and heads[0].replicas != 1:
        message = f"{heads[0].replicas} {heads[0].name}s: v1 makes their pods, TensorFlow takes one chief"
        draft.refuse("NOT-A-JOB", (*heads[0].path, "replicas"), message, remedy="Make the others Workers")
        return False
    policy_ = draft.job.spec.get("successPolicy")
    if policy_ not in (None, "", "AllWorkers"):
        draft.refuse("NOT-A-JOB", _SUCCESS, f"{policy_!r} is no successPolicy")
        return False
    return True


def _parts(draft: Draft) -> Parts:
    """A replicatedJob for each role that has pods; the one that trains comes first."""
    present = {role.name: role for role in draft.job.roles if role.replicas != 0}
    for role in draft.job.roles:
        if role.name not in present:
            draft.drop(role.path, "no replicas, so no pods")
    names = [name for name in _TRAINS if name in present]
    if not names:
        draft.refuse("NOT-A-JOB", ("spec", draft.job.kind.replica_specs), "there are no replicas at all")
        return []
    found: Parts = []
    for name in names:
        role = present[name]
        trains = not found
        part = draft.add_part(NODE if trains else name.lower(), trains=trains)
        pods.carry(draft, role, part)
        policy.restarts(draft, role, part)
        if trains:
            draft.num_nodes = role.replicas
            draft.link((*role.path, "replicas"), ("trainer", "numNodes"))
        else:
            part.pods = role.replicas
            draft.link((*role.path, "replicas"), ("job", part.name, "parallelism"))
        found.append((role, part))
    servers = [role for role, _ in found if role.name == "PS"]
    if servers and len(found) > 1:
        draft.say("PS-ROLE", servers[0].path, "parameter servers are a replicated job of their own: ps")
    return found


def _success(draft: Draft, parts: Parts) -> None:
    """Which pods' good end is the training's: the chief's, else worker 0's, or all workers'."""
    by_name = {role.name: part for role, part in parts}
    all_workers = draft.job.spec.get("successPolicy") == "AllWorkers"
    head = next((name for name in _HEADS if name in by_name), None)
    who = head or ("Worker" if "Worker" in by_name else None)
    if who is None:
        # v1 never called a TFJob of servers alone done; a TrainJob is, when they are.
        draft.drop(_SUCCESS, "there are no workers that it could mean")
        return
    part = by_name[who]
    if len(parts) > 1:
        draft.jobset["spec"]["successPolicy"] = {"operator": "All", "targetReplicatedJobs": [part.name]}
    others = [role for role, _ in parts if role.name != who]
    draft.outlive = tuple(role.name for role in others)
    path = _SUCCESS if draft.job.spec.get("successPolicy") is not None else _path_of(parts, who)
    if head is not None:
        draft.drop(_SUCCESS, f"with a {head} v1 looked at that alone, as the runtime does")
        if others:
            draft.say("SUCCESS-RULE", path, f"the training ends when the {head} has ended well, as in v1", remedy="")
        return
    if all_workers:
        reason = (
            "all workers: the successPolicy of the runtime" if others else "all workers: what a runtime does anyway"
        )
        draft.drop(_SUCCESS, reason)
    else:
        draft.drop(_SUCCESS, "the default: worker 0's end, which the Job's successPolicy says")
        if draft.num_nodes != 1:
            policy.only_first_index(part)
            draft.outlive = (*draft.outlive, "Worker")
            message = "the training ends when worker 0 has ended well, as in v1; Kubernetes before 1.31 waits for all"
            draft.say("SUCCESS-RULE", path, message, remedy="")


def _path_of(parts: Parts, name: str) -> tuple[str | int, ...]:
    """Where the role of that name is in the job."""
    return next(role.path for role, _ in parts if role.name == name)


def _tf_config(draft: Draft, parts: Parts) -> None:
    """TF_CONFIG for the pods of every role: same keys in the same order as v1's operator wrote."""
    held = {role.name: (role, part) for role, part in parts}
    cluster: dict[str, list[str]] = {}
    for role in sorted(draft.job.roles, key=lambda one: one.name.lower()):
        found = held.get(role.name)
        hosts = [] if found is None else [address(draft, found[1].name, i) for i in range(int(role.replicas))]
        cluster[role.name.lower()] = [f"{host}:{shims.named_port(draft, role)}" for host in hosts]
    for role, part in parts:
        made: dict[str, Any] = {}
        index = "0"
        if role.replicas != 1:
            name = _index_name(role)
            made[name] = shims.INDEX
            index = f"$({name})"
        task = f'{{"type":"{role.name.lower()}","index":{index}}}'
        text = json.dumps(cluster, separators=(",", ":"))
        made["TF_CONFIG"] = f'{{"cluster":{text},"task":{task},"environment":"cloud"}}'
        shims.give(draft, part, [role], made, everywhere=False)
    numbers = ", ".join(f"{role.replicas} {role.name}" for role, _ in parts)
    draft.say("TF-CONFIG", ("spec", draft.job.kind.replica_specs), f"TF_CONFIG names the pods of {numbers}")


def _index_name(role: Role) -> str:
    """A name for the index that the job does not use itself."""
    taken = {item["name"] for item in role.container.get("env") or ()}
    names = ("TASK_INDEX", *(f"TASK_INDEX_{i}" for i in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)
