"""The launcher of an MPIJob: what its operators gave it, how often it is tried, and a launcher without workers."""

from __future__ import annotations

from typing import Any, Final

from trainer_ops.migrate import metadata, pods, policy, shims
from trainer_ops.migrate.commands import Line, launches, option, options
from trainer_ops.migrate.draft import NODE, Draft, Part
from trainer_ops.migrate.hosts import rewrite_hosts
from trainer_ops.migrate.mpi_command import ARITY, HOSTFILE, HOSTS, refers_to_role
from trainer_ops.migrate.normalise import Role
from trainer_ops.migrate.paths import Path
from trainer_ops.migrate.torch_command import write

__all__ = ["account", "environment", "has_gpu", "launcher_only", "restarts"]

_OPEN_MPI: Final = "OMPI_MCA_"
_RESERVED: Final = tuple(
    f"{_OPEN_MPI}{name}"
    for name in ("orte_default_hostfile", "plm_rsh_args", "orte_keep_fqdn_hostnames", "orte_set_default_slots")
)
_AGENT: Final = f"{_OPEN_MPI}plm_rsh_agent"
_ROLE: Final = "K_MPI_JOB_ROLE"
_NO_GPU: Final = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")

RolePart = tuple[Role, Part]


def environment(draft: Draft, launcher: RolePart, worker: RolePart, *, as_node: bool, slots: int) -> None:
    """What v1's operator gave and Trainer does not, and what Trainer gives and refuses from others."""
    by_exec = draft.job.kind.version == "v1"
    role, head = launcher
    if by_exec:
        _kubectl(draft, launcher, worker, slots)
    else:
        shims.overruled(draft, role, _RESERVED, everywhere=False)
        shims.drop_variable(draft, head, *_RESERVED)
        _roles(draft, launcher, worker)
    if not as_node:
        _no_gpu(draft, role, head)


def _no_gpu(draft: Draft, role: Role, part: Part) -> None:
    """A launcher that is no node is not to see the GPUs of its host."""
    shims.overruled(draft, role, _NO_GPU, everywhere=False)
    for name in _NO_GPU:
        if draft.options.env_shim:
            draft.env(part, name, "")
        else:
            shims.drop_variable(draft, part, name)


def has_gpu(launcher: Role) -> str:
    """The resource by which training-operator takes the launcher for one of the nodes, "" when it has none."""
    limits = (
        str(name)
        for container in launcher.pod["containers"]
        for name in ((container.get("resources") or {}).get("limits") or {})
    )
    return next((name for name in limits if "gpu" in name), "")


def _roles(draft: Draft, launcher: RolePart, worker: RolePart) -> None:
    """``K_MPI_JOB_ROLE``, where something looks at it."""
    asked = refers_to_role(launcher[0], worker[0]) and draft.options.env_shim
    for (role, part), value in ((launcher, "launcher"), (worker, "worker")):
        shims.overruled(draft, role, [_ROLE], everywhere=False)
        shims.drop_variable(draft, part, _ROLE)
        if asked:
            held: list[dict[str, Any]] = part.container.setdefault("env", [])
            held.insert(0, {"name": _ROLE, "value": value})
    message = "is given as v1 gave it" if asked else "is not given: nothing that is seen here looks at it"
    draft.say("ENV-SHIM", launcher[0].main_path, f"{_ROLE} {message}", remedy="")


def _kubectl(draft: Draft, launcher: RolePart, worker: RolePart, slots: int) -> None:
    """The variables of a transport that is no more."""
    for role, part in (launcher, worker):
        for i, item in enumerate(role.container.get("env") or ()):
            if item["name"] in (_AGENT, f"{_OPEN_MPI}plm_rsh_args", _RESERVED[0]):
                path = (*role.main_path, "env", i)
                draft.drop(path, "for kubectl exec, of which ssh takes the place")
                if item["name"] == f"{_OPEN_MPI}plm_rsh_args":
                    message = f"{item['name']} is left out: it was for kubectl exec, and Trainer sets its own for ssh"
                    draft.say("RESERVED-ENV", path, message, severity="info", remedy="")
                shims.drop_variable(draft, part, item["name"])
    same = {_RESERVED[2]: ("true", "1"), _RESERVED[3]: (str(slots),)}
    remedy = "Give it to mpirun as --mca NAME VALUE"
    shims.reserved(draft, launcher[1], launcher[0], _RESERVED[2:], same, remedy=remedy)
    _without_agent(draft, launcher[1])


def _without_agent(draft: Draft, head: Part) -> None:
    """``--mca plm_rsh_agent /etc/mpi/kubexec.sh`` names a program that is not there any more."""
    while True:
        line = Line.of(head.container)
        found = (
            given
            for one in launches(line)
            if one.program == "mpirun"
            for given in options(one, ARITY)
            if given.value == "plm_rsh_agent" and "kubexec" in given.words[-1].text
        )
        given = next(found, None)
        if given is None:
            return
        write(draft, head, line.remove(given.words), "ssh takes the place of kubectl exec")


def restarts(draft: Draft, role: Role, part: Part, *, of_a_job: bool) -> None:
    """The restartPolicy and backoffLimit of a launcher, and of the workers of training-operator.

    Args:
        draft: with the part.
        role: whose they are.
        part: of the role.
        of_a_job: v1 made a Job of it too, as mpi-operator does: then all means the same. Else they were pods.
    """
    path = (*role.path, "restartPolicy")
    if not of_a_job and role.restart_policy == "ExitCode":
        _left_failed(draft, role, part, path)
        return
    if not of_a_job:
        policy.restarts(draft, role, part)
        return
    if role.restart_policy not in ("OnFailure", "Never"):
        draft.refuse("NOT-A-JOB", path, f"{role.restart_policy!r} is no restartPolicy of an MPIJob")
        return
    part.spec["restartPolicy"] = role.restart_policy
    draft.link(path, part.place("spec", "restartPolicy"))
    limit = draft.job.run_policy.get("backoffLimit")
    if limit is not None:
        part.job["backoffLimit"] = limit
        draft.link(draft.job.run_policy_paths["backoffLimit"], ("job", part.name, "backoffLimit"))


def _left_failed(draft: Draft, role: Role, part: Part, path: Path) -> None:
    """Training-operator's MPIJob never acted on ExitCode: a failed pod stayed, and so did the job, as Restarting."""
    part.spec["restartPolicy"] = "Never"
    part.job["backoffLimit"] = 0
    message = (
        f"a failed {role.name} fails the training; v1 said Restarting then and did nothing, whatever the exit code"
    )
    remedy = "Say restartPolicy: OnFailure if it is to start again"
    draft.say("EXITCODE", path, message, remedy=remedy)
    draft.link(path, part.place("spec", "restartPolicy"), "ExitCode becomes Never", exact=False)
    if all(one.restart_policy in ("Never", "ExitCode") for one in draft.job.roles):
        limit = draft.job.run_policy_paths.get("backoffLimit")
        if limit is not None:
            draft.drop(limit, "of no effect where no container is started again")


def account(draft: Draft, role: Role) -> None:
    """Training-operator made the launcher's ServiceAccount where there was none, also one that the job names."""
    name = role.pod.get("serviceAccountName")
    if name:
        message = (
            f"v1 made the ServiceAccount {name} with the job where there was none; without it there are no pods now"
        )
        path = (*role.pod_path, "serviceAccountName")
        draft.say("MPI-TRANSPORT", path, message, severity="info", remedy="Make it, if nothing else does")


def launcher_only(draft: Draft, role: Role) -> None:
    """An MPIJob without workers: a training of one pod."""
    part = draft.add_part(NODE, trains=True)
    pods.carry(draft, role, part)
    restarts(draft, role, part, of_a_job=draft.job.kind.version != "v1")
    if draft.job.kind.version == "v1":
        account(draft, role)
    draft.num_nodes = 1
    metadata.name(draft)
    why = "there are no workers, so no ssh and no hostfile"
    fields = (
        "slotsPerWorker",
        "sshAuthMountPath",
        "mpiImplementation",
        "runLauncherAsWorker",
        "launcherCreationPolicy",
    )
    for field in (*fields, "mainContainer"):
        draft.drop(("spec", field), why)
    _without_mpi(draft, role, part)
    _without_hostfile(draft, part)
    rewrite_hosts(draft, lambda name, _: (NODE, 0) if name == "Launcher" else None)
    draft.say("MPI-LAUNCHER-ONLY", role.path, f"a plain training of one pod: {why}")


def _without_mpi(draft: Draft, role: Role, part: Part) -> None:
    """v1's operators set these also when there was nobody to reach; without a hostfile they would only lead astray."""
    names = (_AGENT, _RESERVED[0]) if draft.job.kind.version == "v1" else (*_RESERVED, _ROLE)
    shims.overruled(draft, role, names, everywhere=False)
    shims.drop_variable(draft, part, *names)
    by_exec = draft.job.kind.version == "v1"
    if not by_exec and refers_to_role(role) and draft.options.env_shim:
        draft.env(part, _ROLE, "launcher", first=True)
    if not (has_gpu(role) if by_exec else draft.job.spec.get("runLauncherAsWorker")):
        _no_gpu(draft, role, part)


def _without_hostfile(draft: Draft, part: Part) -> None:
    while True:
        line = Line.of(part.container)
        runs = (options(one, ARITY) for one in launches(line) if one.program == "mpirun")
        named = next((found for given in runs if (found := option(given, *HOSTS)) and found.value == HOSTFILE), None)
        if named is None:
            return
        write(draft, part, line.remove(named.words), "there is no hostfile without workers")
