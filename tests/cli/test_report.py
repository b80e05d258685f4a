"""``report``, and ``--report`` of what waits."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.testing.memory import MemoryBackend, Script
from trainer_ops.testing.training import Training

Cli = Callable[..., Any]

RUN = ("run", "--runtime", "torch-distributed", "--nodes", "2", "--name", "digits", "--key", "k")
SLEEP = ("--", "sleep", "1")
TRAINS: Script = (
    (0, Training.pending),
    (5, Training.running),
    (10, lambda t: t.progress(40, metrics={"loss": 0.5})),
    (20, lambda t: t.progress(90, metrics={"loss": 0.25})),
    (30, lambda t: t.complete({"metrics": {"accuracy": 0.951}})),
)
FAILS: Script = (
    (0, Training.running),
    (1, lambda t: t.say("boom", node=1)),
    (2, lambda t: t.fail(exit_code=3, node=1)),
)
FOREVER: Script = ((0, Training.pending), (1, Training.running), (2, lambda t: t.say("epoch 1")))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def name_of(memory_backend: MemoryBackend) -> str:
    return str(memory_backend.list()[-1]["metadata"]["name"])


def test_run_writes_it_at_the_end(cli: Cli, memory_backend: MemoryBackend, here: Path) -> None:
    memory_backend.script("*", TRAINS)
    ran = cli(*RUN, "--report", "r.html", *SLEEP)
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "  report   r.html"
    html = (here / "r.html").read_text(encoding="utf-8")
    assert "✔ Trained" in html
    assert 'id="chart-2-title"' in html, "what was reported while it was waited for makes curves"


def test_a_failure_has_one_too_and_json_stays_alone_on_stdout(
    cli: Cli, memory_backend: MemoryBackend, here: Path
) -> None:
    memory_backend.script("*", FAILS)
    ran = cli(*RUN, "--report", "r.html", "-o", "json", *SLEEP)
    assert ran.code == 1
    assert ran.out.startswith("{")
    assert "report   r.html" in ran.err
    html = (here / "r.html").read_text(encoding="utf-8")
    assert "exit code 3 on node-1" in html
    assert "boom" in html


def test_wait_writes_it_too(cli: Cli, memory_backend: MemoryBackend, here: Path) -> None:
    memory_backend.script("*", TRAINS)
    cli("submit", *RUN[1:], *SLEEP)
    assert cli("wait", name_of(memory_backend), "--report", "r.html").code == 0
    assert "✔ Trained" in (here / "r.html").read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_changes_no_exit_code(
    cli: Cli, memory_backend: MemoryBackend, here: Path
) -> None:
    place = here / "gone" / "r.html"
    place.parent.mkdir()
    memory_backend.script("*", (*TRAINS[:-1], (25, lambda t: place.parent.rmdir()), TRAINS[-1]))
    ran = cli(*RUN, "--report", str(place), *SLEEP)
    assert ran.code == 0
    assert f"no report: {place}: No such file or directory" in ran.out


REFUSED = {
    "a folder": (".", ". is a folder. Name a file, like report.html"),
    "no such folder": ("no/such/r.html", "there is no folder no/such. Make it first: mkdir -p no/such"),
}


@pytest.mark.parametrize(("place", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_place_that_is_none_is_refused_before_anything_trains(
    cli: Cli, memory_backend: MemoryBackend, place: str, words: str
) -> None:
    ran = cli(*RUN, "--report", place, *SLEEP)
    assert (ran.code, memory_backend.list()) == (2, [])
    assert f"--report: {words}" in ran.err


def test_report_of_one_that_goes_on_is_the_state_so_far(cli: Cli, memory_backend: MemoryBackend, here: Path) -> None:
    memory_backend.script("*", FOREVER)
    cli("submit", *RUN[1:], *SLEEP)
    memory_backend.clock.advance(60)
    name = name_of(memory_backend)
    ran = cli("report", name)
    assert (ran.code, ran.out) == (0, f"{name}.html\n")
    html = (here / f"{name}.html").read_text(encoding="utf-8")
    assert "● Running" in html
    assert "<code>epoch 1</code>" in html
    assert "0:59 so far" in html


def test_report_of_one_that_failed(cli: Cli, memory_backend: MemoryBackend, here: Path) -> None:
    memory_backend.script("*", FAILS)
    cli(*RUN, *SLEEP)
    assert cli("report", name_of(memory_backend), "-o", "r.html").code == 0
    html = (here / "r.html").read_text(encoding="utf-8")
    assert "✘ Failed" in html
    assert "exit code 3 on node-1" in html


def test_report_to_stdout(cli: Cli, memory_backend: MemoryBackend, here: Path) -> None:
    memory_backend.script("*", TRAINS)
    cli(*RUN, *SLEEP)
    ran = cli("report", name_of(memory_backend), "-o", "-")
    assert (ran.code, list(here.glob("*.html"))) == (0, [])
    assert ran.out.startswith("<!DOCTYPE html>\n")
    assert ran.out.endswith("</html>\n")


def test_report_opens_a_browser_when_asked(
    cli: Cli, memory_backend: MemoryBackend, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    memory_backend.script("*", TRAINS)
    cli(*RUN, *SLEEP)
    cli("report", name_of(memory_backend), "-o", "r.html", "--open")
    assert opened == [(here / "r.html").as_uri()]


def test_report_of_what_is_not_there(cli: Cli) -> None:
    ran = cli("report", "none")
    assert ran.code == 2
    assert 'no TrainJob "none"' in ran.err
