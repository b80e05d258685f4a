"""The report as data: one JSON value, the form of which is kept.

::

    {"report": "trainer-ops/migration", "version": 1, "tool_version": "0.1.0",
     "options": {"pin_elastic": "min"},              # those that are not the default
     "counts": {"files": 1, "documents": 3, "jobs": 1, "clean": 0, "warned": 1, "refused": 0, "runtimes": 1,
                "findings": {"refused": 0, "warning": 2, "info": 1},
                "leaves": {"mapped": 20, "rewritten": 3, "dropped": 4, "refused": 0}},
     "codes": [{"code": "TTL-RERUN", "title": "…", "severity": "warning", "count": 1, "jobs": 1}],   # worst first
     "files": [{"name": "a.yaml", "documents": 3, "jobs": [JOB], "findings": [PLACED]}]}

JOB::

    {"id": "job-1", "file": "a.yaml", "document": 1, "line": 1, "wrapper": "", "within": "", "written": "",
     "outcome": "warned",                            # clean | warned | refused
     "v1": {"api_version": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "a", "namespace": "",
            "roles": [{"role": "Master", "replicas": 1}], "yaml": "…"},
     "v2": {"trainjob": {…}, "runtime": null, "name": "a", "runtime_name": "torch-distributed", "generated": false,
            "reasons": [{"path": "spec.…", "what": "a sidecar"}],               # why a runtime was made for it
            "num_nodes": 4, "yaml": {"trainjob": "…", "runtime": ""}},      # null when the job is refused
     "findings": [{"code": …, "severity": …, "v1_path": …, "v2_path": …, "message": …, "remedy": …,
                   "line": 7, "v1_line": 5}],        # in the file; in v1.yaml; 0 when unknown
     "ledger": [{"path": "spec.…", "value": …, "fate": "mapped", "rewritten": false, "reason": "",
                 "v2_paths": ["trainjob:spec.…"], "v1_line": 5, "v2_lines": [{"object": "trainjob", "line": 9}]}],
     "counts": {"mapped": 20, "rewritten": 3, "dropped": 4, "refused": 0},  # "mapped" without "rewritten"
     "pods": {"v1": {"pods": 4, "nodes": 4, "processes": "auto", "gpus": 8}, "v2": {…}},            # or null
     "differences": [{"topic": "environment", "what": "RANK", "seats": ["rank 0"], "v1": "0", "v2": "", "code": "…"}],
     "by_hand": [{"severity": "warning", "code": "TTL-RERUN", "do": "…", "why": "…"}],
     "use": {"airflow": "…", "kfp": "…", "terminal": ["…"], "files": {"trainjob": "a.yaml"},
             "note": ""}}                            # or null

PLACED, something else in the file: the fields of a finding, and ``line``, ``document``, ``what`` (the text that stands
there), ``replacement``, ``job`` (a JOB that stands inside it, or null).

Lines of ``v1_line`` and ``v2_lines`` are those of the ``yaml`` texts, which are written anew from the objects. Keys are
added, never renamed; ``version`` changes when one has to go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from trainer_ops.migrate.codes import CODES
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.report.job import job_data
from trainer_ops.migrate.report.results import FileResult, JobResult, Placed
from trainer_ops.migrate.report.values import plain

__all__ = ["FORM", "VERSION", "build"]

FORM: Final = "trainer-ops/migration"
VERSION: Final = 1

_SEVERITIES: Final = ("refused", "warning", "info")
_LEAVES: Final = ("mapped", "rewritten", "dropped", "refused")
_OUTCOMES: Final = ("clean", "warned", "refused")

Json = dict[str, Any]


def build(results: Sequence[FileResult], *, options: Options | None = None, tool_version: str = "") -> Json:
    """The report; the same results make the same bytes of it.

    Args:
        results: the files in the order in which they are to be told.
        options: with which they were converted.
        tool_version: of this package.
    """
    numbers = iter(range(1, 1 << 30))
    files = [_file(result, numbers) for result in results]
    return {
        "report": FORM,
        "version": VERSION,
        "tool_version": tool_version,
        "options": _options(options or Options()),
        "counts": _counts(files),
        "codes": _codes(files),
        "files": files,
    }


def _file(result: FileResult, numbers: Iterator[int]) -> Json:
    return {
        "name": result.name,
        "documents": result.documents,
        "jobs": [job_data(job, result.name, next(numbers)) for job in result.jobs],
        "findings": [_placed(placed, result.name, numbers) for placed in result.findings],
    }


def _placed(placed: Placed, file: str, numbers: Iterator[int]) -> Json:
    inside = None
    if placed.converted is not None:
        job = JobResult(placed.converted, placed.document, placed.line, wrapper="text")
        # How it is run is said by the replacement, with the names of the code around.
        inside = {**job_data(job, file, next(numbers)), "use": None}
    return {
        **placed.finding.to_json(),
        "line": placed.line,
        "document": placed.document,
        "what": placed.what,
        "replacement": placed.replacement,
        "job": inside,
    }


def _options(options: Options) -> Json:
    default = replace(Options())
    given = {field.name: getattr(options, field.name) for field in fields(options)}
    return {name: plain(value) for name, value in given.items() if value != getattr(default, name)}


def _jobs(files: Sequence[Json]) -> Iterator[Json]:
    for file in files:
        yield from file["jobs"]
        yield from (placed["job"] for placed in file["findings"] if placed["job"] is not None)


def _findings(files: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    """Every finding, with what it is counted for: a job, or a file."""
    for job in _jobs(files):
        yield from ((job["id"], found) for found in job["findings"])
    for file in files:
        yield from ((f"file {file['name']}", found) for found in file["findings"])


def _counts(files: Sequence[Json]) -> Json:
    jobs = list(_jobs(files))
    outcomes = Counter(job["outcome"] for job in jobs)
    severities = Counter(found["severity"] for _, found in _findings(files))
    leaves: Counter[str] = Counter()
    for job in jobs:
        leaves.update(job["counts"])
    runtimes = {
        (job["v1"]["namespace"], job["v2"]["runtime_name"]) for job in jobs if job["v2"] and job["v2"]["generated"]
    }
    return {
        "files": len(files),
        "documents": sum(file["documents"] for file in files),
        "jobs": len(jobs),
        **{name: outcomes[name] for name in _OUTCOMES},
        "runtimes": len(runtimes),
        "findings": {name: severities[name] for name in _SEVERITIES},
        "leaves": {name: leaves[name] for name in _LEAVES},
    }


def _codes(files: Sequence[Json]) -> list[Json]:
    """Every code that was found, the worst and then the most frequent first."""
    count: Counter[str] = Counter()
    worst: dict[str, str] = {}
    seen: dict[str, set[str]] = {}
    for about, found in _findings(files):
        code, severity = found["code"], found["severity"]
        count[code] += 1
        worst[code] = min(worst.get(code, "info"), severity, key=_SEVERITIES.index)
        seen.setdefault(code, set()).add(about)
    rows = [
        {"code": code, "title": _title(code), "severity": worst[code], "count": count[code], "jobs": len(seen[code])}
        for code in count
    ]
    return sorted(rows, key=lambda row: (_SEVERITIES.index(row["severity"]), -row["jobs"], row["code"]))


def _title(code: str) -> str:
    known: Mapping[str, Any] = CODES
    return known[code].title if code in known else ""
