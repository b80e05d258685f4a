"""A v1 job and what became of it, line beside line: the lines that belong together are linked and light up together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trainer_ops.pages.markup import Markup, el

__all__ = ["GROUPS", "culprits", "sides"]

# Groups beyond this many share no light, only their links; the page's style has a rule for each.
GROUPS: Final = 160

_OBJECTS: Final = {"trainjob": ("T", "TrainJob"), "runtime": ("R", "TrainingRuntime")}
_SEVERE: Final = {"refused": ("bad", "✘"), "warning": ("queue", "▲"), "info": ("held", "•")}

Raw = Mapping[str, Any]
Spot = tuple[str, int]  # "v1", "trainjob" or "runtime", and a line


@dataclass(slots=True)
class _Line:
    """What is to be told at one line."""

    classes: list[str] = field(default_factory=list)
    to: list[Spot] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    marks: list[tuple[str, str, str]] = field(default_factory=list)
    word: str = ""


def sides(job: Raw) -> Markup:
    """Two columns; on a narrow screen one below the other."""
    told = _told(job)
    v2 = job["v2"]
    right = [
        _column(job["id"], name, _OBJECTS[name][1], v2["yaml"][name], told)
        for name in ("trainjob", "runtime")
        if v2 is not None and v2["yaml"][name]
    ]
    left = _column(job["id"], "v1", f"{job['v1']['kind']} (v1)", job["v1"]["yaml"], told)
    return el("div", el("div", left), el("div", right) if right else None, class_="sides")


def _told(job: Raw) -> dict[Spot, _Line]:
    told: dict[Spot, _Line] = {}
    for row in job["ledger"] if job["v2"] is not None else culprits(job):
        _leaf(row, told)
    for number, group in enumerate(_groups(job["ledger"]) if job["v2"] is not None else (), 1):
        for spot in group if number <= GROUPS else ():
            told.setdefault(spot, _Line()).classes.append(f"g{number}")
    for number, found in enumerate(job["findings"], 1):
        if found["v1_line"]:
            kind, mark = _SEVERE[found["severity"]]
            line = told.setdefault(("v1", found["v1_line"]), _Line())
            line.marks.append((kind, mark, f"{job['id']}-f{number}"))
    return told


def culprits(job: Raw) -> list[Raw]:
    """Of a refused job the leaves for which it is refused; all others are only refused with it."""
    paths = [found["v1_path"] for found in job["findings"] if found["severity"] == "refused" and found["v1_path"]]
    return [
        row
        for row in job["ledger"]
        if row["fate"] == "refused"
        and any(row["path"] == path or row["path"].startswith((f"{path}.", f"{path}[")) for path in paths)
    ]


def _leaf(row: Raw, told: dict[Spot, _Line]) -> None:
    spot = ("v1", row["v1_line"])
    line = told.setdefault(spot, _Line())
    if row["reason"] and row["reason"] not in line.why:
        line.why.append(row["reason"])
    if row["fate"] != "mapped":
        line.word = row["fate"]
        line.classes.append(row["fate"])
        return
    if row["rewritten"] and "changed" not in line.classes:
        line.classes.append("changed")
    for where in row["v2_lines"]:
        there = (where["object"], where["line"])
        other = told.setdefault(there, _Line())
        if there not in line.to:
            line.to.append(there)
        if spot not in other.to:
            other.to.append(spot)


def _groups(ledger: Iterable[Raw]) -> list[list[Spot]]:
    """Lines that belong together, directly or by another line."""
    parent: dict[Spot, Spot] = {}

    def root(spot: Spot) -> Spot:
        while parent.setdefault(spot, spot) != spot:
            parent[spot] = parent[parent[spot]]
            spot = parent[spot]
        return spot

    for row in ledger:
        for where in row["v2_lines"]:
            parent[root(("v1", row["v1_line"]))] = root((where["object"], where["line"]))
    found: dict[Spot, list[Spot]] = {}
    for spot in parent:
        found.setdefault(root(spot), []).append(spot)
    return list(found.values())


def _column(job: str, name: str, title: str, yaml: str, told: Mapping[Spot, _Line]) -> Markup:
    texts = yaml.removesuffix("\n").split("\n")
    rows = [_row(job, name, number, text, told, new) for number, text, new in _numbered(name, texts, told)]
    return el("figure", el("figcaption", title), el("div", rows, class_="yaml", tabindex="0", aria_label=title))


def _numbered(name: str, texts: Sequence[str], told: Mapping[Spot, _Line]) -> Iterator[tuple[int, str, bool]]:
    """Each line, and whether the conversion put it there: a value of v2 that no line of v1 is linked with.

    A line that only opens what follows is new when all of that is.
    """
    block = -1
    new: list[bool | None] = []
    for number, text in enumerate(texts, 1):
        indent = _indent(text)
        if block >= 0 and (not text or indent > block):
            new.append(new[-1])  # goes on with the text that the line before began
            continue
        block = indent if text.endswith((" |", " |-", " |+")) else -1
        new.append(None if text.endswith(":") else name != "v1" and (name, number) not in told)
    for i in range(len(texts) - 1, -1, -1):
        if new[i] is None:
            below = [new[j] for j in _below(texts, i)]
            new[i] = bool(below) and all(below) and (name, i + 1) not in told
    yield from ((number, text, bool(is_new)) for number, (text, is_new) in enumerate(zip(texts, new, strict=True), 1))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _below(texts: Sequence[str], at: int) -> Iterator[int]:
    """The lines that a line opens; items of its list are at its own indentation, or at that of a key behind a dash."""
    indent = _indent(texts[at].replace("- ", "  ", 1) if texts[at].lstrip(" ").startswith("- ") else texts[at])
    for i in range(at + 1, len(texts)):
        if texts[i] and _indent(texts[i]) <= indent and not texts[i][indent:].startswith("- "):
            return
        yield i


def _row(job: str, name: str, number: int, text: str, told: Mapping[Spot, _Line], new: bool) -> Markup:
    line = told.get((name, number), _Line())
    classes = [*dict.fromkeys(line.classes), *(["new"] if new else [])]
    marks = [el("a", mark, class_=f"mark {kind}", href=f"#{where}") for kind, mark, where in line.marks]
    links = [el("a", _short(spot), href=f"#{_id(job, spot)}") for spot in line.to]
    word = el("span", line.word) if line.word else None
    return el(
        "div",
        el("b", data_n=number),
        el("code", text or " "),
        el("span", marks, [(" ", link) for link in links], " " if word else None, word, class_="to"),
        id=_id(job, (name, number)),
        class_=" ".join(classes) or None,
        title="; ".join(line.why) or ("written by the conversion" if new else None),
    )


def _short(spot: Spot) -> str:
    name, number = spot
    return str(number) if name == "v1" else f"{_OBJECTS[name][0]}{number}"


def _id(job: str, spot: Spot) -> str:
    name, number = spot
    return f"{job}-{'v1' if name == 'v1' else _OBJECTS[name][0].lower()}-{number}"
