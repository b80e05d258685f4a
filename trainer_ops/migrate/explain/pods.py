"""Pods: names, containers, labels, fields; and what is no whole job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.explain.entry import Explained

__all__ = ["OF_PODS"]

OF_PODS: Final[Mapping[str, Explained]] = {
    "CONTAINER-NAME": Explained(
        "Each kind wants a container of a certain name with the code: pytorch, tensorflow, xgboost, paddle, jax. The "
        "webhook refuses a job without.",
        "The container with the code is called node. The first one is taken for it.",
        "If the code is in another one, its image, command and resources end in the wrong place.",
        "Give the container with the code the name that v1 wants.",
    ),
    "DIFFERENCE": Explained(
        "The pods that v1's operator would have made were worked out.",
        "So were those of the result, and they differ in a way that no rule tells of.",
        "It is a fault of the conversion, found by itself: nothing is written that could train something else.",
        "Report it, with the job. --drop DIFFERENCE writes the result nevertheless; compare the pods yourself.",
    ),
    "GENERATE-NAME": Explained(
        "generateName makes a new name for each creation.",
        "It is kept. Addresses, which need the name, are made in the pod from a variable TRAINJOB_NAME that reads it "
        "from a label.",
        "kubectl apply does not take such objects, in v1 as in v2.",
        "kubectl create; or give it a name. From this project every run has a name of its own anyway.",
    ),
    "HOST-NETWORK": Explained(
        "hostNetwork gave the pod its host's addresses and ports.",
        "It is carried in a generated runtime.",
        "Two pods of the training on one host want the same port, and one of them fails.",
        "Keep them apart by podAntiAffinity, or by requests that fill a host.",
    ),
    "LABEL-SELECTOR": Explained(
        "Pods had the labels training.kubeflow.org/job-name, replica-type, replica-index and job-role.",
        "Pods have jobset.sigs.k8s.io/jobset-name and replicatedjob-name, and the completion index of their Job.",
        "A selector of v1's labels matches nothing, silently: anti-affinity without effect, policies that block or "
        "allow too much, logs that are empty. In the job's own affinity and spread rules job-name is rewritten.",
        "Write the selector with JobSet's labels.",
        """
        training.kubeflow.org/job-name=digits       ->  jobset.sigs.k8s.io/jobset-name=digits
        training.kubeflow.org/replica-type=master   ->  batch.kubernetes.io/job-completion-index=0
        """,
    ),
    "MESH": Explained(
        "A mesh's sidecar was in every pod. The job was done when its Master's pod was; others could linger.",
        "Every node's pod has to end, and one whose sidecar goes on does not.",
        "The training is over and stays Running.",
        'Set the annotation sidecar.istio.io/inject to "false" on the pods, or turn on the mesh\'s native sidecars.',
        'metadata:\n  annotations: {sidecar.istio.io/inject: "false"}',
    ),
    "NAME-LEN": Explained(
        "A job's name could be longer, and hold capital letters or dots where pods' names allowed it.",
        "A TrainJob's name is made of a-z, 0-9 and -, begins with a letter, and has to leave room for -node-0-N-xxxxx "
        "within 63 characters. A shorter one was made.",
        "JobSet refuses names of pods that are too long, when the TrainJob is admitted already: it stays without pods.",
        "Look for the old name in dashboards and scripts; or choose a name yourself and convert again.",
    ),
    "NODE-NAME": Explained(
        "nodeName puts a pod on a node and goes past the scheduler.",
        "It is carried in a generated runtime; all nodes of the training have it.",
        "Quota, gang scheduling and free resources are not looked at.",
        "A nodeSelector, kubernetes.io/hostname for one node, asks the scheduler.",
    ),
    "NOT-A-JOB": Explained(
        "What is missing, or of the wrong type, is refused by v1's API server, webhook or operator; two Chiefs are by "
        "TensorFlow.",
        "Nothing can be made of it.",
        "The job never ran as it is written here.",
        "Write what is missing. Numbers and booleans in places of text need quotes.",
        'env:\n  - {name: ROUNDS, value: "10"}     # not 10',
    ),
    "NOT-PLAYED": Explained(
        "The pods of a conversion's both sides are worked out and compared.",
        "Here they were not: a placeholder stands for a number, the runtime is none that is known, or there are more "
        "than 1024 pods.",
        "The conversion followed its rules, and one check of it is missing.",
        "Convert it once with numbers, or fewer pods, to have the check.",
    ),
    "NOT-V1": Explained(
        "PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob and JAXJob of kubeflow.org/v1, and MPIJob of v2beta1, are "
        "v1's.",
        "Nothing else is converted. MXJob was removed from the operator before.",
        "It stays as it is.",
        "Look at its kind and apiVersion; versions before v1 have to be brought to v1 first.",
    ),
    "OWNER-LOST": Explained(
        "An ownerReference deleted the job together with what made it: a Katib trial, a workflow.",
        "An owner is known by its uid on one cluster, so it is left out.",
        "What was cleaned up by itself is not.",
        "Let what made the v1 job make the TrainJob.",
    ),
    "PLACEHOLDER": Explained(
        "Templates have $NUM_NODES or {{ workers }} where numbers belong; something fills them in before kubectl.",
        "Where one number becomes one number it is carried with --allow-placeholders. Where a sum or a list is made "
        "of it (Master and Workers together, WORLD_SIZE, TF_CONFIG) it cannot.",
        "The result would be wrong for every number but one.",
        "Render the template and migrate what comes out, or write the sum as a placeholder of its own.",
        "envsubst < job.yaml | trainer-ops migrate -",
    ),
    "POD-NAME": Explained(
        "hostname and subdomain in the template were the pod's.",
        "JobSet sets both, for the addresses by which nodes find each other. They are left out.",
        "With them no node would find another.",
        "Use the addresses JOB-node-0-N.JOB.",
    ),
    "RUNTIME-FIELD": Explained(
        "Everything stood in the job's own pod templates.",
        "--runtime NAME asks for a stock runtime. A TrainJob can patch some fields of its pods; others, such as init "
        "containers, sidecars, envFrom or probes, only a runtime has.",
        "They would be lost.",
        "Leave --runtime out: a runtime is generated where one is needed.",
    ),
    "SIDECAR": Explained(
        "A job was over when the pod of its first role was, whatever the others did.",
        "Each node's pod has to end, and a pod ends with its last container.",
        "A sidecar that serves for ever keeps the training Running.",
        "Make it a native sidecar (Kubernetes 1.29): an init container with restartPolicy Always is ended with the "
        "pod. Or let it watch for the end of the training.",
        "initContainers:\n  - {name: shipper, image: …, restartPolicy: Always}",
    ),
    "SIDECAR-NAME": Explained(
        "The container with the code was called pytorch, tensorflow and so on; any other name was free.",
        "The container with the code is called node in every pod, and a pod has no two containers of one name: a "
        "sidecar that was called so is node-sidecar, an init container node-init.",
        "kubectl logs -c node, probes and log collectors that ask for it by name get the training's container.",
        "Write the new name where the old one is asked for.",
    ),
    "UNKNOWN-FIELD": Explained(
        "v1's API server drops fields that its schema does not have, and so would have had no effect.",
        "Every field ends as mapped, dropped with a reason, or refused. This one is in no table.",
        "It may be a misspelt field that somebody relies on.",
        "Correct or remove it; --drop UNKNOWN-FIELD leaves all such fields out.",
    ),
    "UNKNOWN-ROLE": Explained(
        "Roles are known by name in any case: Master, master, MASTER. Others are refused.",
        "As v1.",
        "A job with two spellings of one role has no single meaning.",
        "Keep one entry a role.",
    ),
    "V1-EXTRAS": Explained(
        "The operator gave pods the names JOB-ROLE-N, a Service each, labels training.kubeflow.org/…, and workers "
        "of a PyTorchJob an init container that waited for the master.",
        "Pods are called JOB-node-0-N with a random tail and share one Service of the job's name. Labels are JobSet's.",
        "Dashboards, NetworkPolicies, PodMonitors and scripts outside the job may look at the old ones.",
        "Rewrite what selects or addresses pods from outside.",
    ),
}
