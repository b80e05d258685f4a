"""``initialize_dataset`` and ``initialize_model``: fetched once, for many trainings. Signatures, see ``definition``."""

from collections.abc import Sequence
from typing import Any, Optional

from kfp import dsl

from trainer_ops.kfp.define import IMAGE, component, with_inputs_of

__all__ = ["initialize_dataset", "initialize_dataset_component", "initialize_model", "initialize_model_component"]

# ruff: noqa: UP045 - Optional is kfp's own spelling
# mypy: disable-error-code="type-arg, no-untyped-def, valid-type"


def initialize_dataset(
    dataset: dsl.Output[dsl.Dataset],
    snapshot: dsl.OutputPath(dict),
    task_config: dsl.TaskConfig,
    uri: str,
    revision: str = "",
    include: Optional[list] = None,
    ignore: Optional[list] = None,
    to: str = "",
    secret_ref: str = "",
    env: Optional[dict] = None,
    storage: str = "",
    storage_class: str = "",
    access_mode: str = "",
    image: str = "",
    resources: Optional[dict] = None,
    queue: str = "",
    refresh: bool = False,
    target: str = "",
    active_deadline_seconds: int = -1,
    startup_timeout: int = -1,
    wait_timeout: int = -1,
    unreachable_timeout: int = -1,
):
    """Make one verified snapshot of a dataset, which many trainings read, or find that it is there.

    It is known by its source, the revision that this resolves to and the patterns. A broken download goes on where it
    stopped; terminating the run deletes the Job that makes it. "", -1 and an empty list or dict mean "not given".

    Args:
        dataset: the snapshot; its URI is the snapshot's location, its metadata are the snapshot's.
        snapshot: the same as a parameter.
        task_config: filled in by KFP: what is set on the task goes to the pod that makes the snapshot.
        uri: hf://, s3://, gs://, az://, http(s)://, pvc:// (on a cluster) or file:// (on this machine).
        revision: branch, tag, commit or version; the newest when left out.
        include: glob patterns of paths to take.
        ignore: glob patterns of paths to leave out.
        to: where it is kept: pvc://claim/folder, s3://bucket/prefix, file:///folder; the target's own store by default.
        secret_ref: the Secret whose keys become environment variables: HF_TOKEN, AWS_ACCESS_KEY_ID, …
        env: more variables; no secrets, they would be readable.
        storage: make the claim of this size, such as 20Gi, when it is not there.
        storage_class: of which class.
        access_mode: ReadWriteMany when left out.
        image: of the Job; the published one of this version when left out.
        resources: of the Job's container, as Kubernetes has them.
        queue: Kueue's LocalQueue.
        refresh: trust nothing that is there: its files are read again.
        target: kubernetes://context/namespace or local:///dir; $TRAINER_OPS_TARGET, then this pod's own cluster.
        active_deadline_seconds: the Job's own deadline.
        startup_timeout: seconds in which the Job must have started.
        wait_timeout: seconds until the wait is given up; the Job goes on.
        unreachable_timeout: seconds without an answer from the target.
    """


@with_inputs_of(initialize_dataset, without={"dataset"})
def initialize_model(
    model: dsl.Output[dsl.Model],
    snapshot: dsl.OutputPath(dict),
    uri: str,
):
    """Make one verified snapshot of a model to start from, which many trainings read, or find that it is there.

    As initialize_dataset, which says what a snapshot is; hf://owner/name is a model here.

    Args:
        model: the snapshot; its URI is the snapshot's location, its metadata are the snapshot's.
        snapshot: the same as a parameter.
        uri: hf://, s3://, gs://, az://, http(s)://, pvc:// (on a cluster) or file:// (on this machine).
    """


_initialize_dataset, _initialize_model = initialize_dataset, initialize_model


def initialize_dataset_component(*, base_image: str = IMAGE, packages_to_install: Sequence[str] = ()) -> Any:
    """``initialize_dataset`` on another image; see ``train_job_component``."""
    return component(_initialize_dataset, image=base_image, packages=packages_to_install)


def initialize_model_component(*, base_image: str = IMAGE, packages_to_install: Sequence[str] = ()) -> Any:
    """``initialize_model`` on another image; see ``train_job_component``."""
    return component(_initialize_model, image=base_image, packages=packages_to_install)


initialize_dataset = initialize_dataset_component()
initialize_model = initialize_model_component()
