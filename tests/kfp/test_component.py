"""The compiled component is what the source says, and the public names need kfp only where they say so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.kfp

COMPONENTS = Path(__file__).parents[2] / "components"


@pytest.mark.parametrize("folder", sorted(p.parent.name for p in COMPONENTS.glob("*/component.py")))
def test_the_golden_component_is_current(folder: str, tmp_path: Path) -> None:
    golden = COMPONENTS / folder / "component.yaml"
    script = COMPONENTS / folder / "component.py"
    fresh = tmp_path / "component.yaml"
    code = f"import runpy, pathlib; m = runpy.run_path({str(script)!r}); m['compile_to'](pathlib.Path({str(fresh)!r}))"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, env={**os.environ})
    assert golden.read_text() == fresh.read_text(), f"run: .venv-kfp/bin/python {script}"


@pytest.mark.parametrize("folder", sorted(p.parent.name for p in COMPONENTS.glob("*/component.py")))
def test_a_component_is_a_whole_folder(folder: str) -> None:
    names = {p.name for p in (COMPONENTS / folder).iterdir()}
    assert {"component.py", "component.yaml", "metadata.yaml", "README.md", "pipeline.py"} <= names
    metadata = yaml.safe_load((COMPONENTS / folder / "metadata.yaml").read_text())
    assert metadata["name"] == folder


def test_every_input_of_a_request_is_an_input_of_the_component() -> None:
    from trainer_ops.kfp import train_job
    from trainer_ops.kfp.inputs import _RENAMED
    from trainer_ops.model.request import TrainRequest

    inputs = {_RENAMED.get(name, name) for name in train_job.component_spec.inputs}
    assert inputs - set(TrainRequest.model_fields) == {"target"}
    # What has no meaning in a pipeline step, or comes with KFP's own task configuration.
    assert set(TrainRequest.model_fields) - inputs == {
        "annotations",
        "code",
        "labels",
        "managed_by",
        "name",
        "pip_index_url",
        "priority_class",
        "runner",
        "runtime_kind",
        "runtime_patches",
        "suspend",
        "termination_grace_period_seconds",
    }


def test_the_component_loads_from_its_file() -> None:
    from kfp import components

    loaded = components.load_component_from_file(str(COMPONENTS / "train_job" / "component.yaml"))
    assert loaded.name == "train-job"


def test_without_kfp_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['kfp'] = None\nfrom trainer_ops.kfp import train_job"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'trainer-ops[kfp]'" in done.stderr


def test_what_runs_in_the_step_needs_no_kfp() -> None:
    code = "import sys; sys.modules['kfp'] = None; import trainer_ops.kfp.launch"
    subprocess.run([sys.executable, "-c", code], check=True)
