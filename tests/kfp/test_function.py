"""A function in a pipeline: what travels, what arrives as it was, what is refused where the pipeline is written.

Without postponed annotations: kfp reads the real types of a pipeline's parameters.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from kfp import dsl

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp import train_from_function, train_from_function_component
from trainer_ops.kfp.arguments import joined, noted

pytestmark = pytest.mark.kfp
# mypy: disable-error-code="no-untyped-def, untyped-decorator, type-arg, no-any-return"

OUTSIDE = 3


def fit(rounds: int, rate: float = 0.1, tags: object = None) -> dict[str, Any]:
    return {"artifacts": {"rounds": repr(rounds), "rate": repr(rate), "tags": repr(tags)}}


def constants(pipeline: Any) -> dict[str, Any]:
    (task,) = pipeline.pipeline_spec.root.dag.tasks.values()
    values = task.inputs.parameters.items()
    found = {name: value.runtime_value.constant for name, value in values if value.HasField("runtime_value")}
    return {
        name: dict(one.struct_value) if one.HasField("struct_value") else one.string_value
        for name, one in found.items()
    }


def test_the_source_travels_and_constants_keep_their_types() -> None:
    @dsl.pipeline(name="p")
    def one(rounds: int = 8):
        train_from_function(fit, kwargs={"rounds": rounds, "rate": 1.0, "tags": [None, 2]}, runtime="plain")

    given = constants(one)
    assert given["function_name"] == "fit"
    assert given["function_source"].endswith("repr(tags)}}\n")
    assert json.loads(given["function_arguments"]) == {
        "constants": {"rate": 1.0, "tags": [None, 2]},
        "late": [[["rounds"], "rounds", "Integer"]],
    }
    assert "1.0" in given["function_arguments"]
    assert list(given["function_kwargs"]) == ["rounds"]


def test_another_image() -> None:
    made = train_from_function_component(base_image="python:3.13")

    @dsl.pipeline(name="p")
    def one():
        train_from_function(fit, kwargs={"rounds": 1}, component=made, runtime="plain")

    (executor,) = one.pipeline_spec.deployment_spec["executors"].values()
    assert executor["container"]["image"] == "python:3.13"


def uses_what_is_outside() -> int:
    return OUTSIDE


@pytest.mark.parametrize(
    ("function", "kwargs", "field"),
    [
        pytest.param(uses_what_is_outside, {}, "python_callable", id="a global"),
        pytest.param(lambda: 1, {}, "python_callable", id="a lambda"),
        pytest.param(fit, {}, "python_callable.kwargs", id="an argument is missing"),
        pytest.param(fit, {"rounds": 1, "nodes": 2}, "python_callable.kwargs", id="an argument too many"),
        pytest.param(fit, {"rounds": object()}, "python_callable.kwargs.rounds", id="no plain data"),
    ],
)
def test_refused(function: Callable[..., Any], kwargs: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        train_from_function(function, kwargs=kwargs, runtime="plain")
    assert caught.value.field == field


def test_none_beside_a_value_of_the_pipeline_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="is None beside"):

        @dsl.pipeline(name="p")
        def one(rounds: int = 8):
            train_from_function(fit, kwargs={"rounds": 1, "tags": [rounds, None]}, runtime="plain")


def test_a_list_of_the_pipeline_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"kwargs.tags: is a list or a mapping of the pipeline"):

        @dsl.pipeline(name="p")
        def one(names: list = []):  # noqa: B006 - kfp's own way
            train_from_function(fit, kwargs={"rounds": 1, "tags": names}, runtime="plain")


@pytest.mark.slow
def test_what_arrives(engine: str, runner: Any) -> None:
    @dsl.pipeline(name="p")
    def one(rounds: int = 8) -> dict:
        kwargs = {"rounds": rounds, "rate": 1.0, "tags": [{"rounds": rounds, "lr": 0.5}, "n"]}
        task = train_from_function(fit, kwargs=kwargs, runtime="plain", num_nodes=1, target=engine)
        task.set_caching_options(False)
        return task.outputs["outcome"]

    found = one().output["artifacts"]
    tags = found.pop("tags")
    assert found == {"rounds": "8", "rate": "1.0"}
    # A struct of KFP's has no order.
    assert tags in ("[{'rounds': 8, 'lr': 0.5}, 'n']", "[{'lr': 0.5, 'rounds': 8}, 'n']")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("Integer", "8.0", 8),
        ("Float", "1", 1.0),
        ("Boolean", "true", True),
        ("Boolean", False, False),
        ("String", "8.0", "8.0"),
    ],
)
def test_a_value_of_the_pipeline_has_its_type_again(kind: str, text: Any, value: Any) -> None:
    notes = noted({}, {("x",): ("step-Output", kind)})
    for made in (joined({"x": text}, notes, {}), joined({"x": "?"}, notes, {"pipelinechannel--step-Output": text})):
        assert made == {"x": value}
        assert type(made["x"]) is type(value)


@pytest.mark.parametrize("notes", ["{", "[]", '{"late": 7}'])
def test_notes_that_are_none(notes: str) -> None:
    with pytest.raises(InvalidRequest, match="function_arguments"):
        joined({}, notes, {})


def test_a_value_that_is_not_of_its_type() -> None:
    with pytest.raises(InvalidRequest, match=r"function_kwargs.x: 'many' is no Integer"):
        joined({"x": "many"}, noted({}, {("x",): ("n", "Integer")}), {})
