"""The report of one training: an Outcome as one HTML file that needs nothing else, not even a script.

What matters most comes first: how it ended and why, then what came of it, then its course, nodes and events. All facts
are text; drawings and what shows under the pointer only repeat them.
"""

from __future__ import annotations

from trainer_ops.model.outcome import Category, Ending, Outcome
from trainer_ops.model.times import duration, rfc3339
from trainer_ops.pages import parts
from trainer_ops.pages.charts import colour
from trainer_ops.pages.markup import Markup, document, el
from trainer_ops.pages.story import Story, span_text, story
from trainer_ops.pages.style import CSS

__all__ = ["render"]

_ENDINGS = {
    Ending.TRAINED: ("good", "✔ Trained"),
    Ending.FAILED: ("bad", "✘ Failed"),
    Ending.CANCELLED: ("gone", "✘ Cancelled"),
    Ending.GAVE_UP: ("queue", "■ Gave up waiting"),
    Ending.UNREACHABLE: ("queue", "■ Lost sight of it"),
}


def render(outcome: Outcome, *, title: str = "", now: float | None = None) -> str:
    """The page, less than 300 kB of UTF-8.

    Args:
        outcome: of a training that ended, or the state so far of one that goes on.
        title: what to call it; its name stays below. "" is the name alone.
        now: seconds since the epoch: when the page is made, and where a training that goes on is drawn to.
    """
    told = story(outcome, now)
    kind, words = _verdict(outcome)
    main = el(
        "main",
        el(
            "header",
            el("p", words, class_=f"pill {kind}"),
            el("h1", title or outcome.name),
            _below(outcome, told, title),
        ),
        _facts(outcome, told),
        parts.diagnosis(outcome),
        parts.result(outcome),
        parts.phases(told),
        parts.curves(outcome, told),
        parts.nodes(outcome),
        parts.events(outcome, told),
        _footer(outcome, now),
    )
    return document(f"{title or outcome.name}: {words[2:].lower()}", CSS, main)


def _verdict(outcome: Outcome) -> tuple[str, str]:
    """Class and words of the pill."""
    if outcome.diagnosis is None and not outcome.phase.finished:
        return colour(outcome.phase), f"● {outcome.phase.word.capitalize()}"
    if outcome.diagnosis is not None and outcome.diagnosis.category is Category.SUPERSEDED:
        return "gone", "✘ Replaced by a newer run"
    return _ENDINGS[outcome.ending]


def _below(outcome: Outcome, told: Story, title: str) -> Markup:
    """The line below the heading: its name where that is not the heading, and when it was."""
    begin, end = _clock(told.start), _clock(told.end)
    same_day = begin[:10] == end[:10]
    words = f"{begin} to {end[11:] if same_day else end} UTC" if told.end > told.start else f"{begin} UTC"
    going_on = " so far" if told.open and outcome.diagnosis is None else ""
    return el("p", f"{outcome.name}, " if title else None, words, going_on, class_="sub")


def _clock(seconds: float) -> str:
    return rfc3339(seconds).replace("T", " ").rstrip("Z")


def _facts(outcome: Outcome, told: Story) -> Markup:
    """The numbers that are asked for first."""
    ran = told.ran if told.ran is not None else outcome.took
    restarts = [(node["name"], node["restarts"]) for node in outcome.nodes if node.get("restarts")]
    facts = _progress(outcome)
    if ran is not None:
        facts.append(("Trained for" if outcome.succeeded else "Ran for", span_text(ran), ""))
    if told.waited >= 1:
        facts.append(("Waited", span_text(told.waited), _waits(told)))
    if outcome.num_nodes:
        facts.append(("Nodes", str(outcome.num_nodes), _gpus(outcome.gpus)))
    if outcome.gpus and ran is not None:
        facts.append(("GPU-hours", _hours(outcome.gpus * ran / 3600), f"{outcome.gpus} × {span_text(ran)}"))
    if restarts:
        names = ", ".join(str(name) for name, _ in restarts[:3]) + (" and others" if len(restarts) > 3 else "")
        facts.append(("Restarts", str(sum(count for _, count in restarts)), names))
    if outcome.attempt > 1:
        facts.append(("Attempt", str(outcome.attempt), "the ones before did not end well"))
    return el("dl", [_fact(*fact) for fact in facts], class_="facts") if facts else Markup("")


def _gpus(count: int) -> str:
    return "" if not count else "1 GPU" if count == 1 else f"{count} GPUs"


def _hours(hours: float) -> str:
    return f"{hours:.0f}" if hours >= 100 else f"{hours:.3g}"


def _fact(name: str, value: str, small: str) -> Markup:
    return el("div", el("dt", name), el("dd", value, el("small", small) if small else None))


def _waits(told: Story) -> str:
    """What it waited in, the longest first."""
    waits = [total for total in told.totals() if total[1].waiting_in_queue or total[1].starting]
    longest = sorted(waits, key=lambda total: -total[2])[:2]
    return ", ".join(word for word, _, seconds, _ in longest if seconds >= 1)


def _progress(outcome: Outcome) -> list[tuple[str, str, str]]:
    last = outcome.progress[-1] if outcome.progress else {}
    if outcome.phase.finished or last.get("percentage") is None:
        return []
    eta = last.get("eta_seconds")
    left = f"about {duration(eta)} left" if isinstance(eta, int | float) and outcome.diagnosis is None else ""
    return [("Progress", f"{last['percentage']} %", left)]


def _footer(outcome: Outcome, now: float | None) -> Markup:
    made = f" This page was made on {_clock(now)} UTC." if now is not None else ""
    return el(
        "footer",
        f"TrainJob {outcome.namespace}/{outcome.name}, uid {outcome.uid or 'unknown'}, on {outcome.target}. Times of "
        f"phases and events count from the beginning, in hours, minutes and seconds.{made}",
    )
