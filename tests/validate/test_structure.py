"""The structural check against the models themselves: every field is known, and every mistake in one is found.

The walk over the models here is its own, so that it does not repeat a mistake of the one under test.
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from tests.validate.job_cases import NO_QUANTITIES, QUANTITIES
from trainer_ops.validate.schema import check_structure
from trainer_ops.validate.values import ENUMS

KINDS = {
    "TrainJob": "trainer_v1alpha1_train_job",
    "TrainingRuntime": "trainer_v1alpha1_training_runtime",
    "ClusterTrainingRuntime": "trainer_v1alpha1_cluster_training_runtime",
}
EMBEDDED = {"annotations", "finalizers", "labels", "name", "namespace"}
FREE = "fieldsV1"


def full(kind: str) -> Any:
    """A manifest with every field there is."""
    module = importlib.import_module(f"kubeflow_trainer_api.models.{KINDS[kind]}")
    return _model(getattr(module, f"TrainerV1alpha1{kind}"), top=True)


def _model(model: Any, top: bool = False) -> Any:
    name = model.__name__
    if name.endswith(("ResourceQuantity", "IntOrString")):
        return "1500m"
    made = {}
    for own, info in model.model_fields.items():
        alias = info.alias or own
        if name.endswith("ObjectMeta") and not top and alias not in EMBEDDED:
            continue
        enum = next(
            (
                values[0]
                for key, values in ENUMS.items()
                if _ends(name, key.split(".")[0]) and key.endswith(f".{alias}")
            ),
            None,
        )
        made[alias] = _value(info.annotation, top and alias == "metadata", enum)
    return made


def _ends(model: str, short: str) -> bool:
    return model.endswith(short) and (len(model) == len(short) or not model[-len(short) - 1].islower())


def _value(annotation: Any, top: bool = False, enum: str | None = None) -> Any:
    text = str(annotation)
    if text == "typing.Dict[str, typing.Any]":
        return {}
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        return [_value(args[0], enum=enum)]
    if origin is dict:
        return {"key": _value(args[1])}
    if origin in (typing.Union, typing.Annotated):
        return _value(args[0], top, enum)
    if hasattr(annotation, "model_fields"):
        return _model(annotation, top)
    if "datetime" in text:
        return "2026-01-31T12:00:00Z"
    return {str: enum if enum is not None else "text", int: 1, float: 1.5, bool: True}.get(annotation, "free")


def leaves(value: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Every scalar: what holds it, under which key, and its path."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, held in list(pairs):
        if isinstance(value, list):
            below = f"{path}[{key}]"
        else:
            below = f"{path}[key]" if key == "key" and len(value) == 1 else f"{path}.{key}".lstrip(".")
        if isinstance(held, dict | list):
            yield from leaves(held, below)
        else:
            yield value, key, below


def objects(value: Any, path: str = "") -> Iterator[tuple[dict[str, Any], str]]:
    """Every mapping that is no free map, and its path."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from objects(item, f"{path}[{i}]")
    elif isinstance(value, dict):
        if set(value) != {"key"}:
            yield value, path
        for key, held in value.items():
            below = f"{path}[key]" if set(value) == {"key"} else f"{path}.{key}".lstrip(".")
            yield from objects(held, below)


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_field_of_the_models_is_accepted(kind: str) -> None:
    assert check_structure(full(kind), kind) == []
    assert len(list(leaves(full(kind)))) > 400


def test_every_leaf_may_be_null_unless_it_is_required(kind: str) -> None:
    manifest = full(kind)
    for holder, key, _ in leaves(manifest):
        if isinstance(holder, dict):
            holder[key] = None
    assert {found.rule for found in check_structure(manifest, kind)} <= {"missing-field"}


def test_a_typo_anywhere_is_found_with_the_name_that_was_meant(kind: str) -> None:
    manifest, wanted = full(kind), {}
    for holder, key, path in list(leaves(manifest)):
        if isinstance(holder, dict) and not path.endswith("[key]") and FREE not in path:
            holder[f"{key}z"] = holder.pop(key)
            wanted[f"{path}z"] = key
    found = {f.path: f for f in check_structure(manifest, kind) if f.rule == "unknown-field"}
    assert set(found) == set(wanted)
    right = [path for path, key in wanted.items() if found[path].remedy == f"Did you mean {key}?"]
    assert len(right) > 0.95 * len(wanted)


def test_an_unknown_field_in_any_object_is_found(kind: str) -> None:
    manifest, wanted = full(kind), set()
    for holder, path in list(objects(manifest)):
        if FREE not in path:
            holder["zzzz"] = {}
            wanted.add(f"{path}.zzzz".lstrip("."))
    assert {f.path for f in check_structure(manifest, kind) if f.rule == "unknown-field"} == wanted


@pytest.mark.parametrize("wrong", [{}, [], object(), b"x"], ids=["mapping", "list", "object", "bytes"])
def test_a_wrong_type_in_any_leaf_is_found(kind: str, wrong: Any) -> None:
    manifest, wanted = full(kind), set()
    for holder, key, path in list(leaves(manifest)):
        if FREE not in path:
            holder[key] = wrong
            wanted.add(path)
    assert {f.path for f in check_structure(manifest, kind)} == wanted


def test_null_in_any_list_is_found(kind: str) -> None:
    manifest, wanted = full(kind), set()
    for holder, key, path in list(leaves(manifest)):
        if isinstance(holder, list):
            holder[key] = None
            wanted.add(path)
    assert {f.path for f in check_structure(manifest, kind)} == wanted


KNOWN = "args, command, env, image, numNodes, numProcPerNode, resourcesPerNode"
TYPES = [
    ({"numNodes": "2"}, '"2" is not a whole number but text. Write 2 without quotes.'),
    ({"numNodes": 1.5}, "1.5 is not a whole number. Write a whole number."),
    ({"numNodes": False}, "false is not a whole number. Write a whole number."),
    ({"numNodes": 3_000_000_000}, "3000000000 does not fit a number of 32 bits. Give a smaller one."),
    ({"numNodes": 10**30}, f"{10**30} does not fit a number of 64 bits. Give a smaller one."),
    ({"image": 1}, '1 is not text. Write "1", in quotes.'),
    ({"image": True}, 'true is not text. Write "true", in quotes.'),
    ({"args": "--fast"}, '"--fast" is not a list. Write ["--fast"].'),
    ({"args": 3}, "3 is not a list. Write a list."),
    ({"env": {"A": "1"}}, '{"A": "1"} is not a list. Write [{"A": "1"}].'),
    ({"num_nodes": 2}, "is no field of spec.trainer. Did you mean numNodes?"),
    ({"NUM-NODES": 2}, "is no field of spec.trainer. Did you mean numNodes?"),
    ({1: 2}, f"is no field of spec.trainer. Known here: {KNOWN}."),
]


@pytest.mark.parametrize(("trainer", "text"), TYPES, ids=[str(t)[:24] for t, _ in TYPES])
def test_wrong_values_are_told_with_the_right_form(trainer: Any, text: str) -> None:
    (found,) = check_structure({"spec": {"runtimeRef": {"name": "a"}, "trainer": trainer}})
    assert str(found) == f"invalid TrainJob: {found.path}: {text}"
    assert found.path.startswith("spec.trainer.")


@pytest.mark.parametrize("value", QUANTITIES)
def test_quantities(value: Any) -> None:
    resources = {"limits": {"cpu": value}}
    assert check_structure({"spec": {"runtimeRef": {"name": "a"}, "trainer": {"resourcesPerNode": resources}}}) == []


@pytest.mark.parametrize("value", NO_QUANTITIES)
def test_no_quantities(value: Any) -> None:
    resources = {"limits": {"cpu": value}}
    (found,) = check_structure({"spec": {"runtimeRef": {"name": "a"}, "trainer": {"resourcesPerNode": resources}}})
    assert (found.rule, found.path) == ("quantity", "spec.trainer.resourcesPerNode.limits[cpu]")
