"""Outcomes to make pages of, recorded ones and made ones, and a page taken apart as a browser would."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.model.times import rfc3339
from trainer_ops.status.wait import Wait

VOID = {"meta", "br"}
NOON = 1795953600.0


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    @property
    def text(self) -> str:
        """What a person reads without a pointer: nothing of titles and of what a drawing says to those who hear it."""
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return "" if self.tag in ("title", "desc", "style") else "".join(parts)

    def walk(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def all(self, tag: str, class_: str = "") -> list[Element]:
        return [e for e in self.walk() if e.tag == tag and (not class_ or class_ in e.classes)]

    def one(self, tag: str, class_: str = "") -> Element:
        (found,) = self.all(tag, class_)
        return found


class Parser(HTMLParser):
    """Fails on what a browser would have to mend."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("#root", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError("a declaration within the page")


def parse(html: str) -> Element:
    assert html.startswith("<!DOCTYPE html>\n")
    assert len(html.encode()) < 300_000
    parser = Parser()
    parser.feed(html)
    parser.close()
    assert parser.open == [parser.root], "something is not closed"
    (page,) = (child for child in parser.root.children if isinstance(child, Element))
    ids = [e.attributes["id"] for e in page.walk() if "id" in e.attributes]
    assert len(ids) == len(set(ids)), "an id twice"
    return page


@pytest.fixture(scope="session")
def page() -> Callable[[str], Element]:
    """Take a page apart; fails when it is not well-formed, too large or has an id twice."""
    return parse


def _status_tests() -> Any:
    """The recorded objects and the player of them belong to the tests of ``status``."""
    path = Path(__file__).parents[1] / "status" / "conftest.py"
    spec = importlib.util.spec_from_file_location("recorded", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RECORDED = _status_tests()


@pytest.fixture(scope="session")
def scene() -> Any:
    return RECORDED.Scene()


@pytest.fixture(scope="session")
def recorded() -> Callable[..., Outcome]:
    """The outcome of a wait that saw a recorded watch change by change, or of one look at a last state."""

    def outcome(case: str, job: str | None = None, limits: Limits | None = None) -> Outcome:
        if case.endswith(".watch"):
            replay = RECORDED.Replay(case, job)
            looks, name, uid = list(replay.observations()), replay.name, replay.uid
        else:
            looks = [RECORDED.last_state(case, job)]
            assert looks[0].job is not None
            name, uid = looks[0].job.name, looks[0].job.uid
        wait = Wait.begin(JobRef("kubernetes://prod/team", "team", name, uid), limits or Limits(), now=looks[0].at)
        for look in looks:
            wait, _ = wait.see(look, look.at)
        return wait.outcome()

    return outcome


def at(seconds: float) -> str:
    return rfc3339(NOON + seconds, micro=True)


def changed(phase: str, seconds: float, detail: str = "", **more: Any) -> dict[str, Any]:
    return {"phase": phase, "reason": "", "detail": detail, "at": at(seconds), "folded": 0, **more}


def node(name: str, state: str = "done", **more: Any) -> dict[str, Any]:
    known = {"restarts": 0, "exit_code": 0, "reason": "", "host": "", "last_line": ""}
    return {"name": name, "state": state, **known, **more}


def report(seconds: float, percentage: int | None, **metrics: float | str) -> dict[str, Any]:
    return {"at": at(seconds), "percentage": percentage, "eta_seconds": 90.0, "metrics": metrics}


@pytest.fixture
def make() -> Callable[..., Outcome]:
    """A training of an hour, with the parts that a test gives in other words."""

    def outcome(**parts: Any) -> Outcome:
        known: dict[str, Any] = {
            "name": "digits-1",
            "namespace": "team",
            "uid": "u-1",
            "target": "kubernetes://prod/team",
            "phase": Phase.SUCCEEDED,
            "started_at": rfc3339(NOON + 600),
            "finished_at": rfc3339(NOON + 3600),
            "phases": (
                changed("queued", 0, "2 ahead"),
                changed("pending", 540, "node-0: pulling image"),
                changed("running", 600),
                changed("succeeded", 3600, "jobset completed successfully"),
            ),
        }
        return Outcome(**{**known, **parts})

    return outcome
