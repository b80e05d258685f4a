"""``cleanup_train_jobs`` and ``apply_runtime``: before and after trainings. Signatures, see ``definition``."""

from collections.abc import Sequence
from typing import Any, Optional

from kfp import dsl

from trainer_ops.kfp.define import IMAGE, component

__all__ = ["apply_runtime", "apply_runtime_component", "cleanup_train_jobs", "cleanup_train_jobs_component"]

# ruff: noqa: UP045 - Optional is kfp's own spelling
# mypy: disable-error-code="type-arg, no-untyped-def, valid-type"


def cleanup_train_jobs(
    report: dsl.Output[dsl.Markdown],
    cleaned: dsl.OutputPath(list),
    run: str = "",
    labels: Optional[dict] = None,
    names: Optional[list] = None,
    only: str = "",
    policy: str = "",
    older_than: int = -1,
    target: str = "",
    unreachable_timeout: int = -1,
):
    """Stop what trainings a pipeline run has left; doing it again finds nothing more to do.

    For dsl.ExitHandler: it looks at the trainings themselves and needs no PipelineTaskFinalStatus, which is RUNNING
    after a terminate.

    Args:
        report: what was done, as a table.
        cleaned: the same as a list.
        run: whose trainings; this pipeline run's when left out, another's by its id, or any with labels or names.
        labels: of those, the ones with all these labels.
        names: of those, the ones of these names.
        only: active (not ended; also queued and suspended) when left out; failed, finished, or all.
        policy: delete when left out; suspend keeps the record and the checkpoints of those that are active.
        older_than: seconds since they were created, at least.
        target: kubernetes://context/namespace or local:///dir; $TRAINER_OPS_TARGET, then this pod's own cluster.
        unreachable_timeout: seconds without an answer from the target; 300 when left out.
    """


def apply_runtime(
    name: dsl.OutputPath(str),
    kind: dsl.OutputPath(str),
    how: dsl.OutputPath(str),
    runtime: Optional[dict] = None,
    runtime_uri: str = "",
    target: str = "",
):
    """Make a TrainingRuntime or ClusterTrainingRuntime be as it is written; again and again is once.

    All that is wrong with it is said before anything is changed.

    Args:
        name: the runtime's, for train_job.
        kind: ClusterTrainingRuntime or TrainingRuntime.
        how: created, changed or unchanged.
        runtime: the manifest.
        runtime_uri: or where its YAML is: a path, file://, http(s)://, or any scheme that fsspec serves.
        target: kubernetes://context/namespace or local:///dir; $TRAINER_OPS_TARGET, then this pod's own cluster.
    """


_cleanup_train_jobs, _apply_runtime = cleanup_train_jobs, apply_runtime


def cleanup_train_jobs_component(*, base_image: str = IMAGE, packages_to_install: Sequence[str] = ()) -> Any:
    """``cleanup_train_jobs`` on another image; see ``train_job_component``."""
    return component(_cleanup_train_jobs, image=base_image, packages=packages_to_install)


def apply_runtime_component(*, base_image: str = IMAGE, packages_to_install: Sequence[str] = ()) -> Any:
    """``apply_runtime`` on another image; see ``train_job_component``."""
    return component(_apply_runtime, image=base_image, packages=packages_to_install)


cleanup_train_jobs = cleanup_train_jobs_component()
apply_runtime = apply_runtime_component()
