"""Kubeflow Pipelines components.

Only modules of this folder may import ``kfp``, and of them only those that define components do (``define`` and the
``definition`` modules), and ``package`` when it is to compile a pipeline. What runs inside a step's container
(``executor`` and what it imports) needs nothing but the core, so the image is small, the waiting pod costs little, and
its code is tested as ordinary Python. May import: ``lifecycle`` and below.

A component is: its signature in a definition, its body in a module of its own, a line in ``executor.BODIES``, and a
folder in ``components/``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer_ops.kfp.define import load
    from trainer_ops.kfp.definition import train_job_component
    from trainer_ops.kfp.definition_care import apply_runtime_component, cleanup_train_jobs_component
    from trainer_ops.kfp.definition_data import initialize_dataset_component, initialize_model_component
    from trainer_ops.kfp.definition_function import train_from_function, train_from_function_component
    from trainer_ops.kfp.definition_parts import submit_train_job_component, wait_train_job_component
    from trainer_ops.kfp.definition_retraining import decide_retraining_component, promote_model_component

    # kfp components: pipeline authors pass them inputs only, whatever the function behind one takes.
    apply_runtime: Any
    cleanup_train_jobs: Any
    decide_retraining: Any
    initialize_dataset: Any
    initialize_model: Any
    promote_model: Any
    submit_train_job: Any
    train_job: Any
    wait_train_job: Any

__all__ = [
    "apply_runtime",
    "apply_runtime_component",
    "cleanup_train_jobs",
    "cleanup_train_jobs_component",
    "decide_retraining",
    "decide_retraining_component",
    "initialize_dataset",
    "initialize_dataset_component",
    "initialize_model",
    "initialize_model_component",
    "load",
    "promote_model",
    "promote_model_component",
    "submit_train_job",
    "submit_train_job_component",
    "train_from_function",
    "train_from_function_component",
    "train_job",
    "train_job_component",
    "wait_train_job",
    "wait_train_job_component",
]

_HOMES = {
    "apply_runtime": "definition_care",
    "apply_runtime_component": "definition_care",
    "cleanup_train_jobs": "definition_care",
    "cleanup_train_jobs_component": "definition_care",
    "decide_retraining": "definition_retraining",
    "decide_retraining_component": "definition_retraining",
    "initialize_dataset": "definition_data",
    "initialize_dataset_component": "definition_data",
    "initialize_model": "definition_data",
    "initialize_model_component": "definition_data",
    "load": "define",
    "promote_model": "definition_retraining",
    "promote_model_component": "definition_retraining",
    "submit_train_job": "definition_parts",
    "submit_train_job_component": "definition_parts",
    "train_from_function": "definition_function",
    "train_from_function_component": "definition_function",
    "train_job": "definition",
    "train_job_component": "definition",
    "wait_train_job": "definition_parts",
    "wait_train_job_component": "definition_parts",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"trainer_ops.kfp.{home}")
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.split(".")[0] != "kfp":
            raise
        raise ImportError("trainer_ops.kfp needs Kubeflow Pipelines: pip install 'trainer-ops[kfp]'") from exc
    globals()[name] = getattr(module, name)
    return globals()[name]
