"""Files: what stands around jobs, and what cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.explain.entry import Explained

__all__ = ["IN_FILES"]

IN_FILES: Final[Mapping[str, Explained]] = {
    "ADMISSION": Explained(
        "v1's API server and webhook admitted the job.",
        "Trainer's rules, or those of JobSet behind it, would refuse what comes out: a name, a size, a combination.",
        "Some of it is refused only after the TrainJob was created, and then it has no pods and a single event.",
        "Correct the v1 job at the place that is named. --apply-check asks the cluster itself.",
    ),
    "ALONGSIDE": Explained(
        "Roles, quotas, monitors, policies and Kueue's configuration name pytorchjobs and labels of v1's pods.",
        "TrainJobs are trainjobs.trainer.kubeflow.org, with runtimes beside them; their pods have JobSet's labels.",
        "A Role without them forbids, a quota without them counts nothing, a monitor is silent.",
        "Change them as the finding says; they are not changed by the migration.",
        """
        - apiGroups: [trainer.kubeflow.org]
          resources: [trainjobs, trainjobs/status, trainingruntimes, clustertrainingruntimes]
        """,
        ("kueue #12606",),
    ),
    "ANCHORS": Explained(
        "YAML's anchors let Master and Worker share one text.",
        "Inside a converted job they are written out; roles that were the same are one anyway.",
        "An anchor that other documents of the file use stays where they are.",
        "Nothing.",
    ),
    "FLUX": Explained(
        "mpi-operator started programs by mpirun over ssh, with Open MPI, Intel MPI or MPICH.",
        "Trainer's Flux policy starts them by flux run from the first node, with whatever MPI the image has.",
        "There is no launcher and no hostfile, so a command with mpirun does not work there; and Trainer needs "
        "numNodes to be given.",
        "Write such a TrainJob by hand, with the program itself as its command; or use Open MPI.",
        "command: [/opt/solver]     # not: mpirun -np 8 /opt/solver",
    ),
    "NAME-CLASH": Explained(
        "A PyTorchJob and a TFJob of one namespace could have one name, and a name could have dots in it.",
        "Both become TrainJobs, of one kind and so of one name; dots become hyphens.",
        "Applied from one file the later takes the place of the earlier: one training is lost, and the API server may "
        "refuse the change of what is immutable.",
        "Rename one of them, with what names it elsewhere. Of two files for two clusters nothing is to be done.",
        """
        kind: TFJob
        metadata: {name: train-tf}     # beside PyTorchJob train
        """,
    ),
    "OLD-OVERRIDES": Explained(
        "It is v2 already: podSpecOverrides was Trainer 2.0's way to change pods, podTemplateOverrides 2.1's.",
        "From 2.2 on it is runtimePatches, and the others are no fields any more.",
        "The API server drops them without a word: the volume, the node selector, the tolerations are not there.",
        "Write them as spec.runtimePatches, with a manager and the path from the runtime's own fields.",
        """
        runtimePatches:
          - manager: example.com/team
            trainingRuntimeSpec:
              template:
                spec:
                  replicatedJobs:
                    - {name: node, template: {spec: {template: {spec: {nodeSelector: {pool: gpu}}}}}}
        """,
        ("trainer #2785", "trainer #3309"),
    ),
    "OVERLAY": Explained(
        "A kustomize overlay patches fields of v1 jobs: replicas, images, resources.",
        "Those fields are elsewhere in a TrainJob, some in its runtime, so a patch cannot be converted by itself.",
        "The patch would match nothing, or fail the build.",
        "Render it, migrate that, and make bases and overlays anew from what is different.",
        "kustomize build overlays/prod > prod.yaml && trainer-ops migrate prod.yaml",
    ),
    "TEMPLATE": Explained(
        "Helm and its like make the job from a text and values.",
        "Only the finished text says which fields there are.",
        "A guess would be right for some values only.",
        "Render it with your values and migrate that; put the result back into the chart as its new template.",
        "helm template charts/train -f values.yaml > all.yaml && trainer-ops migrate all.yaml",
    ),
    "TORCHTUNE": Explained(
        "v1 had nothing like it: its SDK's train brought a trainer of Hugging Face's instead.",
        "The runtime runs tune run with arguments of which Trainer sets some itself.",
        "It is v2 already and is left as it is.",
        "Nothing.",
    ),
    "UNREADABLE": Explained(
        "kubectl would have refused it, or read only a part.",
        "It is left as it is, byte for byte; other documents of the file are converted.",
        "A job in it stays v1.",
        "Correct what is named at that line: text that is not UTF-8, a tab, a key twice, a value that JSON does not "
        "have; in code, what is no Python 3.",
    ),
    "WRAPPER": Explained(
        "Katib experiments, Argo workflows, AppWrappers, ConfigMaps, Lists and Markdown hold jobs.",
        "The job is converted where it stands. A runtime that it needs stands before the whole.",
        "The runtime has to be there before the first TrainJob: the webhook looks it up.",
        "Apply the runtime first; look at what else in there speaks of the job.",
    ),
    "WRAPPER-COND": Explained(
        "What waits for the job reads its status: conditions Succeeded and Failed, replicaStatuses.",
        "A TrainJob has conditions Complete and Failed, each with a status, and jobsStatus. The usual expressions are "
        "rewritten.",
        "One that asks for Succeeded waits until its time-out though the training is done.",
        "Read the rewritten ones; write those by hand that are not usual.",
        'status.conditions.#(type=="Complete")#|#(status=="True")#',
    ),
}
