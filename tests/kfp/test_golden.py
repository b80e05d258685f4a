"""Every folder in ``components/``: whole, described, and its compiled component is what the source says."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer_ops.build.image import default_image
from trainer_ops.lifecycle.version import tool_version

pytestmark = pytest.mark.kfp

COMPONENTS = Path(__file__).parents[2] / "components"
FOLDERS = sorted(p.parent.name for p in COMPONENTS.glob("*/component.py"))
PIPELINES = sorted(p.parent.name for p in COMPONENTS.glob("*/pipeline.yaml"))
KEYS = ["name", "stability", "dependencies", "tags", "lastVerified", "ci"]

# One process compiles all: importing kfp takes longer than the rest.
COMPILE = """
import pathlib, runpy, sys
for path in sys.argv[1:]:
    made = runpy.run_path(path)
    made["compile_to"](pathlib.Path(f"{pathlib.Path(path).parent.name}.yaml"))
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a fresh ``<folder>.yaml`` of each component and each pipeline."""
    out = tmp_path_factory.mktemp("compiled")
    sources = [COMPONENTS / name / "component.py" for name in FOLDERS]
    sources += [COMPONENTS / name / "pipeline.py" for name in PIPELINES]
    argv = [sys.executable, "-W", "ignore", "-c", COMPILE, *map(str, sources)]
    subprocess.run(argv, check=True, cwd=out, env={"PYTHONPATH": str(COMPONENTS.parent)})
    return out


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_compiled_component_is_current(folder: str, compiled: Path) -> None:
    golden = COMPONENTS / folder / "component.yaml"
    fresh = compiled / f"{folder}.yaml"
    assert golden.read_text() == fresh.read_text(), f"run: .venv-kfp/bin/python components/{folder}/component.py"


@pytest.mark.parametrize("folder", PIPELINES)
def test_the_compiled_pipeline_is_current(folder: str, compiled: Path) -> None:
    names = {p.name for p in (COMPONENTS / folder).iterdir() if p.is_file()}
    assert names == {"pipeline.py", "pipeline.yaml", "metadata.yaml", "README.md"}
    golden = COMPONENTS / folder / "pipeline.yaml"
    fresh = compiled / f"{folder}.yaml"
    assert golden.read_text() == fresh.read_text(), f"run: .venv-kfp/bin/python -m components.{folder}.pipeline"


@pytest.mark.parametrize("folder", PIPELINES)
def test_every_step_of_a_pipeline_has_a_version_and_no_cache(folder: str) -> None:
    spec = yaml.safe_load((COMPONENTS / folder / "pipeline.yaml").read_text())
    for executor in spec["deploymentSpec"]["executors"].values():
        assert executor["container"]["image"] == default_image(tool_version())
    dags = [place["dag"] for place in (spec["root"], *spec["components"].values()) if "dag" in place]
    steps = [task for dag in dags for task in dag["tasks"].values() if "cachingOptions" in task]
    assert len(steps) >= len(spec["deploymentSpec"]["executors"])
    named = {
        name: task["cachingOptions"]
        for dag in dags
        for name, task in dag["tasks"].items()
        if "executorLabel" in spec["components"][task["componentRef"]["name"]]
    }
    assert set(map(str, named.values())) == {"{}"}, named


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_whole(folder: str) -> None:
    names = {p.name for p in (COMPONENTS / folder).iterdir() if p.is_file()}
    assert names == {"component.py", "component.yaml", "metadata.yaml", "README.md", "pipeline.py"}


@pytest.mark.parametrize("folder", [*FOLDERS, *PIPELINES])
def test_metadata(folder: str) -> None:
    metadata: dict[str, Any] = yaml.safe_load((COMPONENTS / folder / "metadata.yaml").read_text())
    assert list(metadata) == KEYS
    assert metadata["name"] == folder
    assert metadata["stability"] in ("experimental", "alpha", "beta", "stable")
    assert {entry["name"] for entry in metadata["dependencies"]["kubeflow"]} >= {"Pipelines"}
    assert all(entry["version"] for entry in metadata["dependencies"]["kubeflow"])
    assert metadata["tags"]
    assert metadata["lastVerified"] > datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_readme_has_a_short_pipeline_that_compiles(folder: str, tmp_path: Path) -> None:
    text = (COMPONENTS / folder / "README.md").read_text()
    assert text.startswith(f"# {folder}\n")
    code = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[0]
    assert "@dsl.pipeline" in code
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    script = tmp_path / "readme.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, "-W", "ignore", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_runs_is_in_the_core_and_the_image_has_a_version(folder: str) -> None:
    spec = yaml.safe_load_all((COMPONENTS / folder / "component.yaml").read_text())
    (executor,) = next(spec)["deploymentSpec"]["executors"].values()
    container = executor["container"]
    assert container["command"] == ["python3", "-m", "trainer_ops.kfp.executor"]
    assert container["image"] == default_image(tool_version())


def test_every_component_has_a_folder_and_a_body() -> None:
    from importlib import import_module

    from trainer_ops.kfp.executor import BODIES

    assert set(BODIES) == set(FOLDERS)
    for place in BODIES.values():
        module, _, name = place.partition(":")
        assert callable(getattr(import_module(module), name))
