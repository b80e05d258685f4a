"""Results back into the text that the jobs stood in: what is not a job stays byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer_ops.migrate.comments import comments, placed
from trainer_ops.migrate.convert import Converted
from trainer_ops.migrate.documents import Document, Edit, edited, line_end
from trainer_ops.migrate.nodes import end_of, start_of
from trainer_ops.migrate.sites import Inner, Page, Site
from trainer_ops.migrate.wrappers import Around
from trainer_ops.migrate.yamltext import Line, literal, render, to_yaml

__all__ = ["Outcome", "write"]

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What is to be written for one job.

    Attributes:
        converted: what came of it.
        runtime: the runtime to write with it; None when it needs none, or another job of the call brings it.
        around: what changes around it.
    """

    converted: Converted
    runtime: Raw | None = None
    around: Around = field(default_factory=Around)


def write(page: Page, outcomes: Mapping[Site, Outcome]) -> tuple[str, list[Raw]]:
    """The text with its converted jobs, and the runtimes that have no place in it."""
    edits: list[Edit] = []
    outside: dict[Document, list[Raw]] = {}
    homeless: list[Raw] = []
    for site in page.sites:
        outcome = outcomes.get(site)
        if outcome is None or not outcome.converted.ok:
            continue
        edits += _site(page, site, outcome)
        if not page.one_object:
            # Around the text of an Argo template is the document that holds it.
            edits += outcome.around.edits
        if outcome.runtime is not None and not _holds(page, site):
            outside.setdefault(site.document, []).append(outcome.runtime)
    for inner in page.inner:
        text, left = write(inner.page, outcomes)
        if text == inner.page.text:
            continue
        edits += _inner(page, inner, text, outcomes)
        if inner.document is not None and left:
            outside.setdefault(inner.document, []).extend(left)
        else:
            homeless += left
    for document, runtimes in outside.items():
        if page.one_object:
            homeless += runtimes
        else:
            edits += _before(page, document, runtimes)
    return _written(page, edits), homeless


def _written(page: Page, edits: list[Edit]) -> str:
    if "\r\n" in page.text:
        edits = [Edit(one.start, one.end, re.sub(r"(?<!\r)\n", "\r\n", one.text)) for one in edits]
    return edited(page.text, edits)


def _holds(page: Page, site: Site) -> bool:
    """Whether the runtime can stand where the job does."""
    return site.how in ("document", "item") and not page.one_object


# -- one job ---------------------------------------------------------------------------------------------------------


def _site(page: Page, site: Site, outcome: Outcome) -> list[Edit]:
    document = site.document
    built = document.built
    assert built is not None
    job = _named(site, outcome.converted)
    node = built.nodes[site.path]
    first = start_of(node)
    start = document.origin + int(first.index)
    runtime = outcome.runtime if _holds(page, site) else None
    if document.is_json or (site.path and getattr(node, "flow_style", False)):
        return [_flow(page, site, start, document.origin + int(node.end_mark.index), job, runtime)]
    chunk = page.text[document.origin : document.end]
    end = document.origin + line_end(chunk, end_of(node, chunk))
    flow = bool(getattr(node, "flow_style", False))
    column = 0 if flow else int(first.column)
    objects = {"trainjob": render(job, indent=column)}
    if runtime is not None:
        objects["runtime"] = render(runtime, indent=column)
    span = (start - document.origin, end - document.origin)
    found = comments(chunk, built, site.path, span)
    lines, lost = placed(found, outcome.converted.raw, outcome.converted.ledger, objects)
    pad = " " * column
    head = "".join(f"{pad}{line}\n" for line in lost)
    if "runtime" in lines and site.how == "item":
        dash = page.text.rfind("-", 0, start)
        gap = pad[: dash - page.text.rfind("\n", 0, dash) - 1]
        text = f"{head}{_text(lines['runtime'])}\n{gap}-{pad[len(gap) + 1 :]}{_text(lines['trainjob']).lstrip(' ')}"
    elif "runtime" in lines:
        text = f"{head}{_text(lines['runtime'])}\n---\n{_text(lines['trainjob'])}"
    else:
        text = head + _text(lines["trainjob"])
    if flow and not _is_margin(page.text, start):
        # It began on the line of the document's mark.
        return [Edit(document.start, end, f"\n{text}")]
    return [Edit(start, end, text[column:])]


def _is_margin(text: str, position: int) -> bool:
    return not text[text.rfind("\n", 0, position) + 1 : position].strip("\ufeff \t")


def _text(lines: list[Line]) -> str:
    return "\n".join(line.text for line in lines)


def _named(site: Site, converted: Converted) -> Raw:
    job = converted.trainjob
    assert job is not None
    if not site.nameless:
        return job
    metadata = {key: value for key, value in job["metadata"].items() if key != "generateName"}
    return {
        key: metadata if key == "metadata" else value for key, value in job.items() if key != "metadata" or metadata
    }


# -- JSON and flow ----------------------------------------------------------------------------------------------------


def _flow(page: Page, site: Site, start: int, end: int, job: Raw, runtime: Raw | None) -> Edit:
    if not site.document.is_json:
        text = ", ".join(json.dumps(one, ensure_ascii=False) for one in (runtime, job) if one is not None)
        return Edit(start, end, text)
    if runtime is not None and not site.path:
        job, runtime = {"apiVersion": "v1", "kind": "List", "items": [runtime, job]}, None
    margin = _margin(page.text, start)
    gap = ",\n" + margin if "\n" in page.text[site.document.start : site.document.end] else ", "
    made = [_json(page, site.document, one, margin) for one in (runtime, job) if one is not None]
    return Edit(start, end, gap.join(made))


def _json(page: Page, document: Document, value: Any, margin: str) -> str:
    body = page.text[document.start : document.end]
    step = re.search(r"\n([ \t]+)", body)
    indent = step[1].replace(margin, "", 1) if step and margin and step[1] != margin else step[1] if step else None
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text.replace("\n", f"\n{margin}")


def _margin(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _before(page: Page, document: Document, runtimes: list[Raw]) -> list[Edit]:
    """Runtimes as documents before the one that holds the jobs."""
    if not document.is_json:
        own = _is_margin(page.text, document.start)
        text = "".join(f"{to_yaml(runtime)}---\n" for runtime in runtimes)
        return [Edit(document.start, document.start, text if own else f"\n{text}")]
    made = [_json(page, document, runtime, "") for runtime in runtimes]
    head = '{"apiVersion": "v1", "kind": "List", "items": [\n' + "".join(f"{text},\n" for text in made)
    return [Edit(document.start, document.start, head), Edit(document.end, document.end, "\n]}")]


# -- texts in texts ---------------------------------------------------------------------------------------------------


def _inner(page: Page, inner: Inner, text: str, outcomes: Mapping[Site, Outcome]) -> list[Edit]:
    text = inner.page.masks.restore(text)
    if inner.document is None:
        return [Edit(*inner.span, _with_margin(page.text[slice(*inner.span)], inner, text))]
    around = [edit for site in inner.page.sites if site in outcomes for edit in outcomes[site].around.edits]
    built = inner.document.built
    assert built is not None
    node, key = built.nodes[inner.path], built.keys.get(inner.path)
    start, end = int(node.start_mark.index), int(node.end_mark.index)
    chunk = page.text[inner.document.origin : inner.document.origin + end]
    end = len(chunk.rstrip()) if not text.endswith("\n\n") else len(chunk.removesuffix("\n").removesuffix("\r"))
    if inner.document.is_json or _in_flow(built, inner):
        said = json.dumps(text, ensure_ascii=False)
    else:
        column = int(key.start_mark.column) if key is not None else int(node.start_mark.column)
        said = literal(text, indent=column + _step(chunk[start:], column))
    return [Edit(inner.document.origin + start, inner.document.origin + end, said), *around]


def _in_flow(built: Any, inner: Inner) -> bool:
    return any(getattr(built.nodes[inner.path[:size]], "flow_style", False) for size in range(len(inner.path)))


def _step(block: str, column: int) -> int:
    """By how many columns a block scalar is indented now."""
    found = re.match(r"[|>][^\n]*\n(?:[ \t]*\r?\n)*( +)", block)
    return max(1, len(found[1]) - column) if found else 2


def _with_margin(before: str, inner: Inner, text: str) -> str:
    """The lines of a fenced block, those that are the same as they were."""
    if not inner.margin:
        return text
    old, was = before.splitlines(keepends=True), inner.page.text.splitlines(keepends=True)
    new = text.splitlines(keepends=True)
    head = next((i for i, (a, b) in enumerate(zip(was, new, strict=False)) if a != b), min(len(was), len(new)))
    tail = next(
        (i for i, (a, b) in enumerate(zip(was[:head:-1], new[:head:-1], strict=False)) if a != b),
        min(len(was), len(new)) - head - 1,
    )
    tail = max(0, tail)
    middle = [
        inner.margin + line if line.strip() else inner.margin.rstrip() + line for line in new[head : len(new) - tail]
    ]
    return "".join([*old[:head], *middle, *old[len(old) - tail :]])
