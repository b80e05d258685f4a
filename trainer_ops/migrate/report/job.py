"""One job of the report; the form is documented in ``data``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer_ops.migrate.convert import Converted
from trainer_ops.migrate.findings import Finding
from trainer_ops.migrate.ledger import Entry, Fate, Ledger
from trainer_ops.migrate.normalise import normalise
from trainer_ops.migrate.paths import text_of
from trainer_ops.migrate.report.results import JobResult
from trainer_ops.migrate.report.use import use_of
from trainer_ops.migrate.report.values import plain
from trainer_ops.migrate.simulate.amounts import whole
from trainer_ops.migrate.simulate.fleet import Fleet
from trainer_ops.migrate.simulate.v1 import simulate_v1
from trainer_ops.migrate.simulate.v2 import simulate_v2
from trainer_ops.migrate.yamltext import render

__all__ = ["job_data", "outcome_of"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Text:
    """YAML, and on which of its lines a path begins."""

    yaml: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any) -> _Text:
        found: dict[str, int] = {}
        rendered = render(value)
        for number, line in enumerate(rendered, 1):
            # The path of a mapping in a list begins where its first key does.
            for size in range(len(line.path), 0, -1):
                found.setdefault(text_of(line.path[:size]), number)
        return cls("".join(f"{line.text}\n" for line in rendered), found)

    def line(self, path: str) -> int:
        """Where a path, or the nearest one above it, begins; 0 when nothing is there."""
        return nearest(self.lines, path)


def nearest(lines: Mapping[str, int], path: str) -> int:
    """The line of a path, or of the nearest one above it that has one; 0 when none has."""
    while path:
        if path in lines:
            return lines[path]
        cut = path.rfind('["') if path.endswith('"]') else max(path.rfind("."), path.rfind("["))
        path = path[: max(cut, 0)]
    return 0


def outcome_of(converted: Converted) -> str:
    """``clean``, ``warned`` or ``refused``."""
    if not converted.ok:
        return "refused"
    return "warned" if any(found.severity == "warning" for found in converted.findings) else "clean"


def job_data(job: JobResult, file: str, number: int) -> Json:
    """One job."""
    done = job.converted
    v1 = _Text.of(done.raw)
    v2 = {"trainjob": _Text.of(done.trainjob or {}), "runtime": _Text.of(done.runtime or {})}
    if not done.ok:
        v2 = {}
    ledger = [_row(entry, v1, v2) for entry in done.ledger]
    return {
        "id": f"job-{number}",
        "file": file,
        "document": job.document,
        "line": job.line,
        "wrapper": job.wrapper,
        "within": job.within,
        "written": job.written,
        "outcome": outcome_of(done),
        "v1": _v1(done.raw, v1),
        "v2": _v2(done, v2),
        "findings": [_finding(found, job, v1) for found in done.findings],
        "ledger": ledger,
        "counts": _counts(ledger),
        "pods": _pods(done),
        "differences": [plain(one) for one in done.differences],
        "by_hand": _by_hand(done),
        "use": _use(job),
    }


def _v1(raw: Mapping[str, Any], text: _Text) -> Json:
    read = normalise(raw, Ledger(raw), allow_placeholders=True)
    metadata = raw.get("metadata") if isinstance(raw.get("metadata"), Mapping) else {}
    assert isinstance(metadata, Mapping)
    roles = [] if isinstance(read, Finding) else read.roles
    return {
        "api_version": str(raw.get("apiVersion") or ""),
        "kind": str(raw.get("kind") or ""),
        "name": str(metadata.get("name") or metadata.get("generateName") or ""),
        "namespace": str(metadata.get("namespace") or ""),
        "roles": [{"role": role.name, "replicas": role.replicas} for role in roles],
        "yaml": text.yaml,
    }


def _v2(done: Converted, texts: Mapping[str, _Text]) -> Json | None:
    if done.trainjob is None:
        return None
    metadata, spec = done.trainjob["metadata"], done.trainjob["spec"]
    return {
        "trainjob": plain(done.trainjob),
        "runtime": plain(done.runtime),
        "name": metadata.get("name") or metadata.get("generateName") or "",
        "runtime_name": spec["runtimeRef"]["name"],
        "generated": done.runtime is not None,
        "reasons": [{"path": text_of(need.path), "what": need.what} for need in done.needs],
        "num_nodes": plain(spec["trainer"].get("numNodes", 1)),
        "yaml": {name: text.yaml if text.lines else "" for name, text in texts.items()},
    }


def _row(entry: Entry, v1: _Text, v2: Mapping[str, _Text]) -> Json:
    places = []
    for where in entry.v2_paths:
        name, _, path = where.partition(":")
        line = v2[name].line(path) if name in v2 else 0
        if line:
            places.append({"object": name, "line": line})
    return {
        "path": entry.path,
        "value": plain(entry.value),
        "fate": entry.fate.value,
        "rewritten": entry.fate is Fate.MAPPED and bool(entry.reason),
        "reason": entry.reason,
        "v2_paths": list(entry.v2_paths),
        "v1_line": v1.line(entry.path),
        "v2_lines": places,
    }


def _counts(ledger: Iterable[Mapping[str, Any]]) -> Json:
    count = Counter("rewritten" if row["rewritten"] else row["fate"] for row in ledger)
    return {name: count[name] for name in ("mapped", "rewritten", "dropped", "refused")}


def _finding(found: Finding, job: JobResult, v1: _Text) -> Json:
    return {
        **found.to_json(),
        "line": nearest(job.lines, found.v1_path) or (job.line if job.lines else 0),
        "v1_line": v1.line(found.v1_path),
    }


def _pods(done: Converted) -> Json | None:
    """What trains, of both generations; None of what the conversion could not play either."""
    job = normalise(done.raw, Ledger(done.raw), allow_placeholders=True)
    if done.trainjob is None or isinstance(job, Finding) or any(found.code == "NOT-PLAYED" for found in done.findings):
        return None
    return {"v1": _fleet(simulate_v1(job)), "v2": _fleet(simulate_v2(done.trainjob, done.runtime))}


def _fleet(fleet: Fleet) -> Json:
    limits = [c.resources.get("limits", {}) for pod in fleet.pods for c in pod.containers]
    gpus = sum(whole(value) for held in limits for name, value in held.items() if "gpu" in name)
    return {"pods": len(fleet.pods), "nodes": fleet.nodes, "processes": fleet.processes, "gpus": gpus}


def _by_hand(done: Converted) -> list[Json]:
    """What a person still has to do or to decide, each once."""
    found: dict[tuple[str, str], Json] = {}
    for one in done.findings:
        if one.severity == "info" or not one.remedy:
            continue
        row = {"severity": one.severity, "code": one.code, "do": one.remedy, "why": one.message}
        found.setdefault((one.code, one.remedy), row)
    return list(found.values())


def _use(job: JobResult) -> Json | None:
    done = job.converted
    if done.trainjob is None:
        return None
    return use_of(done.trainjob, done.runtime, job.trainjob_file, job.runtime_file).to_json()
