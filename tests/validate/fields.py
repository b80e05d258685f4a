"""Write ``trainer_ops/validate/fields.json`` from ``kubeflow_trainer_api``: ``python -m tests.validate.fields``.

The models were compared with the CRDs of Trainer v2.3.0. They differ in two places, which are set right here: metadata
inside a spec, of which the CRDs know five fields only, and the policies jax and xgboost, which have no fields.
"""

from __future__ import annotations

import importlib
import json
import re
import typing
from datetime import date
from pathlib import Path
from typing import Any

import trainer_ops.validate.schema as reader

__all__ = ["TARGET", "table", "written"]

TARGET = Path(reader.__file__).with_name("fields.json")
KINDS = {
    "TrainJob": "trainer_v1alpha1_train_job",
    "ClusterTrainingRuntime": "trainer_v1alpha1_cluster_training_runtime",
    "TrainingRuntime": "trainer_v1alpha1_training_runtime",
}
# Metadata of templates inside a spec: all that the CRDs keep of it.
EMBEDDED = ("annotations", "finalizers", "labels", "name", "namespace")
# Two types of one name: that of a Job beside that of a JobSet.
RENAMED = {"IoK8sApiBatchV1SuccessPolicy": "JobSuccessPolicy"}
SCALARS = {str: "text", int: "int", float: "number", bool: "bool"}
PREFIX = re.compile(
    r"^(TrainerV1alpha1|JobsetV1alpha2|SchedulingV1beta1|IoK8s(Api|Apimachinery)?\w*?V\d(alpha\d|beta\d)?)"
)

Table = dict[str, dict[str, str]]


def table() -> Table:
    """Every type that a TrainJob or a runtime can reach: its fields and what each holds."""
    made: Table = {}
    for kind, module in KINDS.items():
        model = getattr(importlib.import_module(f"kubeflow_trainer_api.models.{module}"), f"TrainerV1alpha1{kind}")
        _add(made, model, top=True)
    # Objects without any field, which the models take for free ones.
    made["MLPolicy"] |= {"jax": "JAXMLPolicySource", "xgboost": "XGBoostMLPolicySource"}
    made |= {"JAXMLPolicySource": {}, "XGBoostMLPolicySource": {}}
    return made


def written(made: Table) -> str:
    """The table as it stands in the file: sorted, one field a line."""
    return json.dumps(made, indent=1, sort_keys=True) + "\n"


def _add(made: Table, model: Any, top: bool = False) -> str:
    """Add a model with all it reaches; what it is called in the table."""
    name = RENAMED.get(model.__name__) or PREFIX.sub("", model.__name__)
    if name.endswith("ResourceQuantity"):
        return "quantity"
    if name.endswith("IntOrString"):
        return "int-or-text"
    known = {(info.alias or own): info for own, info in model.model_fields.items()}
    if name == "ObjectMeta" and not top:
        name, known = "TemplateMeta", {own: known[own] for own in EMBEDDED}
    if name not in made:
        fields = made[name] = {}
        for own, info in known.items():
            held = _expression(made, info.annotation, top and own == "metadata")
            fields[own] = f"{held}!" if info.is_required() else held
    return name


def _expression(made: Table, annotation: Any, top: bool = False) -> str:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _expression(made, args[0], top)
    if origin is typing.Union:
        inner = [_expression(made, arg, top) for arg in args if arg is not type(None)]
        return inner[0] if len(inner) == 1 else "number"
    if origin is list:
        return f"[{_expression(made, args[0])}]"
    if origin is dict:
        return f"{{{_expression(made, args[1])}}}"
    if hasattr(annotation, "model_fields"):
        return _add(made, annotation, top)
    if isinstance(annotation, type) and issubclass(annotation, date):
        return "time"
    return SCALARS.get(annotation, "any")


if __name__ == "__main__":
    TARGET.write_text(written(table()))
