"""The report: a stable form, nothing left out, the same bytes, and Markdown that shows it as it is."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.migrate.checked import pytorch
from trainer_ops.migrate.convert import convert
from trainer_ops.migrate.findings import finding
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.report.data import build
from trainer_ops.migrate.report.job import nearest
from trainer_ops.migrate.report.markdown import render_markdown
from trainer_ops.migrate.report.results import FileResult, JobResult, Placed
from trainer_ops.migrate.report.use import identifier, use_of
from trainer_ops.migrate.report.values import plain

CORPUS = Path(__file__).parent / "corpus"


def job(raw: dict[str, Any], **more: Any) -> JobResult:
    options = more.pop("options", Options())
    return JobResult(convert(raw, options), **more)


def report(*jobs: JobResult, findings: tuple[Placed, ...] = (), **more: Any) -> dict[str, Any]:
    return build([FileResult("a.yaml", jobs, findings, len(jobs))], tool_version="1.2.3", **more)


@pytest.fixture(scope="module")
def all_of_corpus() -> dict[str, Any]:
    files = []
    for path in sorted(CORPUS.glob("*.yaml")):
        raws = [raw for raw in yaml.safe_load_all(path.read_text()) if isinstance(raw, dict) and "kind" in raw]
        files.append(FileResult(path.name, tuple(job(raw, document=i) for i, raw in enumerate(raws, 1)), (), len(raws)))
    return build(files, tool_version="1.2.3")


class TestData:
    def test_the_form(self) -> None:
        made = report(job(pytorch({"command": ["torchrun", "train.py"]}), line=3))
        assert list(made) == ["report", "version", "tool_version", "options", "counts", "codes", "files"]
        assert (made["report"], made["version"]) == ("trainer-ops/migration", 1)
        (one,) = made["files"][0]["jobs"]
        assert list(one) == [
            "id", "file", "document", "line", "wrapper", "within", "written", "outcome", "v1", "v2", "findings",
            "ledger", "counts", "pods", "differences", "by_hand", "use",
        ]  # fmt: skip
        assert one["v1"]["roles"] == [{"role": "Master", "replicas": 1}, {"role": "Worker", "replicas": 1}]
        assert (one["v2"]["num_nodes"], one["v2"]["runtime_name"], one["v2"]["generated"]) == (
            2, "torch-distributed", False,
        )  # fmt: skip
        assert one["pods"]["v1"]["pods"] == one["pods"]["v2"]["pods"] == 2

    def test_it_is_json_and_the_same_twice(self, all_of_corpus: dict[str, Any]) -> None:
        text = json.dumps(all_of_corpus, allow_nan=False)
        assert json.loads(text) == all_of_corpus

    def test_lines_are_those_of_the_texts(self, all_of_corpus: dict[str, Any]) -> None:
        """A leaf's line holds its value, on both sides."""
        seen = 0
        for file in all_of_corpus["files"]:
            for one in file["jobs"]:
                v1 = one["v1"]["yaml"].split("\n")
                assert yaml.safe_load(one["v1"]["yaml"])
                for row in one["ledger"]:
                    assert 1 <= row["v1_line"] <= len(v1)
                    key = re.sub(r"\[\d+\]$", "", row["path"]).rpartition(".")[2]
                    if isinstance(row["value"], str) and re.fullmatch(r"[\w./-]+", row["value"]):
                        assert row["value"] in v1[row["v1_line"] - 1], (row["path"], key)
                    for where in row["v2_lines"]:
                        seen += 1
                        assert where["line"] <= one["v2"]["yaml"][where["object"]].count("\n")
        assert seen > 300

    def test_counts_add_up(self, all_of_corpus: dict[str, Any]) -> None:
        counts = all_of_corpus["counts"]
        jobs = [one for file in all_of_corpus["files"] for one in file["jobs"]]
        assert counts["jobs"] == len(jobs) == counts["clean"] + counts["warned"] + counts["refused"]
        assert sum(counts["leaves"].values()) == sum(len(one["ledger"]) for one in jobs)
        assert sum(counts["findings"].values()) == sum(len(one["findings"]) for one in jobs)
        assert len({one["id"] for one in jobs}) == len(jobs)

    def test_every_code_is_told_once_the_worst_first(self, all_of_corpus: dict[str, Any]) -> None:
        order = ["refused", "warning", "info"]
        ranks = [order.index(row["severity"]) for row in all_of_corpus["codes"]]
        assert ranks == sorted(ranks)
        names = [row["code"] for row in all_of_corpus["codes"]]
        assert len(names) == len(set(names))

    def test_options_that_are_not_the_default(self) -> None:
        made = report(options=Options(pin_elastic="min", drop=frozenset({"GANG-MIN", "ALWAYS"})))
        assert made["options"] == {"pin_elastic": "min", "drop": ["ALWAYS", "GANG-MIN"]}

    def test_a_refused_job(self) -> None:
        (one,) = report(job({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}))["files"][0]["jobs"]
        assert (one["outcome"], one["v2"], one["use"], one["pods"]) == ("refused", None, None, None)
        assert one["by_hand"][0]["code"] == one["findings"][0]["code"] == "NOT-A-JOB"

    def test_why_a_runtime_was_made(self) -> None:
        raw = yaml.safe_load((CORPUS / "pytorch-rich.yaml").read_text())
        (one,) = report(job(raw))["files"][0]["jobs"]
        assert one["v2"]["generated"]
        assert "the container shipper" in [reason["what"] for reason in one["v2"]["reasons"]]
        assert one["pods"]["v2"]["gpus"] == one["pods"]["v1"]["gpus"] == 4

    def test_a_file_line_is_that_of_the_nearest_path(self) -> None:
        lines = {"spec": 4, "spec.pytorchReplicaSpecs.Worker": 9}
        (one,) = report(job(pytorch({"command": ["python", "t.py"]}), line=2, lines=lines))["files"][0]["jobs"]
        assert {found["line"] for found in one["findings"]} <= {2, 4, 9}

    def test_a_job_inside_text_is_counted(self) -> None:
        placed = Placed(finding("JOB-IN-CODE", (), "here"), 7, converted=convert(pytorch({"command": ["a"]})))
        made = report(findings=(placed,))
        assert made["counts"]["jobs"] == 1
        (told,) = made["files"][0]["findings"]
        assert (told["line"], told["job"]["line"], told["job"]["use"]) == (7, 7, None)


@pytest.mark.parametrize(
    ("value", "as_json"),
    [
        (date(2026, 1, 2), "2026-01-02"),
        (float("inf"), "inf"),
        ({1: {"a": (1, 2)}}, {"1": {"a": [1, 2]}}),
        (frozenset({"b", "a"}), ["a", "b"]),
        (b"x", "b'x'"),
        (True, True),
    ],
)
def test_values_of_yaml(value: Any, as_json: Any) -> None:
    assert plain(value) == as_json


PATHS = {
    "itself": ("a.b", 2),
    "above": ("a.b[3].c", 2),
    "a key in brackets": ('a["x.y/z"].c', 3),
    "an item": ("a.list[1]", 5),
    "nothing": ("z", 0),
    "": ("", 0),
}


@pytest.mark.parametrize(("path", "line"), PATHS.values(), ids=PATHS.keys())
def test_nearest_line(path: str, line: int) -> None:
    assert nearest({"a": 1, "a.b": 2, 'a["x.y/z"]': 3, "a.list": 4, "a.list[1]": 5}, path) == line


class TestUse:
    def test_with_a_stock_runtime(self) -> None:
        use = use_of({"metadata": {"name": "my-job"}}, None)
        assert use.terminal == ("trainer-ops run -f my-job.yaml",)
        assert 'task_id="my_job"' in use.airflow
        assert "namespace" not in use.airflow
        assert "apply_runtime" not in use.kfp

    def test_with_one_of_its_own_and_files_that_are_known(self) -> None:
        trainjob = {"metadata": {"name": "a", "namespace": "team a"}}
        use = use_of(trainjob, {"metadata": {"name": "a-torch"}}, "out/a.yaml", "out/run time.yaml")
        assert use.terminal == (
            "kubectl apply -n 'team a' -f 'out/run time.yaml'",
            "trainer-ops run -f out/a.yaml --target 'kubernetes:///team a'",
        )
        assert use.airflow.endswith("runtime >> train\n")
        assert ".after(ready)" in use.kfp
        for text in (use.airflow, use.kfp):
            compile(text, "use", "exec")

    def test_a_runtime_that_names_the_job_is_told(self) -> None:
        done = convert(yaml.safe_load((CORPUS / "tf-ps.yaml").read_text()))
        assert done.trainjob is not None
        assert "addresses of tf-ps" in use_of(done.trainjob, done.runtime).note
        simple = convert(yaml.safe_load((CORPUS / "pytorch-torchrun.yaml").read_text()))
        assert simple.trainjob is not None
        assert use_of(simple.trainjob, simple.runtime).note == ""

    @pytest.mark.parametrize(
        ("name", "made"), [("a-b", "a_b"), ("3d", "train_3d"), ("", "train"), ("Ü", "train"), ("a--", "a")]
    )
    def test_identifiers(self, name: str, made: str) -> None:
        assert identifier(name) == made
        assert made.isidentifier()


class TestMarkdown:
    def test_one_job(self) -> None:
        text = render_markdown(report(job(pytorch({"command": ["python", "t.py"]}))))
        assert text.startswith("# Migration to TrainJob\n\n**1 job in 1 file: ")
        assert "## PyTorchJob mnist\n" in text
        assert "Master × 1, Worker × 1 → 2 nodes of torch-distributed; 2 pods before, 2 pods now." in text
        assert "```yaml\napiVersion: trainer.kubeflow.org/v1alpha1\n" in text
        assert "TrainJobOperator" in text
        assert "Run it, with each object in a file of its own, `mnist.yaml`:" in text
        # A table of all jobs is for many.
        assert "| Where | Job |" not in text

    def test_many(self, all_of_corpus: dict[str, Any]) -> None:
        text = render_markdown(all_of_corpus)
        assert text.count("\n## ") == all_of_corpus["counts"]["jobs"] + 1
        for line in text.split("\n"):
            if line.startswith("|"):
                assert line.endswith("|")
        assert text.endswith("tells more of a code.\n")

    def test_tables_have_as_many_cells_in_each_row(self, all_of_corpus: dict[str, Any]) -> None:
        cells = 0
        for line in render_markdown(all_of_corpus).split("\n"):
            here = len(re.findall(r"(?<!\\)\|", line)) if line.startswith(("| ", "|-")) else 0
            assert not (cells and here and cells != here), line
            cells = here

    def test_text_is_no_markup(self) -> None:
        raw = pytorch({"command": ["torchrun", "t.py"]}, name="a")
        raw["metadata"]["labels"] = {"x": "<script>|`*_"}
        done = job(raw)
        evil = replace(done.converted.findings[0], message="a | b <b> `c` *d*\n\n# e")
        done = replace(done, converted=replace(done.converted, findings=(evil,)))
        text = render_markdown(report(done))
        assert r"a \| b \<b\> \`c\` \*d\* \# e" in text
        assert "\n# e" not in text

    def test_where_it_stands_and_what_is_refused_beside_it(self) -> None:
        held = replace(job(pytorch({"command": ["python", "t.py"]})), wrapper="Argo Workflow", within="Argo Workflow x")
        chart = Placed(finding("TEMPLATE", (), "a chart"), 1)
        text = render_markdown(report(held, findings=(chart,)))
        assert ", in Argo Workflow x. Master × 1" in text
        assert "0 refused, 1 refused beside the jobs.**" in text

    def test_a_fence_is_longer_than_what_it_holds(self) -> None:
        raw = pytorch({"command": ["sh", "-c", "echo\n````\n"]})
        text = render_markdown(report(job(raw)))
        assert "\n`````yaml\n" in text

    def test_what_stands_beside(self) -> None:
        placed = Placed(finding("KUBECTL", (), "looks at v1 jobs"), 4, 0, "kubectl get tfjobs", "trainer-ops list\n")
        text = render_markdown(report(findings=(placed,)))
        assert "- ▲ warning `KUBECTL` `a.yaml:4`: looks at v1 jobs." in text
        assert "  ```\n  trainer-ops list\n  ```\n" in text
