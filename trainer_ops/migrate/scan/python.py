"""Python of any kind: the v1 SDK, the Kubernetes API, jobs in strings and dicts, DAGs, pipelines."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainer_ops.migrate.options import Options
from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan import airflow, api, kfp, labels, sdk
from trainer_ops.migrate.scan.about import LAUNCHER_IMAGE, LAUNCHER_URL, NAMES, placed
from trainer_ops.migrate.scan.embedded import converted, in_text, is_job
from trainer_ops.migrate.scan.source import Source

__all__ = ["knows_v1", "scan_python", "scan_source"]


def knows_v1(text: str) -> bool:
    """Whether there is anything to be found in a text."""
    return any(pattern.search(text) is not None for pattern in (NAMES, LAUNCHER_IMAGE, LAUNCHER_URL))


def scan_python(text: str, options: Options | None = None) -> tuple[Placed, ...]:
    """What a module knows of v1, in the order of its lines. A module that cannot be read is a finding."""
    if not knows_v1(text):
        return ()
    try:
        return scan_source(Source.parse(text), options or Options())
    except (SyntaxError, ValueError, RecursionError) as exc:
        line = getattr(exc, "lineno", None) or 1
        reason = exc.msg if isinstance(exc, SyntaxError) else str(exc)
        return (
            placed(
                "UNREADABLE",
                line,
                f"v1 is named in it, but it is no Python 3: {reason}",
                severity="warning",
                remedy="Look for v1 in it by hand",
            ),
        )


def scan_source(source: Source, options: Options) -> tuple[Placed, ...]:
    """The same of a module that is read already."""
    taken: set[int] = set()
    found = [*airflow.scan(source, options, taken), *kfp.scan(source, options, taken)]
    found += sdk.scan(source, options, taken)
    found += api.scan(source, options, taken)
    found += _jobs(source, options, taken)
    found += labels.scan(source)
    once: dict[tuple[int, str, str], Placed] = {}
    for one in found:
        once.setdefault((one.line, one.finding.code, one.finding.message), one)
    return tuple(sorted(once.values(), key=lambda one: one.line))


def _jobs(source: Source, options: Options, taken: set[int]) -> Iterator[Placed]:
    """Jobs in strings and dicts that nothing else has told of."""
    for node in source.nodes:
        if id(node) in taken:
            continue
        if isinstance(node, ast.Constant | ast.JoinedStr):
            taken.update(id(part) for part in getattr(node, "values", ()))
            text = source.value(node)
            found = list(in_text(text, options)) if isinstance(text, str) else []
        elif isinstance(node, ast.Dict) and is_job(value := source.value(node)):
            taken.update(id(inner) for inner in ast.walk(node))
            found = [converted(value, options)]
        else:
            continue
        for job in found:
            line = source.line(node) + job.line - 1
            yield placed("JOB-IN-CODE", line, f"a {job.kind} stands here", replacement=job.text, job=job)
