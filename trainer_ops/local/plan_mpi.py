"""MPI on one machine: who has which rank, the hostfile, and the launcher's environment.

Open MPI starts all ranks itself on "localhost". The cluster's way, a daemon per node over ssh, does not work on one
machine: PRRTE 3 tells nodes apart by gethostname(), and its daemons accept no loopback address, so that a machine
without a network could run nothing. But its *exec agent* may be ours: ``mpi_agent`` hands a rank that belongs to
another node over to that node's ``mpi_node``. So every rank is a process of the node that would have it on a cluster,
has that node's environment, and dies with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainer_ops.local.plan_template import Template, refuse
from trainer_ops.local.plan_values import Place
from trainer_ops.model import keys
from trainer_ops.model.runtime import TrainingRuntime

__all__ = ["ENV_NODES", "Mpi", "differing", "mpi_of", "per_host_option"]

# The launcher's environment carries the table of nodes to the agent under this name, as JSON:
# {"dir": folder of the sockets, "slots": ranks of a node, "nodes": [[hostname, socket or ""], ...]} in rank order.
ENV_NODES = "TRAINER_OPS_MPI"

# Run as files: with -m the rank's working folder would come first on the path, and a user's random.py with it.
_FOLDER = __file__.rpartition("/")[0]
_AGENT = f"{_FOLDER}/mpi_agent.py"
_AGENT_MODULE = "-I -m trainer_ops.local.mpi_agent"


def _no_space(path: str, otherwise: str) -> str:
    return otherwise if " " in path else path


@dataclass(frozen=True, slots=True)
class Mpi:
    """The MPI side of a plan.

    Attributes:
        slots: ranks of a node.
        hosts: the lines a cluster's hostfile would have, in its order.
        nodes: (hostname, socket) in rank order; the launcher, which is first where it is a node, has no socket.
        folder: of the hostfile and the sockets.
        python: runs the agent and the nodes.
    """

    slots: int
    hosts: tuple[str, ...]
    nodes: tuple[tuple[str, str], ...]
    folder: str
    python: str

    @property
    def hostfile_path(self) -> str:
        """Where the hostfile is; stands for ``/etc/mpi/hostfile``."""
        return f"{self.folder}/hostfile"

    @property
    def hostfile(self) -> str:
        """One host with all the slots, so that ``-np`` finds too few of them exactly where a cluster would."""
        shown = "".join(f"# {host} slots={self.slots}\n" for host in self.hosts)
        return f"# The nodes of this job are process groups of one machine:\n{shown}localhost slots={self.total}\n"

    @property
    def total(self) -> int:
        """Ranks of an ``mpirun`` without ``-np``."""
        return self.slots * len(self.nodes)

    def socket(self, hostname: str) -> str:
        """The socket of a node's ``mpi_node``."""
        return f"{self.folder}/{dict(self.nodes)[hostname]}"

    def node_argv(self, hostname: str, own: Sequence[str]) -> tuple[str, ...]:
        """The stand-in for sshd; ``own`` are the variables that a rank takes from the node, not from the launcher."""
        return (self.python, f"{_FOLDER}/mpi_node.py", self.socket(hostname), *own)

    def trainer_env(self) -> dict[str, str]:
        """What Trainer's plugin adds to the launcher (v2.3.0), with the hostfile's place on this machine."""
        return {
            "OMPI_MCA_orte_default_hostfile": self.hostfile_path,
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_set_default_slots": str(self.slots),
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        }

    def engine_env(self) -> dict[str, str]:
        """What makes ``mpirun`` work here; everything in it can be overridden by ``spec.trainer.env``.

        Open MPI 4 reads OMPI_MCA_orte_*, 5 reads PRTE_MCA_* (trainer #4028). The agent is split at spaces by both.
        """
        agent = f"{_no_space(self.python, self.python.rpartition('/')[2])} {_no_space(_AGENT, _AGENT_MODULE)}"
        nodes = {"dir": self.folder, "slots": self.slots, "nodes": self.nodes}
        root = {f"{who}_ALLOW_RUN_AS_ROOT{tail}": "1" for who in ("OMPI", "PRTE") for tail in ("", "_CONFIRM")}
        return {
            ENV_NODES: json.dumps(nodes, separators=(",", ":")),
            "PRTE_MCA_prte_default_hostfile": self.hostfile_path,
            "PRTE_MCA_odls_base_exec_agent": agent,
            "OMPI_MCA_orte_fork_agent": agent,
            # All nodes share the cores: binding would put the ranks of all nodes on the same ones or refuse to start.
            "PRTE_MCA_hwloc_default_binding_policy": "none",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            # More ranks than cores must not spin against each other.
            "OMPI_MCA_mpi_yield_when_idle": "1",
            **root,
        }


def mpi_of(
    job: str, subdomain: str, templates: Sequence[Template], runtime: TrainingRuntime, slots: int, place: Place
) -> Mpi | None:
    """The MPI side of a job; None for other policies.

    Raises:
        InvalidRequest: a runtime whose launcher would hang on a cluster, or that has no place for a rank.
    """
    if runtime.policy != "mpi":
        return None
    if runtime.num_nodes > 1:
        raise refuse(
            f'runtime "{runtime.name}": spec.mlPolicy.numNodes',
            f"{runtime.num_nodes} would make that many launchers, which hang",
            "Write 1 and give the nodes in spec.trainer.numNodes.",
        )
    pods: dict[str, list[str]] = {
        t.name: [f"{job}-{t.name}-0-{i}" for i in range(t.count)]
        for t in templates
        if t.name == keys.STEP_NODE or (t.name == keys.STEP_LAUNCHER and runtime.run_launcher_as_node)
    }
    hosts = tuple(f"{host}.{subdomain}" for names in pods.values() for host in names)
    if not hosts:
        raise refuse(f'runtime "{runtime.name}"', "an MPI runtime needs a job named node", "Add it to replicatedJobs.")
    # mpirun's own host comes first in its node pool, wherever the hostfile has it: rank 0 is on the launcher.
    nodes = [(host, "") for host in pods.get(keys.STEP_LAUNCHER, ())]
    nodes += [(host, f"node-{i}.sock") for i, host in enumerate(pods.get(keys.STEP_NODE, ()))]
    return Mpi(slots, hosts, tuple(nodes), f"{place.job_dir}/mpi", place.python)


# mpirun's options that count ranks by host, and those of its options that take a value (two for -mca and its kin).
_PER_HOST = ("-N", "-npernode", "--npernode", "-pernode", "--pernode", "-npersocket", "--npersocket")
_ONE_VALUE = (
    "np",
    "n",
    "c",
    "x",
    "H",
    "wd",
    "wdir",
    "path",
    "host",
    "hostfile",
    "machinefile",
    "default-hostfile",
    "map-by",
    "bind-to",
    "rank-by",
    "output",
    "prefix",
)
_TWO_VALUES = ("mca", "omca", "gmca", "pmca", "prtemca", "pmixmca", "gpmixmca")


def per_host_option(words: Sequence[str]) -> str | None:
    """An option by which mpirun would start fewer ranks here than on a cluster; None when there is none.

    Only mpirun's own words are looked at: what comes after the program belongs to the program.
    """
    start = next((i for i, w in enumerate(words) if w.rpartition("/")[2] in ("mpirun", "mpiexec", "prterun")), None)
    i = len(words) if start is None else start + 1
    while i < len(words) and words[i].startswith("-"):
        word, name = words[i], words[i].lstrip("-")
        value = words[i + 1] if i + 1 < len(words) else ""
        if word in _PER_HOST or (name == "map-by" and value.startswith("ppr:")):
            return f"{word} {value}" if name != "pernode" else word
        i += 3 if name in _TWO_VALUES else 2 if name in _ONE_VALUE else 1
    return None


def differing(node: Mapping[str, str], launcher: Mapping[str, str]) -> list[str]:
    """Names whose value a rank on the node must take from the node: what the two containers do not share."""
    return sorted(name for name, value in node.items() if launcher.get(name) != value)
