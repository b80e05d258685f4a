"""The codes of findings in code: Python, DAGs, pipelines, notebooks, scripts. Part of ``codes.CODES``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.code import Code

__all__ = ["SCAN_CODES"]

SCAN_CODES: Final[Mapping[str, Code]] = {
    "AIRFLOW-CREATE": Code(
        "a task that creates a v1 job",
        "warning",
        "Use TrainJobOperator in its place",
        "An operator that creates a resource is done when the object exists: the training goes on, or fails, unseen. "
        "TrainJobOperator waits, shows the log, takes the result and cancels with the task.",
    ),
    "AIRFLOW-POD": Code(
        "a task whose pod starts a v1 job",
        "warning",
        "Use TrainJobOperator in its place",
        "A pod with kubectl or a launcher in it creates the job and waits in a loop of its own. No such pod is needed.",
    ),
    "AIRFLOW-WAIT": Code(
        "a task that waits for a v1 job",
        "warning",
        "Leave it out behind TrainJobOperator, or use TrainJobSensor",
        "It looks for conditions called Succeeded or Failed; a TrainJob has Complete and Failed. TrainJobOperator "
        "waits itself; TrainJobSensor waits for a training that something else started.",
    ),
    "API-CALL": Code(
        "a call of the Kubernetes API for v1 jobs",
        "warning",
        "Use trainer_ops.run, submit, wait or cancel; or the group trainer.kubeflow.org with trainjobs",
        "Code that uses CustomObjectsApi with the group kubeflow.org and a plural of v1 finds nothing in v2: "
        "TrainJobs are trainer.kubeflow.org/v1alpha1 trainjobs.",
    ),
    "JOB-IN-CODE": Code(
        "a v1 job inside other text",
        "info",
        "Write the converted one in its place",
        "The job stands in a string or a dict of code. It is converted here with what is known without running the "
        "code, and what fills its holes is carried along; the code itself is not changed.",
    ),
    "KFP-LAUNCHER": Code(
        "a pipeline step of the removed launchers",
        "warning",
        "Use trainer_ops.kfp.train_job in its place",
        "The components kubeflow/pytorch-launcher and kubeflow/launcher make v1 jobs from pieces of them. They were "
        "removed from kubeflow/pipelines, so pipelines that load them by URL cannot be compiled any more.",
    ),
    "KFP-RESOURCE": Code(
        "a pipeline step that creates a v1 job",
        "warning",
        "Use trainer_ops.kfp.train_job in its place",
        "ResourceOp of KFP 1 created any object and waited for conditions of v1. KFP 2 has no such step.",
    ),
    "KUBECTL": Code(
        "kubectl with v1 jobs",
        "warning",
        "Use trainer-ops, or kubectl with trainjobs",
        "Commands that name pytorchjobs and the like find nothing in v2, and kubectl wait for Succeeded never ends.",
    ),
    "SDK-CALL": Code(
        "a call of the v1 SDK",
        "warning",
        "Use the call of this project",
        "The package kubeflow-training, imported as kubeflow.training, makes and reads v1 jobs only.",
    ),
    "SDK-MODEL": Code(
        "a job made of the v1 SDK's classes",
        "warning",
        "Print it as YAML (ApiClient().sanitize_for_serialization(job)), migrate that, and give it as manifest=",
        "Classes such as KubeflowOrgV1PyTorchJob say a v1 job in Python. What they hold may come from anywhere, so "
        "the finished object is what can be converted.",
    ),
    "SDK-TRAIN": Code(
        "fine-tuning by the v1 SDK",
        "warning",
        "Fetch model and data with initializer steps, and ship the training function",
        "TrainingClient.train brought a trainer of its own, built on Hugging Face's. Nothing in v2 is the same: "
        "its BuiltinTrainer is torchtune, with other settings and other results.",
    ),
    "STATUS-READ": Code(
        "code that reads v1's status",
        "warning",
        'Look for a condition of type "Complete" with status "True"; or use trainer_ops.wait',
        "v1 set conditions Created, Running, Succeeded and Failed, and replicaStatuses. A TrainJob has Suspended, "
        "Complete and Failed, each of which may be False, and jobsStatus.",
    ),
}
