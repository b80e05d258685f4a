"""What was found in files and what came of it: the input of ``data.build``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainer_ops.migrate.convert import Converted
from trainer_ops.migrate.findings import Finding

__all__ = ["FileResult", "JobResult", "Placed"]


@dataclass(frozen=True, slots=True)
class Placed:
    """Something to be told about a file, with its line.

    Attributes:
        finding: what.
        line: counted from 1; 0: the file as a whole.
        document: index of the document, from 1; 0: none in particular.
        what: the text that it is about, as it stands there: a call, a command line.
        replacement: what to write instead, in Python, YAML or shell; "" when there is no such text.
        converted: the v1 job that stands inside it, with what came of it; None when there is none.
    """

    finding: Finding
    line: int = 0
    document: int = 0
    what: str = ""
    replacement: str = ""
    converted: Converted | None = None


@dataclass(frozen=True, slots=True)
class JobResult:
    """One v1 job.

    Attributes:
        converted: what came of it.
        document: index of its document in the file, from 1.
        line: where it begins in the file, from 1.
        wrapper: kind of what it stands in (``Experiment``, ``Workflow``, ``List``), "" for a document of its own.
        within: what it stands in, for people: ``Katib Experiment digits``, ``ConfigMap jobs, train.yaml``.
        lines: lines in the file of paths in the job, as text: ``{"spec.runPolicy": 7}``.
        written: where the result was written, "" when it was not.
        trainjob_file: a file that holds this TrainJob and nothing else, "" when there is none.
        runtime_file: a file that holds its runtime and nothing else, "" when there is none.
    """

    converted: Converted
    document: int = 1
    line: int = 1
    wrapper: str = ""
    within: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)
    written: str = ""
    trainjob_file: str = ""
    runtime_file: str = ""


@dataclass(frozen=True, slots=True)
class FileResult:
    """One file, or one place of a cluster that was read like a file.

    Attributes:
        name: as people call it: a path, ``stdin``, ``kubernetes://prod/team-a``.
        jobs: the v1 jobs in it.
        findings: what else is to be told of it.
        documents: how many documents it has.
    """

    name: str
    jobs: tuple[JobResult, ...] = ()
    findings: tuple[Placed, ...] = ()
    documents: int = 0
