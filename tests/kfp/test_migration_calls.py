"""What a migration prints for a pipeline is one: run by Python and compiled by KFP.

Without postponed annotations: KFP reads them.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp import compiler, dsl

from trainer_ops.migrate.convert import convert
from trainer_ops.migrate.report.use import use_of
from trainer_ops.migrate.scan.any import scan
from trainer_ops.migrate.yamltext import to_yaml

pytestmark = pytest.mark.kfp

SOURCES = Path(__file__).parents[1] / "migrate"


def compiled(pipeline: Any, tmp_path: Path) -> dict[str, Any]:
    compiler.Compiler().compile(pipeline, str(tmp_path / "pipeline.yaml"))
    found: dict[str, Any] = yaml.safe_load((tmp_path / "pipeline.yaml").read_text())
    return found


def constants(spec: dict[str, Any], task: str) -> dict[str, Any]:
    inputs = spec["root"]["dag"]["tasks"][task]["inputs"]["parameters"]
    return {name: held["runtimeValue"].get("constant") for name, held in inputs.items() if "runtimeValue" in held}


def pipeline_of(body: str) -> Any:
    @dsl.pipeline(name="migrated")  # type: ignore[untyped-decorator]
    def migrated(namespace: str = "research") -> None:
        exec(compile(body, "replacement", "exec"), {"namespace": namespace})

    return migrated


@pytest.mark.parametrize("name", ["pytorch-simple", "pytorch-rich"])
def test_the_call_of_a_report(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = convert(yaml.safe_load((SOURCES / "corpus" / f"{name}.yaml").read_text()))
    assert done.trainjob is not None
    use = use_of(done.trainjob, done.runtime)
    for kind, made in (("trainjob", done.trainjob), ("runtime", done.runtime)):
        if made is not None:
            (tmp_path / use.files[kind]).write_text(to_yaml(made))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(use.kfp, "use", "exec"), names)
    spec = compiled(names[name.replace("-", "_")], tmp_path)
    assert constants(spec, "train-job")["manifest"] == done.trainjob
    if done.runtime is not None:
        assert constants(spec, "apply-runtime")["runtime"] == done.runtime
        assert spec["root"]["dag"]["tasks"]["train-job"]["dependentTasks"] == ["apply-runtime"]


def test_the_replacements_in_a_pipeline(tmp_path: Path) -> None:
    text = (SOURCES / "sources" / "pipeline_launcher.py.txt").read_text()
    steps = [one for one in scan("pipeline.py", text) if "train = train_job(" in one.replacement]
    assert len(steps) == 2
    for one in steps:
        spec = compiled(pipeline_of(one.replacement), tmp_path)
        assert one.converted is not None
        assert constants(spec, "train-job")["manifest"] == one.converted.trainjob
