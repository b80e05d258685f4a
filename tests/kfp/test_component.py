"""The components as Python has them: their inputs, and that the public names need kfp only where they say so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.kfp
# mypy: disable-error-code="no-untyped-def"

COMPONENTS = Path(__file__).parents[2] / "components"
# What has no meaning in a pipeline step: code travels as script_uri or function_source.
NOT_INPUTS = {"code", "managed_by", "suspend"}
# What is not of the request.
OWN = {"target", "task_config", "retries", "dataset_snapshot", "base_model", "base_model_snapshot"}


def test_every_input_of_a_request_is_an_input_of_the_component() -> None:
    from trainer_ops.kfp import train_job
    from trainer_ops.kfp.inputs import _RENAMED
    from trainer_ops.model.request import TrainRequest

    inputs = {_RENAMED.get(name, name) for name in train_job.component_spec.inputs}
    assert inputs - set(TrainRequest.model_fields) == OWN
    assert set(TrainRequest.model_fields) - inputs == NOT_INPUTS


def test_no_input_is_required() -> None:
    from trainer_ops.kfp import train_job

    assert all(spec.optional for spec in train_job.component_spec.inputs.values())


def passthroughs(component: Any) -> dict[str, bool]:
    return {one.field.name: one.apply_to_task for one in component.component_spec.task_config_passthroughs or ()}


def test_all_of_a_task_s_configuration_is_passed_on() -> None:
    from kfp import dsl

    from trainer_ops.kfp import train_job

    assert set(passthroughs(train_job)) == set(dsl.TaskConfigField.__members__)


def test_a_component_loaded_from_its_file_passes_it_on_too() -> None:
    from kfp import dsl

    from trainer_ops.kfp import load, train_job

    loaded = load(COMPONENTS / "train_job" / "component.yaml")
    assert loaded.name == "train-job"
    assert passthroughs(loaded) == passthroughs(train_job)

    @dsl.pipeline(name="p")
    def one():
        loaded(runtime="torch-distributed").set_cpu_limit("2")

    (spec,) = one.pipeline_spec.components.values()
    assert len(spec.task_config_passthroughs) == 6


def test_another_image_and_packages_installed_at_start() -> None:
    from trainer_ops.kfp import train_job_component

    made = train_job_component(base_image="python:3.12", packages_to_install=["trainer-ops==0.1.0", "x>1"])
    container = made.component_spec.implementation.container
    assert container.image == "python:3.12"
    shell, flag, script, _ = container.command
    assert (shell, flag) == ("sh", "-ec")
    assert "pip install" in script
    assert "trainer-ops==0.1.0 'x>1' && exec python3 -m trainer_ops.kfp.executor \"$@\"" in script


def test_without_kfp_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['kfp'] = None\nfrom trainer_ops.kfp import train_job"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'trainer-ops[kfp]'" in done.stderr


def test_what_runs_in_the_step_needs_no_kfp() -> None:
    code = (
        "import sys; sys.modules['kfp'] = sys.modules['kubernetes'] = None\n"
        "from importlib import import_module\nfrom trainer_ops.kfp.executor import BODIES\n"
        "[import_module(place.partition(':')[0]) for place in BODIES.values()]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
