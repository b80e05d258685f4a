"""PyTorchJob: the nodes of one pod template under Trainer's torch policy; index 0 was the Master."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainer_ops.migrate import metadata, pods, policy, torch_env
from trainer_ops.migrate.commands import option, options
from trainer_ops.migrate.draft import NODE, Draft, Part
from trainer_ops.migrate.hosts import rewrite_hosts
from trainer_ops.migrate.normalise import Role, V1Job
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.roles import join
from trainer_ops.migrate.torch_command import (
    ARITY,
    Start,
    look,
    number_of_nodes,
    set_processes,
    to_torchrun,
    to_trainer_variables,
    write,
)
from trainer_ops.migrate.torch_elastic import elastic_policy, pinned

__all__ = ["plan_torch"]

_NPROC: Final = ("spec", "nprocPerNode")


def plan_torch(job: V1Job, draft: Draft, options: Options) -> None:
    """Fill the draft."""
    draft.policy, draft.stock, draft.framework = {"torch": {}}, "torch-distributed", "torch"
    master, worker = job.role("Master"), job.role("Worker")
    elastic = elastic_policy(draft)
    if not _roles(draft, master, worker):
        return
    part = draft.add_part(NODE, trains=True)
    if not _template(draft, part, master, worker, elastic) or not _nodes(draft, master, worker, elastic):
        return
    metadata.name(draft)
    for role in (master, worker):
        if role is not None:
            torch_env.own_variables(draft, role, part, master=master is not None, elastic=elastic)
    start = look(part)
    if options.to_torchrun:
        start = to_torchrun(draft, part, start)
    processes, start = _processes(draft, part, start, elastic)
    start = _command(draft, part, start, processes)
    _environment(draft, part, start, processes, master, elastic)
    torch_env.inject(draft, part)
    _success(draft, part, master, elastic)
    rewrite_hosts(draft, lambda role, index: _pod(master, role, index))


def _pod(master: Role | None, role: str, index: int) -> tuple[str, int] | None:
    if role == "Master":
        return (NODE, 0) if index == 0 and master is not None else None
    return (NODE, index + (master is not None))


def _roles(draft: Draft, master: Role | None, worker: Role | None) -> bool:
    if master is None and worker is None:
        draft.refuse("NOT-A-JOB", ("spec", draft.job.kind.replica_specs), "there are no replicas at all")
        return False
    if master is not None and master.replicas != 1:
        draft.refuse("NOT-A-JOB", (*master.path, "replicas"), f"{master.replicas} Masters: v1 has one or none")
        return False
    for role in draft.job.roles:
        if role not in (master, worker):
            draft.drop(role.path, "no replicas, so no pods")
    return True


def _template(
    draft: Draft, part: Part, master: Role | None, worker: Role | None, elastic: Mapping[str, Any] | None
) -> bool:
    if master is not None and worker is not None:
        ignore = torch_env.overruled(master=True, elastic=elastic)
        return join(draft, part, master, worker, rank="PET_NODE_RANK", ignore=ignore)
    role = master or worker
    if role is not None:
        pods.carry(draft, role, part)
        policy.restarts(draft, role, part)
    return True


def _nodes(draft: Draft, master: Role | None, worker: Role | None, elastic: Mapping[str, Any] | None) -> bool:
    """numNodes, and where the replicas went."""
    workers: int | str = 0
    if worker is not None:
        found = worker.replicas if elastic is None else pinned(draft, worker, elastic)
        if found is None:
            return False
        workers = found
    if master is None:
        draft.num_nodes = workers
    elif isinstance(workers, str):
        draft.refuse("PLACEHOLDER", (*draft.job.roles[-1].path, "replicas"), "numNodes is Master and Workers together")
        return False
    else:
        draft.num_nodes = workers + 1
    if master is not None and elastic is not None:
        message = "v1's rendezvous counted the Workers only; now the Master's node takes part in it"
        draft.say("ELASTIC-RANGE", ("spec", "elasticPolicy"), message, severity="warning", remedy="")
    both = "" if master is None or worker is None else "Master and Workers together"
    for role in (master, worker):
        if role is not None:
            changed = both or ("" if role.replicas == draft.num_nodes else "pinned")
            draft.link((*role.path, "replicas"), ("trainer", "numNodes"), changed, exact=not changed)
    return True


def _processes(draft: Draft, part: Part, start: Start, elastic: Mapping[str, Any] | None) -> tuple[int, Start]:
    """numProcPerNode; gives the number that v1 multiplied WORLD_SIZE with."""
    given = draft.job.spec.get("nprocPerNode")
    old = None if elastic is None else elastic.get("nProcPerNode")
    if given is not None and old is not None:
        draft.refuse("NOT-A-JOB", _NPROC, "elasticPolicy.nProcPerNode says it too, which v1 refuses")
        return 1, start
    if old is not None:
        draft.num_proc = old
        draft.link(("spec", "elasticPolicy", "nProcPerNode"), ("trainer", "numProcPerNode"))
        return 1, start
    if given is None or given == "auto":
        draft.drop(_NPROC, "the default")
        _auto(draft, part, start)
        return 1, start
    if given in ("cpu", "gpu"):
        return 1, _by_word(draft, part, start, given)
    text = str(given)
    if text.isascii() and text.isdigit() and int(text) >= 1 and not isinstance(given, bool):
        draft.num_proc = int(text)
        draft.link(_NPROC, ("trainer", "numProcPerNode"), "a number now", exact=False)
        return int(text), start
    if text.startswith(("$", "{{")) and draft.options.allow_placeholders:
        draft.num_proc = text
        draft.link(_NPROC, ("trainer", "numProcPerNode"))
        return 1, start
    code = "PLACEHOLDER" if text.startswith(("$", "{{")) else "NOT-A-JOB"
    draft.refuse(code, _NPROC, f"{given!r} is no number of processes, nor auto, gpu or cpu")
    return 1, start


def _auto(draft: Draft, part: Part, start: Start) -> None:
    """What ``auto`` is in v2 where no GPU is requested: the CPUs that are."""
    if not start.torchrun or start.launch is None or option(options(start.launch, ARITY), "--nproc_per_node"):
        return
    devices = _devices(part)
    if any("gpu" in name.lower() for name in devices):
        return
    mig = [count for name, count in devices.items() if "/mig-" in name and isinstance(count, int)]
    if mig:
        draft.num_proc = sum(mig)
        draft.say("XPU-PROC", _NPROC, f"{sum(mig)} slices of GPUs: numProcPerNode says so", severity="info", remedy="")
    elif devices:
        names = ", ".join(devices)
        draft.say("XPU-PROC", _NPROC, f"Trainer does not count {names}: one process for each requested CPU")
    else:
        draft.say("CPU-AUTO", _NPROC, "one process for each requested CPU; v1 took all CPUs of the host")


def _devices(part: Part) -> dict[str, int | str]:
    """Extended resources of the main container, by name."""
    resources = part.container.get("resources") or {}
    found: dict[str, int | str] = {}
    for kind in ("requests", "limits"):
        for name, value in (resources.get(kind) or {}).items():
            if "/" in str(name):
                text = str(value)
                found[str(name)] = int(text) if text.isascii() and text.isdigit() else text
    return found


def _by_word(draft: Draft, part: Part, start: Start, word: str) -> Start:
    gpus = [n for name, n in _devices(part).items() if "gpu" in name.lower() and isinstance(n, int) and n >= 1]
    if word == "gpu" and len(gpus) == 1:
        draft.num_proc = gpus[0]
        draft.link(_NPROC, ("trainer", "numProcPerNode"), "the number of GPUs", exact=False)
        draft.say("NPROC-TEXT", _NPROC, f"gpu is {gpus[0]} now, the GPUs of a node")
        return start
    if start.torchrun:
        draft.drop(_NPROC, f"torchrun's --nproc_per_node={word} says it now")
        draft.say("NPROC-TEXT", _NPROC, f"{word} is an option of torchrun now")
        return set_processes(draft, part, word, start)
    draft.drop(_NPROC, "only torchrun reads it, and the job does not start it")
    return start


def _command(draft: Draft, part: Part, start: Start, processes: int) -> Start:
    """Options of launchers that were right in v1 only."""
    found, rewrite = number_of_nodes(start)
    if found is not None and rewrite is not None and processes > 1 and "WORLD_SIZE" in found.value:
        text = "$(PET_NNODES)" if "$(" in found.value else "$PET_NNODES"
        write(draft, part, rewrite(text), "--nnodes is the number of nodes")
        draft.say(
            "TORCHRUN-FLAGS",
            ("spec",),
            f"--nnodes was WORLD_SIZE, which v1 counted in processes: {text} now",
            severity="warning",
        )
        start = look(part)
    if not draft.options.env_shim:
        names = ["MASTER_ADDR", "MASTER_PORT", "RANK", *(["WORLD_SIZE"] if processes == 1 else [])]
        start = to_trainer_variables(draft, part, start, names=names)
    if start.launch is not None and start.launch.program == "mpirun":
        draft.say("MPI-BACKEND", ("spec",), "mpirun in a PyTorchJob: it starts processes on its own node only")
    argv = list(start.line.argv)
    if "--backend mpi" in " ".join(argv) or "--backend=mpi" in argv:
        draft.say(
            "MPI-BACKEND", ("spec",), "the backend mpi needs mpirun around the nodes, which v1 did not start either"
        )
    return start


def _environment(
    draft: Draft, part: Part, start: Start, processes: int, master: Role | None, elastic: Mapping[str, Any] | None
) -> None:
    if elastic is not None:
        torch_env.rendezvous(draft, part, elastic)
    rank = master is not None and start.needs_rank
    path = (master or draft.job.roles[-1]).main_path
    if not start.seen and draft.num_nodes != 1:
        what = "a script" if start.line.split else "the image's entry point"
        draft.say("UNSEEN-SCRIPT", path, f"{what} starts the training, and is not seen here")
    if not draft.options.env_shim:
        if rank:
            message = "the code gets no RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
            draft.say("ENV-SHIM", path, message, severity="warning", remedy="Leave --no-env-shim out")
        return
    if rank and processes > 1 and isinstance(draft.num_nodes, str):
        draft.refuse("PLACEHOLDER", path, "WORLD_SIZE is numNodes times nprocPerNode")
        return
    torch_env.shim(draft, part, processes, rank=rank)
    if rank:
        draft.say("ENV-SHIM", path, "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are given by spec.trainer.env")


def _success(draft: Draft, part: Part, master: Role | None, elastic: Mapping[str, Any] | None) -> None:
    if draft.num_nodes == 1 or (master is None and elastic is None):
        return
    path = ("spec", "elasticPolicy") if master is None else master.path
    if draft.options.preserve_success:
        if master is None:
            part.job["successPolicy"] = {"rules": [{"succeededCount": 1}]}
        else:
            policy.only_first_index(part)
        draft.outlive = ("Worker",)
        return
    who = "a worker" if master is None else "the Master"
    draft.say("SUCCESS-RULE", path, f"v1 was done when {who} had ended well; now all nodes have to")
