"""Why the pods of a TrainJob differ from those of its v1 job: a finding names it, or both generations are so.

``ROWS`` is the whole of it. A difference without a row, a row that nothing needs, and a finding of ``SEEN`` of which
nothing is seen, fail the tests.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.controlplane.migration_compare import Unlike

__all__ = ["ROWS", "SEEN", "UNSEEN", "Row", "sorted_out"]


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
        seat: pattern of the pods.
        reworded: what v1's command line has and what v2's has for it.
        script: the words of v1's command line are in the text of a script.
    """

    topics: tuple[str, ...]
    why: str
    codes: tuple[str, ...] = ()
    one: str = "*"
    other: str = "*"
    command: str = "*"
    seat: str = "*"
    reworded: tuple[tuple[str, str], ...] = ()
    script: bool = False

    def fits(self, found: Unlike, codes: Collection[str], command: str) -> bool:
        """Whether it explains a difference."""
        return (
            any(fnmatchcase(found.topic, topic) for topic in self.topics)
            and fnmatchcase(found.one, self.one)
            and fnmatchcase(found.other, self.other)
            and fnmatchcase(command, self.command)
            and fnmatchcase(found.seat, self.seat)
            and (not self.codes or any(code in codes for code in self.codes))
            and (found.topic != "argv" or self._holds(found))
        )

    def _holds(self, found: Unlike) -> bool:
        """A command line may get words, it loses none but those that are reworded."""
        rest = iter(json.loads(found.other))
        if self.script:
            rest = iter([word for text in json.loads(found.other) for word in text.split()])
        for word in json.loads(found.one):
            for old, new in self.reworded:
                word = word.replace(old, new)
            if word not in rest:
                return False
        return True


_RENDEZVOUS = ("env RANK", "env WORLD_SIZE", "env MASTER_ADDR", "env MASTER_PORT")
_HOSTFILE = '{"key": "hostfile", "mode": 292, "path": "hostfile"}'
_OF_MPI = ("volume mpi-ssh-auth secret.*", "volume mpi-hostfile configMap.*")
_OBJECTIVE = "objective:multi:softprob,num_class:3"
_AFFINITY = '{{"podAntiAffinity": *{{"{}": "on-hosts"}}*'

ROWS = (
    # -- with every job --
    Row(("env JOB_COMPLETION_INDEX", "* env JOB_COMPLETION_INDEX"), "an Indexed Job tells it", one="", other="[0-9]*"),
    Row(("port *",), "v1 declared its rendezvous' port", one='{"name": "*job-port"}', other=""),
    Row(("port *",), "and Paddle's", one='{"name": "master"}', other=""),
    Row(("port 29500",), "Trainer its own", one="", other="{}"),
    Row(("init init-pytorch",), "v1 waits for the Master's name; in v2 torch waits itself", one="there", other=""),
    Row(("env PET_MASTER_PORT",), "Trainer's", one="23456", other="29500"),
    Row(("env PET_*", "env DMLC_*", "env JAX_*"), "Trainer gives the runtime's own variables too", one=""),
    *(
        Row(_RENDEZVOUS, "torchrun tells them to its processes", other="", command=command)
        for command in ("torchrun *", "bash -c *\ntorchrun *")
    ),
    Row(
        ("annotation scheduling.k8s.io/group-name",),
        "with its flag for gang scheduling v1's operator gave it, too",
        one="",
        other="*-or-none",
    ),
    Row(("env PET_NNODES",), "torchrun reads both as three at least and three at most", one="3:3", other="3"),
    Row(("volume mpi-ssh-auth secret.secretName",), "each operator makes a key", one="*-ssh", other="*-mpi-ssh-auth"),
    Row(("volume mpi-hostfile configMap.name",), "and a hostfile", one="*-config", other="*-mpi-hostfile"),
    Row(
        ("volume mpi-hostfile configMap.items",),
        "without elastic Horovod nobody runs discover_hosts.sh",
        one=f"[[]{_HOSTFILE}, {{*discover_hosts.sh*}}]",
        other=f"[[]{_HOSTFILE}]",
    ),
    Row(
        ("pod dnsConfig",),
        "workers found the launcher's short name, as Intel MPI and MPICH want",
        one='{"searches": [[]"*.svc.cluster.local"]}',
        other="",
        seat="host *",
    ),
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
    Row(("env PET_NPROC_PER_NODE",), "a number for the word", ("NPROC-TEXT",), "gpu", "[0-9]*"),
    Row(("env PET_NNODES",), "no range in v2", ("ELASTIC-RANGE",), "[0-9]*:[0-9]*", "[0-9]*"),
    Row(("env PET_RDZV_ENDPOINT",), "the port of Trainer's runtimes", ("RDZV-ENDPOINT",), "*:23456", "*:29500"),
    Row(("sidecar * env PET_*",), "Trainer gives them to the node's container only", ("SIDECAR",), other=""),
    Row(("sidecar node name",), "Trainer's container is called so", ("SIDECAR-NAME",), "node", "node-sidecar"),
    Row(
        ("pod affinity",),
        "the label that all pods of the training have",
        ("LABEL-SELECTOR",),
        _AFFINITY.format("training.kubeflow.org/job-name"),
        _AFFINITY.format("jobset.sigs.k8s.io/jobset-name"),
    ),
    Row(("env TRAINJOB_NAME",), "what addresses are made with", ("GENERATE-NAME",), "", "sweep-*"),
    Row(("pod priorityClassName",), "Trainer takes the group's from its pods", ("GANG-PRIORITY",), "", "high"),
    Row(("env TASK_INDEX",), "what TF_CONFIG is made with", ("TF-CONFIG",), ""),
    Row(("env PADDLE_MASTER", "argv"), "rank 0 takes its own address, in a shell", ("PADDLE-MASTER",)),
    Row(("env POD_IP_DUMMY",), "all nodes have what rank 0 needs", ("PADDLE-MASTER",), ""),
    Row(
        ("container resources",),
        "the Worker's pod is rank 0 too",
        ("ROLE-DIFF",),
        '{"limits": {"cpu": "2", *',
        '{"limits": {"cpu": "8", *"nvidia.com/gpu": "1"*',
        seat="rank 0",
    ),
    Row(("argv",), "one script for both roles", ("ROLE-DIFF",), other="*if [[] *$PET_NODE_RANK*", script=True),
    Row(("env QUIET",), "exported by the script", ("ROLE-DIFF",), other="", seat="rank [12]"),
    Row(("argv",), "quotes as the Master has them", ("ROLE-DIFF",), reworded=((f'"{_OBJECTIVE}"', _OBJECTIVE),)),
    Row(
        ("argv",),
        "as a number of nodes, not of processes",
        ("TORCHRUN-FLAGS",),
        reworded=(("--nnodes=$WORLD_SIZE", "--nnodes=$PET_NNODES"),),
    ),
    Row(("volume mpi-ssh-auth secret.*",), "Trainer's key has mode 0640", ("MPI-KEYMODE",), other="*[0-9]*"),
    Row(("mount /*/.ssh", "mount /mnt/ssh"), "root has its key elsewhere", ("MPI-KEYMODE",)),
    Row(("argv",), "and copied from there", ("MPI-KEYMODE",), other="*install -m 600*"),
    Row(("argv",), "where sshd finds it", ("MPI-KEYMODE",), other="*AuthorizedKeysFile=*"),
    Row(("pod securityContext",), "a user reads the key by its group", ("MPI-KEYMODE",), other="*fsGroup*"),
    Row(("argv",), "Open MPI 5 reads no OMPI_MCA_orte_*", ("MPI-OMPI5",), other="*--hostfile*"),
    Row(("env K_MPI_JOB_ROLE",), "nothing that is seen reads it", ("ENV-SHIM",), other=""),
    Row(
        ("hostfile",),
        "JobSet wants the nodes first, for which the launcher waits",
        ("MPI-HOST-ORDER",),
        "{launcher} slots=2\n{host 0} slots=2\n{host 1} slots=2",
        "{host 0} slots=2\n{host 1} slots=2\n{launcher} slots=2",
    ),
    Row(("nodes",), "the launcher is the node", ("MPI-LAUNCHER-ONLY",), "0", "1"),
    Row(
        (*("env K_MPI_JOB_ROLE", "env OMPI_MCA_*", "mount /root/.ssh", "mount /etc/mpi"), *_OF_MPI),
        "nothing to reach and no hostfile",
        ("MPI-LAUNCHER-ONLY",),
        other="",
    ),
)

# Findings that say of pods what can be seen: where one is, a row with its code must be needed.
SEEN = (
    *("CPU-AUTO", "ELASTIC-RANGE", "GANG-PRIORITY", "GENERATE-NAME", "LABEL-SELECTOR", "MPI-HOST-ORDER"),
    *("MPI-KEYMODE", "MPI-LAUNCHER-ONLY", "NPROC-TEXT", "PADDLE-MASTER", "RDZV-ENDPOINT", "ROLE-DIFF"),
    *("SIDECAR-NAME", "TF-CONFIG", "TORCHRUN-FLAGS"),
)
# Of these jobs such a finding tells what is not seen in their pods.
UNSEEN = {
    # As many pods as its replicas, and training-operator tells Paddle no range.
    ("paddle-gpu", "ELASTIC-RANGE"),
    # The port is the job's own, and the host is the same seat.
    ("pytorch-elastic-fixed", "RDZV-ENDPOINT"),
    # The pods are the same; what becomes of them when they fail is not.
    ("lightgbm", "ROLE-DIFF"),
}


def sorted_out(
    found: Iterable[Unlike], codes: Collection[str], command: str, rows: Sequence[Row] = ROWS
) -> tuple[set[Row], list[str]]:
    """The rows that explain differences, the first that fits each; and the differences that none does.

    Args:
        found: all of a job.
        codes: of its findings.
        command: its command line in v1.
        rows: to look through.
    """
    used, unexplained = set(), []
    for one in found:
        row = next((row for row in rows if row.fits(one, codes, command)), None)
        if row is None:
            unexplained.append(str(one))
        else:
            used.add(row)
    return used, unexplained
