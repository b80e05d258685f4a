"""The sections of a report. Each is nothing when there is nothing to tell."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer_ops.model.numbers import number_text
from trainer_ops.model.outcome import Ending, Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.model.times import duration, parse_time
from trainer_ops.pages.charts import colour, curve, timeline
from trainer_ops.pages.markup import Content, Markup, el, shown, table
from trainer_ops.pages.story import Span, Story, span_text

__all__ = ["curves", "diagnosis", "events", "nodes", "phases", "result"]

_CHARTS = 12
_METRICS = 60
# Longer tables show what has something to tell; the rest is there when asked for.
_ROWS = 16
_LONGEST = 400

Row = Mapping[str, Any]

_TROUBLE = ("waiting", "failed")
_STOPPED = (137, 143)


def diagnosis(outcome: Outcome) -> Markup | None:
    """Why, what to do, and the proof."""
    found = outcome.diagnosis
    if found is None:
        return None
    kind = {Ending.FAILED: "diagnosis", Ending.CANCELLED: "diagnosis off"}.get(outcome.ending, "diagnosis left")
    return el(
        "section",
        el("h2", "Why ", el("code", found.category.value, class_="tag"), id="why"),
        el("p", found.summary, class_="what"),
        el("p", el("b", "Do: "), found.remedy, class_="do") if found.remedy else None,
        el("pre", "\n".join(found.evidence), tabindex="0", aria_label="Evidence") if found.evidence else None,
        class_=kind,
        aria_labelledby="why",
    )


def result(outcome: Outcome) -> Markup | None:
    """Metrics, model and artifacts."""
    if not (outcome.metrics or outcome.model_uri or outcome.artifacts):
        return None
    shown = list(outcome.metrics.items())[:_METRICS]
    metrics = [el("div", el("dt", name), el("dd", number_text(value))) for name, value in shown]
    left = len(outcome.metrics) - len(shown)
    return el(
        "section",
        el("h2", "Result" if outcome.succeeded else "Reported so far", id="result"),
        el("dl", metrics, class_="facts") if metrics else None,
        el("p", f"More in the outcome's JSON: {left}.", class_="note") if left else None,
        el("p", "Model ", _uri(outcome.model_uri), class_="do") if outcome.model_uri else None,
        [el("p", f"{name} ", _uri(value)) for name, value in outcome.artifacts.items()],
        aria_labelledby="result",
    )


def _uri(value: object) -> Markup:
    text = shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    # A link only where nothing but a page can be behind what is left of it when it is made fit to be shown.
    if text.startswith(("https://", "http://")) and short == text:
        return el("a", short, href=text, rel="noopener noreferrer")
    return el("code", short)


def phases(told: Story) -> Markup | None:
    """The bar, how long it was in what, and every change with its reason."""
    if not told.spans and told.final is None:
        return None
    rows = [_phase(span, told) for span in told.spans]
    if told.final is not None:
        rows.append(_phase(told.final, told))
    folded = sum(span.folded for span in told.spans)
    return el(
        "section",
        el("h2", "Phases", id="phases"),
        timeline(told) if told.spans else None,
        el("ul", [_total(*total) for total in told.totals()], class_="totals"),
        _long(_phase_table, rows, _ends, f"All {len(rows)} changes"),
        el("p", f"Shorter changes between these, left out: {folded}.", class_="note") if folded else None,
        aria_labelledby="phases",
    )


def _total(word: str, phase: Phase, seconds: float, times: int) -> Markup:
    often = f", {times} times" if times > 1 else ""
    return el("li", el("i", class_=colour(phase)), f"{word} ", el("b", span_text(seconds)), often)


def _phase(span: Span, told: Story) -> Markup:
    last = told.spans and span is told.spans[-1] and told.final is None
    lasted = "" if span.phase.finished else span_text(span.seconds) + (" so far" if last and told.open else "")
    return el(
        "tr",
        el("td", duration(span.start - told.start), class_="n"),
        el("td", lasted, class_="n"),
        el("td", el("i", class_=colour(span.phase)), el("b", span.phase.word), " ", el("span", span.why, class_="sub")),
    )


def _phase_table(rows: Sequence[Markup]) -> Markup:
    return table("", [("n narrow", "At"), ("n narrow", "Lasted"), (None, "Phase")], rows)


def _ends(rows: Sequence[Markup]) -> list[Markup]:
    """The first and the last changes, and between them how many are left out."""
    gap = el("tr", el("td", f"{len(rows) - 8} changes in between", colspan=3, class_="sub"))
    return [*rows[:3], gap, *rows[-5:]]


def _long(
    make: Callable[[Sequence[Any]], Markup], rows: Sequence[Any], few: Callable[[Sequence[Any]], list[Any]], all_: str
) -> Content:
    """The table; of one that is long ``few`` of its rows, and all of them when asked for."""
    if len(rows) <= _ROWS:
        return make(rows)
    chosen = few(rows)
    return [make(chosen) if chosen else None, el("details", el("summary", all_), make(rows))]


def curves(outcome: Outcome, told: Story) -> Markup | None:
    """A chart for each metric that was reported more than once."""
    if not told.curves:
        return None
    first = min(data.points[0][0] for data in told.curves)
    last = max(data.points[-1][0] for data in told.curves)
    start = min(first, parse_time(outcome.started_at) or first)
    restarts = [span.start for span in told.spans if span.phase is Phase.RESTARTING and start <= span.start <= last]
    shown, left = told.curves[:_CHARTS], len(told.curves) - _CHARTS
    figures = []
    for number, data in enumerate(shown, 1):
        value = el("span", f" {number_text(data.points[-1][1])}")
        figures.append(el("figure", el("figcaption", data.name, value), curve(number, data, start, last, restarts)))
    note = f"More metrics in the outcome's JSON: {left}." if left > 0 else ""
    again = "Dashed lines are restarts." if restarts else ""
    return el(
        "section",
        el("h2", "Progress and metrics", id="curves"),
        el("div", figures, class_="charts"),
        el("p", " ".join(part for part in (again, note) if part), class_="note") if again or note else None,
        aria_labelledby="curves",
    )


def nodes(outcome: Outcome) -> Markup | None:
    """A row per node, and below it the last line of its log."""
    if not outcome.nodes:
        return None
    rows = outcome.nodes
    hidden = outcome.num_nodes - sum(row.get("name", "").startswith("node-") for row in rows)
    note = f"Nodes with nothing to tell, left out: {hidden}." if 0 < hidden < outcome.num_nodes else ""
    return el(
        "section",
        el("h2", "Nodes", id="nodes"),
        _long(_node_table, rows, _telling, f"All {len(rows)} nodes: {_states(rows)}"),
        el("p", note, class_="note") if note else None,
        aria_labelledby="nodes",
    )


def _states(rows: Sequence[Row]) -> str:
    counts = Counter(str(row.get("state", "")) for row in rows)
    return ", ".join(f"{count} {state}" for state, count in counts.most_common())


def _telling(rows: Sequence[Row]) -> list[Row]:
    """Those with something to tell, at most 16: what failed by itself before what was stopped by a signal."""
    found = [row for row in rows if row.get("restarts") or row.get("exit_code") or row.get("state") in _TROUBLE]
    return sorted(found, key=lambda row: (row.get("exit_code") in _STOPPED, row.get("state") not in _TROUBLE))[:_ROWS]


def _node_table(rows: Sequence[Row]) -> Markup:
    hosts = any(row.get("host") for row in rows)
    head: list[tuple[str | None, str]] = [(None, "Node"), (None, "State"), ("n", "Restarts"), ("n", "Exit code")]
    head += [("wide", "Machine")] if hosts else []
    caption = "Below a node the last line of its log." if any(row.get("last_line") for row in rows) else ""
    return table(caption, head, [_node(row, hosts=hosts) for row in rows])


def _node(row: Row, *, hosts: bool) -> list[Markup]:
    state, code = row.get("state", ""), row.get("exit_code")
    cells = [
        el("th", row.get("name", ""), scope="row", class_="word"),
        el("td", el("span", state, class_="trouble" if state == "failed" else None), " ", _reason(row)),
        el("td", row.get("restarts", 0), class_="n"),
        el("td", "–" if code is None else code, class_="n"),
        *([el("td", row.get("host", ""), class_="wide")] if hosts else []),
    ]
    line = row.get("last_line")
    said = [el("tr", el("td", el("code", line), colspan=len(cells)), class_="said")] if line else []
    return [el("tr", cells), *said]


def _reason(row: Row) -> Markup:
    return el("span", _why(row), class_="sub")


def _why(row: Row) -> str:
    reason = str(row.get("reason", ""))
    again = row.get("restarts") and row.get("state") in ("running", "done")
    if again and reason:
        return f"restarted after {'an error' if reason == 'Error' else reason}"
    # The exit code beside it says more.
    return "" if reason == "Error" else reason


def events(outcome: Outcome, told: Story) -> Markup | None:
    """What the cluster said, oldest first."""
    if not outcome.events:
        return None
    return el(
        "section",
        el("h2", "Events", id="events"),
        el("ol", [_event(event, told.start) for event in outcome.events], class_="events"),
        aria_labelledby="events",
    )


def _event(event: Row, start: float) -> Markup:
    at = parse_time(event.get("at"))
    count = event.get("count", 1)
    when = el("time", duration(at - start), datetime=event["at"]) if at is not None else el("span", "–")
    about = event.get("node") or event.get("object", "")
    return el(
        "li",
        when,
        el(
            "div",
            el("b", event.get("reason", ""), class_="trouble" if event.get("warning") else None),
            f" {about}",
            f", {count} times" if count != 1 else "",
            el("p", event["message"]) if event.get("message") else None,
        ),
    )
