"""What a migration found, for a terminal: a block a file, a table of all jobs, one line that sums up. Pure."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from trainer_ops.cli.render import Signs
from trainer_ops.cli.text import Spans, cut, table, wide, wrap
from trainer_ops.errors import InvalidRequest
from trainer_ops.migrate.codes import CODES
from trainer_ops.migrate.explain.text import explain
from trainer_ops.migrate.findings import Finding
from trainer_ops.migrate.report.results import FileResult, JobResult
from trainer_ops.model import keys
from trainer_ops.model.lines import clean

__all__ = ["count_text", "explain_lines", "file_lines", "known_code", "severities", "summary_lines"]

_STYLES = {"refused": "red", "warning": "yellow", "info": "dim"}
_WORDS = {"refused": "refused", "warning": "warning", "info": "note"}
_WORD, _CODE = 9, 17
# Lines of code that are shown between findings.
_SHOWN = 5


def known_code(code: str, flag: str) -> str:
    """A code as it is written in ``CODES``.

    Raises:
        InvalidRequest: there is no such code.
    """
    wanted = code.strip().upper()
    if wanted in CODES:
        return wanted
    close = difflib.get_close_matches(wanted, CODES, n=1, cutoff=0.5)
    remedy = f"Did you mean {close[0]}? " if close else ""
    raise InvalidRequest(flag, f'there is no code "{code}"', f"{remedy}All: trainer-ops migrate --explain all")


def explain_lines(code: str, width: int) -> Iterator[Spans]:
    """``--explain``: one code, or all of them in a table."""
    if code.strip().lower() == "all":
        for name, known in CODES.items():
            yield [
                (f"{name:<20}", "bold"),
                (f"{_WORDS[known.severity]:<9}", _STYLES[known.severity]),
                (known.title, ""),
            ]
        return
    name = known_code(code, "--explain")
    known = CODES[name]
    yield [(name, "bold"), (f"  {known.title}  ", ""), (_WORDS[known.severity], _STYLES[known.severity])]
    for text in explain(name, width - 2):
        yield [(f"  {text}" if text else "", "")]


def severities(results: Iterable[FileResult]) -> Counter[str]:
    """How many findings there are of each severity."""
    return Counter(one.severity for result in results for one in _all(result))


def _all(result: FileResult) -> Iterator[Finding]:
    yield from (placed.finding for placed in result.findings)
    for job in result.jobs:
        yield from job.converted.findings


def file_lines(result: FileResult, width: int, signs: Signs, *, written: str = "") -> Iterator[Spans]:
    """A file: a line for it, one for each job, and its findings below them. Nothing for a file without any."""
    if not result.jobs and not result.findings:
        return
    refused = any(one.severity == "refused" for one in _all(result))
    sign = (f"{signs.bad} ", "bold red") if refused else (f"{signs.good} ", "bold green")
    yield [sign, (clean(result.name), "bold"), (f"  written to {clean(written)}" if written else "", "dim")]
    for job in result.jobs:
        yield [("  ", ""), (cut(_job_title(job), width - 2), "")]
        for finding in job.converted.findings:
            yield from _finding(finding, _line_of(job, finding), width)
    for placed in result.findings:
        yield from _finding(placed.finding, placed.line, width)
        yield from _replacement(placed.replacement)


def _job_title(job: JobResult) -> str:
    where = f"line {job.line}" + (f", in {job.within}" if job.within else "")
    return f"{_kind(job)} {_name(job)} ({where}): {_outcome(job)}"


def _kind(job: JobResult) -> str:
    return clean(str(job.converted.raw.get("kind") or ""))


def _name(job: JobResult) -> str:
    metadata = job.converted.raw.get("metadata")
    held = metadata if isinstance(metadata, dict) else {}
    name = str(held.get("name") or held.get("generateName") or "without a name")
    return clean(f"{held['namespace']}/{name}" if held.get("namespace") else name)


def _outcome(job: JobResult) -> str:
    made = job.converted.trainjob
    if made is None:
        return "refused"
    spec = made["spec"]
    nodes = (spec.get("trainer") or {}).get("numNodes")
    count = f"{nodes} node{'s' if nodes != 1 else ''}, " if nodes is not None else ""
    own = spec["runtimeRef"].get("kind") == keys.NAMESPACED_RUNTIME
    return clean(f"{count}{'own runtime ' if own else ''}{spec['runtimeRef']['name']}")


def _line_of(job: JobResult, finding: Finding) -> int:
    path = finding.v1_path
    while path and path not in job.lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return job.lines.get(path, 0)


def _finding(finding: Finding, line: int, width: int) -> Iterator[Spans]:
    """The finding in columns: how bad, which code, what and where, and below it what to do."""
    style = _STYLES[finding.severity]
    head = f"    {_WORDS[finding.severity]:<{_WORD}}{finding.code:<{_CODE}}"
    pad = " " * (4 + _WORD + _CODE)
    if len(finding.code) >= _CODE:
        head += " "
    where = f"line {line}: " if line else ""
    texts = [f"{where}{clean(finding.message)}"]
    if finding.remedy and finding.severity != "info":
        texts.append(clean(finding.remedy))
    room = max(30, width - len(pad))
    rows = [row for index, text in enumerate(texts) for row in _rows(text, room, "→ " if index else "")]
    first, *more = rows
    if wide(head) > len(pad):
        yield [(head.rstrip(), style)]
        more = rows
    else:
        yield [(head, style), (first, "dim" if finding.severity == "info" else "")]
    for row in more:
        yield [(pad + row, "dim" if finding.severity == "info" else "")]


def _replacement(text: str) -> Iterator[Spans]:
    """What to write instead, where it is short; all of it is in the report."""
    rows = text.rstrip().splitlines()
    pad = " " * (6 + _WORD + _CODE)
    for row in rows[:_SHOWN]:
        # Not cut: it is there to be copied.
        yield [(pad + clean(row), "green")]
    if len(rows) > _SHOWN:
        yield [(f"{pad}… {len(rows) - _SHOWN} lines more: --report md", "dim")]


def _rows(text: str, room: int, mark: str) -> list[str]:
    first, *more = wrap(text, room - len(mark), "")
    return [mark + first, *(" " * len(mark) + row for row in more)]


# -- the end ----------------------------------------------------------------------------------------------------------


def summary_lines(results: Sequence[FileResult], width: int) -> Iterator[Spans]:
    """A table of all jobs, and a line that sums up."""
    jobs = [(result, job) for result in results for job in result.jobs]
    if len(jobs) > 1:
        rows = [(_kind(job), cut(_name(job), 30), cut(_end(job), 34)) for _, job in jobs]
        head, *lines = table(("KIND", "JOB", "RESULT"), rows, width=None)
        ends = max(wide(row[2]) for row in (*rows, ("", "", "RESULT")))
        room = max(12, width - sum(wide(cell) for cell in head[:2]) - ends - 6)
        above = _folder([result.name for result, _ in jobs])
        yield [("", "")]
        yield [(f"{head[0]}  {head[1]}  {head[2]:<{ends}}  FILE", "bold")]
        for (result, job), (kind, name, end) in zip(jobs, lines, strict=True):
            place = _tail(f"{clean(result.name)[len(above) :]}:{job.line}", room)
            gap = " " * (ends - wide(end))
            yield [(f"{kind}  {name}  {end}{gap}  {place}", "red" if job.converted.trainjob is None else "")]
        yield [("", "")]
    yield [(count_text(results), "bold")]


def _end(job: JobResult) -> str:
    """What came of a job in a few words; of a refused one the codes."""
    found = job.converted.findings
    if job.converted.trainjob is None:
        codes = dict.fromkeys(one.code for one in found if one.severity == "refused")
        return f"refused: {', '.join(codes)}"
    warnings = sum(one.severity == "warning" for one in found)
    tail = f", {warnings} warning{'s' if warnings > 1 else ''}" if warnings else ""
    spec = job.converted.trainjob["spec"]
    own = spec["runtimeRef"].get("kind") == keys.NAMESPACED_RUNTIME
    return f"{'own runtime' if own else clean(spec['runtimeRef']['name'])}{tail}"


def _folder(names: Sequence[str]) -> str:
    """What all names begin with, up to a slash."""
    first, last = min(names), max(names)
    size = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: first.rfind("/", 0, size) + 1]


def _tail(text: str, width: int) -> str:
    """The text, with its beginning replaced by ``…`` when it is too long."""
    return text if wide(text) <= width else "…" + text[len(text) - width + 1 :]


def count_text(results: Sequence[FileResult]) -> str:
    """``3 jobs in 2 files: 2 converted, 1 refused; 1 refusal beside them, 4 warnings``."""
    jobs = [job for result in results for job in result.jobs]
    beside = sum(placed.finding.severity == "refused" for result in results for placed in result.findings)
    warnings = severities(results)["warning"]
    others = [_many(beside, "refusal") + (" beside them" if jobs else "")] if beside else []
    others += [_many(warnings, "warning")] if warnings else []
    tail = f"; {', '.join(others)}" if others else ""
    files = _many(len(results), "file")
    if not jobs:
        return f"no v1 jobs in {files}{tail}"
    refused = sum(not job.converted.ok for job in jobs)
    parts = [f"{len(jobs) - refused} converted"] + ([f"{refused} refused"] if refused else [])
    return f"{_many(len(jobs), 'job')} in {files}: {', '.join(parts)}{tail}"


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
