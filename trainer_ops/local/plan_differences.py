"""What is not as on a cluster with Trainer 2.3: what a process finds (``FOUND``), and what is done (``DONE``).

``FOUND`` is complete: tests/controlplane/test_environment.py starts the same TrainJobs on a real control plane,
compares every variable, argument and label, and fails for a difference without a row and for a row without a use.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DONE", "FOUND", "Difference"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that a process finds otherwise.

    Attributes:
        what: ``env NAME``; ``machine NAME``, a variable of this machine that the pod does not set; ``fieldRef PATH``,
            a variable with that source, whatever its name; ``label NAME`` and ``annotation NAME``, as a fieldRef reads
            them; ``text``, wherever it stands in a value or an argument; ``argv STEP``; ``hostfile``.
        cluster: the value on a cluster; None where there is none.
        engine: the value here; None where there is none.
        why: the reason.

    In all three ``*`` is any text. In the values ``{job}`` is the TrainJob's name, ``{host}`` a pod's name in the DNS,
    ``{folder}`` the TrainJob's folder, ``{port}`` its port.
    """

    what: str
    cluster: str | None
    engine: str | None
    why: str


_HERE = "all nodes are on this machine, and pod names are in no DNS"
_PORT = "two trainings of one machine must not share a port; each has its own, chosen at its start"
_ROOT = "Trainer's images run as a user of their own, here it may be root, and mpirun then asks to be told twice"
_NO_FILE = "the ConfigMap is not mounted at /etc/mpi, the file is in the TrainJob's folder"
_BIND = "all nodes share the cores: bound, they would be on the same ones, or mpirun would refuse"
_AGENT = "hands each rank to the node that would have it on a cluster"
_NAMED = "told under names of our own, so that code need not know the paths"
_UID = "plans are made before there are objects, and nothing of a training should depend on their uids"

FOUND: tuple[Difference, ...] = (
    # The policies' own
    Difference("env PET_MASTER_ADDR", "{job}-node-0-0.{job}", "127.0.0.1", _HERE),
    Difference("env PET_MASTER_PORT", "29500", "{port}", _PORT),
    Difference("env JAX_COORDINATOR_ADDRESS", "{job}-node-0-0.{job}:29500", "127.0.0.1:{port}", f"{_HERE}; {_PORT}"),
    Difference("env DMLC_TRACKER_URI", "{job}-node-0-0.{job}", "127.0.0.1", _HERE),
    Difference("env DMLC_TRACKER_PORT", "29500", "{port}", _PORT),
    # MPI
    Difference("env OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile", "{folder}/mpi/hostfile", _NO_FILE),
    Difference(
        "env PRTE_MCA_prte_default_hostfile",
        None,
        "{folder}/mpi/hostfile",
        "Open MPI 5 reads none of the names that Trainer sets (trainer #4028)",
    ),
    Difference(
        "hostfile",
        "{host} slots=*",
        "localhost slots=*",
        "to mpirun the nodes are one host with all their slots; the cluster's lines are in its comments",
    ),
    Difference(
        "argv node",
        "/usr/sbin/sshd *",
        "*/mpi_node.py *",
        "a stand-in for sshd, whatever the command says: ranks come over a socket, and no key is needed",
    ),
    Difference("env OMPI_MCA_orte_fork_agent", None, "*mpi_agent*", _AGENT),
    Difference("env PRTE_MCA_odls_base_exec_agent", None, "*mpi_agent*", _AGENT),
    Difference("env TRAINER_OPS_MPI", None, '{"dir":*', "the table of nodes, for that agent"),
    Difference("env OMPI_MCA_hwloc_base_binding_policy", None, "none", _BIND),
    Difference("env PRTE_MCA_hwloc_default_binding_policy", None, "none", _BIND),
    Difference("env OMPI_MCA_mpi_yield_when_idle", None, "1", "more ranks than cores must not spin"),
    Difference("env OMPI_ALLOW_RUN_AS_ROOT*", None, "1", _ROOT),
    Difference("env PRTE_ALLOW_RUN_AS_ROOT*", None, "1", _ROOT),
    # What the machine is
    Difference(
        "machine *",
        None,
        "*",
        "the submitter's variables, without those of another training and of Airflow; an image brings its own",
    ),
    Difference("env KUBERNETES_*", "*", None, "there is no API server; in a pod, the submitter's own are handed on"),
    Difference("fieldRef metadata.name", "{job}-*-?????", "{job}-*-?????", "the tail is drawn anew for every pod"),
    Difference("fieldRef spec.nodeName", "*", "*", "the node is this machine"),
    Difference("fieldRef status.podIP*", "*", "127.0.0.1", _HERE),
    Difference("fieldRef status.hostIP*", "*", "127.0.0.1", _HERE),
    Difference("label *controller-uid", "*", None, _UID),
    Difference("label jobset.sigs.k8s.io/jobset-uid", "*", None, _UID),
    Difference("annotation jobset.sigs.k8s.io/jobset-uid", "*", None, _UID),
    # Paths and names in what the user wrote
    Difference("text", "{host}", "127.0.0.1", _HERE),
    Difference("text", "/etc/mpi/hostfile", "{folder}/mpi/hostfile", _NO_FILE),
    Difference("text", "/workspace/dataset", "{folder}/workspace/dataset", "the initializer's volume is a folder"),
    Difference("text", "/workspace/model", "{folder}/workspace/model", "the initializer's volume is a folder"),
    # Ours
    Difference(
        "env TRAINER_OPS_RESULT_PATH", None, "{folder}/results/*", "a cluster has /dev/termination-log, one in each pod"
    ),
    Difference(
        "env TRAINER_OPS_CHECKPOINT_DIR",
        None,
        "*",
        "this machine has a place that outlives the TrainJob; a cluster needs to be told one (checkpoint_dir)",
    ),
    Difference("env TRAINER_OPS_DATASET_DIR", None, "{folder}/workspace/dataset", f"{_NAMED}; here in every container"),
    Difference("env TRAINER_OPS_MODEL_DIR", None, "{folder}/workspace/model", f"{_NAMED}; here in every container"),
    Difference(
        "env KUBEFLOW_TRAINER_SERVER_*",
        None,
        "*",
        "a cluster has them only with the feature gate TrainJobStatus",
    ),
    Difference("argv *-initializer", "*", "*://*", "the image's own program is not here: the engine's fetches"),
)

# (name, how and why): what the engine does otherwise.
DONE: tuple[tuple[str, str], ...] = (
    ("image", "not used: this machine's programs run, the interpreter's own folder first in PATH"),
    ("entrypoint", "unknown without the image: a TrainJob that has no command and no args is refused"),
    ("ports", "where code has 29500 built in, two trainings collide"),
    ("rewriting", "paths and pod names are rewritten in command, args and env; in files and in code they stay"),
    ("order", "what spec.trainer.env sees of DMLC_* is chance on a cluster (a Go map's order); here it sees none"),
    ("volumes", "only hostPath and Trainer's initializer volume"),
    ("initializers", "fetch file:// and hf://; every built-in runtime has them, unlike Trainer's (trainer #2886)"),
    ("secrets", "there are no Secrets and ConfigMaps: references that are not optional are refused"),
    ("fields", "a fieldRef to metadata.uid is refused"),
    ("resources", "not reserved, not limited; but PET_NPROC_PER_NODE, DMLC_NUM_WORKER and MPI's slots follow them"),
    ("scheduling", "nodeSelector, affinity, tolerations, gang scheduling and securityContext have no meaning"),
    ("restarts", "built-in runtimes restart nothing without max_restarts; Trainer's restart six times"),
    ("orphans", "what the first process leaves behind has the rest of the grace period; a cluster kills it at once"),
    ("probes", "probes and lifecycle hooks are not run: a container is ready once it runs"),
    ("torchtune", "`tune run` without a recipe is refused: Trainer completes it from its own images"),
    ("mpi hosts", "one host with all the slots: --host chooses none, MPI_COMM_TYPE_SHARED is everybody, -N is refused"),
    ("mpi env", "every variable of the launcher reaches every rank; over ssh only those named by -x would"),
)
