"""The report as Markdown: for a pull request, a ticket, a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["render_markdown"]

Raw = Mapping[str, Any]

_OUTCOMES: Final = {"clean": "✔ converted", "warned": "▲ converted, look at it", "refused": "✘ refused"}
_MARKS: Final = {"refused": "✘ refused", "warning": "▲ warning", "info": "· note"}
# A pipe ends a cell, the others are markup; a line end would end the row.
_MARKUP: Final = re.compile(r"([\\`*_\[\]<>|~#&])")


def render_markdown(report: Raw) -> str:
    """The text, ended by a line end.

    Args:
        report: what ``data.build`` made.
    """
    return "\n".join(_lines(report)).rstrip("\n") + "\n"


def _lines(report: Raw) -> Iterator[str]:
    counts = report["counts"]
    yield "# Migration to TrainJob"
    yield ""
    yield _summary(counts, report["files"])
    yield ""
    jobs = list(_jobs(report))
    if len(jobs) > 1:
        yield from _overview(jobs)
    if report["codes"]:
        yield from _codes(report["codes"])
    for job in jobs:
        yield from _job(job)
    yield from _elsewhere(report)
    if report["options"]:
        given = ", ".join(f"{_code(f'{name}={json.dumps(value)}')}" for name, value in report["options"].items())
        yield f"Options: {given}."
        yield ""
    yield f"Made by trainer-ops {report['tool_version']}. `trainer-ops migrate --explain CODE` tells more of a code."


def _summary(counts: Raw, files: Sequence[Raw]) -> str:
    parts = [f"{counts['clean']} converted", f"{counts['warned']} to look at", f"{counts['refused']} refused"]
    beside = sum(placed["severity"] == "refused" for file in files for placed in file["findings"])
    if beside:
        parts.append(f"{beside} refused beside the jobs")
    leaves = counts["leaves"]
    carried = leaves["mapped"] + leaves["rewritten"]
    text = f"**{_many(counts['jobs'], 'job')} in {_many(counts['files'], 'file')}: {', '.join(parts)}.** "
    text += f"Fields: {carried} carried ({leaves['rewritten']} of them rewritten), {leaves['dropped']} dropped with a "
    text += f"reason, {leaves['refused']} refused."
    return text + (f" {_many(counts['runtimes'], 'runtime')} to apply first." if counts["runtimes"] else "")


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _jobs(report: Raw) -> Iterator[Raw]:
    for file in report["files"]:
        yield from file["jobs"]
        yield from (placed["job"] for placed in file["findings"] if placed["job"] is not None)


def _overview(jobs: Sequence[Raw]) -> Iterator[str]:
    rows = [
        (
            _text(_place(job)),
            _text(f"{job['v1']['kind']} {job['v1']['name']}"),
            _OUTCOMES[job["outcome"]],
            _text(_runtime(job)),
            _text(", ".join(dict.fromkeys(f["code"] for f in job["findings"] if f["severity"] != "info"))),
        )
        for job in jobs
    ]
    yield from _table(("Where", "Job", "Outcome", "Runtime", "To look at"), rows)


def _place(job: Raw) -> str:
    return f"{job['file']}:{job['line']}"


def _runtime(job: Raw) -> str:
    v2 = job["v2"]
    if v2 is None:
        return ""
    return f"{v2['runtime_name']} (made for it)" if v2["generated"] else str(v2["runtime_name"])


def _codes(codes: Iterable[Raw]) -> Iterator[str]:
    yield "## What was found"
    yield ""
    rows = [
        (_code(row["code"]), _MARKS[row["severity"]], _text(row["title"]), str(row["count"]), str(row["jobs"]))
        for row in codes
    ]
    yield from _table(("Code", "", "", "Times", "Jobs"), rows)


def _job(job: Raw) -> Iterator[str]:
    v1 = job["v1"]
    yield f"## {_text(v1['kind'])} {_text(v1['name'])}"
    yield ""
    where = f", in {_text(job['within'] or job['wrapper'])}" if job["wrapper"] else ""
    yield f"{_OUTCOMES[job['outcome']]}: {_code(_place(job))}{where}. {_shape(job)}"
    yield ""
    yield from _by_hand(job["by_hand"])
    yield from _findings(job["findings"])
    yield from _changed(job["ledger"])
    yield from _differences(job["differences"])
    if job["v2"] is not None:
        yield from _result(job)


def _shape(job: Raw) -> str:
    roles = ", ".join(f"{role['role']} × {role['replicas']}" for role in job["v1"]["roles"])
    if job["v2"] is None:
        return f"{_text(roles)}."
    text = f"{_text(roles)} → {_text(job['v2']['num_nodes'])} nodes of {_text(_runtime(job))}"
    pods = job["pods"]
    if pods is not None:
        text += f"; {_fleet(pods['v1'])} before, {_fleet(pods['v2'])} now"
    reasons = dict.fromkeys(_text(reason["what"]) for reason in job["v2"]["reasons"])
    return f"{text}." + (f" A runtime was made for it because of: {', '.join(reasons)}." if reasons else "")


def _fleet(fleet: Raw) -> str:
    gpus = f" with {_many(fleet['gpus'], 'GPU')}" if fleet["gpus"] else ""
    return _many(fleet["pods"], "pod") + gpus


def _by_hand(rows: Sequence[Raw]) -> Iterator[str]:
    if rows:
        yield "To do by hand:"
        yield ""
        yield from (f"- [ ] {_text(row['do'])} ({_code(row['code'])}: {_text(row['why'])})" for row in rows)
        yield ""


def _findings(findings: Sequence[Raw]) -> Iterator[str]:
    if findings:
        rows = [
            (_MARKS[one["severity"]], _code(one["code"]), str(one["line"] or ""), _path(one["v1_path"]),
             _text(one["message"]))
            for one in findings
        ]  # fmt: skip
        yield from _table(("", "Code", "Line", "Field", "What"), rows)


def _changed(ledger: Sequence[Raw]) -> Iterator[str]:
    """The leaves that are not there as they were."""
    rows = [
        (_path(row["path"]), _fate(row), "<br>".join(map(_path, row["v2_paths"])), _text(row["reason"]))
        for row in ledger
        if row["fate"] != "mapped" or row["rewritten"]
    ]
    same = sum(row["fate"] == "mapped" and not row["rewritten"] for row in ledger)
    if rows:
        yield f"{_many(same, 'field')} carried as they were; the others:"
        yield ""
        yield from _table(("Field of v1", "Fate", "Now", "Why"), rows)


def _differences(differences: Sequence[Raw]) -> Iterator[str]:
    """What the code finds that is not as it was."""
    if differences:
        yield "The pods of both generations differ in:"
        yield ""
        rows = [
            (
                _text(f"{one['topic']} {one['what']}"),
                _text(", ".join(one["seats"]) or "all"),
                _code(_cut(one["v1"])),
                _code(_cut(one["v2"])),
                _code(one["code"]),
            )
            for one in differences
        ]
        yield from _table(("What", "Pods", "v1", "v2", "Told by"), rows)


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


def _fate(row: Raw) -> str:
    return "rewritten" if row["rewritten"] else str(row["fate"])


def _result(job: Raw) -> Iterator[str]:
    yaml, use = job["v2"]["yaml"], job["use"]
    text = "---\n".join(part for part in (yaml["runtime"], yaml["trainjob"]) if part)
    yield from _block("yaml", text)
    if use is not None:
        files = ", ".join(_code(name) for name in use["files"].values())
        yield f"Run it, with each object in a file of its own, {files}" + (
            f" ({_text(use['note'])}):" if use["note"] else ":"
        )
        yield ""
        yield from _block("sh", "".join(f"{line}\n" for line in use["terminal"]))
        yield from _block("python", use["airflow"])
        yield from _block("python", use["kfp"])


def _elsewhere(report: Raw) -> Iterator[str]:
    found = [(file["name"], placed) for file in report["files"] for placed in file["findings"]]
    if not found:
        return
    yield "## Beside the jobs"
    yield ""
    for name, placed in found:
        place = f"{name}:{placed['line']}" if placed["line"] else name
        remedy = f" {_text(placed['remedy'])}." if placed["remedy"] else ""
        mark = f"{_MARKS[placed['severity']]} {_code(placed['code'])} {_code(place)}"
        yield f"- {mark}: {_text(placed['message'])}.{remedy}"
        if placed["replacement"]:
            yield ""
            yield from (f"  {line}".rstrip() for line in _block("", placed["replacement"]))
    yield ""


def _block(language: str, text: str) -> Iterator[str]:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield fence + language
    yield text.rstrip("\n")
    yield fence
    yield ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(' --- ' for _ in head)}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _text(value: object) -> str:
    """Text that is no markup and on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(str(value).split()))


def _path(path: str) -> str:
    return _code(path) if path else ""


def _code(value: object) -> str:
    """Code on one line, with a fence longer than any run of backticks in it; a table's pipes stay cells' text."""
    text = " ".join(str(value).split()).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""
