"""The report of a migration as one HTML file, made of the report's JSON and of nothing else.

For a team that has to say yes to it: how much is done, what is left to do by hand and in which jobs, then every job
with both generations side by side, what was found in it, and how to run what came out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from trainer_ops.pages.markup import Content, Markup, document, el, table
from trainer_ops.pages.migration_style import MIGRATION_CSS
from trainer_ops.pages.sides import sides

__all__ = ["render"]

Raw = Mapping[str, Any]

_FULL: Final = 60
_NAMED: Final = 5
_OUTCOMES: Final = {
    "clean": ("good", "✔ Converted"),
    "warned": ("queue", "▲ Converted, look at it"),
    "refused": ("bad", "✘ Refused"),
}
_SEVERE: Final = {"refused": ("bad", "✘ refused"), "warning": ("queue", "▲ warning"), "info": ("held", "• note")}
_KEY: Final = (
    ("changed", "rewritten on the way"),
    ("dropped", "dropped, with a reason"),
    ("refused", "refused"),
    ("new", "written by the conversion"),
)


def render(report: Raw, *, title: str = "", full: int = _FULL) -> str:
    """The page.

    Args:
        report: what ``migrate.report.data.build`` made, or its JSON read again.
        title: what to call it.
        full: so many jobs are shown side by side, those to look at first; of the others what was found.
    """
    jobs = _jobs(report)
    rank = {"refused": 0, "warned": 1, "clean": 2}
    shown = {job["id"] for job in sorted(jobs, key=lambda job: rank[job["outcome"]])[:full]}
    heading = title or "Migration to TrainJob"
    main = el(
        "main",
        el("header", _pill(report), el("h1", heading), el("p", _below(report), class_="sub")),
        _facts(report["counts"]),
        _by_hand(report, jobs),
        _overview(jobs) if len(jobs) > 1 else None,
        [_job(job, side_by_side=job["id"] in shown) for job in jobs],
        _beside(report),
        el("footer", _footer(report, len(jobs) - len(shown))),
    )
    return document(heading, MIGRATION_CSS, main)


def _jobs(report: Raw) -> list[Raw]:
    found: list[Raw] = []
    for file in report["files"]:
        found += file["jobs"]
        found += [placed["job"] for placed in file["findings"] if placed["job"] is not None]
    return found


def _pill(report: Raw) -> Markup:
    counts = report["counts"]
    beside = sum(placed["severity"] == "refused" for file in report["files"] for placed in file["findings"])
    if counts["refused"] or beside:
        told = [f"{counts['refused']} of {counts['jobs']} refused"] if counts["refused"] else []
        kind, words = "bad", f"✘ {', '.join([*told, *([f'{beside} refused beside the jobs'] if beside else [])])}"
    elif counts["warned"]:
        kind, words = "queue", f"▲ {counts['warned']} of {counts['jobs']} to look at"
    elif counts["jobs"]:
        kind, words = "good", "✔ All converted"
    else:
        kind, words = "held", "No v1 job found"
    return el("p", words, class_=f"pill {kind}")


def _below(report: Raw) -> str:
    counts = report["counts"]
    text = f"{_many(counts['jobs'], 'job')} in {_many(counts['files'], 'file')}"
    given = [f"{name}={_value(value)}" for name, value in report["options"].items()]
    return f"{text}, options {', '.join(given)}" if given else text


def _value(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value).lower()


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _facts(counts: Raw) -> Markup:
    leaves = counts["leaves"]
    carried = leaves["mapped"] + leaves["rewritten"]
    facts = [
        ("Converted", counts["clean"], ""),
        ("To look at", counts["warned"], ""),
        ("Refused", counts["refused"], ""),
        ("Runtimes made", counts["runtimes"], "to apply first" if counts["runtimes"] else ""),
        ("Fields carried", carried, f"{leaves['rewritten']} of them rewritten"),
        ("Fields dropped", leaves["dropped"], "each with a reason" if leaves["dropped"] else ""),
    ]
    if leaves["refused"]:
        facts.append(("Fields refused", leaves["refused"], ""))
    return el(
        "dl",
        [
            el("div", el("dt", name), el("dd", value, el("small", small) if small else None))
            for name, value, small in facts
        ],
        class_="facts",
    )


def _by_hand(report: Raw, jobs: Sequence[Raw]) -> Markup | None:
    """What is to be done or decided, once for all jobs that it is said of."""
    found: dict[tuple[str, str], tuple[Raw, list[Raw]]] = {}
    for job in jobs:
        for row in job["by_hand"]:
            found.setdefault((row["code"], row["do"]), (row, []))[1].append(job)
    if not found:
        return None
    titles = {row["code"]: row["title"] for row in report["codes"]}
    order = sorted(found.values(), key=lambda held: (held[0]["severity"] != "refused", -len(held[1]), held[0]["code"]))
    head: list[tuple[str | None, str]] = [("narrow", ""), (None, "To do"), (None, "Because"), (None, "Jobs")]
    rows = [
        el(
            "tr",
            el("td", _severity(row["severity"])),
            el("td", row["do"]),
            el("td", titles.get(row["code"], ""), " ", el("code", row["code"], class_="tag")),
            el("td", _links(about)),
        )
        for row, about in order
    ]
    return el("section", el("h2", "To do by hand", id="todo"), table("", head, rows), aria_labelledby="todo")


def _severity(severity: str) -> Markup:
    kind, words = _SEVERE[severity]
    return el("span", words, class_=f"sev {kind}")


def _links(jobs: Sequence[Raw]) -> Content:
    named = [[", " if i else "", el("a", _name(job), href=f"#{job['id']}")] for i, job in enumerate(jobs[:_NAMED])]
    left = len(jobs) - _NAMED
    return [named, f" and {left} more" if left > 0 else None]


def _name(job: Raw) -> str:
    return str(job["v1"]["name"] or job["v1"]["kind"] or job["id"])


def _overview(jobs: Iterable[Raw]) -> Markup:
    head: list[tuple[str | None, str]] = [
        (None, "Job"), (None, "Outcome"), ("wide", "Pods of v1"), (None, "Runtime"), (None, "Found"),
    ]  # fmt: skip
    rows = [
        el(
            "tr",
            el("th", el("a", _name(job), href=f"#{job['id']}"), _kind(job), scope="row"),
            el("td", _outcome(job)),
            el("td", _roles(job), class_="wide"),
            el("td", _runtime(job)),
            el("td", [el("code", f"{code} ", class_="word") for code in _codes(job)]),
        )
        for job in jobs
    ]  # fmt: skip
    return el("section", el("h2", "Jobs", id="jobs"), table("", head, rows), aria_labelledby="jobs")


def _kind(job: Raw) -> Markup:
    return el("span", f"{job['v1']['kind']}, {_place(job)}", class_="at")


def _codes(job: Raw) -> list[str]:
    return list(dict.fromkeys(found["code"] for found in job["findings"] if found["severity"] != "info"))


def _outcome(job: Raw) -> Markup:
    kind, words = _OUTCOMES[job["outcome"]]
    return el("span", words, class_=f"sev {kind}")


def _place(job: Raw) -> str:
    return f"{job['file']}:{job['line']}"


def _roles(job: Raw) -> str:
    return ", ".join(f"{role['role']} × {role['replicas']}" for role in job["v1"]["roles"])


def _runtime(job: Raw) -> Content:
    v2 = job["v2"]
    if v2 is None:
        return "–"
    return [v2["runtime_name"], el("span", "made for it", class_="at") if v2["generated"] else None]


def _job(job: Raw, *, side_by_side: bool) -> Markup:
    kind, words = _OUTCOMES[job["outcome"]]
    inside = f", in {job['within'] or job['wrapper']}" if job["wrapper"] else ""
    return el(
        "section",
        el("h2", f"{job['v1']['kind']} {job['v1']['name']} ", el("span", words, class_=f"pill small {kind}")),
        el("p", f"{_place(job)}{inside}. {_shape(job)}", class_="sub"),
        _reasons(job),
        _job_by_hand(job["by_hand"]),
        _findings(job),
        [el("h3", "Side by side"), sides(job), _key(job)] if side_by_side else None,
        _differences(job["differences"]),
        _changed(job["ledger"]) if job["v2"] is not None else None,
        _use(job),
        id=job["id"],
        class_="job",
    )


def _shape(job: Raw) -> str:
    v2 = job["v2"]
    if v2 is None:
        return _roles(job)
    text = f"{_roles(job)} → {v2['num_nodes']} nodes of {v2['runtime_name']}"
    pods = job["pods"]
    return f"{text}. {_fleet(pods['v1'])} before, {_fleet(pods['v2'])} now." if pods is not None else text


def _fleet(fleet: Raw) -> str:
    return _many(fleet["pods"], "pod") + (f" with {_many(fleet['gpus'], 'GPU')}" if fleet["gpus"] else "")


def _reasons(job: Raw) -> Markup | None:
    """Why it has a runtime of its own."""
    reasons = dict.fromkeys(reason["what"] for reason in job["v2"]["reasons"]) if job["v2"] is not None else {}
    return el("p", f"A runtime was made for it because of: {', '.join(reasons)}.", class_="sub") if reasons else None


def _job_by_hand(rows: Sequence[Raw]) -> Content:
    if not rows:
        return None
    items = [el("li", row["do"], " ", el("span", f"({row['why']})", class_="sub")) for row in rows]
    return [el("h3", "To do by hand"), el("ul", items, class_="todo")]


def _findings(job: Raw) -> Content:
    if not job["findings"]:
        return None
    head: list[tuple[str | None, str]] = [("narrow", ""), ("narrow", "Code"), (None, "What")]
    rows = [
        el(
            "tr",
            el("td", _severity(found["severity"])),
            el("td", el("code", found["code"], class_="word")),
            el("td", found["message"], _where(job, found)),
            id=f"{job['id']}-f{number}",
        )
        for number, found in enumerate(job["findings"], 1)
    ]
    return [el("h3", "Found"), table("", head, rows)]


def _where(job: Raw, found: Raw) -> Markup | None:
    if not found["v1_path"]:
        return None
    path: Content = el("code", found["v1_path"])
    if found["v1_line"]:
        path = el("a", path, href=f"#{job['id']}-v1-{found['v1_line']}")
    return el("span", path, f", line {found['line']}" if found["line"] else None, class_="at")


def _key(job: Raw) -> Markup:
    """What the colours mean; of one that is refused two are never there."""
    items = [
        el("li", el("i", class_=kind), words) for kind, words in _KEY if job["v2"] is not None or kind == "refused"
    ]
    return el("ul", items, el("li", "T, R and numbers: the line there"), class_="key")


def _differences(differences: Sequence[Raw]) -> Content:
    """What the code finds that is not as it was, by the pods where it is so."""
    if not differences:
        return None
    head: list[tuple[str | None, str]] = [(None, "What"), (None, "v1"), (None, "v2"), ("narrow", "Told by")]
    rows = [
        el(
            "tr",
            el("td", f"{one['topic']} {one['what']}", el("span", _seats(one["seats"]), class_="at")),
            el("td", el("code", one["v1"]) if one["v1"] else "–"),
            el("td", el("code", one["v2"]) if one["v2"] else "–"),
            el("td", el("code", one["code"], class_="word")),
        )
        for one in differences
    ]
    words = f"{_many(len(rows), 'difference')} between the pods of both generations"
    return el("details", el("summary", words), table("", head, rows))


def _seats(seats: Sequence[str]) -> str:
    return ", ".join(seats[:_NAMED]) + (f" and {len(seats) - _NAMED} more" if len(seats) > _NAMED else "")


def _changed(ledger: Sequence[Raw]) -> Markup | None:
    """The fields that are not there as they were: for those who read, and for those who print."""
    rows = [row for row in ledger if row["fate"] != "mapped" or row["rewritten"]]
    if not rows:
        return None
    head: list[tuple[str | None, str]] = [(None, "Field of v1"), ("narrow", "Fate"), (None, "Now, and why")]
    body = [
        el(
            "tr",
            el("td", el("code", row["path"])),
            el("td", "rewritten" if row["rewritten"] else row["fate"]),
            el("td", row["reason"], [el("span", el("code", where), class_="at") for where in row["v2_paths"]]),
        )
        for row in rows
    ]
    same = len(ledger) - len(rows)
    return el(
        "details",
        el("summary", f"{len(rows)} of {len(ledger)} fields changed, {same} as they were"),
        table("", head, body),
    )


def _use(job: Raw) -> Content:
    use = job["use"]
    if use is None:
        return None
    files = ", ".join(use["files"].values())
    return el(
        "details",
        el("summary", "Run it: terminal, Airflow, Kubeflow Pipelines"),
        el("p", f"With each object in a file of its own: {files}.", class_="note"),
        el("p", f"▲ {use['note']}.", class_="note") if use["note"] else None,
        el("pre", "\n".join(use["terminal"]), tabindex="0"),
        el("pre", use["airflow"].rstrip("\n"), tabindex="0"),
        el("pre", use["kfp"].rstrip("\n"), tabindex="0"),
    )


def _beside(report: Raw) -> Markup | None:
    """What else in the files knows v1: code, pipelines, scripts, configuration."""
    found = [(file["name"], placed) for file in report["files"] for placed in file["findings"]]
    if not found:
        return None
    head: list[tuple[str | None, str]] = [("narrow", ""), (None, "Where"), (None, "What to do")]
    rows = [
        el(
            "tr",
            el("td", _severity(placed["severity"])),
            el("td", el("b", f"{name}:{placed['line']}" if placed["line"] else name),
               el("span", el("code", placed["code"]), class_="at"),
               el("code", placed["what"]) if placed["what"] else None),
            el("td", f"{placed['message']}. {placed['remedy']}".rstrip(" ."), ".",
               el("pre", placed["replacement"].rstrip("\n"), tabindex="0") if placed["replacement"] else None),
        )
        for name, placed in found
    ]  # fmt: skip
    return el("section", el("h2", "Beside the jobs", id="beside"), table("", head, rows), aria_labelledby="beside")


def _footer(report: Raw, left: int) -> str:
    more = f" {_many(left, 'job')} without the two texts side by side: they are in the JSON report." if left > 0 else ""
    return (
        f"Made by trainer-ops {report['tool_version']}. The texts are written anew from the objects, so comments are "
        f"not in them. trainer-ops migrate --explain CODE tells more of a code.{more}"
    )
