"""Kubeflow Pipelines components.

Only modules of this folder may import ``kfp``, and of them only ``definition`` (the component's definition) does: what
runs inside a step's container (``launch``, ``artifacts``, ``cancel``) needs nothing but the core, so the launcher image
is small and its code is tested as ordinary Python. May import: ``lifecycle`` and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer_ops.kfp.definition import train_job_component

    # A kfp component: pipeline authors pass it inputs only, whatever the function behind it takes.
    train_job: Any

__all__ = ["train_job", "train_job_component"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from trainer_ops.kfp import definition as module
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.split(".")[0] != "kfp":
            raise
        raise ImportError("trainer_ops.kfp needs Kubeflow Pipelines: pip install 'trainer-ops[kfp]'") from exc
    for public in __all__:
        globals()[public] = getattr(module, public)
    return globals()[name]
