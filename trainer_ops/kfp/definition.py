"""The component ``train_job``: what a pipeline author calls.

Functions here are signatures with a docstring, read by kfp; what they do is in ``launch``. No
``from __future__ import annotations``: kfp reads the real types.
"""

from collections.abc import Sequence
from typing import Any, Optional

from kfp import dsl

from trainer_ops.kfp.define import IMAGE, component

__all__ = ["declared_train_job", "train_job", "train_job_component"]

# ruff: noqa: UP045 - Optional is kfp's own spelling
# mypy: disable-error-code="type-arg, no-untyped-def, valid-type"


def train_job(
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
    outcome: dsl.OutputPath(dict),
    model_uri: dsl.OutputPath(str),
    task_config: dsl.TaskConfig,
    runtime: str = "",
    script_uri: str = "",
    image: str = "",
    command: Optional[list] = None,
    args: Optional[list] = None,
    num_nodes: int = -1,
    num_proc_per_node: int = -1,
    resources_per_node: Optional[dict] = None,
    env: Optional[dict] = None,
    packages: Optional[list] = None,
    dataset_uri: str = "",
    base_model_uri: str = "",
    checkpoint_dir: str = "",
    queue: str = "",
    manifest: Optional[dict] = None,
    target: str = "",
    active_deadline_seconds: int = -1,
    queue_timeout: int = -1,
    startup_timeout: int = -1,
    wait_timeout: int = -1,
    unreachable_timeout: int = -1,
    missing_grace: int = -1,
    max_restarts: int = -1,
    retries: int = 0,
    name: str = "",
    runtime_kind: str = "",
    runner: str = "",
    pip_index_url: str = "",
    labels: Optional[dict] = None,
    annotations: Optional[dict] = None,
    priority_class: str = "",
    runtime_patches: Optional[list] = None,
    termination_grace_period_seconds: int = -1,
    dataset: Optional[dsl.Input[dsl.Dataset]] = None,
    dataset_snapshot: Optional[dict] = None,
    base_model: Optional[dsl.Input[dsl.Model]] = None,
    base_model_snapshot: Optional[dict] = None,
):
    """Train on Kubeflow Trainer, or on the embedded engine, and wait for the end.

    A retry of the step, or a pod made again by the workflow engine, goes on with the training that the first one
    started. Terminating the run cancels the training. "", -1 and an empty list or dict mean "not given".

    Args:
        model: where the model is; its metadata has the URI, the TrainJob and the metrics.
        metrics: what rank 0 reported.
        report: the run on one page.
        outcome: the JSON outcome.
        model_uri: where the training says that the model is, "" when it did not say.
        task_config: filled in by KFP: what is set on the task goes to the training.
        runtime: name of the (Cluster)TrainingRuntime, such as torch-distributed.
        script_uri: script to ship: a path, file://, http(s)://, or any scheme that fsspec serves.
        image: container image of the nodes; the runtime's when left out.
        command: argv of a node, instead of a script.
        args: arguments of the script, or more argv after command.
        num_nodes: nodes; the runtime's when left out.
        num_proc_per_node: processes a node.
        resources_per_node: such as {"cpu": 2, "memory": "4Gi", "nvidia.com/gpu": 1}.
        env: environment of the training code.
        packages: requirements that are installed before the script starts.
        dataset_uri: fetched by Trainer's dataset initializer before the nodes start.
        base_model_uri: fetched by Trainer's model initializer before the nodes start.
        checkpoint_dir: folder or URI that outlives an attempt.
        queue: Kueue's LocalQueue.
        manifest: a whole TrainJob, instead of the fields above.
        target: kubernetes://context/namespace or local:///dir; $TRAINER_OPS_TARGET, then this pod's own cluster.
        active_deadline_seconds: Trainer's own deadline, from creation.
        queue_timeout: seconds it may stay queued or suspended.
        startup_timeout: seconds it may take from admission to training.
        wait_timeout: seconds until the wait is given up; the training is left alone.
        unreachable_timeout: seconds without an answer from the target.
        missing_grace: seconds a TrainJob just made may be absent.
        max_restarts: cancel when a node fails again after so many restarts.
        retries: train again so often when it failed, with the same checkpoint folder.
        name: what a person recognises in the TrainJob's name.
        runtime_kind: ClusterTrainingRuntime or TrainingRuntime.
        runner: what starts a script on a node: auto, python, torchrun or mpirun.
        pip_index_url: where packages come from.
        labels: on the TrainJob.
        annotations: on the TrainJob.
        priority_class: Kueue's WorkloadPriorityClass.
        runtime_patches: Trainer's runtimePatches as they are.
        termination_grace_period_seconds: time to save after SIGTERM.
        dataset: what initialize_dataset made, read where it lies; only its URI and metadata are used.
        dataset_snapshot: the same as a parameter, for one in object storage: KFP would download the artifact.
        base_model: what initialize_model made, read where it lies; only its URI and metadata are used.
        base_model_snapshot: the same as a parameter.
    """


declared_train_job = train_job


def train_job_component(*, base_image: str = IMAGE, packages_to_install: Sequence[str] = ()) -> Any:
    """``train_job`` on another image.

    Args:
        base_image: an image with Python and, unless it is installed at start, trainer-ops. It needs no kfp.
        packages_to_install: requirements installed when the step starts (needs a package index at run time).

    Returns:
        A kfp component named ``train-job``.
    """
    return component(declared_train_job, image=base_image, packages=packages_to_install)


train_job = train_job_component()
