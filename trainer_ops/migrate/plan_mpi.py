"""MPIJob: a launcher beside its nodes under Trainer's mpi policy, always with a runtime of its own.

``spec.trainer`` are the launcher's image, command and environment, and the number of *nodes*; the workers' pods are in
the runtime. Seen on Kubernetes 1.36: ``runLauncherAsNode: false`` with numNodes as many as v1 had workers gives the
same ranks on the same hosts as v1; ``mlPolicy.numNodes`` above 1 would make several launchers.
Sources: mpi-operator v0.8.0 ``pkg/controller/mpi_job_controller.go``, training-operator v1.9.3
``pkg/controller.v1/mpi``, trainer v2.3.0 ``pkg/runtime/framework/plugins/mpi``.
"""

from __future__ import annotations

from typing import Any, Final

from trainer_ops.migrate import metadata, mpi_command, mpi_ssh, pods, policy
from trainer_ops.migrate.draft import NODE, Draft, Part
from trainer_ops.migrate.hosts import rewrite_hosts
from trainer_ops.migrate.ledger import Fate
from trainer_ops.migrate.mpi_launcher import account, environment, has_gpu, launcher_only, restarts
from trainer_ops.migrate.normalise import Role, V1Job
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.paths import Path
from trainer_ops.migrate.places import Key
from trainer_ops.model import keys

__all__ = ["plan_mpi"]

LAUNCHER: Final = keys.STEP_LAUNCHER
_SPEC: Final = ("runtime", "mlPolicy", "mpi")


def plan_mpi(job: V1Job, draft: Draft, options: Options) -> None:
    """Fill the draft."""
    draft.framework = "mpi"
    roles = _roles(draft)
    slots = _slots(draft)
    if roles is None or slots is None:
        return
    launcher, worker = roles
    if worker is None:
        launcher_only(draft, launcher)
        return
    if not _can_be_done(draft, launcher, worker):
        return
    as_node = _launcher_is_node(draft, launcher)
    if not _numbers(draft, worker, as_node, slots):
        return
    nodes, head = _parts(draft, launcher, worker)
    metadata.name(draft)
    environment(draft, (launcher, head), (worker, nodes), as_node=as_node, slots=slots)
    hosts = draft.num_nodes if isinstance(draft.num_nodes, int) else None
    mpi_ssh.servers(draft, nodes, worker, by_exec=_by_exec(job))
    if mpi_command.waits(launcher):
        _interactive(draft, launcher)
    else:
        mpi_command.ranks(draft, head, launcher, hosts, slots)
    rewrite_hosts(draft, lambda role, index: (LAUNCHER, 0) if role == "Launcher" else (NODE, index))
    mount = mpi_ssh.keys_for(draft, (launcher, head), (worker, nodes), _mount(job))
    _policy(draft, as_node, slots, mount)
    if as_node:
        # spec.trainer's would be those of the nodes too.
        head.kept = frozenset({"env", "resources"})
        # Seen with Open MPI 4.1.4, which takes its own host first wherever it stands, and 5.0.11, which does so with a
        # default hostfile only.
        message = "the launcher is last in the hostfile, where v1 had it first: Open MPI 5 has rank 0 on the first node"
        draft.say("MPI-HOST-ORDER", launcher.path, message)
    elif head.container.get("resources"):
        message = "spec.trainer.resourcesPerNode are the launcher's; the nodes' are in the runtime"
        draft.say("MPI-LAUNCHER-RES", (*launcher.main_path, "resources"), message)


def _by_exec(job: V1Job) -> bool:
    """v1 of training-operator reaches its workers by kubectl exec."""
    return job.kind.version == "v1"


def _mount(job: V1Job) -> str:
    return str(job.spec.get("sshAuthMountPath") or mpi_ssh.ROOT)


def _roles(draft: Draft) -> tuple[Role, Role | None] | None:
    """Launcher and workers with the containers that their operators take for the main ones."""
    launcher, worker = draft.job.role("Launcher"), draft.job.role("Worker")
    where: Path = ("spec", draft.job.kind.replica_specs)
    if launcher is None or launcher.replicas != 1:
        draft.refuse("NOT-A-JOB", where, "an MPIJob has exactly one Launcher")
        return None
    for role in draft.job.roles:
        if role not in (launcher, worker):
            draft.drop(role.path, "no replicas, so no pods")
    draft.link((*launcher.path, "replicas"), ("runtime", "mlPolicy", "numNodes"), "one launcher, also without saying")
    wanted = draft.job.spec.get("mainContainer")
    path: Path = ("spec", "mainContainer")
    if worker is None or not wanted:
        draft.drop(path, "empty" if worker else "there are no workers")
        return launcher, worker
    names = [container.get("name") for container in worker.pod["containers"]]
    if wanted not in names:
        draft.refuse("NOT-A-JOB", path, f"no container of the workers is named {wanted!r}")
        return None
    draft.link(path, ("pod", NODE, "spec", "containers", Key(NODE), "name"), "called node now", exact=False)
    return launcher, worker


def _slots(draft: Draft) -> int | None:
    path: Path = ("spec", "slotsPerWorker")
    given = draft.job.spec.get("slotsPerWorker")
    if given is None:
        draft.drop(path, "null says nothing")
        return 1
    if isinstance(given, str) and given.startswith(("$", "{{")):
        draft.refuse("PLACEHOLDER", path, f"{given} is no number, and a runtime needs one")
        return None
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        draft.refuse("NOT-A-JOB", path, f"{given!r} is no number of slots")
        return None
    if given == 0:
        draft.refuse("MPI-NP", path, "no slots, so no ranks: Trainer's are at least 1", remedy="Give 1 or more")
        return None
    draft.link(path, ("trainer", "numProcPerNode"))
    return given


def _can_be_done(draft: Draft, launcher: Role, worker: Role) -> bool:
    """Refuse what Trainer's mpi policy is not: other MPIs, other transports, hosts that come and go."""
    spec, path = draft.job.spec, ("spec", "mpiImplementation")
    flavour = spec.get("mpiImplementation") or "OpenMPI"
    if flavour in ("Intel", "MPICH"):
        draft.refuse(
            "MPI-IMPL",
            path,
            f"Trainer's runtimes start Open MPI, and this job is for {flavour}",
            remedy="Build the image with Open MPI and say mpiImplementation: OpenMPI; or write a TrainJob for the "
            f"runtime flux-runtime: numNodes {worker.replicas}, the program as its command, no mpirun (--explain FLUX)",
        )
    elif flavour != "OpenMPI":
        draft.refuse("NOT-A-JOB", path, f"{flavour!r} is no mpiImplementation")
    if "flux" in draft.options.runtime:
        message = f"{draft.options.runtime} is a runtime of Flux, in which there is no launcher and no mpirun"
        draft.refuse("FLUX", (), message)
    if _by_exec(draft.job):
        _intel(draft, launcher, worker)
        _transport(draft, worker)
    for role in (launcher, worker):
        mpi_command.elastic(draft, role)
    return not draft.refused


def _intel(draft: Draft, *roles: Role) -> None:
    """Training-operator is told no implementation: its variables are for Open MPI and Intel's at once."""
    for role in roles:
        for i, item in enumerate(role.container.get("env") or ()):
            if str(item.get("name")).startswith("I_MPI_"):
                message = f"Trainer's runtimes start Open MPI, and {item['name']} is for Intel's"
                remedy = "Remove the variable if the image has Open MPI; else build one that has"
                draft.refuse("MPI-IMPL", (*role.main_path, "env", i), message, remedy=remedy)
                return


def _transport(draft: Draft, worker: Role) -> None:
    if not draft.options.image_has_sshd:
        message = "v1 reached its workers by kubectl exec, Trainer does by ssh: the workers' image has to run sshd"
        draft.refuse("MPI-TRANSPORT", worker.main_path, message)
    elif mpi_ssh.user_of(worker):
        message = "sshd of another user than root needs a port, host keys and a configuration of its own"
        remedy = "Write the job as kubeflow.org/v2beta1 first, with the workers' sshd command and sshAuthMountPath"
        draft.refuse("MPI-TRANSPORT", worker.main_path, message, remedy=remedy)
    else:
        message = "ssh takes the place of kubectl exec, and of the variables that were for it"
        draft.say("MPI-TRANSPORT", worker.main_path, message, severity="warning", remedy="Try it")
        _unseen(draft, worker)


def _unseen(draft: Draft, worker: Role) -> None:
    """Kubectl exec starts a process with the variables of the container, sshd with its own (sshd(8), LOGIN PROCESS)."""
    container = worker.container
    names = [str(item.get("name")) for item in container.get("env") or ()]
    held = [*names, *(["those of envFrom"] if container.get("envFrom") else [])]
    if held:
        message = (
            f"ranks on the workers saw the variables of the pod, {', '.join(held)}, which what sshd starts does not"
        )
        remedy = "Give them to the launcher, and to mpirun as -x NAME; or to the workers' sshd as -o SetEnv=NAME=VALUE"
        path = (*worker.main_path, "env" if names else "envFrom")
        draft.say("MPI-TRANSPORT", path, message, severity="warning", remedy=remedy)


def _launcher_is_node(draft: Draft, launcher: Role) -> bool:
    """Whether ranks run in the launcher's pod too, which is then first in v1's hostfile."""
    path: Path = ("spec", "runLauncherAsWorker")
    given = draft.job.spec.get("runLauncherAsWorker")
    if not _by_exec(draft.job):
        if given is None:
            draft.drop(path, "null says nothing")
        else:
            draft.link(path, (*_SPEC, "runLauncherAsNode"))
        return given is True
    gpu = has_gpu(launcher)
    if gpu:
        message = f"ranks run in the launcher too: v1 lists a launcher with {gpu} in the hostfile"
        draft.say("MPI-LAUNCHER-RES", (*launcher.main_path, "resources", "limits"), message)
    return bool(gpu)


def _numbers(draft: Draft, worker: Role, as_node: bool, slots: int) -> bool:
    draft.num_proc = slots
    path = (*worker.path, "replicas")
    if not as_node:
        draft.num_nodes = worker.replicas
        draft.link(path, ("trainer", "numNodes"))
        return True
    if isinstance(worker.replicas, str):
        draft.refuse("PLACEHOLDER", path, "numNodes is workers and launcher together")
        return False
    draft.num_nodes = worker.replicas + 1
    draft.link(path, ("trainer", "numNodes"), "workers and launcher together", exact=False)
    return True


def _parts(draft: Draft, launcher: Role, worker: Role) -> tuple[Part, Part]:
    """Nodes before the launcher, which waits for them."""
    draft.policy = {"mpi": {}}
    nodes = draft.add_part(NODE)
    pods.carry(draft, worker, nodes)
    if _by_exec(draft.job):
        # Its backoffLimit counted the restarts of all pods.
        restarts(draft, worker, nodes, of_a_job=False)
        account(draft, launcher)
    else:
        policy.restarts(draft, worker, nodes, limit=False)
    head = draft.add_part(LAUNCHER, trains=True)
    pods.carry(draft, launcher, head)
    restarts(draft, launcher, head, of_a_job=not _by_exec(draft.job))
    head.depends_on = [{"name": NODE, "status": "Ready"}]
    for role, part in ((worker, nodes), (launcher, head)):
        if part.spec.get("hostNetwork") and not _by_exec(draft.job):
            part.spec["dnsPolicy"] = "ClusterFirstWithHostNet"
            draft.drop((*role.pod_path, "dnsPolicy"), "v1's operator overruled it for pods on the host's network")
    draft.jobset["spec"]["network"] = {"publishNotReadyAddresses": True}
    draft.jobset["spec"]["successPolicy"] = {"operator": "All", "targetReplicatedJobs": [LAUNCHER]}
    draft.outlive = ("Worker",)
    return nodes, head


def _policy(draft: Draft, as_node: bool, slots: int, mount: str) -> None:
    made: dict[str, Any] = {
        "numProcPerNode": slots,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": mount,
        "runLauncherAsNode": as_node,
    }
    draft.policy = {"mpi": made}
    spec = draft.job.spec
    for name in ("sshAuthMountPath", "mpiImplementation"):
        if spec.get(name):
            changed = "" if spec[name] == made[name] else f"mounted at {mount} now"
            draft.link(("spec", name), (*_SPEC, name), changed, exact=not changed)
        else:
            draft.drop(("spec", name), "empty")
    creation: Path = ("spec", "launcherCreationPolicy")
    if spec.get("launcherCreationPolicy") not in (None, "", "AtStartup", "WaitForWorkersReady"):
        draft.refuse("NOT-A-JOB", creation, f"{spec['launcherCreationPolicy']!r} is no launcherCreationPolicy")
    elif spec.get("launcherCreationPolicy"):
        draft.link(
            creation,
            ("runtime", "template", "spec", "replicatedJobs", Key(LAUNCHER), "dependsOn"),
            "the launcher waits until the nodes are ready",
            exact=False,
            otherwise=(Fate.DROPPED, "with a pod group all pods are made at once; ssh tries ten times"),
        )
    else:
        draft.drop(creation, "empty")


def _interactive(draft: Draft, launcher: Role) -> None:
    """The launcher waits for a person: say what the person types now."""
    name = draft.name or "NAME"
    labels = f"{keys.LABEL_JOBSET_NAME}={name},{keys.LABEL_REPLICATED_JOB}={LAUNCHER}"
    typed = f"mpirun --hostfile {mpi_command.HOSTFILE} …"
    space = draft.job.namespace
    at, target = (f" -n {space}", f" --target kubernetes:///{space}") if space else ("", "")
    draft.say(
        "MPI-INTERACTIVE",
        (*launcher.main_path, "command"),
        f"the launcher only waits. Instead of kubectl exec {draft.job.name or 'NAME'}-launcher… type: "
        f"trainer-ops exec {name}{target} -- {typed}, or: kubectl exec{at} -it -c {NODE} "
        f"$(kubectl get pod{at} -o name -l {labels} --field-selector status.phase=Running) -- {typed}",
        remedy="Set spec.activeDeadlineSeconds, or delete the TrainJob at the end: it does not end by itself"
        if "activeDeadlineSeconds" not in draft.job.run_policy
        else "",
    )
