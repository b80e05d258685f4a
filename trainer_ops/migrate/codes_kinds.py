"""The codes of findings that one kind of job alone has. Part of ``codes.CODES``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.code import Code

__all__ = ["KIND_CODES"]

KIND_CODES: Final[Mapping[str, Code]] = {
    "FLUX": Code(
        "a runtime of Flux",
        "refused",
        "Write the TrainJob by hand, or leave --runtime out and use Open MPI",
        "With Trainer's Flux policy there is no launcher, no ssh and no hostfile: every pod starts a broker of Flux, "
        "and the first one runs the command on all of them by flux run, so the command is the program itself and not "
        "mpirun. numNodes has to be given, and the image has to have the MPI that the program was built with. "
        "That is another way to start, which cannot be made from an MPIJob without knowing its image.",
    ),
    "MPI-HOROVOD-HOSTS": Code(
        "horovodrun without hosts",
        "refused",
        "Give horovodrun --hostfile /etc/mpi/hostfile",
        "horovodrun reads neither Open MPI's variables nor its hostfile: without -H or --hostfile it starts all "
        "processes in the launcher. A job that does so trained on one pod in v1 too.",
    ),
    "MPI-HOST-ORDER": Code(
        "rank 0 is on another pod",
        "warning",
        "Look whether rank 0 needs what only the launcher's pod has: volumes, its name",
        "Open MPI 5 gives out ranks in the order of the hostfile that its command names; Open MPI 4 takes the "
        "launcher's host first, as in v1. v1 listed a launcher that is a node too first, Trainer lists it last: the "
        "launcher waits for the nodes, and the hostfile follows the order of starts.",
    ),
    "MPI-INTERACTIVE": Code(
        "a launcher that waits for people",
        "info",
        "Set activeDeadlineSeconds: the training does not end by itself",
        "The launcher sleeps, and mpirun is started in it by kubectl exec. In v2 the pod is found by JobSet's labels, "
        "the container is called node, and trainer-ops exec does both. Its hostfile is the same file.",
    ),
    "MPI-LAUNCHER-ONLY": Code(
        "an MPIJob without workers",
        "warning",
        "",
        "Without workers mpirun starts everything in the launcher. The TrainJob is then one plain pod, without ssh "
        "and hostfile.",
    ),
    "PADDLE-MASTER": Code(
        "where Paddle's nodes meet",
        "info",
        "",
        "paddle.distributed.launch serves the rendezvous on the node of which the address in PADDLE_MASTER is its own "
        "IP address. v1 gave the first pod its own, and the others that pod's name; a line of shell before the "
        "command does it now.",
    ),
    "XGBOOST-GPUS": Code(
        "one XGBoost worker for each GPU",
        "warning",
        "Start one process for each GPU, or read WORLD_SIZE",
        "Trainer sets DMLC_NUM_WORKER to nodes times GPUs, and starts one process on each node. v1 counted pods.",
    ),
}
