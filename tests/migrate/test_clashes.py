"""Two jobs that would become one TrainJob."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from trainer_ops.migrate.clashes import Named, clashes
from trainer_ops.migrate.files import migrate, read_source
from trainer_ops.migrate.options import Options

ROLES = {"PyTorchJob": ("pytorchReplicaSpecs", "pytorch"), "TFJob": ("tfReplicaSpecs", "tensorflow")}
JOB = """apiVersion: kubeflow.org/v1
kind: {kind}
metadata:
  name: {name}
spec:
  {field}:
    Worker:
      template:
        spec:
          containers:
          - {{name: {container}, image: none.example/image, command: [python, train.py]}}
"""


def named(kind: str, name: str, *, file: str = "a.yaml", line: int = 1, space: str = "", becomes: str = "") -> Named:
    def held(name: str) -> dict[str, Any]:
        return {"name": name, **({"namespace": space} if space else {})}

    raw = {"kind": kind, "metadata": held(name)}
    return Named(file, line, raw, {"kind": "TrainJob", "metadata": held(becomes or name)})


def refused(one: Named) -> Named:
    return Named(one.file, one.line, one.raw, None)


TORCH = named("PyTorchJob", "train")
XGB = named("XGBoostJob", "train", line=9)
THERE = named("TrainJob", "train", line=20)
# Case -> (what a call has, what is told: severity and whose name is named).
CASES: Mapping[str, tuple[list[Named], list[tuple[str, str]]]] = {
    "one": ([TORCH], []),
    "two kinds in a file": ([TORCH, XGB], [("refused", "PyTorchJob train (line 1) becomes")]),
    "three": (
        [TORCH, XGB, named("JAXJob", "train", line=12)],
        [("refused", "PyTorchJob train (line 1) becomes")] * 2,
    ),
    "a name that is changed": (
        [named("TFJob", "my.job", becomes="my-job"), named("TFJob", "my-job", line=9)],
        [("refused", "TFJob my.job (line 1) becomes")],
    ),
    "two files": (
        [TORCH, named("XGBoostJob", "train", file="b.yaml")],
        [("warning", "PyTorchJob train (a.yaml, line 1) becomes")],
    ),
    "one object twice, as v1 had it": ([TORCH, named("PyTorchJob", "train", line=9)], []),
    "two namespaces": ([TORCH, named("XGBoostJob", "train", space="team-b")], []),
    "one namespace": (
        [named("PyTorchJob", "train", space="b"), named("XGBoostJob", "train", space="b")],
        [("refused", "PyTorchJob train (line 1) becomes")],
    ),
    "the other is refused already": ([refused(TORCH), XGB], []),
    "a TrainJob of that name behind it": ([TORCH, THERE], [("refused", "TrainJob train (line 20) is")]),
    "names that come later": ([named("PyTorchJob", ""), named("XGBoostJob", "")], []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_told(name: str) -> None:
    held, expected = CASES[name]
    told = [(found.severity, found.message) for _, found in clashes(held)]
    assert len(told) == len(expected)
    for (severity, message), (wanted, begins) in zip(told, expected, strict=True):
        assert severity == wanted
        assert message.startswith(f"{begins} the TrainJob ")


def text(kind: str, name: str = "train") -> str:
    field, container = ROLES[kind]
    return JOB.format(kind=kind, name=name, field=field, container=container)


def test_the_later_of_a_file_stays_as_it_is() -> None:
    one, other = text("PyTorchJob"), text("TFJob")
    (made,) = migrate([read_source("a.yaml", f"{one}---\n{other}".encode())], Options())
    first, second = made.result.jobs
    assert first.converted.ok
    assert [found.code for found in second.converted.findings if found.severity == "refused"] == ["NAME-CLASH"]
    assert made.text.startswith("apiVersion: trainer.kubeflow.org/v1alpha1\n")
    assert made.text.endswith(f"---\n{other}")
    assert made.text.count("kind: Train") == 1  # no runtime of the refused one either


def test_two_files_are_converted_with_a_warning() -> None:
    sources = [read_source(f"{kind}.yaml", text(kind).encode()) for kind in ROLES]
    first, second = migrate(sources, Options())
    assert "NAME-CLASH" not in [found.code for found in first.result.jobs[0].converted.findings]
    assert second.result.jobs[0].converted.ok
    assert "NAME-CLASH" in [found.code for found in second.result.jobs[0].converted.findings]


def test_examples_in_a_page_of_text_are_not_applied_as_one() -> None:
    page = "\n".join(f"```yaml\n{text(kind)}```\n" for kind in ROLES)
    (made,) = migrate([read_source("guide.md", page.encode())], Options())
    assert [job.converted.ok for job in made.result.jobs] == [True, True]
