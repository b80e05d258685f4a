"""All rule ids: what each says, and where upstream the rule comes from.

The first word in brackets says who minds. "API server" (any object), "CRD" and "webhook" refuse the object when it is
created; the latter two are those of kubeflow/trainer v2.3.0 (``manifests/base/crds``, ``pkg/webhooks``,
``pkg/runtime/framework/plugins``). All others let it pass: "controller" is what Trainer's plugins do with an object
that was accepted, "initializers" its ``pkg/initializers``; "jobset" (kubernetes-sigs/jobset v0.12) and "Kubernetes"
(validation of Jobs and pods) refuse what is made of it: the TrainJob then hangs with an event and no condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["RULES"]

_OBJECT = {
    "manifest-type": "a manifest is a mapping (API server)",
    "api-version": "apiVersion is trainer.kubeflow.org/v1alpha1 (API server)",
    "kind": "kind is the one that is checked for (API server)",
    "v1-kind": "a job of the v1 training operator or the MPI operator: migrate it (API server: another API)",
    "name-missing": "metadata.name may be left out here, but not with kubectl (API server)",
    "name-format": "names are DNS labels that start with a letter (CRD: CEL on metadata.name)",
    "name-too-long": "pod names made from the name fit 63 characters (jobset: webhook; trainer #2735)",
    "generate-name": "generateName makes another name at every create, so a retry is a second training (API server)",
    "namespace-format": "namespaces are DNS labels (API server)",
    "label-syntax": "label keys and values have Kubernetes' form (API server)",
    "annotation-key": "annotation keys have the form of label keys (API server)",
    "resource-version": "an object to be created has no resourceVersion (API server)",
    "status-given": "status is dropped at creation (CRD: subresource)",
}

_SCHEMA = {
    "unknown-field": "no field of that name (CRD; refused with fieldValidation=Strict, else dropped)",
    "replaced-field": "podSpecOverrides and podTemplateOverrides became runtimePatches in 2.2 (CRD)",
    "not-patchable": "a field of the runtime that runtimePatches cannot carry (CRD: PodSpecPatch, ContainerPatch)",
    "moved-field": "a known field in the wrong place, or of an earlier API (CRD)",
    "wrong-type": "values have the type of their field (CRD)",
    "missing-field": "required fields are there (CRD)",
    "null-item": "lists have no null items (CRD)",
    "quantity": "quantities such as 500m, 2, 4Gi (CRD: pattern)",
    "number-range": "whole numbers fit 32 or 64 bits, and are not below the field's minimum (CRD)",
    "unknown-value": "fields with a fixed set of values (CRD: enum; Kubernetes)",
    "too-many": "lists have a largest length (CRD: maxItems)",
    "too-long": "texts have a largest length (CRD: maxLength)",
    "empty-text": "names are not empty (CRD: minLength)",
    "duplicate": "lists that are keyed have each key once (CRD: x-kubernetes-list-map-keys)",
}

_SPEC = {
    "runtime-ref-kind": "a runtime is a ClusterTrainingRuntime or a TrainingRuntime (webhook: unsupported runtime)",
    "managed-by": "managedBy has two values (CRD: CEL)",
    "managed-by-no-queue": "MultiKueue moves only jobs of a queue, so without one nothing ever starts (Kueue)",
    "active-deadline": "activeDeadlineSeconds is at least 1 (CRD)",
}

_TRAINER = {
    "num-nodes": "numNodes 0 makes a Job of no pods, which trains nothing (controller; trainer #3809)",
    "num-proc-per-node": "numProcPerNode is at least 1 (webhook: Flux; torchrun and mpirun refuse 0, #3809)",
    "num-proc-ignored": "jax, xgboost and plain runtimes have no use for numProcPerNode (controller)",
    "image-format": "image references have a form; the pod waits in InvalidImageName for ever (Kubernetes)",
    "image-missing": "a container has an image (Kubernetes: Job validation)",
    "trainer-ignored": "without a job and container that spec.trainer controls, it is dropped silently (controller)",
    "trainer-missing": "without spec.trainer nodes get no PET_*, JAX_*, DMLC_* environment (controller)",
    "env-name": "names of environment variables are printable ASCII without = (Kubernetes)",
    "env-source": "a variable has a value or one source, no fileKeyRef (Kubernetes; controller: apply.EnvVar drops)",
    "env-reserved": "PET_*, OMPI_MCA_* and DMLC_* are set by the runtime's policy (webhook: Torch, MPI, XGBoost)",
    "env-overrides": "JAX_* in trainer.env replaces what the policy sets, without a word (controller)",
    "env-reference": "$(NAME) sees only what is defined before it; PET_* comes after (controller; Kubernetes)",
    "secret-in-clear": "a credential in plain text is readable by all who may get TrainJobs (Kubernetes)",
    "requests-over-limits": "requests are at most limits, also after merging with the runtime's (Kubernetes)",
    "resource-negative": "amounts of resources are not negative (Kubernetes)",
    "resource-name": "resources are cpu, memory, ephemeral-storage, hugepages-* or have a domain (Kubernetes)",
    "resource-extended": "extended resources such as GPUs are whole, with a limit equal to the request (Kubernetes)",
    "memory-unit": "memory of a few bytes: a unit was forgotten, or is m for milli (Kubernetes: warning)",
    "resources-ignored": "without an mlPolicy in the runtime resourcesPerNode is dropped silently (controller)",
}

_INITIALIZER = {
    "storage-uri": "storageUri is a URI (CRD: CEL)",
    "storage-uri-scheme": "Trainer's initializers know hf and s3, for datasets also cache (initializers)",
    "storage-uri-missing": "an initializer has a storageUri, or the runtime's container a STORAGE_URI (initializers)",
    "hf-repository": "a Hugging Face URI names a repository, and no revision (initializers)",
    "hf-path": "what follows the repository in a dataset's URI is ignored (initializers)",
    "s3-bucket": "an S3 URI names a bucket (initializers)",
    "initializer-job": "the runtime has a job and container for it (webhook: JobSet plugin; trainer #2886)",
    "initializer-mount": "the initializer's container mounts a volume named initializer (webhook, since 2.3.0; #3714)",
    "initializer-label": "the initializer's job has the ancestor label, else spec.initializer is dropped (controller)",
}

_PATCHES = {
    "patch-manager": "a patch's manager is a path with a domain (webhook: IsDomainPrefixedPath)",
    "patch-job": "patched jobs exist, else one without containers is added (jobset: CRD; the webhook sees it merged)",
    "patch-container": "patched containers exist, else one without image is added (Kubernetes: Job validation)",
    "patch-env": "env of node and of the initializers is set by trainer.env and initializer.*.env (webhook)",
    "mount-without-volume": "a mount names a volume of its pod (Kubernetes: Job validation)",
    "mount-path": "mount paths of a container are different, and have no colon (Kubernetes)",
    "volume-source": "a volume has one source, also after merging with the runtime's; none is emptyDir (Kubernetes)",
    "toleration": "operators and effects of tolerations go together (Kubernetes)",
}

_POLICIES = {
    "torchtune-model": "tune run has four models, read from the runtime's name (webhook: torchtune)",
    "torchtune-nodes": "tune run on several nodes only for llama3.3-70b, and never for LoRA (webhook: torchtune)",
    "torchtune-qlora": "QLoRA on one device, and not for qwen2.5-1.5b (webhook: torchtune)",
    "torchtune-args": "output_dir, tokenizer and checkpoint paths are the runtime's (webhook: torchtune)",
    "mpi-jobs": "MPI needs jobs named launcher and node (webhook: MPI; controller mounts keys only there)",
    "mpi-one-node": "runLauncherAsNode with one node still makes two pods (controller; trainer #3954)",
    "mpi-resources": "without runLauncherAsNode resourcesPerNode goes to the launcher alone (controller)",
    "mpi-success": "without successPolicy on the launcher the sshd workers never let it complete (jobset)",
    "mpi-launchers": "mlPolicy.numNodes of an MPI runtime counts launchers (controller)",
    "flux-nodes": "the Flux plugin dereferences spec.trainer.numNodes: the controller panics (controller)",
    "flux-installer": "flux-installer is a reserved init container (webhook: Flux)",
}

_RUNTIME = {
    "runtime-name": "a runtime's name is a DNS subdomain (API server)",
    "runtime-empty": "a runtime has jobs: a JobSet without any waits for ever (CRD: minProperties; jobset)",
    "runtime-policies": "at most one of torch, mpi, jax, xgboost, flux (CRD: CEL)",
    "runtime-num-proc": "numProcPerNode is at least 1 (CRD: CEL for flux; mpirun refuses hosts of no slots)",
    "runtime-replicas": "jobs with an ancestor label have one replica (webhook: runtimes)",
    "runtime-container": "jobs with an ancestor label have the container of that step (webhook: runtimes)",
    "runtime-ancestors": "exactly one job is the trainer's (controller)",
    "runtime-env-injection": "envInjection names containers that exist, and not node (CRD: CEL; webhook: Torch)",
    "runtime-depends-on": "dependsOn names an earlier job, and excludes startupPolicy InOrder (CRD: CEL; jobset)",
    "runtime-targets": "successPolicy, failurePolicy and coordinator name existing jobs (jobset: webhook)",
    "runtime-job-name": "job and container names are DNS labels (jobset: webhook; Kubernetes)",
    "runtime-gang": "a pod group waits for all pods, dependsOn keeps some away: neither starts (controller)",
    "runtime-scheduler": "a pod group without schedulerName is looked at by no gang scheduler (controller)",
    "runtime-ttl": "a JobSet that is deleted after it failed is trained again up to 2.3.0 (trainer #3737)",
    "runtime-deprecated": "runtimes with the label support=deprecated will go (webhook: warning)",
    "runtime-framework": "the Kubeflow SDK lists only runtimes with a framework label (kubeflow/sdk 0.5)",
    "runtime-queue": "Volcano's queue annotation is not empty (webhook: Volcano)",
    "restart-policy": "pods of Jobs restart OnFailure or Never (Kubernetes)",
}

RULES: Mapping[str, str] = MappingProxyType(
    {**_OBJECT, **_SCHEMA, **_SPEC, **_TRAINER, **_INITIALIZER, **_PATCHES, **_POLICIES, **_RUNTIME}
)
