"""Nodes: how many, how they find each other, what starts on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.explain.entry import Explained

__all__ = ["OF_NODES"]

OF_NODES: Final[Mapping[str, Explained]] = {
    "CPU-AUTO": Explained(
        "nprocPerNode auto (also when it is left out) reached torchrun as it is: without a GPU it starts one process "
        "for each CPU that it sees, which are those of the host.",
        "Trainer turns it into a number when the TrainJob is made: the CPUs that the container requests, else its "
        "limit, at least 1.",
        "The number of processes, and with it the global batch size and the learning that comes of it, changes.",
        "Write the number of processes that is wanted into nprocPerNode, or let the container request as many CPUs.",
        'spec:\n  nprocPerNode: "4"',
    ),
    "ELASTIC-RANGE": Explained(
        "elasticPolicy with minReplicas below maxReplicas let a PyTorchJob train with any number of workers between "
        "them; metrics scaled it while it ran.",
        "A TrainJob has a fixed numNodes, all of which have to be there.",
        "A job that started with two of eight free nodes waits for eight now; one that shrank when a node was lost "
        "starts again.",
        "Most manifests carry a range that was never used: --pin-elastic replicas keeps what they asked for. min, max "
        "and a number are the alternatives.",
        "trainer-ops migrate --pin-elastic replicas jobs/",
        ("trainer #2903", "trainer #3559"),
    ),
    "ENV-SHIM": Explained(
        "The operator put variables into every container: MASTER_ADDR, RANK and WORLD_SIZE (PyTorchJob, XGBoostJob), "
        "COORDINATOR_ADDRESS and PROCESS_ID (JAXJob), PADDLE_* (PaddleJob).",
        "Trainer gives PET_* for torchrun, JAX_* and DMLC_* only. The converted TrainJob lists v1's variables itself, "
        "with v2's addresses; the rank comes from the pod's completion index.",
        "Without them a script that reads RANK trains alone on each node, N times the same, and nothing fails.",
        "Nothing has to be done. WORLD_SIZE and lists of addresses are constants there: change them together with "
        "numNodes. Code that is started by torchrun, or reads the new names, can do without: --no-env-shim.",
        """
        env:
          - {name: MASTER_ADDR, value: digits-node-0-0.digits}
          - {name: WORLD_SIZE, value: "4"}
          - name: RANK
            valueFrom:
              fieldRef:
                fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
        """,
        ("trainer #3277",),
    ),
    "HOST-LITERAL": Explained(
        "Pods and their services were called JOB-master-0, JOB-worker-0 and so on.",
        "Nodes are reached as JOB-node-0-N.JOB. Such names in commands and variables are rewritten.",
        "A name that is left over is found by no DNS, and the nodes wait for each other until a time-out.",
        "Look for host names where the conversion cannot: in the image, in a mounted ConfigMap, in a script.",
        "--master_addr=digits-master-0   becomes   --master_addr=digits-node-0-0.digits",
    ),
    "MPI-BACKEND": Explained(
        "A PyTorchJob starts the same command in every pod and no mpirun over them, so torch's mpi backend found one "
        "rank in each.",
        "The same.",
        "N pods train alone, as they did before.",
        "Use gloo or nccl, or make it a training that mpirun starts (the runtime torch-distributed has none).",
    ),
    "NPROC-TEXT": Explained(
        "nprocPerNode was text, and gpu and cpu are words of torchrun for the number of devices that it finds.",
        "numProcPerNode is a whole number. gpu becomes the number of GPUs in the limits, or "
        "--nproc_per_node=gpu in the torchrun command.",
        "A number does not follow when somebody gives the job other devices.",
        "Change numProcPerNode together with the limits.",
    ),
    "RDZV-ENDPOINT": Explained(
        "For elastic jobs the operator set PET_RDZV_BACKEND, PET_RDZV_ENDPOINT (worker 0), PET_RDZV_ID, PET_RDZV_CONF "
        "and PET_MAX_RESTARTS.",
        "Trainer sets none of them. The TrainJob lists them, with the address of its first node.",
        "With --rdzv_backend=c10d and no endpoint every node meets itself at localhost and none of the others.",
        "Nothing, unless the rendezvous is at an etcd of your own: look whether its address is still right.",
        '- {name: PET_RDZV_ENDPOINT, value: "digits-node-0-0.digits:29500"}',
    ),
    "RESERVED-ENV": Explained(
        "A job could set PET_NNODES and its like itself, beside what the operator gave.",
        "Trainer's webhook refuses a TrainJob that sets a variable which its policy sets: five PET_* with torch, "
        "DMLC_* with XGBoost, four OMPI_MCA_* with MPI.",
        "The TrainJob would not be created.",
        "Remove the variable; Trainer gives it. A value that has to differ belongs into the command, where options "
        "win over variables.",
        "torchrun --nproc_per_node=2 train.py     # instead of PET_NPROC_PER_NODE=2",
    ),
    "ROLE-DIFF": Explained(
        "Master and Worker are two pod templates, which may differ in image, resources, command and anything else.",
        "Trainer numbers the nodes of one template only. Roles that are the same become one; roles that differ cannot "
        "meet in one rendezvous.",
        "Two replicated jobs would be two trainings: node counts and ranks are worked out for one of them.",
        "Make them the same where they need not differ. --template-from master or worker takes one of the two pods "
        "for all; --role-branch keeps differing commands and variables, by a line of shell that looks at the rank.",
        "sh -c 'if [ \"$PET_NODE_RANK\" = 0 ]; then exec python lead.py; else exec python follow.py; fi'",
        ("trainer #2800",),
    ),
    "TORCHRUN-FLAGS": Explained(
        "Commands passed what the operator gave on to torchrun: --nnodes=$WORLD_SIZE --node_rank=$RANK and so on.",
        "Options on the command line win over PET_*. Those that were right in v1 only are rewritten or taken out.",
        "WORLD_SIZE counts processes as soon as nprocPerNode is a number; as --nnodes it asks for nodes that never "
        "come.",
        "Compare the command in the report. The shortest that is right is torchrun without any of these options.",
        "torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK train.py   becomes   torchrun train.py",
    ),
    "UNSEEN-SCRIPT": Explained(
        "What the job starts is a script of the image, a shell script, or the image's own entry point.",
        "The same is started, with v1's variables. What is written in it is not seen by the conversion.",
        "It may name v1's hosts, ports or labels, or read files that only v1's operator mounted.",
        "Look into it once for -master-0, -worker-0, 23456 and training.kubeflow.org.",
    ),
    "XPU-PROC": Explained(
        "nprocPerNode auto left it to torchrun, which knows GPUs only; for other accelerators the number was given.",
        "Trainer counts resources with gpu in their name. For MIG slices, TPU, Gaudi or Neuron the number of processes "
        "follows the CPUs.",
        "More or fewer processes than devices: they share one, or leave some idle.",
        "Set nprocPerNode to the number of devices of a node.",
    ),
}
