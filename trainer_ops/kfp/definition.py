"""The component ``train_job``: what a pipeline author calls.

The function below is copied into the compiled pipeline as source, so it imports what it needs itself and does nothing
but hand its inputs to ``launch``. No ``from __future__ import annotations`` here: kfp reads the real types.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from kfp import dsl

__all__ = ["IMAGE", "train_job", "train_job_component"]

# Built from components/Containerfile: Python, kfp and trainer-ops, so that a step installs nothing when it starts.
# The tag names the version it holds, never "latest": a compiled pipeline must run the code that it was tested with.
IMAGE = "ghcr.io/trainer-ops/kfp:0.1.0-python3.11"


def train_job(
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    runtime: str = "",
    script_uri: str = "",
    image: str = "",
    command: Optional[list] = None,  # type: ignore[type-arg]  # noqa: UP045 - kfp's own spelling
    args: Optional[list] = None,  # type: ignore[type-arg]  # noqa: UP045
    num_nodes: int = -1,
    num_proc_per_node: int = -1,
    resources_per_node: Optional[dict] = None,  # type: ignore[type-arg]  # noqa: UP045
    env: Optional[dict] = None,  # type: ignore[type-arg]  # noqa: UP045
    packages: Optional[list] = None,  # type: ignore[type-arg]  # noqa: UP045
    dataset_uri: str = "",
    base_model_uri: str = "",
    checkpoint_dir: str = "",
    queue: str = "",
    manifest: Optional[dict] = None,  # type: ignore[type-arg]  # noqa: UP045
    target: str = "",
    active_deadline_seconds: int = -1,
    queue_timeout: int = -1,
    startup_timeout: int = -1,
    wait_timeout: int = -1,
    unreachable_timeout: int = -1,
    missing_grace: int = -1,
    max_restarts: int = -1,
) -> NamedTuple("Outputs", outcome=dict, model_uri=str):  # type: ignore[valid-type]
    """Train on Kubeflow Trainer, or on the embedded engine, and wait for the end.

    A retry of the step, or a pod made again by the workflow engine, goes on with the training that the first one
    started. Terminating the run cancels the training. "", -1 and an empty list or dict mean "not given".

    Args:
        model: where the model is; its metadata has the URI, the TrainJob and the metrics.
        metrics: what rank 0 reported.
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
        target: kubernetes://context/namespace or local:///dir; $TRAINER_OPS_TARGET when left out.
        active_deadline_seconds: Trainer's own deadline, from creation.
        queue_timeout: seconds it may stay queued or suspended.
        startup_timeout: seconds it may take from admission to training.
        wait_timeout: seconds until the wait is given up; the training is left alone.
        unreachable_timeout: seconds without an answer from the target.
        missing_grace: seconds a TrainJob just made may be absent.
        max_restarts: cancel when a node fails again after so many restarts.

    Returns:
        outcome: the JSON outcome.
        model_uri: where the training says that the model is, "" when it did not say.
    """
    from trainer_ops.kfp.launch import train

    names = ("model", "metrics", "train", "names")
    return train({name: value for name, value in locals().items() if name not in names}, model=model, metrics=metrics)


# kfp copies the function by its source and calls it by the name that stands there; the component takes its place below.
_function = train_job


def train_job_component(*, base_image: str = IMAGE, packages_to_install: Sequence[str] = (), **options: Any) -> Any:
    """The component on another image.

    Args:
        base_image: an image with Python and, unless they are installed at start, kfp and trainer-ops.
        packages_to_install: requirements installed when the step starts (needs a package index at run time).
        options: more of ``dsl.component``'s, such as ``install_kfp_package=True``.

    Returns:
        A kfp component named ``train-job``.
    """
    options.setdefault("install_kfp_package", False)
    return dsl.component(_function, base_image=base_image, packages_to_install=list(packages_to_install), **options)


train_job = train_job_component()
