"""Names that cross a border: API group, labels, annotations, environment variables."""

from __future__ import annotations

from typing import Final

GROUP: Final = "trainer.kubeflow.org"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "TrainJob"
PLURAL: Final = "trainjobs"
CLUSTER_RUNTIME: Final = "ClusterTrainingRuntime"
NAMESPACED_RUNTIME: Final = "TrainingRuntime"

# On every TrainJob we make. Label values are at most 63 characters; what does not fit is in an annotation.
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "trainer-ops"
LABEL_RUN_KEY: Final = "trainer-ops/run-key"
LABEL_SUBJECT: Final = "trainer-ops/subject"
LABEL_ATTEMPT: Final = "trainer-ops/attempt"
LABEL_GENERATION: Final = "trainer-ops/generation"
# The run of the pipeline that asked for it, where the pipeline's engine has an id for that.
LABEL_PIPELINE_RUN: Final = "trainer-ops/pipeline-run"
ANNOTATION_IDENTITY: Final = "trainer-ops/identity"
ANNOTATION_SPEC_HASH: Final = "trainer-ops/spec-hash"
ANNOTATION_VERSION: Final = "trainer-ops/version"
ANNOTATION_SOURCE_LINK: Final = "trainer-ops/source-link"
ANNOTATION_LIMITS: Final = "trainer-ops/limits"

PATCH_MANAGER: Final = "trainer-ops.kubeflow.org/request"
# A patch can mount a volume once only; the second mount of the same volume is in a patch of its own.
PATCH_MANAGER_SECOND: Final = "trainer-ops.kubeflow.org/request-second-mount"

LABEL_QUEUE: Final = "kueue.x-k8s.io/queue-name"
LABEL_PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"

# Written by JobSet and the Job controller (facts: jobset v0.12 pkg/constants, Kubernetes batch/v1).
LABEL_JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
LABEL_JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
LABEL_REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
LABEL_RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
LABEL_JOB_NAME: Final = "batch.kubernetes.io/job-name"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
LABEL_ANCESTOR: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
LABEL_FRAMEWORK: Final = "trainer.kubeflow.org/framework"

STEP_DATASET: Final = "dataset-initializer"
STEP_MODEL: Final = "model-initializer"
STEP_NODE: Final = "node"
STEP_LAUNCHER: Final = "launcher"
INITIALIZERS: Final = (STEP_DATASET, STEP_MODEL)

# What the training code finds in its environment, on every backend.
ENV_RUN_KEY: Final = "TRAINER_OPS_RUN_KEY"
ENV_ATTEMPT: Final = "TRAINER_OPS_ATTEMPT"
ENV_CHECKPOINT_DIR: Final = "TRAINER_OPS_CHECKPOINT_DIR"
ENV_RESULT_PATH: Final = "TRAINER_OPS_RESULT_PATH"
# The folders that the in-job initializers filled, under a name that holds on every backend: Trainer's fixed
# /workspace/dataset and /workspace/model on a cluster, folders of the TrainJob on this machine.
ENV_DATASET_DIR: Final = "TRAINER_OPS_DATASET_DIR"
ENV_MODEL_DIR: Final = "TRAINER_OPS_MODEL_DIR"
# The same as URIs, where the data lie in object storage and the training code reads them there itself.
ENV_DATASET_URI: Final = "TRAINER_OPS_DATASET_URI"
ENV_MODEL_URI: Final = "TRAINER_OPS_MODEL_URI"
DATASET_PATH: Final = "/workspace/dataset"
MODEL_PATH: Final = "/workspace/model"
# Where Trainer mounts MPI's hostfile in the launcher.
HOSTFILE_PATH: Final = "/etc/mpi/hostfile"
# The kubelet's limit for one container's termination message, in bytes.
RESULT_LIMIT: Final = 4096

# Where front ends find the target when nobody says it.
ENV_TARGET: Final = "TRAINER_OPS_TARGET"
