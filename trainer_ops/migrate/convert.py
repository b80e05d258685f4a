"""``convert``: one v1 job to its TrainJob, with all that is to be known about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainer_ops.migrate.draft import Draft
from trainer_ops.migrate.emit import Emitted, emit, settle
from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.ledger import Entry, Ledger
from trainer_ops.migrate.normalise import normalise
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.plan import plan
from trainer_ops.migrate.shape import misshapen
from trainer_ops.migrate.simulate.compare import Difference
from trainer_ops.migrate.simulate.play import play
from trainer_ops.migrate.stock import Need

__all__ = ["Converted", "convert"]


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of one v1 job.

    Attributes:
        raw: the v1 job.
        trainjob: the TrainJob, None when the job is refused.
        runtime: the TrainingRuntime that it needs, None with a stock one.
        findings: refusals first, then warnings, then the rest; within each in the order in which they were found.
        ledger: every leaf of the job with its fate.
        needs: why it has a runtime of its own, () with a stock one.
        differences: what ``compare`` found between the pods of both generations.
    """

    raw: Mapping[str, Any]
    trainjob: dict[str, Any] | None = None
    runtime: dict[str, Any] | None = None
    findings: tuple[Finding, ...] = ()
    ledger: tuple[Entry, ...] = ()
    needs: tuple[Need, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def ok(self) -> bool:
        """There is a TrainJob."""
        return self.trainjob is not None

    @property
    def emitted(self) -> Emitted | None:
        """The objects in the form that ``emit.share`` takes, None when the job is refused."""
        return None if self.trainjob is None else Emitted(self.trainjob, self.runtime, self.needs)


def convert(raw: Mapping[str, Any], options: Options | None = None) -> Converted:
    """Convert one job. Never raises for what the job holds: what cannot be carried is a finding of severity refused.

    Args:
        raw: the object as it stands in YAML.
        options: choices; None: the defaults, which refuse rather than guess.
    """
    options = options or Options()
    ledger = Ledger(raw)
    job = normalise(raw, ledger, allow_placeholders=options.allow_placeholders)
    if isinstance(job, Finding):
        return _refused(raw, ledger, [job])
    wrong = list(misshapen(job))
    if wrong:
        return _refused(raw, ledger, [*job.findings, *wrong])
    draft = plan(job, options, ledger)
    if draft.trainer is None:
        return _refused(raw, ledger, draft.findings)
    made = emit(draft)
    settle(draft, made)
    # What a refusal has left unread is no field that no rule knows.
    for leaf in () if draft.refused else ledger.left():
        draft.refuse("UNKNOWN-FIELD", leaf, "no rule knows this field, so it would be lost")
    differences = () if draft.refused else _compared(draft, made)
    if draft.refused:
        return _refused(raw, ledger, draft.findings, differences)
    findings = _in_order(draft.findings)
    return Converted(raw, made.trainjob, made.runtime, findings, ledger.entries(), made.needs, differences)


def _compared(draft: Draft, made: Emitted) -> tuple[Difference, ...]:
    """The pods of both generations held against each other: what differs and is told by no finding is a refusal."""
    job = draft.job
    agreed = replace(job, roles=tuple(draft.agreed.get(role.name, role) for role in job.roles))
    differences, more = play(job, made.trainjob, made.runtime, draft.options, draft.findings, agreed)
    draft.findings += more
    for one in differences:
        if not one.code:
            draft.refuse("DIFFERENCE", ("spec",), str(one))
    return differences


def _refused(
    raw: Mapping[str, Any], ledger: Ledger, findings: list[Finding], differences: tuple[Difference, ...] = ()
) -> Converted:
    codes = [found.code for found in findings if found.severity == "refused"]
    if not codes:
        findings = [*findings, finding("NOT-A-JOB", (), "nothing could be made of it")]
        codes = ["NOT-A-JOB"]
    ledger.refused((), f"the job is refused: {', '.join(dict.fromkeys(codes))}")
    return Converted(raw, findings=_in_order(findings), ledger=ledger.entries(), differences=differences)


def _in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    order = ("refused", "warning", "info")
    return tuple(sorted(findings, key=lambda found: order.index(found.severity)))
