"""The course of a job: restarts, limits, success, cleaning up, queues and gangs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.explain.entry import Explained

__all__ = ["OF_POLICY"]

OF_POLICY: Final[Mapping[str, Explained]] = {
    "ALWAYS": Explained(
        "restartPolicy Always started a container again after any end, exit code 0 too.",
        "TrainJobs are made of Jobs, which know OnFailure and Never. OnFailure is taken.",
        "A process that ends well, and was meant to be started again, stays ended.",
        "Let the code itself go on; what should run for ever is no training.",
    ),
    "BACKOFF": Explained(
        "The restarts of all running pods were added up and compared with backoffLimit; without one pods were "
        "restarted for ever.",
        "Each Job has a backoffLimit of its own: 6 in a stock runtime, what the job says in a generated one.",
        "A training that lived from many restarts fails earlier than before; one with a limit in several roles later.",
        "Set runPolicy.backoffLimit; a runtime is then generated that says it. --runtime generate keeps no limit too.",
    ),
    "CLEANUP": Explained(
        "cleanPodPolicy said which pods go at the end: None, Running or All.",
        "JobSet has one rule, that of Running: pods that run on are ended, finished ones stay with their logs until "
        "the TrainJob is deleted.",
        "With None servers and sidecars of a finished job went on and could be looked into; with All finished pods "
        "did not pile up.",
        "Delete the TrainJob when its pods are to go: trainer-ops cancel, or in a DAG DeleteTrainJobsOperator.",
    ),
    "DEADLINE": Explained(
        "activeDeadlineSeconds counted from the start of the job's pods.",
        "It counts from the creation, or the last resumption, of the TrainJob, so time in a queue counts; when it is "
        "over the pods are deleted with their logs. 0 is not admitted.",
        "A limit that was just enough ends trainings that waited long.",
        "Add the time that is spent waiting, or use the queue_timeout and wait_timeout of this project.",
    ),
    "EXITCODE": Explained(
        "restartPolicy ExitCode failed the job for exit codes 1 to 127 and made a new pod for 128 to 255 (signals). Of "
        "an MPIJob of kubeflow.org/v1 it made none: the job said Restarting and stayed as it was.",
        "The generated runtime has restartPolicy Never and a podFailurePolicy that fails the Job for 1 to 127; other "
        "ends count against backoffLimit. Of such an MPIJob a failed pod fails the training.",
        "A retry is a new pod: what was written to the old one's disk is gone. The pod's own container restarts no "
        "more.",
        "Keep checkpoints on a volume.",
        """
        podFailurePolicy:
          rules:
            - action: FailJob
              onExitCodes: {containerName: node, operator: In, values: [1, 2, 3, …, 127]}
        """,
    ),
    "GANG-DEPENDS": Explained(
        "The operator made all pods at once, and the group started them together.",
        "dependsOn keeps the launcher from being made until the nodes are ready, and a pod group keeps the nodes from "
        "being started until all pods are there. The runtime has no dependsOn.",
        "Together nothing would ever start.",
        "Nothing: the launcher tries again until the nodes answer.",
        issues=("mpi-operator #608",),
    ),
    "GANG-FLAG": Explained(
        "Gang scheduling was a flag of the operator (--gang-scheduler-name) for all jobs; a job says at most how.",
        "The runtime says it, in podGroupPolicy; without it pods are scheduled one by one.",
        "Two trainings that each get half of their nodes wait for each other for ever.",
        "Ask who ran the operator. If it was on, give --gang volcano or --gang coscheduling. With Kueue neither is "
        "needed.",
    ),
    "GANG-MIN": Explained(
        "minAvailable let the group start when a part of its pods could.",
        "Trainer's pod group has all pods of the training as its minimum.",
        "The training waits longer: for all pods instead of some.",
        "--drop GANG-MIN accepts that. A training with a fixed number of nodes could not have used fewer.",
    ),
    "GANG-PRIORITY": Explained(
        "schedulingPolicy.priorityClass was the pod group's; pods had the priority of their own template.",
        "Trainer takes the group's priority class from the pods, so they have it now.",
        "The pods may preempt others, or be spared, where they were not; and Trainer refuses a TrainJob whose "
        "PriorityClass is not there.",
        "Look whether the class exists in the cluster. If the group's priority had no effect, take it out.",
    ),
    "LIVE-RUNNING": Explained(
        "The job runs on the cluster.",
        "A running job cannot be moved. Its description is converted; its pods stay v1's until they end.",
        "Applying the result now would train twice at the same time, on twice the resources.",
        "Wait for its end, or suspend the v1 job; then apply the TrainJob. With a checkpoint it goes on from there.",
    ),
    "MANAGED-BY": Explained(
        "runPolicy.managedBy named a controller, to keep the operator's hands off the job.",
        "A TrainJob admits Trainer's own and kueue.x-k8s.io/multikueue.",
        "A TrainJob of another controller would not be created, and without the field Trainer would run it.",
        "Remove the field if Trainer is to run it.",
    ),
    "NEVER-BACKOFF0": Explained(
        "With restartPolicy Never a failed pod failed the job.",
        "A Job makes up to six new pods for failed ones, so the runtime has backoffLimit 0.",
        "Without it a training that fails by its own fault would be tried seven times.",
        "Nothing. Raise backoffLimit in the runtime when second tries are wanted.",
    ),
    "RUN-POLICY-TWICE": Explained(
        "Older operators had cleanPodPolicy, backoffLimit and the like directly in spec; newer ones in spec.runPolicy.",
        "What stands in runPolicy is taken, as the last operators did.",
        "The other value had no effect any more, though it reads as if it had.",
        "Keep one of the two.",
    ),
    "SCHEDULER-NAME": Explained(
        "With gang scheduling the operator wrote the scheduler's name into the pods.",
        "Trainer makes the pod group and leaves the name out; the generated runtime says it.",
        "Pods of the default scheduler ignore the group.",
        "Nothing, if the scheduler has its usual name.",
        "schedulerName: scheduler-plugins-scheduler",
    ),
    "SUCCESS-RULE": Explained(
        "A job with a Master or Chief was done when that pod ended well; an elastic one when any worker did.",
        "A TrainJob is done when all its nodes are.",
        "A node that hangs after the last step keeps the training running; one that fails there fails it.",
        "Nothing for trainings whose nodes end together. --preserve-success ends with the first node, by a "
        "successPolicy of the runtime (Kubernetes 1.31 and newer).",
        'successPolicy: {rules: [{succeededIndexes: "0"}]}',
    ),
    "TTL-RERUN": Explained(
        "ttlSecondsAfterFinished deleted the job, with its pods, so long after its end.",
        "A TTL in the runtime deletes the JobSet; the TrainJob stays. Up to Trainer 2.3.0 a failed TrainJob whose "
        "JobSet is gone gets a new one: it trains again.",
        "A failed training that starts by itself, again and again, after each TTL.",
        "Delete TrainJobs from the pipeline instead (DeleteTrainJobsOperator, cleanup_train_jobs). --keep-ttl writes "
        "it nevertheless, for a Trainer where that is mended.",
        issues=("trainer #2899", "trainer #3737", "trainer #3779", "trainer #3891"),
    ),
}
