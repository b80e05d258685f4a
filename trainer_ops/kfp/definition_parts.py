"""The two halves of ``train_job``: submit now, wait elsewhere in the pipeline. Signatures, see ``definition``."""

from collections.abc import Sequence
from typing import Any, Optional

from kfp import dsl

from trainer_ops.kfp.define import IMAGE, component, with_inputs_of
from trainer_ops.kfp.definition import declared_train_job

__all__ = ["submit_train_job", "submit_train_job_component", "wait_train_job", "wait_train_job_component"]

# ruff: noqa: UP045 - Optional is kfp's own spelling
# mypy: disable-error-code="type-arg, no-untyped-def, valid-type"


@with_inputs_of(declared_train_job, without={"retries"})
def submit_train_job(
    trainjob: dsl.Output[dsl.Artifact],
    ref: dsl.OutputPath(dict),
):
    """Make sure that a training is there, and go on without waiting for it.

    A retry of the step, or a pod made again by the workflow engine, finds the training that the first one submitted.
    The time limits are kept with the training, for whoever waits for it.

    Args:
        trainjob: metadata only: which TrainJob it is.
        ref: which TrainJob it is, for wait_train_job.
    """


def wait_train_job(
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
    outcome: dsl.OutputPath(dict),
    model_uri: dsl.OutputPath(str),
    ref: Optional[dict] = None,
    name: str = "",
    target: str = "",
    on_terminate: str = "",
    queue_timeout: int = -1,
    startup_timeout: int = -1,
    wait_timeout: int = -1,
    unreachable_timeout: int = -1,
    missing_grace: int = -1,
    max_restarts: int = -1,
):
    """Wait for a training that was submitted before, here or elsewhere.

    Args:
        model: where the model is; its metadata has the URI, the TrainJob and the metrics.
        metrics: what rank 0 reported.
        report: the run on one page.
        outcome: the JSON outcome.
        model_uri: where the training says that the model is, "" when it did not say.
        ref: what submit_train_job gave; or name.
        name: the TrainJob's; the newest attempt of its run is meant.
        target: where; the ref's own, then $TRAINER_OPS_TARGET, then this pod's own cluster.
        on_terminate: delete or keep the training; of a ref it is deleted, of a name kept, when left out.
        queue_timeout: seconds it may stay queued or suspended; of each limit what it was submitted with, when left out.
        startup_timeout: seconds it may take from admission to training.
        wait_timeout: seconds until the wait is given up; the training is left alone.
        unreachable_timeout: seconds without an answer from the target.
        missing_grace: seconds a TrainJob just made may be absent.
        max_restarts: cancel when a node fails again after so many restarts.
    """


_submit_train_job, _wait_train_job = submit_train_job, wait_train_job


def submit_train_job_component(*, base_image: str = IMAGE, packages_to_install: Sequence[str] = ()) -> Any:
    """``submit_train_job`` on another image; see ``train_job_component``."""
    return component(_submit_train_job, image=base_image, packages=packages_to_install)


def wait_train_job_component(*, base_image: str = IMAGE, packages_to_install: Sequence[str] = ()) -> Any:
    """``wait_train_job`` on another image; see ``train_job_component``."""
    return component(_wait_train_job, image=base_image, packages=packages_to_install)


submit_train_job = submit_train_job_component()
wait_train_job = wait_train_job_component()
