"""States, ends and tables as styled text: pure, and the same words with a terminal and without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainer_ops.cli.glance import Glance, word
from trainer_ops.cli.text import Spans, cut, fold, number_text, plain, roughly, table, wide, wrap
from trainer_ops.model.lines import clean
from trainer_ops.model.outcome import Category, Ending, Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.model.times import duration

__all__ = [
    "Signs",
    "best_metric",
    "ended",
    "entry",
    "failure",
    "node_style",
    "nodes_table",
    "one_training",
    "status_line",
    "trainings_table",
]

STYLES = {
    Phase.RUNNING: "cyan",
    Phase.COMPLETING: "cyan",
    Phase.SUCCEEDED: "green",
    Phase.FAILED: "red",
    Phase.FAILING: "red",
    Phase.RESTARTING: "yellow",
    Phase.QUEUED: "yellow",
    Phase.SUSPENDED: "yellow",
    Phase.DELETED: "magenta",
    Phase.REPLACED: "magenta",
}
# Calm, and none of them the colour of a failure. Rank 0 is the first; a seventh node starts again.
_NODE_STYLES = ("cyan", "magenta", "blue", "green", "yellow", "bright_black")
_PHASE_WIDTH = 10
_BAR = (8, 30)


@dataclass(frozen=True, slots=True)
class Signs:
    """The few characters that are not ASCII, and what stands for them where a terminal has no UTF-8."""

    good: str = "✔"
    bad: str = "✘"
    left: str = "■"
    done: str = "━"
    half: str = "╸"
    rest: str = "─"
    ellipsis: str = "…"

    @classmethod
    def of(cls, encoding: str | None) -> Signs:
        """Those that this encoding can say."""
        if (encoding or "").lower().replace("-", "").replace("_", "") in ("utf8", "utf8sig"):
            return cls()
        return cls(good="ok", bad="x", left="-", done="#", half="#", rest=".", ellipsis="~")


def node_style(index: int) -> str:
    """The colour of a node's prefix."""
    return _NODE_STYLES[index % len(_NODE_STYLES)]


def best_metric(metrics: Mapping[str, float | str], *, running: bool) -> str:
    """The metric that has room for one: a loss while it trains, an accuracy when it has; else the first."""
    wanted = ("loss", "error", "accuracy") if running else ("accuracy", "score", "auc", "loss")
    for part in wanted:
        for name in metrics:
            if part in name.lower():
                return f"{clean(name)} {number_text(metrics[name])}"
    return next((f"{clean(name)} {number_text(value)}" for name, value in metrics.items()), "")


def status_line(seen: Glance, width: int, signs: Signs) -> Spans:
    """``digits-4f2a  running     0:42  ━━━━━╸━━━  71 %  about 17 s left   loss 0.113`` in at most ``width`` columns.

    Without a percentage the detail stands there. What has no room is left out: the metric first, then the estimate,
    then the bar.
    """
    name = cut(seen.name, max(12, width // 2 - 6), ellipsis=signs.ellipsis)
    phase = f"{word(seen.phase):<{_PHASE_WIDTH}}"
    head = [(name, "bold"), ("  ", ""), (phase, STYLES.get(seen.phase, "")), ("  ", ""), (duration(seen.elapsed), "")]
    room = width - sum(wide(text) for text, _ in head) - 2
    show_bar = seen.percentage is not None and seen.phase in (Phase.RUNNING, Phase.RESTARTING, Phase.COMPLETING)
    tail = _progress(seen, room, signs) if show_bar else _detail(seen, room, signs)
    return [*head, ("  ", ""), *tail] if tail else head


def _detail(seen: Glance, room: int, signs: Signs) -> list[tuple[str, str]]:
    text = clean(seen.state.detail or seen.state.reason)
    if not text and seen.phase is Phase.RUNNING and seen.num_nodes:
        text = _nodes(seen.num_nodes)
    return [(cut(text, room, ellipsis=signs.ellipsis), "dim")] if text and room > 3 else []


def _progress(seen: Glance, room: int, signs: Signs) -> list[tuple[str, str]]:
    percent = max(0, min(100, seen.percentage or 0))
    parts: list[tuple[str, str]] = [(f"{percent:>3} %", "")]
    room -= 5
    low, high = _BAR
    eta = f"  about {roughly(seen.eta_left)} left" if seen.eta_left is not None and percent < 100 else ""
    metric = best_metric(seen.metrics, running=True)
    for text, style in ((eta, "dim"), (f"   {metric}" if metric else "", "")):
        if text and room - wide(text) >= low + 2:
            parts.append((text, style))
            room -= wide(text)
    size = min(high, room - 2)
    return [*_bar(percent, size, signs), ("  ", ""), *parts] if size >= low else parts


def _bar(percent: int, size: int, signs: Signs) -> list[tuple[str, str]]:
    halves = round(percent * size * 2 / 100)
    full, half = divmod(halves, 2)
    done = signs.done * full + (signs.half if half else "")
    return [(done, "cyan"), (signs.rest * (size - full - half), "bright_black")]


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def ended(outcome: Outcome, seen: Glance | None, took: float | None, width: int, signs: Signs) -> list[Spans]:
    """A success: what, how long, how good, and where the model is: in one line where that has room, else in two."""
    spans: list[tuple[str, str]] = [(f"{signs.good} ", "bold green"), (outcome.name, "bold"), (" trained", "green")]
    if took is not None:
        spans.append((f" in {duration(took)}", ""))
    if seen is not None and seen.num_nodes:
        spans.append((f" on {_nodes(seen.num_nodes)}", ""))
    metric = best_metric(outcome.metrics, running=False)
    if metric:
        spans.append((f"   {metric}", "bold"))
    if not outcome.model_uri:
        return [spans]
    model = [("model ", "dim"), (clean(outcome.model_uri), "")]
    if wide(plain(spans)) + 3 + wide(plain(model)) <= width:
        return [[*spans, ("   ", ""), *model]]
    return [spans, [("  ", ""), *model]]


# (sign, style, before the name, after it)
_HEADS = {
    Ending.FAILED: ("bad", "red", "", " failed"),
    Ending.CANCELLED: ("bad", "magenta", "", " was cancelled"),
    Ending.GAVE_UP: ("left", "yellow", "gave up waiting for ", ""),
    Ending.UNREACHABLE: ("left", "yellow", "lost sight of ", ""),
}
_CANCELLED = {Category.SUPERSEDED: " was replaced by a newer run"}


def failure(
    outcome: Outcome, after: float | None, width: int, signs: Signs, next_steps: Sequence[tuple[str, str]]
) -> list[Spans]:
    """The block that a tired person understands: what, why, do, and the commands to go on with.

    ``next_steps`` are (label, command) pairs; commands are never broken, so that they can be copied.
    """
    sign, style, before, verb = _HEADS[outcome.ending]
    diagnosis = outcome.diagnosis
    if diagnosis is not None:
        verb = _CANCELLED.get(diagnosis.category, verb)
    head: list[tuple[str, str]] = [
        (f"{getattr(signs, sign)} ", f"bold {style}"),
        (before, style),
        (outcome.name, "bold"),
        (verb, style),
        (f" after {duration(after)}" if after is not None else "", ""),
    ]
    lines: list[Spans] = []
    if diagnosis is not None:
        head.append((f" ({diagnosis.category.value})", "dim"))
        lines += entry("what", diagnosis.summary, width)
        lines += _evidence(diagnosis.evidence, width)
        lines += entry("do", diagnosis.remedy, width)
    lines += [[(f"  {label:<8}", "bold"), (command, "")] for label, command in next_steps]
    return [head, *lines]


def entry(label: str, text: str, width: int) -> list[Spans]:
    """One labelled paragraph of a block; none for no text."""
    if not text:
        return []
    first, *rest = wrap(clean(text.replace("\n", " ")), max(30, width - 10), "")
    return [[(f"  {label:<8}", "bold"), (first, "")], *([(" " * 10 + line, "")] for line in rest)]


def _evidence(evidence: Iterable[str], width: int) -> list[Spans]:
    parts = [
        (part, "dim" if line.startswith(" ") else "")
        for text in evidence
        for line in text.split("\n")
        for part in fold(clean(line), max(30, width - 10))
    ]
    return [[("  why     " if i == 0 else " " * 10, "bold"), part] for i, part in enumerate(parts)]


def trainings_table(rows: Sequence[Glance], *, now: float, width: int | None, full: bool) -> list[Spans]:
    """The table of ``status`` and ``list``; ``full`` adds runtime, attempt, queue and identity and cuts nothing."""
    header = ["NAME", "STATE", "NODES", "AGE", "TOOK"]
    extra = ["RUNTIME", "ATTEMPT", "QUEUE", "RUN"] if full else []
    cells = []
    for seen in rows:
        took = seen.finished_at - seen.started_at if seen.finished_at and seen.started_at else None
        if took is None and seen.started_at is not None and not seen.phase.finished:
            took = now - seen.started_at
        age = roughly(now - seen.created_at) if seen.created_at is not None else ""
        row = [seen.name, word(seen.phase), str(seen.num_nodes or ""), age, duration(took) if took is not None else ""]
        if full:
            row += [seen.runtime, str(seen.attempt), seen.queue, seen.identity]
        cells.append([*row, _what(seen)])
    lines = table([*header, *extra, ""], cells, width=None if full else width, right=frozenset({2, 3, 4}))
    styles = ["dim", *(STYLES.get(seen.phase, "") for seen in rows)]
    return [
        [(c if i == len(line) - 1 else c + "  ", style if i == 1 or style == "dim" else "") for i, c in enumerate(line)]
        for line, style in zip(lines, styles, strict=True)
    ]


def _what(seen: Glance) -> str:
    parts = []
    if seen.percentage is not None and not seen.phase.finished:
        parts.append(f"{seen.percentage} %")
        if seen.eta_left is not None:
            parts.append(f"about {roughly(seen.eta_left)} left")
    metric = best_metric(seen.metrics, running=not seen.phase.finished)
    if metric:
        parts.append(metric)
    detail = clean(_failed_node(seen) or seen.state.detail or seen.state.reason)
    if detail and seen.phase is not Phase.SUCCEEDED and not (parts and seen.phase is Phase.RUNNING):
        parts.append(detail)
    return "  ".join(parts)


def _failed_node(seen: Glance) -> str:
    """What is known of a failure without its Diagnosis, which only a wait can give."""
    failed = [n for n in seen.nodes if n.state == "failed"] if seen.phase is Phase.FAILED else []
    # The others are stopped when one fails; what ended by a signal is the culprit only when nothing else is.
    failed.sort(key=lambda n: n.exit_code in (137, 143) and not n.why)
    return next((f"exit code {n.exit_code} on {n.node}" + (f" ({n.why})" if n.why else "") for n in failed), "")


def nodes_table(seen: Glance, width: int) -> list[Spans]:
    """The nodes of one training: state, restarts, exit code, why."""
    rows = [
        [n.node, n.state, str(n.restarts), "" if n.exit_code is None else str(n.exit_code), clean(n.why)]
        for n in seen.nodes
    ]
    lines = table(["NODE", "STATE", "RESTARTS", "EXIT", ""], rows, width=width - 2, right=frozenset({2, 3}))
    colours = {"failed": "red", "running": "cyan", "done": "green"}
    styles = ["dim", *(colours.get(n.state, "") for n in seen.nodes)]
    return [
        [("  ", ""), *((cell + "  ", style if i == 1 or style == "dim" else "") for i, cell in enumerate(line))]
        for line, style in zip(lines, styles, strict=True)
    ]


def one_training(seen: Glance, target: str, width: int, signs: Signs) -> list[Spans]:
    """``status NAME``: the line of a wait, what it is, and its nodes."""
    facts = [
        ("run", "   ".join(part for part in (seen.identity, f"attempt {seen.attempt}") if part)),
        ("runtime", seen.runtime + (f"   {_nodes(seen.num_nodes)}" if seen.num_nodes else "")),
        ("queue", seen.queue),
        ("where", f"{target}   uid {seen.uid}"),
        ("metrics", "   ".join(f"{clean(name)} {number_text(value)}" for name, value in seen.metrics.items())),
    ]
    lines: list[Spans] = [status_line(seen, width, signs)]
    lines += [[(f"  {label:<9}", "bold"), (clean(text), "")] for label, text in facts if text]
    return [*lines, *(nodes_table(seen, width) if seen.nodes else [])]
