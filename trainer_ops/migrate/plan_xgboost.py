"""XGBoostJob, which LightGBM used too: nodes of one pod template under Trainer's xgboost policy; index 0 was Master.

Trainer gives ``DMLC_*``; v1's operator gave the names of a rendezvous at the Master and a list of all workers.
Source: training-operator v1.9.3 ``pkg/controller.v1/xgboost/xgboost.go``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from trainer_ops.migrate import metadata, pods, policy, shims
from trainer_ops.migrate.draft import NODE, Draft, Part, main
from trainer_ops.migrate.hosts import address, rewrite_hosts
from trainer_ops.migrate.normalise import Role, V1Job
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.roles import join

__all__ = ["plan_xgboost"]

_GIVEN: Final = ("MASTER_PORT", "MASTER_ADDR", "WORLD_SIZE", "RANK", "PYTHONUNBUFFERED", "WORKER_PORT", "WORKER_ADDRS")
_RESERVED: Final = ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER")
_TRACKER_PORT: Final = "29500"
_NAMES: Final = "MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK, WORKER_ADDRS and WORKER_PORT"
_QUOTED: Final = re.compile(r"""(["'])(.*?)\1""")


def plan_xgboost(job: V1Job, draft: Draft, options: Options) -> None:
    """Fill the draft."""
    draft.policy, draft.stock, draft.framework = {"xgboost": {}}, "xgboost-distributed", "xgboost"
    master, worker = job.role("Master"), job.role("Worker")
    if master is None or master.replicas != 1:
        draft.refuse(
            "NOT-A-JOB", ("spec", job.kind.replica_specs), "v1 refuses an XGBoostJob without exactly one Master"
        )
        return
    roles = [role for role in (master, worker) if role is not None]
    for role in job.roles:
        if role not in roles:
            draft.drop(role.path, "no replicas, so no pods")
    total = shims.number_of_pods(draft, roles, "numNodes, Master and Workers together,")
    if total is None:
        return
    part = draft.add_part(NODE, trains=True)
    if not _template(draft, part, master, worker):
        return
    draft.num_nodes = total
    for role in roles:
        draft.link((*role.path, "replicas"), ("trainer", "numNodes"), "Master and Workers together", exact=False)
    metadata.name(draft)
    for role in roles:
        _own_tracker(draft, part, role, total)
    rewrite_hosts(draft, lambda role, index: (NODE, 0) if role == "Master" else (NODE, index + 1))
    _gpus(draft, part, master)
    if total > 1:
        shims.unseen(draft, master)
        _success(draft, part, master)
    if options.env_shim:
        shims.give(draft, part, roles, _variables(draft, master, worker, total))
        draft.say(
            "ENV-SHIM",
            master.main_path,
            f"{_NAMES} are given by spec.trainer.env",
            remedy="Read DMLC_*, then --no-env-shim",
        )
    else:
        shims.without(draft, part, roles, list(_variables(draft, master, worker, total)))


def _template(draft: Draft, part: Part, master: Role, worker: Role | None) -> bool:
    if worker is None:
        pods.carry(draft, master, part)
        policy.restarts(draft, master, part)
        return True
    master, worker = _one_restart_policy(draft, master, worker)
    worker = _same_quotes(draft, part, master, worker)
    return join(draft, part, master, worker, rank="DMLC_TASK_ID", ignore=frozenset((*_GIVEN, *_RESERVED)))


def _one_restart_policy(draft: Draft, master: Role, worker: Role) -> tuple[Role, Role]:
    """Nodes have one: the one of the template that is taken."""
    if master.restart_policy == worker.restart_policy:
        return master, worker
    taken, left = (master, worker) if draft.options.template_from == "master" else (worker, master)
    path = (*left.path, "restartPolicy")
    message = f"restartPolicy {left.restart_policy} of {left.name} and {taken.restart_policy} of {taken.name}"
    draft.say(
        "ROLE-DIFF", path, f"{message}, which all nodes have now", severity="warning", remedy="Make them the same"
    )
    changed = replace(left, restart_policy=taken.restart_policy)
    draft.agree(changed)
    return (master, changed) if left is worker else (changed, worker)


def _same_quotes(draft: Draft, part: Part, master: Role, worker: Role) -> Role:
    """The Worker with the Master's command and args, where quotes are all in which they differ.

    No shell takes quotes away that stand in a list of args, so they are a slip: the program gets them as they are.
    """
    made: dict[str, Any] = copy.deepcopy(dict(worker.template))
    held = made["spec"]["containers"][worker.main]
    changed = False
    for field in ("command", "args"):
        one, two = list(master.container.get(field) or ()), list(worker.container.get(field) or ())
        if one == two or [_QUOTED.sub(r"\2", text) for text in one] != [_QUOTED.sub(r"\2", text) for text in two]:
            continue
        held[field] = one
        changed = True
        for i, (a, b) in enumerate(zip(one, two, strict=True)):
            if a != b:
                draft.rewrote(main(part, field, i), "quotes as the Master has them")
                path = (*worker.main_path, field, i)
                draft.say(
                    "ROLE-DIFF",
                    path,
                    f"{b} is {a} on all nodes now, as the Master has it",
                    severity="warning",
                    remedy="",
                )
    if not changed:
        return worker
    draft.agree(replace(worker, template=made))
    return draft.agreed[worker.name]


def _variables(draft: Draft, master: Role, worker: Role | None, total: int) -> Mapping[str, Any]:
    made: dict[str, Any] = {
        "MASTER_PORT": str(shims.named_port(draft, master)),
        "MASTER_ADDR": address(draft, NODE, 0),
        "WORLD_SIZE": str(total),
        "RANK": shims.INDEX,
        **shims.UNBUFFERED,
    }
    if worker is not None:
        made["WORKER_PORT"] = str(shims.named_port(draft, worker))
        made["WORKER_ADDRS"] = ",".join(address(draft, NODE, i) for i in range(1, total))
    return made


def _own_tracker(draft: Draft, part: Part, role: Role, total: int) -> None:
    """Trainer gives the tracker's variables itself, and refuses them in the TrainJob."""
    same = {
        "DMLC_TRACKER_URI": (address(draft, NODE, 0), f"{draft.job.name}-master-0"),
        "DMLC_TRACKER_PORT": (_TRACKER_PORT,),
        "DMLC_NUM_WORKER": (str(total),),
        "DMLC_TASK_ID": (shims.INDEX,),
    }
    shims.reserved(draft, part, role, _RESERVED, same)


def _gpus(draft: Draft, part: Part, master: Role) -> None:
    limits = (part.container.get("resources") or {}).get("limits") or {}
    counts = [
        int(str(n)) for name, n in limits.items() if "gpu" in name.lower() and str(n).isascii() and str(n).isdigit()
    ]
    if counts and counts[0] > 1:
        message = f"DMLC_NUM_WORKER is {counts[0]} for each node, one for each GPU; v1's WORLD_SIZE counts pods"
        draft.say("XGBOOST-GPUS", (*master.main_path, "resources", "limits"), message)


def _success(draft: Draft, part: Part, master: Role) -> None:
    if draft.options.preserve_success:
        policy.only_first_index(part)
        draft.outlive = ("Worker",)
    else:
        draft.say("SUCCESS-RULE", master.path, "v1 was done when the Master had ended well; now all nodes have to")
