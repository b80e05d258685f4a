"""Why the pods of a TrainJob differ from those of its v1 job: a finding names it, or both generations are so.

``ROWS`` is the whole of it. A difference without a row, a row that nothing needs, and a finding of ``SEEN`` of which
nothing is seen, fail the tests.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.controlplane.migration_compare import Unlike

__all__ = ["ROWS", "SEEN", "Row", "row_of"]


@dataclass(frozen=True)
class Row:
    """One reason.

    Attributes:
        topics: patterns.
        why: what to say of it.
        codes: one of them has to be among the job's findings; () for what is so with every job.
        one: pattern of what v1 has, "" for nothing.
        other: pattern of what v2 has.
        command: pattern of the command line in v1.
    """

    topics: tuple[str, ...]
    why: str
    codes: tuple[str, ...] = ()
    one: str = "*"
    other: str = "*"
    command: str = "*"

    def fits(self, found: Unlike, codes: Collection[str], command: str) -> bool:
        """Whether it explains a difference."""
        return (
            any(fnmatchcase(found.topic, topic) for topic in self.topics)
            and fnmatchcase(found.one, self.one)
            and fnmatchcase(found.other, self.other)
            and fnmatchcase(command, self.command)
            and (not self.codes or any(code in codes for code in self.codes))
        )


ROWS = (
    # -- with every job --
    Row(("env JOB_COMPLETION_INDEX", "* env JOB_COMPLETION_INDEX"), "an Indexed Job tells it", one="", other="[0-9]*"),
    Row(("port *",), "what a pod listens on need not be declared: each generation declares its controller's own port"),
    Row(("init init-pytorch",), "v1 waits for the Master's name; in v2 torch waits itself", one="there", other=""),
    Row(("env PET_MASTER_PORT",), "Trainer's", one="23456", other="29500"),
    Row(("env PET_*", "env DMLC_*", "env JAX_*"), "Trainer gives the runtime's own variables too", one=""),
    Row(
        ("env RANK", "env WORLD_SIZE", "env MASTER_ADDR", "env MASTER_PORT"),
        "torchrun tells them to its processes",
        other="",
        command="torchrun *",
    ),
    Row(("volume ssh-auth", "volume mpi-ssh-auth"), "each operator makes a key, and gives it a name of its own"),
    Row(("volume mpi-job-config", "volume mpi-hostfile", "mount /etc/mpi"), "and so the hostfile"),
    Row(("mount *",), "the same path for the key", one='*"ssh-auth"*', other='*"mpi-ssh-auth"*'),
    Row(("pod dnsConfig",), "workers found the launcher's short name, as Intel MPI and MPICH want", other=""),
    # -- named by findings --
    Row(
        ("env MASTER_PORT", "sidecar * env MASTER_PORT"),
        "the port of Trainer's runtimes",
        ("ENV-SHIM",),
        "23456",
        "29500",
    ),
    Row(("env PET_NPROC_PER_NODE",), "torchrun counts CPUs that are asked for", ("CPU-AUTO",), "auto"),
    Row(("env PET_NPROC_PER_NODE",), "python does not read it", ("ENV-SHIM",), "auto", command="python*"),
    Row(("env PET_NPROC_PER_NODE",), "what the image starts may", ("UNSEEN-SCRIPT",), "auto"),
    Row(("env PET_NNODES",), "no range in v2", ("ELASTIC-RANGE",), "*:*"),
    Row(("env PET_RDZV_ENDPOINT",), "the port of Trainer's runtimes", ("RDZV-ENDPOINT",), "*:23456", "*:29500"),
    Row(("sidecar * env PET_*",), "Trainer gives them to the node's container only", ("SIDECAR",), other=""),
    Row(("env TASK_INDEX",), "what TF_CONFIG is made with", ("TF-CONFIG",), ""),
    Row(("env PADDLE_MASTER", "argv"), "rank 0 takes its own address, in a shell", ("PADDLE-MASTER",)),
    Row(("mount /*/.ssh", "mount /mnt/ssh"), "root has its key elsewhere", ("MPI-KEYMODE",)),
    Row(("argv",), "and copied from there", ("MPI-KEYMODE",), other="*install -m 600*"),
    Row(("argv",), "where sshd finds it", ("MPI-KEYMODE",), other="*AuthorizedKeysFile=*"),
    Row(("argv",), "Open MPI 5 reads no OMPI_MCA_orte_*", ("MPI-OMPI5",), other="*--hostfile*"),
    Row(("pod securityContext",), "a user reads the key by its group", ("MPI-KEYMODE",), other="*fsGroup*"),
    Row(("env K_MPI_JOB_ROLE",), "nothing that is seen reads it", ("ENV-SHIM",), other=""),
    Row(("env POD_IP_DUMMY",), "all nodes have what rank 0 needs", ("PADDLE-MASTER",), ""),
)

# Findings that say of pods what can be seen: where one is, a row with its code must be needed.
SEEN = ("ELASTIC-RANGE", "RDZV-ENDPOINT", "TF-CONFIG", "PADDLE-MASTER", "CPU-AUTO", "MPI-KEYMODE")


def row_of(found: Unlike, codes: Collection[str], command: str) -> Row | None:
    """The first row that explains a difference."""
    return next((row for row in ROWS if row.fits(found, codes, command)), None)
