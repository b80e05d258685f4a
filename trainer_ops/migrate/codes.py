"""The codes of findings: a contract that scripts and reviews refer to. None is renamed or used for something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.code import Code
from trainer_ops.migrate.codes_files import FILE_CODES
from trainer_ops.migrate.codes_kinds import KIND_CODES
from trainer_ops.migrate.codes_pods import POD_CODES
from trainer_ops.migrate.codes_scan import SCAN_CODES

__all__ = ["CODES", "Code"]


_OF_JOBS: Final[Mapping[str, Code]] = {
    "ALWAYS": Code(
        "a pod that ends well is not started again",
        "warning",
        "Let the code itself go on",
        "v1's restartPolicy Always started a container again also after exit code 0. Jobs, of which TrainJobs "
        "are made, know OnFailure and Never only.",
    ),
    "BACKOFF": Code(
        "how often a failing pod is tried again",
        "info",
        "Set backoffLimit",
        "v1 added up the restarts of all running pods and compared them with runPolicy.backoffLimit, and "
        "without one restarted for ever. In v2 each Job has a backoffLimit of its own: 6 in a stock runtime, "
        "what the job says in a generated one.",
    ),
    "CLEANUP": Code(
        "what becomes of pods at the end",
        "warning",
        "Delete the TrainJob when its pods are to go",
        "v1's cleanPodPolicy said which pods go when a job ends. JobSet has one rule, that of Running: pods "
        "that still run are ended, finished ones stay until the TrainJob is deleted.",
    ),
    "CONTAINER-NAME": Code(
        "no container with the usual name",
        "warning",
        "Name the container with the code as v1 wants",
        "v1's webhook refuses a job without a container of the usual name, such as pytorch. The first "
        "container is taken here.",
    ),
    "CPU-AUTO": Code(
        "number of processes on a node without GPU",
        "warning",
        "Set nprocPerNode to the number that is wanted",
        "With nprocPerNode auto and no GPU torchrun starts one process for each CPU of the host in v1. "
        "Trainer sets the number to the CPUs that the container requests, at least 1.",
    ),
    "DEADLINE": Code(
        "when the time limit begins",
        "info",
        "Add the time that is spent in queues",
        "v1 counted activeDeadlineSeconds from the first pod, v2 from the creation or the last resumption; at "
        "its end v2 deletes the pods with their logs. 0 was allowed in v1 and is not in v2.",
    ),
    "ELASTIC-RANGE": Code(
        "a number of nodes that changes",
        "refused",
        "Give --pin-elastic min, max, replicas or a number",
        "v1 could run a PyTorchJob with any number of workers between minReplicas and maxReplicas, and scale "
        "it. Trainer up to 2.3 has fixed numbers only (trainer #2903).",
    ),
    "ENV-SHIM": Code(
        "variables of v1 given by the TrainJob",
        "info",
        "Read PET_* or start by torchrun, then --no-env-shim",
        "v1's operator gave the code variables, such as RANK and MASTER_ADDR, that Trainer does not give. The "
        "TrainJob lists them itself; WORLD_SIZE and lists of addresses follow numNodes, so change them with "
        "it.",
    ),
    "EXITCODE": Code(
        "exit codes that are worth a retry",
        "warning",
        "",
        "v1's restartPolicy ExitCode failed the job for 1 to 127 and made a new pod for 128 to 255. The "
        "generated runtime says it with restartPolicy Never and a podFailurePolicy.",
    ),
    "GANG-DEPENDS": Code(
        "no order of start with a pod group",
        "info",
        "",
        "A pod group waits until all its pods exist, and dependsOn keeps some from being made: together "
        "nothing would start.",
    ),
    "GANG-FLAG": Code(
        "gang scheduling is not in the job",
        "warning",
        "Give --gang volcano or --gang coscheduling if the operator had it on",
        "v1 switched gang scheduling on with a flag of the operator, for every job; schedulingPolicy only "
        "refines it. In v2 the runtime says it.",
    ),
    "GANG-MIN": Code(
        "a group smaller than the job",
        "refused",
        "Give --drop GANG-MIN: the group is then all pods",
        "v1's minAvailable let a job start with a part of its pods. Trainer's pod group is always all of them.",
    ),
    "GENERATE-NAME": Code(
        "the name is not known",
        "warning",
        "Create it with kubectl create, or give it a name",
        "With generateName addresses cannot be written down; a variable TRAINJOB_NAME reads the name from the "
        "pod's label.",
    ),
    "HOST-LITERAL": Code(
        "addresses of v1's pods",
        "info",
        "",
        "v1's pods were called JOB-master-0 and JOB-worker-N; v2's are JOB-node-0-N.JOB. Names found in "
        "commands and variables are rewritten; what is in the image, or in a ConfigMap, is not seen.",
    ),
    "HOST-NETWORK": Code(
        "ports on the host's network",
        "warning",
        "Keep pods of one training on hosts of their own",
        "With hostNetwork every pod of the training listens on the same port of its host.",
    ),
    "LABEL-SELECTOR": Code(
        "selectors of v1's labels",
        "warning",
        "Rewrite it with jobset.sigs.k8s.io/ labels",
        "v1's operator labelled pods with training.kubeflow.org/…; v2's pods have jobset.sigs.k8s.io/jobset- "
        "name and replicatedjob-name instead, so such a selector matches nothing. The job's own name is rewritten in "
        "affinity and spread rules; other labels are not.",
    ),
    "LIVE-RUNNING": Code(
        "the job is running",
        "warning",
        "Convert it when it is over, or suspend it",
        "A job that runs is not moved. Its description is converted; the pods stay v1's.",
    ),
    "MANAGED-BY": Code(
        "another controller",
        "refused",
        "Remove spec.runPolicy.managedBy",
        "A TrainJob is managed by Trainer or by MultiKueue; no other value is admitted.",
    ),
    "MESH": Code(
        "a sidecar of a service mesh",
        "warning",
        "Set the annotation sidecar.istio.io/inject to false",
        "A mesh's sidecar that is no native one goes on when the training ends, so that the pod never does. "
        "v1 looked at the Master's pod, v2 at all.",
    ),
    "MPI-BACKEND": Code(
        "MPI inside a PyTorchJob",
        "warning",
        "Make it an MPIJob's kind of training, or use gloo or nccl",
        "The mpi backend of torch takes its ranks from mpirun. A PyTorchJob starts one program in each pod and no "
        "mpirun over them, in v1 as in v2.",
    ),
    "MPI-HOROVOD-ELASTIC": Code(
        "elastic Horovod",
        "refused",
        "",
        "discover_hosts.sh, which v1's operator kept up to date, has no counterpart.",
    ),
    "MPI-IMPL": Code(
        "Intel MPI or MPICH",
        "refused",
        "Use Open MPI, or write a Flux runtime by hand",
        "Trainer's runtimes admit Open MPI only (trainer #3712).",
    ),
    "MPI-KEYMODE": Code(
        "ssh as root",
        "warning",
        "",
        "Trainer mounts the ssh key with mode 0640; ssh as root refuses a key of its own that others may "
        "read. v1 mounted it 0600.",
    ),
    "MPI-LAUNCHER-RES": Code(
        "resources of the launcher",
        "info",
        "",
        "With a launcher of its own spec.trainer.resourcesPerNode are the launcher's; the workers' are in the runtime.",
    ),
    "MPI-NP": Code(
        "number of processes in the command",
        "info",
        "",
        "-np in the command and the slots of the hostfile have to fit.",
    ),
    "MPI-OMPI5": Code(
        "Open MPI 5",
        "info",
        "",
        "Open MPI 5 ignores OMPI_MCA_orte_*, by which Trainer names the hostfile; --hostfile works with both "
        "(trainer #4028).",
    ),
    "MPI-SSHD-CMD": Code(
        "the workers' command",
        "info",
        "",
        "v1's operator started sshd on workers without a command; the runtime says so itself.",
    ),
    "MPI-TRANSPORT": Code(
        "kubectl exec instead of ssh",
        "refused",
        "Give --image-has-sshd if the image can run sshd",
        "MPIJobs of kubeflow.org/v1 reached their workers by kubectl exec, and need no sshd in the image. "
        "Trainer uses ssh.",
    ),
    "NAME-LEN": Code(
        "another name",
        "warning",
        "",
        "A TrainJob's name is made of a-z, 0-9 and -, begins with a letter, and is short enough for pod names "
        "made of it to fit 63 characters.",
    ),
    "NEVER-BACKOFF0": Code(
        "no second try",
        "info",
        "",
        "With restartPolicy Never v1 failed the job at the first failed pod. A Job would make 6 more, so "
        "backoffLimit is 0.",
    ),
    "NODE-NAME": Code(
        "pods put on a node by name",
        "warning",
        "Use a nodeSelector",
        "nodeName goes past the scheduler, and so past quota and gang scheduling.",
    ),
    "NOT-A-JOB": Code(
        "not a whole job",
        "refused",
        "The v1 operator would refuse it too; write what is missing",
        "What is missing or of the wrong type here is refused by v1's API server or operator too.",
    ),
    "NOT-V1": Code(
        "no v1 training job",
        "refused",
        "Give a PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob or JAXJob",
        "Only jobs of kubeflow.org/v1, and MPIJobs of kubeflow.org/v2beta1, are converted.",
    ),
    "NPROC-TEXT": Code(
        "processes per node as a word",
        "info",
        "",
        "numProcPerNode is a whole number in v2; gpu and cpu of v1's nprocPerNode are written into the "
        "torchrun command or as the number of GPUs.",
    ),
    "OWNER-LOST": Code(
        "the owner of the v1 job",
        "warning",
        "Let what made the v1 job make the TrainJob",
        "Something else owns the v1 job and deletes it when it goes. The TrainJob has no owner.",
    ),
    "PLACEHOLDER": Code(
        "text where a number belongs",
        "refused",
        "Render the template first, or allow placeholders",
        "A template's variable stands where a number belongs. It can be carried where it is one number, not "
        "where a sum is needed.",
    ),
    "POD-NAME": Code(
        "pods' own names",
        "warning",
        "",
        "JobSet gives pods their host names and their service; a hostname or subdomain in the template would "
        "break both.",
    ),
    "PS-ROLE": Code(
        "parameter servers",
        "info",
        "",
        "Parameter servers are a replicated job of their own in a generated runtime, and end with the training.",
    ),
    "RDZV-ENDPOINT": Code(
        "where elastic nodes meet",
        "info",
        "",
        "v1 gave PET_RDZV_ENDPOINT and its like; the TrainJob lists them, with the address of v2's first node.",
    ),
    "RESERVED-ENV": Code(
        "a variable that Trainer sets",
        "refused",
        "Remove it from env",
        "Trainer refuses TrainJobs that set PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR or "
        "PET_MASTER_PORT (MPI: four OMPI_MCA_*; XGBoost: DMLC_*) themselves.",
    ),
    "ROLE-DIFF": Code(
        "roles that are different pods",
        "refused",
        "Give --template-from master or worker, or --role-branch if commands and env alone differ",
        "Trainer numbers the nodes of one pod template only. Roles with the same template become one; others "
        "cannot take part in one rendezvous (trainer #2800).",
    ),
    "RUN-POLICY-TWICE": Code(
        "run policy in two places",
        "warning",
        "Keep the one in spec.runPolicy",
        "Older operators had the fields of the run policy directly in spec.",
    ),
    "RUNTIME-FIELD": Code(
        "not with that runtime",
        "refused",
        "Leave --runtime out, or give --runtime generate",
        "runtimePatches can set a few fields of pods only; the others need a runtime of the job's own.",
    ),
    "SCHEDULER-NAME": Code(
        "the gang scheduler is named",
        "info",
        "",
        "Trainer makes the pod group but does not name the scheduler in the pods; v1's operator did.",
    ),
    "SIDECAR": Code(
        "a second container in the pods",
        "warning",
        "Make it a native sidecar: an init container with restartPolicy Always",
        "A pod ends when all its containers have. In v1 only the pods of the first role had to end well, in "
        "v2 every pod has to.",
    ),
    "SUCCESS-RULE": Code(
        "when the training is over",
        "info",
        "Give --preserve-success to end with the first node",
        "v1 was done when the Master ended well, whatever the workers did (an elastic job: when any worker "
        "did). v2 waits for all nodes.",
    ),
    "TF-CONFIG": Code(
        "TF_CONFIG given by the TrainJob",
        "info",
        "",
        "Trainer knows no TensorFlow. The TrainJob and its runtime list TF_CONFIG with v2's addresses; it "
        "follows numNodes, so change it with that.",
    ),
    "TF-DYNAMIC": Code(
        "workers that come and go",
        "refused",
        "Remove enableDynamicWorker",
        "v1 could scale the workers of a running TFJob; nothing in v2 can.",
    ),
    "TORCHRUN-FLAGS": Code(
        "options of torchrun rewritten",
        "info",
        "",
        "Options on the command line win over PET_*; those that were right in v1 only are rewritten or removed.",
    ),
    "TTL-RERUN": Code(
        "clean-up after a time",
        "warning",
        "Delete the TrainJob by your pipeline, or give --keep-ttl",
        "A TTL in the runtime deletes the JobSet and not the TrainJob, and up to Trainer 2.3.0 a failed "
        "training is then run again (trainer #3737).",
    ),
    "UNKNOWN-FIELD": Code(
        "a field that no rule knows",
        "refused",
        "Remove it, or give --drop UNKNOWN-FIELD",
        "Every field of a job ends as mapped, dropped with a reason, or refused. This one is in no table: "
        "v1's API server would have dropped it.",
    ),
    "UNKNOWN-ROLE": Code(
        "unknown or doubled role",
        "refused",
        "Keep one entry a role, with its usual name",
        "v1's operator refuses roles that it does not know; it takes any spelling of those that it does.",
    ),
    "UNSEEN-SCRIPT": Code(
        "what starts the training is not in the job",
        "info",
        "Look whether it uses v1's host names or variables",
        "The command is a script, or the image's own entry point. It gets v1's variables, but what else it "
        "relies on is not seen.",
    ),
    "WRAPPER-COND": Code(
        "conditions around the job",
        "warning",
        "",
        "What waits for the job reads its status: v1 had Succeeded and Failed, v2 has Complete and Failed.",
    ),
    "XPU-PROC": Code(
        "processes per node on other accelerators",
        "warning",
        "Set nprocPerNode to the number of devices",
        "Trainer counts devices of resources called …gpu… only; for others the number of processes follows the CPUs.",
    ),
}
CODES: Final[Mapping[str, Code]] = dict(
    sorted({**_OF_JOBS, **KIND_CODES, **POD_CODES, **FILE_CODES, **SCAN_CODES}.items())
)
