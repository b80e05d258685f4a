"""Each limit is a field of the request, a parameter of the operator and the component, and a flag, of the same name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from trainer_ops.cli.app import app
from trainer_ops.cli.flags import LimitFlags, TrainFlags
from trainer_ops.cli.inputs import request_of
from trainer_ops.kfp.inputs import fields_from
from trainer_ops.model.limits import Limits
from trainer_ops.model.request import TrainRequest

COMPONENT = Path(__file__).parents[1] / "components" / "train_job" / "component.yaml"
TIMES = {
    "queue_timeout": 11,
    "startup_timeout": 12,
    "wait_timeout": 13,
    "unreachable_timeout": 14,
    "missing_grace": 15,
}
VALUES = {**TIMES, "max_restarts": 3}
LIMITS = Limits.from_json(VALUES)


def test_these_are_all() -> None:
    assert set(VALUES) == {field.name for field in dataclasses.fields(Limits)}


def test_request() -> None:
    given: dict[str, Any] = {"runtime": "r", "command": ["true"], **VALUES}
    assert TrainRequest(**given).limits == LIMITS


def test_request_with_a_manifest() -> None:
    manifest = {"metadata": {"name": "x"}, "spec": {"runtimeRef": {"name": "r"}}}
    assert TrainRequest(manifest=manifest, **VALUES).limits == LIMITS


@pytest.mark.airflow
def test_operator() -> None:
    from trainer_ops.airflow.inputs import FIELDS, make_request
    from trainer_ops.airflow.operators import TrainJobOperator

    given: dict[str, Any] = {"runtime": "r", "command": ["true"], **VALUES}
    task = TrainJobOperator(task_id="train", **given)
    assert make_request({name: getattr(task, name) for name in FIELDS}).limits == LIMITS
    assert set(VALUES) <= set(task.template_fields)


def test_component() -> None:
    pipeline = next(doc for doc in yaml.safe_load_all(COMPONENT.read_text()) if "root" in doc)
    parameters = pipeline["root"]["inputDefinitions"]["parameters"]
    assert set(VALUES) <= set(parameters)
    assert all(parameters[name]["isOptional"] for name in VALUES)
    assert TrainRequest(**fields_from({"runtime": "r", "command": ["true"], **VALUES})).limits == LIMITS


@pytest.mark.parametrize("command", ["run", "submit", "wait"])
def test_flags(command: str) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    flags = {flag for parameter in commands[command].params for flag in parameter.opts}
    assert {"--" + name.replace("_", "-") for name in VALUES} <= flags


def test_what_flags_mean() -> None:
    times: dict[str, Any] = {name: f"{value}s" for name, value in TIMES.items()}
    flags = LimitFlags(max_restarts=3, **times)
    train = TrainFlags(runtime="r", argv=["true"])
    assert request_of(train, flags, None, is_file=lambda _: False, environ={}).limits == LIMITS
