"""The page: valid, self-contained, legible for everybody, and proof against whatever a training has to say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_ops.model.limits import Limits
from trainer_ops.model.outcome import Category, Diagnosis, Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.model.times import rfc3339
from trainer_ops.pages.report import render
from trainer_ops.pages.story import story
from trainer_ops.status.fit import fitted

if TYPE_CHECKING:
    from tests.pages.conftest import Element

Make = Callable[..., Outcome]
Page = Callable[[str], "Element"]
NOON = 1795953600.0


def at(seconds: float) -> str:
    return rfc3339(NOON + seconds)


def node(name: str, state: str = "done", code: int | None = 0, **more: Any) -> dict[str, Any]:
    known = {"restarts": 0, "reason": "", "host": "", "last_line": ""}
    return {"name": name, "state": state, "exit_code": code, **known, **more}


def point(seconds: float, percentage: int, **metrics: float | str) -> dict[str, Any]:
    return {"at": at(seconds), "percentage": percentage, "eta_seconds": 90.0, "metrics": metrics}


def event(seconds: float, reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    known = {"object": "TrainJob/digits-1", "node": "", "warning": False, "count": 1}
    return {"at": at(seconds), "reason": reason, "message": message, **known, **more}


EXIT = Diagnosis(
    Category.EXIT_CODE, "it ended with exit code 3 on node-1", ("Traceback", "  ValueError: x"), "Correct it"
)

RECORDED = [
    ("two.watch", None, None), ("flaky.watch", None, None), ("slowfail.watch", None, None), ("oom.watch", None, None),
    ("slowfail.watch", None, Limits(max_restarts=2)), ("never-oom.watch", None, None), ("badcmd.watch", None, None),
    ("image.watch", "noimage", Limits(startup_timeout=60)), ("kueue-k2.watch", None, Limits(queue_timeout=15)),
    ("kueue-k2.watch", None, None), ("suspend.watch", None, None), ("del-foreground.watch", None, None),
    ("unsched", None, Limits(startup_timeout=0.1)), ("gpu9", None, None), ("img404", None, None),
    ("deadline", None, None), ("never-one", None, None), ("resumed", None, None), ("hello", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("case", "job", "limits"), RECORDED, ids=[f"{c} {i}" for i, (c, _, _) in enumerate(RECORDED)])
def test_recorded_trainings(recorded: Any, page: Page, case: str, job: str | None, limits: Limits | None) -> None:
    outcome: Outcome = recorded(case, job, limits)
    outcome = Outcome.from_json(json.loads(json.dumps(outcome.to_json())))
    found = page(render(outcome, now=NOON))
    said = found.one("main").text
    assert outcome.name in said
    told = story(outcome, NOON)
    for span in (*told.spans, *([told.final] if told.final else [])):
        assert span.phase.word in said
        assert span.why in said
    for row in outcome.nodes:
        assert row["name"] in said
        assert row["last_line"] in said
    for happened in outcome.events:
        assert happened["message"] in said
    if outcome.diagnosis is not None:
        assert outcome.diagnosis.category.value in said
        assert outcome.diagnosis.summary in said
        assert outcome.diagnosis.remedy in said
        assert "\n".join(outcome.diagnosis.evidence) in said


PILLS: dict[str, tuple[dict[str, Any], str, str]] = {
    "trained": ({}, "✔ Trained", "good"),
    "failed": ({"phase": Phase.FAILED, "diagnosis": EXIT}, "✘ Failed", "bad"),
    "given up": (
        {"phase": Phase.QUEUED, "finished_at": None, "diagnosis": Diagnosis(Category.QUEUED_TOO_LONG, "x")},
        "■ Gave up waiting", "queue",
    ),
    "lost": (
        {"phase": Phase.RUNNING, "finished_at": None, "diagnosis": Diagnosis(Category.UNREACHABLE, "x")},
        "■ Lost sight of it", "queue",
    ),
    "deleted": ({"phase": Phase.DELETED, "diagnosis": Diagnosis(Category.DELETED, "x")}, "✘ Cancelled", "gone"),
    "replaced": (
        {"phase": Phase.DELETED, "diagnosis": Diagnosis(Category.SUPERSEDED, "x")}, "✘ Replaced by a newer run", "gone"
    ),
    "goes on": ({"phase": Phase.RUNNING, "finished_at": None}, "● Running", "run"),
    "waits": ({"phase": Phase.PENDING, "finished_at": None}, "● Starting", "start"),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "words", "kind"), PILLS.values(), ids=PILLS.keys())
def test_the_first_thing_that_is_said(make: Make, page: Page, parts: dict[str, Any], words: str, kind: str) -> None:
    found = page(render(make(**parts), now=NOON + 3600))
    pill = found.one("p", "pill")
    assert (pill.text, pill.classes) == (words, {"pill", kind})
    assert found.one("h1").text == "digits-1"
    title = found.one("head").all("title")[0].children
    assert title == [f"digits-1: {words[2:].lower()}"]


def facts(found: Element) -> dict[str, str]:
    tiles = found.all("dl", "facts")[0].all("div")
    return {tile.one("dt").text: tile.one("dd").text for tile in tiles}


def test_numbers_of_a_success(make: Make, page: Page) -> None:
    nodes = (node("node-0", restarts=2), node("node-1", restarts=1))
    outcome = make(attempt=2, num_nodes=2, gpus=16, nodes=nodes)
    assert facts(page(render(outcome))) == {
        "Trained for": "50:00",
        "Waited": "10:00queued, starting",
        "Nodes": "216 GPUs",
        "GPU-hours": "13.316 × 50:00",
        "Restarts": "3node-0, node-1",
        "Attempt": "2the ones before did not end well",
    }


def test_numbers_of_one_that_goes_on(make: Make, page: Page) -> None:
    phases = make().phases[:-1]
    parts = {
        "phase": Phase.RUNNING,
        "finished_at": None,
        "phases": phases,
        "progress": (point(1800, 40), point(2400, 66)),
    }
    found = page(render(make(**parts), now=NOON + 2460))
    assert facts(found) == {"Progress": "66 %about 1:30 left", "Ran for": "31:00", "Waited": "10:00queued, starting"}
    assert found.one("header").one("p", "sub").text == "2026-11-29 12:00:00 to 12:41:00 UTC so far"
    assert "31:00 so far" in found.one("main").text


def test_a_title_stands_above_the_name(make: Make, page: Page) -> None:
    found = page(render(make(), title="digits, nightly", now=NOON + 86_400))
    assert found.one("h1").text == "digits, nightly"
    assert found.one("header").one("p", "sub").text == "digits-1, 2026-11-29 12:00:00 to 13:00:00 UTC"
    assert "This page was made on 2026-11-30 12:00:00 UTC." in found.one("footer").text


def test_the_same_outcome_makes_the_same_page(make: Make) -> None:
    assert render(make(), now=NOON) == render(make(), now=NOON)


def test_what_matters_most_comes_first(make: Make, page: Page) -> None:
    everything = make(
        phase=Phase.FAILED, diagnosis=EXIT, metrics={"loss": 0.5}, nodes=(node("node-0"),), events=(event(1, "A"),),
        progress=(point(700, 1, loss=2.0), point(800, 2, loss=1.0)),
    )  # fmt: skip
    titles = [heading.text for heading in page(render(everything)).all("h2")]
    assert titles == ["Why exit_code", "Reported so far", "Phases", "Progress and metrics", "Nodes", "Events"]


def test_result(make: Make, page: Page) -> None:
    outcome = make(
        metrics={"accuracy": 0.95781, "best": "nan", "steps": 12000.0}, model_uri="https://models.example/7?a=1&b=2",
        artifacts={"plot": {"uri": "s3://p"}, "notes": "s3://n", "odd": "javascript:alert(1)",
                   "cut": "https://x\rjavascript:alert(1)"},
    )  # fmt: skip
    found = page(render(outcome))
    (section,) = (s for s in found.all("section") if s.attributes["aria-labelledby"] == "result")
    tiles = {tile.one("dt").text: tile.one("dd").text for tile in section.all("div")}
    assert tiles == {"accuracy": "0.9578", "best": "nan", "steps": "12000"}
    assert [a.attributes["href"] for a in section.all("a")] == ["https://models.example/7?a=1&b=2"]
    assert [code.text for code in section.all("code")] == ['{"uri": "s3://p"}', "s3://n", *["javascript:alert(1)"] * 2]


def test_an_outcome_of_an_older_version(make: Make, page: Page) -> None:
    data = make(metrics={"loss": 1.0}).to_json()
    for name in ("seen_at", "num_nodes", "gpus", "phases", "nodes", "events"):
        del data[name]
    found = page(render(Outcome.from_json(data)))
    assert facts(found) == {"Trained for": "50:00"}
    assert [heading.text for heading in found.all("h2")] == ["Result"]


def test_one_that_was_never_seen(page: Page) -> None:
    lost = Outcome("n", "d", "", "t", Phase.NOT_OBSERVED, diagnosis=Diagnosis(Category.UNREACHABLE, "no answer"))
    assert "no answer" in page(render(lost, now=NOON)).one("main").text


# Nodes


def rows(found: Element, number: int = 0) -> list[list[str]]:
    (section,) = (s for s in found.all("section") if s.attributes["aria-labelledby"] == "nodes")
    body = section.all("table")[number].one("tbody")
    return [[cell.text.strip() for cell in row.children if not isinstance(cell, str)] for row in body.all("tr")]


def test_a_row_per_node(make: Make, page: Page) -> None:
    nodes = (
        node("node-0", "failed", 137, reason="OOMKilled", host="gpu-7", restarts=2, last_line="allocating 9 GiB"),
        node("node-1", "ended", None),
        node("node-2", "done", 0, reason="Error", restarts=1),
    )
    assert rows(page(render(make(nodes=nodes, num_nodes=3)))) == [
        ["node-0", "failed OOMKilled", "2", "137", "gpu-7"],
        ["allocating 9 GiB"],
        ["node-1", "ended", "0", "–", ""],
        ["node-2", "done restarted after an error", "1", "0", ""],
    ]


def test_of_many_nodes_the_culprit_is_first(make: Make, page: Page) -> None:
    nodes = [node(f"node-{i}", "failed", 143, reason="Error") for i in range(64)]
    nodes[37] = node("node-37", "failed", 3, reason="Error")
    found = page(render(make(nodes=tuple(nodes), num_nodes=80)))
    assert [row[0] for row in rows(found)] == ["node-37", *(f"node-{i}" for i in range(15))]
    assert [row[0] for row in rows(found, 1)] == [f"node-{i}" for i in range(64)]
    assert "All 64 nodes: 64 failed" in found.one("main").text
    assert "Nodes with nothing to tell, left out: 16." in found.one("main").text


def test_many_nodes_with_nothing_to_tell_are_one_line(make: Make, page: Page) -> None:
    found = page(render(make(nodes=tuple(node(f"node-{i}") for i in range(64)), num_nodes=64)))
    assert "All 64 nodes: 64 done" in found.one("main").text
    assert len(rows(found)) == 64
    assert "left out" not in found.one("main").text


# Phases and events


def test_of_many_changes_the_ends_and_how_many_are_between(make: Make, page: Page) -> None:
    phases = [{"phase": "pending", "reason": "", "detail": "", "at": at(0), "folded": 0}]
    for i in range(20):
        phases.append({"phase": "running", "reason": "", "detail": "", "at": at(100 * i + 10), "folded": i == 3})
        phases.append(
            {"phase": "restarting", "reason": "Error", "detail": f"restart {i}", "at": at(100 * i + 70), "folded": 0}
        )
    found = page(render(make(phases=tuple(phases))))
    said = found.one("main").text
    assert "33 changes in between" in said
    assert "All 41 changes" in said
    assert "Shorter changes between these, left out: 1." in said
    assert "restart 11" in said


def test_the_reason_is_legible_without_a_pointer_and_under_it(make: Make, page: Page) -> None:
    html = render(make())
    assert "node-0: pulling image" in page(html).one("main").text
    assert "<title>starting 1:00, from 9:00 on\nnode-0: pulling image</title>" in html


def test_events(make: Make, page: Page) -> None:
    events = (
        {**event(0, "Odd"), "at": None},
        event(2, "SuccessfulCreate", "Created jobset"),
        event(62, "BackOff", "restarting", object="Pod/p", node="node-1", warning=True, count=7),
    )
    items = page(render(make(events=events))).one("ol", "events").all("li")
    assert [item.text for item in items] == [
        "–Odd TrainJob/digits-1",
        "0:02SuccessfulCreate TrainJob/digits-1Created jobset",
        "1:02BackOff node-1, 7 timesrestarting",
    ]
    assert [item.all("b", "trouble") != [] for item in items] == [False, False, True]


# Whatever a training has to say

HOSTILE = (
    """</title></style></script><script>alert(1)</script><img src=x onerror=alert(2)>"'&<!-- ]]> \u202e \x00 \ud800"""
)


def hostile(text: str) -> Outcome:
    return Outcome(
        name=text, namespace=text, uid=text, target=text, phase=Phase.FAILED, started_at=at(0), finished_at=at(60),
        metrics={text: text, f"{text}2": 1.0}, model_uri=f"https://{text}", artifacts={text: text, "x": {text: [text]}},
        progress=(
            {"at": at(1), "percentage": 1, "eta_seconds": 1.0, "metrics": {text: 1.0}},
            {"at": at(2), "percentage": 2, "eta_seconds": text, "metrics": {text: 2.0}},
        ),
        diagnosis=Diagnosis(Category.EXIT_CODE, text, (text, text), text), seen_at=at(60), num_nodes=1,
        phases=({"phase": "running", "reason": text, "detail": text, "at": at(0), "folded": 0},),
        nodes=(node(text, text, 1, reason=text, host=text, last_line=text, restarts=1),),
        events=({**event(3, text, text), "object": text, "node": text, "warning": True},),
    )  # fmt: skip


def harmless(found: Element) -> None:
    known = (
        "html head meta title style body main header section footer h1 h2 p dl div dt dd small code pre b i a ul ol li "
        "span time table caption thead tbody tr th td details summary figure figcaption "
        "svg desc g rect line text polyline circle"
    )
    assert {e.tag for e in found.walk()} <= set(known.split())
    for element in found.walk():
        assert not any(name.startswith("on") or name in ("style", "src", "srcdoc") for name in element.attributes)
        assert element.attributes.get("href", "https://").startswith(("https://", "http://"))


def test_markup_from_outside_is_text(page: Page) -> None:
    html = render(hostile(HOSTILE), title=HOSTILE, now=NOON)
    found = page(html)
    harmless(found)
    shown = HOSTILE.replace("\u202e", "�").replace("\x00", "�").replace("\ud800", "�")
    assert found.one("h1").text == shown
    assert found.one("main").text.count(shown) > 15
    assert html.encode()


@settings(deadline=None, max_examples=50)
@given(st.text())
def test_any_text_anywhere_is_text(page: Page, text: str) -> None:
    harmless(page(render(hostile(text), title=text)))


def test_nothing_is_loaded_and_nothing_runs(make: Make, page: Page) -> None:
    found = page(render(make()))
    policy = next(m.attributes["content"] for m in found.all("meta") if "http-equiv" in m.attributes)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    style = str(found.one("style").children[0])
    assert not re.search(r"url\(|@import|@font-face|expression", style)
    harmless(found)


def test_the_largest_outcome_is_a_small_page(page: Page) -> None:
    metrics = {f"a metric with a long name {i}": 1 / (i + 7) for i in range(16)}
    largest = Outcome(
        "n" * 63, "d", "u", "t", Phase.FAILED, started_at=at(0), finished_at=at(3600), num_nodes=4096,
        metrics={f"a metric with a long name {i}": "x" * 64 for i in range(256)}, artifacts={"a": "x" * 4000},
        progress=tuple(point(i, i // 2, **metrics) for i in range(200)),
        diagnosis=Diagnosis(Category.EXIT_CODE, "x" * 400, ("<" * 500,) * 30, "y" * 400),
        phases=tuple({"phase": p, "reason": "r" * 60, "detail": "<" * 200, "at": at(i), "folded": 9}
                     for i, p in enumerate(["running", "restarting"] * 30)),
        nodes=tuple(node(f"node-{i}", "failed", 1, last_line="<" * 200, host="h" * 80) for i in range(64)),
        events=tuple(event(i, "r" * 60, "<" * 200) for i in range(50)),
    )  # fmt: skip
    found = page(render(fitted(largest)))  # which is where the size is looked at
    assert re.search(r"More in the outcome's JSON: \d+\.", found.one("main").text)
    assert "More metrics in the outcome's JSON: 5." in found.one("main").text
    assert len(found.all("figure")) == 12


# For everybody


def test_what_is_drawn_is_said(make: Make, page: Page) -> None:
    found = page(render(make(progress=(point(700, 1, loss=2.0), point(800, 2, loss=1.0)))))
    ids = {e.attributes["id"]: e for e in found.walk() if "id" in e.attributes}
    images = [e for e in found.all("svg") if e.attributes.get("role") == "img"]
    assert len(images) == 3
    for image in images:
        title, words = image.attributes["aria-labelledby"].split()
        assert ids[title] in image.children
        assert str(ids[words].children[0])
    # An svg within a drawing needs no name of its own: what has the role of an image is one to those who hear it.
    assert all(e in images or any(e in i.walk() for i in images) for e in found.all("svg"))


def test_tables_and_sections_have_names_and_headings_an_order(make: Make, page: Page) -> None:
    outcome = make(nodes=(node("node-0", last_line="x"),), events=(event(1, "A"),), diagnosis=EXIT, phase=Phase.FAILED)
    found = page(render(outcome))
    ids = {e.attributes["id"] for e in found.walk() if "id" in e.attributes}
    assert found.attributes["lang"] == "en"
    assert {s.attributes["aria-labelledby"] for s in found.all("section")} <= ids
    for table in found.all("table"):
        heads = table.one("thead").all("th")
        assert {th.attributes["scope"] for th in heads} == {"col"}
        assert all(th.text for th in heads)
    assert len(found.all("h1")) == 1
    assert [th.attributes["scope"] for th in found.all("tbody")[-1].all("th")] == ["row"]


def colours(style: str) -> dict[str, dict[str, str]]:
    light, dark = re.findall(r":root\{(?:color-scheme:light dark;)?(--page[^}]*)\}", style.replace("\n", ""))
    return {mode: dict(re.findall(r"--([\w-]+):(#\w+)", text)) for mode, text in (("light", light), ("dark", dark))}


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


FILLS = ("queue", "held", "prepare", "start", "run", "again", "bad", "gone", "good")
PAIRS = [
    *(("ink", behind, 7.0) for behind in ("page", "card", "code")),
    *(("soft", behind, 4.5) for behind in ("page", "card", "code")),
    *(("on-bar", fill, 4.5) for fill in FILLS),
    *((fill, "card", 3.0) for fill in FILLS),
    ("bad", "card", 4.5), ("curve", "card", 4.5),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize(("one", "other", "least"), PAIRS, ids=[f"{one} on {other}" for one, other, _ in PAIRS])
def test_contrast(make: Make, page: Page, mode: str, one: str, other: str, least: float) -> None:
    known = colours(str(page(render(make())).one("style").children[0]))[mode]
    assert contrast(known[one], known[other]) >= least


def test_a_page_is_no_secret_of_its_maker(make: Make) -> None:
    """What two outcomes differ in is all that their pages differ in: nothing of the machine that made them."""
    one, other = render(make()), render(replace(make(), uid="u-2"))
    assert other.replace("u-2", "u-1") == one
