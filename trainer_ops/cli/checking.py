"""``validate``: every finding of every document of every file, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer_ops.backends.base import Backend
from trainer_ops.cli.manifests import Document, parse, read
from trainer_ops.cli.render import Signs
from trainer_ops.cli.text import Spans
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.lines import clean
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.validate.findings import Finding, in_order
from trainer_ops.validate.runtime import check_runtime
from trainer_ops.validate.trainjob import check

__all__ = ["Checked", "check_files", "finding_lines", "to_json"]

_RUNTIMES = (keys.CLUSTER_RUNTIME, keys.NAMESPACED_RUNTIME)


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in one document.

    Attributes:
        source: the file; ``stdin``.
        title: which document, where there are several, and its kind and name.
        error: why it could not be read at all.
        unknown_runtime: the runtime that it could not be checked against.
    """

    source: str
    title: str = ""
    findings: tuple[Finding, ...] = ()
    error: str = ""
    unknown_runtime: str = ""

    @property
    def refused(self) -> bool:
        """Whether there is an error."""
        return bool(self.error) or any(finding.is_error for finding in self.findings)


def check_files(paths: Sequence[str], backend: Backend | None) -> list[Checked]:
    """Check all documents; a file that cannot be read does not keep the others from being checked."""
    found: list[Checked] = []
    for path in paths:
        try:
            documents = parse(read(path), path)
        except InvalidRequest as exc:
            found.append(Checked("stdin" if path == "-" else path, error=str(exc)))
            continue
        own = {_name(d.manifest): d.manifest for d in documents if d.manifest.get("kind") in _RUNTIMES}
        found.extend(_check(document, len(documents) > 1, own, backend) for document in documents)
    return found


def _check(document: Document, several: bool, own: Mapping[str, dict[str, Any]], backend: Backend | None) -> Checked:
    manifest = document.manifest
    kind = manifest.get("kind")
    title = f"{kind if isinstance(kind, str) else 'document'} {_name(manifest)}".rstrip()
    if several:
        title = f"{title}, document {document.index} (line {document.line})"
    if kind in _RUNTIMES:
        return Checked(document.source, title, in_order(check_runtime(manifest)))
    name, runtime = _runtime(manifest, own, backend)
    return Checked(document.source, title, in_order(check(manifest, runtime)), unknown_runtime="" if runtime else name)


def _runtime(
    manifest: Mapping[str, Any], own: Mapping[str, dict[str, Any]], backend: Backend | None
) -> tuple[str, TrainingRuntime | None]:
    """The runtime that a TrainJob names: from the same file, the target, or the ones that Trainer ships."""
    spec = manifest.get("spec")
    ref = spec.get("runtimeRef") if isinstance(spec, dict) else None
    name = ref.get("name") if isinstance(ref, dict) else None
    if not isinstance(name, str) or not isinstance(ref, dict):
        return "", None
    raw = own.get(name)
    if raw is None:
        kind = str(ref.get("kind") or keys.CLUSTER_RUNTIME)
        raw = backend.runtime(name, kind) if backend is not None else _shipped(name, kind)
    return name, TrainingRuntime.from_raw(raw) if raw is not None else None


def _shipped(name: str, kind: str) -> dict[str, Any] | None:
    from trainer_ops.local.catalogue import builtin

    return builtin().get((kind, name))


def _name(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def finding_lines(checked: Checked, signs: Signs) -> list[Spans]:
    """A line for the document and one for each finding."""
    if checked.error:
        return [[(f"{signs.bad} ", "bold red"), (clean(checked.error), "")]]
    errors = sum(finding.is_error for finding in checked.findings)
    warnings = len(checked.findings) - errors
    counts = ", ".join(
        f"{n} {what}{'s' if n > 1 else ''}" for n, what in ((errors, "error"), (warnings, "warning")) if n
    )
    sign = (f"{signs.bad} ", "bold red") if errors else (f"{signs.good} ", "bold green")
    lines: list[Spans] = [[sign, (f"{checked.source}: {checked.title}: {counts or 'nothing to say'}", "")]]
    for finding in checked.findings:
        lines.append([("  ", ""), (clean(str(finding)), "" if finding.is_error else "yellow")])
    if checked.unknown_runtime:
        text = f"  not checked against its runtime: {clean(checked.unknown_runtime)} is not known here"
        lines.append([(text + "; give --target, or the runtime in the same file", "dim")])
    return lines


def to_json(checked: Checked) -> dict[str, Any]:
    """The documented JSON of one document: fields are added, none is renamed or removed."""
    return {
        "source": checked.source,
        "document": checked.title,
        "valid": not checked.refused,
        "unreadable": checked.error or None,
        "runtime_known": not checked.unknown_runtime,
        "findings": [
            {"rule": f.rule, "severity": f.severity, "path": f.path, "reason": f.reason, "remedy": f.remedy}
            for f in checked.findings
        ],
    }
