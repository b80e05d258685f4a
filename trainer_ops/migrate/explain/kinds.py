"""What one kind alone has: MPI, TensorFlow, Paddle, XGBoost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.explain.entry import Explained

__all__ = ["OF_KINDS"]

OF_KINDS: Final[Mapping[str, Explained]] = {
    "MPI-HOROVOD-ELASTIC": Explained(
        "The operator kept /etc/mpi/discover_hosts.sh up to date, which lists the workers of the moment for "
        "horovodrun.",
        "There is no such script, and the number of nodes is fixed.",
        "horovodrun would find no host.",
        "Train with a fixed number: mpirun, or horovodrun -np N --hostfile /etc/mpi/hostfile.",
    ),
    "MPI-HOROVOD-HOSTS": Explained(
        "horovodrun looks at its own options only; without -H or --hostfile it starts everything in the launcher.",
        "The same.",
        "The training uses one pod of all those that it asks for, in v1 too.",
        "Give the hostfile.",
        "horovodrun -np 4 --hostfile /etc/mpi/hostfile python train.py",
    ),
    "MPI-IMPL": Explained(
        "mpi-operator knew OpenMPI, Intel and MPICH, with a hostfile in the form of each.",
        "Trainer's CRD admits OpenMPI. Flux, another policy, starts programs of any MPI by itself and without mpirun.",
        "A runtime with another name is refused by the API server.",
        "Build the image with Open MPI, or write a Flux runtime by hand.",
        issues=("trainer #3712", "trainer #3717", "trainer #1807"),
    ),
    "MPI-INTERACTIVE": Explained(
        "The launcher sleeps, and people start mpirun in it by kubectl exec.",
        "It works as before: the pod is found by JobSet's labels and its container is called node.",
        "The training does not end by itself, and holds its nodes.",
        "Set activeDeadlineSeconds; enter it with trainer-ops exec.",
        "trainer-ops exec digits --node launcher -- mpirun hostname",
    ),
    "MPI-KEYMODE": Explained(
        "The operator mounted the ssh key with mode 0600.",
        "Trainer mounts it 0640, for a user who reads it by the group. ssh refuses a key of its own user that others "
        "may read: root's, as root owns the file.",
        "mpirun as root reaches no node: UNPROTECTED PRIVATE KEY FILE.",
        "Nothing where the image has sh and install: a line before the command copies the key. Else run as another "
        "user with fsGroup.",
        "mkdir -p /root/.ssh && install -m 600 /mnt/ssh/id_rsa /root/.ssh/id_rsa || exit",
        ("trainer #2716", "trainer #3262", "trainer #3649", "mpi-operator #429"),
    ),
    "MPI-HOST-ORDER": Explained(
        "With runLauncherAsWorker (kubeflow.org/v1: a GPU in the launcher) the launcher was first in the hostfile, and "
        "ranks 0 to slots - 1 ran in it.",
        "JobSet wants what others wait for first, and Trainer writes the hostfile in that order: the nodes, then the "
        "launcher. Open MPI 4 starts with the host that mpirun runs on, wherever it stands. With Open MPI 5 the first "
        "ranks run on the first node, and the launcher has the last ones.",
        "What rank 0 alone writes, such as a model, lands in the volumes of the first node.",
        "With Open MPI 5 give launcher and workers the same volumes, or read the model from the first node.",
    ),
    "MPI-LAUNCHER-ONLY": Explained(
        "Without workers mpirun starts all its processes in the launcher.",
        "The TrainJob is one plain pod, with neither ssh nor hostfile.",
        "mpirun with a hostfile option would not find the file.",
        "Nothing, if the command names no hosts.",
    ),
    "MPI-LAUNCHER-RES": Explained(
        "Launcher and Worker have resources each.",
        "With a launcher of its own spec.trainer.resourcesPerNode is the launcher's; the workers' are in the runtime.",
        "Whoever changes resourcesPerNode to give the workers more changes the launcher.",
        "Change the workers' in the runtime.",
        issues=("trainer #2653",),
    ),
    "MPI-NP": Explained(
        "mpirun -np N starts N processes on the slots of the hostfile.",
        "The hostfile has as many hosts and slots as before, so -np is kept.",
        "It does not follow when numNodes is changed; more processes than slots fail, fewer leave nodes idle.",
        "--drop-np leaves it out where it says what the hostfile says.",
    ),
    "MPI-OMPI5": Explained(
        "The operator named the hostfile by OMPI_MCA_orte_default_hostfile, and images had Open MPI 4.",
        "Trainer does the same, and Open MPI 5 ignores it. The command gets --hostfile, which both understand.",
        "With Open MPI 5 and no hostfile all processes start in the launcher, without an error.",
        "Nothing; keep --hostfile /etc/mpi/hostfile in commands of your own.",
        issues=("trainer #4028",),
    ),
    "MPI-SSHD-CMD": Explained(
        "A worker without a command was given /usr/sbin/sshd -De by the operator.",
        "Trainer gives none, so the runtime says it.",
        "Without it the image's own command would run, and no worker could be reached.",
        "Nothing.",
    ),
    "MPI-TRANSPORT": Explained(
        "MPIJobs of kubeflow.org/v1 reached their workers by kubectl exec; workers slept, and no image had an sshd. "
        "The operator made the launcher a ServiceAccount that was allowed to.",
        "Trainer uses ssh, so workers run sshd. Nobody makes a ServiceAccount.",
        "In an image without sshd the workers fail at once. Ranks on the workers see what mpirun hands on with -x, and "
        "no variable of the pod or the image, as kubectl exec showed them.",
        "Look whether the image can run /usr/sbin/sshd and has a client for the launcher; then --image-has-sshd. Else "
        "add openssh-server to the image. Give the workers' variables to the launcher and to mpirun.",
    ),
    "PADDLE-MASTER": Explained(
        "PADDLE_MASTER was the first pod's own IP address in that pod, and its name in all others.",
        "A line of shell before the command does the same.",
        "The launcher serves the rendezvous where the address is its own: with a name everywhere none would.",
        "Nothing; the image needs sh.",
    ),
    "PS-ROLE": Explained(
        "Parameter servers were a role of the TFJob, and with cleanPodPolicy None ran on after its end.",
        "They are a replicated job of their own in a generated runtime, which is ended with the training.",
        "numNodes changes the workers only; the number of servers, and all of TF_CONFIG, is written down.",
        "Convert again from the v1 job when the numbers change.",
    ),
    "TF-CONFIG": Explained(
        "The operator gave each pod a TF_CONFIG with all addresses and its own task.",
        "Trainer knows no TensorFlow. TrainJob and runtime list it, with v2's addresses; the index is the pod's own.",
        "It is a constant: with another numNodes the nodes wait for ones that are not there, or miss some.",
        "Change it together with numNodes, or convert again from the v1 job.",
        """
        - name: TF_CONFIG
          value: '{"cluster":{"worker":["digits-node-0-0.digits:2222","digits-node-0-1.digits:2222"]},
                   "task":{"type":"worker","index":$(TASK_INDEX)},"environment":"cloud"}'
        """,
        ("trainer #2443", "trainer #2699"),
    ),
    "TF-DYNAMIC": Explained(
        "enableDynamicWorker gave workers a TF_CONFIG that let others come and go.",
        "Nothing in v2 does.",
        "Workers would wait for a cluster that never has the shape they were told.",
        "Remove it and train with a fixed number.",
    ),
    "XGBOOST-GPUS": Explained(
        "WORLD_SIZE counted pods.",
        "Trainer sets DMLC_NUM_WORKER to nodes times GPUs and starts one process on each node.",
        "The tracker waits for workers that nobody starts.",
        "Start one process for each GPU, or go on reading WORLD_SIZE, which the TrainJob lists.",
    ),
}
