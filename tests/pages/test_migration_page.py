"""The page of a migration: valid, self-contained, legible, linked within itself, proof against any manifest."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_ops.migrate.convert import convert
from trainer_ops.migrate.findings import finding
from trainer_ops.migrate.report.data import build
from trainer_ops.migrate.report.results import FileResult, JobResult, Placed
from trainer_ops.pages.migration import render

if TYPE_CHECKING:
    from tests.pages.conftest import Element

Page = Callable[[str], "Element"]
CORPUS = Path(__file__).parents[1] / "migrate" / "corpus"


def raw(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CORPUS / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


def report(*raws: dict[str, Any], findings: tuple[Placed, ...] = ()) -> dict[str, Any]:
    jobs = tuple(JobResult(convert(one), i, i * 10) for i, one in enumerate(raws, 1))
    made = build([FileResult("jobs/a.yaml", jobs, findings, len(jobs))], tool_version="1.2.3")
    # Read again: the page knows the JSON and nothing else.
    read: dict[str, Any] = json.loads(json.dumps(made))
    return read


@pytest.fixture(scope="module")
def three() -> dict[str, Any]:
    """One clean, one with warnings and a runtime, one refused."""
    return report(raw("pytorch-simple"), raw("pytorch-rich"), raw("pytorch-elastic"))


def test_what_a_team_asks_first(three: dict[str, Any], page: Page) -> None:
    made = page(render(three))
    assert made.one("h1").text == "Migration to TrainJob"
    assert [e.text for e in made.all("p", "pill")] == ["✘ 1 of 3 refused"]
    facts = {e.one("dt").text: e.one("dd").text for e in made.one("dl", "facts").all("div")}
    assert (facts["Converted"], facts["To look at"], facts["Refused"]) == ("1", "1", "1")
    todo = next(e for e in made.all("section") if e.all("h2") and e.all("h2")[0].text == "To do by hand")
    assert "--pin-elastic" in todo.text
    assert "pytorch-elastic" in todo.text
    heads = [e.text for e in made.all("h2")]
    assert heads[:2] == ["To do by hand", "Jobs"]


def test_one_job_needs_no_overview(page: Page) -> None:
    made = page(render(report(raw("pytorch-simple")), title="Ours"))
    assert made.one("h1").text == "Ours"
    assert [e.text.strip() for e in made.all("p", "pill")] == ["✔ All converted"]
    assert "Jobs" not in [e.text for e in made.all("h2")]


def test_nothing_found(page: Page) -> None:
    made = page(render(build([FileResult("a.yaml")], tool_version="1")))
    assert "No v1 job found" in made.text


def test_what_is_refused_beside_the_jobs_is_told_first(page: Page) -> None:
    """A chart that nobody could read is no success, whatever became of the jobs."""
    chart = Placed(finding("TEMPLATE", (), "a chart"), 1)
    made = page(render(report(raw("pytorch-simple"), findings=(chart,))))
    assert [e.text.strip() for e in made.all("p", "pill")] == ["✘ 1 refused beside the jobs"]


def test_both_texts_are_whole(three: dict[str, Any], page: Page) -> None:
    made = page(render(three))
    (rich,) = (e for e in made.all("section", "job") if "pytorch-rich" in e.one("h2").text)
    columns = {e.one("figcaption").text: e for e in rich.all("figure")}
    assert list(columns) == ["PyTorchJob (v1)", "TrainJob", "TrainingRuntime"]
    job = three["files"][0]["jobs"][1]
    texts = (job["v1"]["yaml"], job["v2"]["yaml"]["trainjob"], job["v2"]["yaml"]["runtime"])
    for column, text in zip(columns.values(), texts, strict=True):
        assert "\n".join(e.text for e in column.all("code")) == text.rstrip("\n")


def test_links_lead_somewhere(three: dict[str, Any], page: Page) -> None:
    made = page(render(three))
    ids = {e.attributes["id"] for e in made.walk() if "id" in e.attributes}
    links = [e.attributes["href"] for e in made.all("a")]
    assert len(links) > 200
    assert {link for link in links if not link.startswith("#")} == set()
    assert {link[1:] for link in links} - ids == set()


def test_lines_that_belong_together(page: Page) -> None:
    made = page(render(report(raw("pytorch-simple"))))
    rows = {
        e.attributes["id"]: e for e in made.walk() if re.fullmatch(r"job-1-(v1|t|r)-\d+", e.attributes.get("id", ""))
    }
    image = next(row for name, row in rows.items() if "-v1-" in name and "image:" in row.text)
    target = rows[image.one("span", "to").all("a")[0].attributes["href"][1:]]
    assert "image:" in target.text
    group = {name for name in image.classes if re.fullmatch(r"g\d+", name)}
    assert group
    assert group <= target.classes
    # The rule by which they light up together is in the page.
    assert f".sides:has(.{min(group)}:hover) .{min(group)}" in render(report(raw("pytorch-simple")))
    shim = next(row for name, row in rows.items() if "-t-" in name and "name: WORLD_SIZE" in row.text)
    assert "new" in shim.classes


def test_of_a_refused_job_its_cause_is_marked(page: Page) -> None:
    made = page(render(report(raw("pytorch-elastic"))))
    marked = [e.one("code").text.strip() for e in made.all("div", "refused")]
    assert marked
    assert all(re.match(r"(minReplicas|maxReplicas|maxRestarts|rdzvBackend)", text) for text in marked)
    assert [e.one("figcaption").text for e in made.all("figure")] == ["PyTorchJob (v1)"]


def test_how_it_is_run(page: Page) -> None:
    made = page(render(report(raw("pytorch-rich"))))
    blocks = [e.text for e in made.all("pre")]
    assert any(text.startswith("kubectl apply -f pytorch-rich-torch.yaml\ntrainer-ops run -f ") for text in blocks)
    assert any("TrainJobOperator(" in text and "runtime >> train" in text for text in blocks)
    assert any("@dsl.pipeline" in text for text in blocks)


def test_what_stands_beside(page: Page) -> None:
    inside = Placed(finding("JOB-IN-CODE", (), "a job"), 3, converted=convert(raw("pytorch-simple")))
    placed = Placed(finding("KUBECTL", (), "looks"), 4, 0, "kubectl get tfjobs", "trainer-ops list\n")
    made = page(render(report(findings=(inside, placed))))
    (beside,) = (e for e in made.all("section") if e.attributes.get("aria-labelledby") == "beside")
    assert "jobs/a.yaml:4" in beside.text
    assert [e.text for e in beside.all("pre")] == ["trainer-ops list"]
    assert len(made.all("section", "job")) == 1


def test_many_jobs_stay_a_page_that_opens(page: Page) -> None:
    one = report(raw("pytorch-simple"))
    jobs = []
    for number in range(200):
        job = copy.deepcopy(one["files"][0]["jobs"][0])
        jobs.append({**job, "id": f"job-{number + 1}"})
    jobs[150]["outcome"] = "refused"
    one["files"][0]["jobs"] = jobs
    text = render(one, full=5)
    assert text.count('class="sides"') == 5
    assert len(text) < 1_500_000
    assert "195 jobs without the two texts side by side" in text
    # What needs a look is shown whole, however late it comes.
    assert 'id="job-151-v1-1"' in text


def test_nothing_from_elsewhere_and_nothing_that_runs(three: dict[str, Any], page: Page) -> None:
    text = render(three)
    made = page(text)
    assert any(e.attributes.get("content", "").startswith("default-src 'none'") for e in made.all("meta"))
    assert not [e.tag for e in made.walk() if e.tag in ("script", "img", "link", "iframe", "form", "object")]
    assert "url(" not in text
    assert "http" not in re.sub(r"http-equiv", "", text)


EVIL = '</code></div><script>alert(1)</script>" onmouseover="x" &amp; \u202e\x1b[31m'


def test_hostile_text(page: Page) -> None:
    one = raw("pytorch-rich")
    one["metadata"]["annotations"][EVIL] = EVIL
    one["metadata"]["labels"]["a"] = EVIL
    one["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["image"] = EVIL
    bad = {"apiVersion": "kubeflow.org/v1", "kind": f"PyTorchJob{EVIL}", "metadata": {"name": EVIL}, "spec": {EVIL: 1}}
    placed = Placed(finding("KUBECTL", (), EVIL, remedy=EVIL), 4, 0, EVIL, EVIL)
    made = report(one, bad, findings=(placed,))
    made["files"][0]["name"] = EVIL
    text = render(made, title=EVIL)
    tree = page(text)
    assert not tree.all("script")
    assert not any(name.startswith("on") for e in tree.walk() for name in e.attributes)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<script>" not in text


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text(first: str, second: str) -> None:
    one = raw("pytorch-simple")
    one["metadata"]["annotations"] = {"a": first}
    one["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["args"] = [second]
    text = render(report(one))
    text.encode()
    assert "<script" not in text
