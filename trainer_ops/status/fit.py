"""An Outcome in as many bytes as those who carry it bear: each part has its share and loses its least telling first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainer_ops.model.outcome import Diagnosis, Outcome
from trainer_ops.status.progress import CURVES
from trainer_ops.status.wording import clip

__all__ = ["SIZE_LIMIT", "fitted"]

# XCom, KFP and Argo's parameters are rows of a database or parts of one object: 64 KiB is what all of them bear.
SIZE_LIMIT = 64 << 10
# In bytes of JSON in ASCII, where a character that is not ASCII takes six. What rank 0 reported is never cut: its 4096
# bytes make 24 KiB at most. Progress has what the others leave.
_DIAGNOSIS, _NODES, _PHASES, _EVENTS, _RESULT = 12 << 10, 14 << 10, 6 << 10, 6 << 10, 25 << 10
# As long as there is this much for it, nothing else is cut.
_PROGRESS = 16 << 10

Rows = tuple[Mapping[str, Any], ...]


def size(value: Any) -> int:
    """Bytes of its JSON."""
    return len(json.dumps(value))


def fitted(outcome: Outcome) -> Outcome:
    """The outcome, cut where it is too large; mostly the same."""
    if size(outcome.to_json()) <= SIZE_LIMIT:
        return outcome
    cut = replace(outcome, progress=())
    if size(cut.to_json()) > SIZE_LIMIT - _PROGRESS:
        cut = _all_cut(cut)
    return replace(cut, progress=_progress(outcome.progress, SIZE_LIMIT - size(cut.to_json())))


def _all_cut(outcome: Outcome) -> Outcome:
    return replace(
        outcome,
        metrics=_metrics(outcome.metrics, _RESULT - size([outcome.model_uri, dict(outcome.artifacts)])),
        diagnosis=_diagnosis(outcome.diagnosis) if outcome.diagnosis else None,
        phases=_shorter(outcome.phases, _PHASES, (("detail", 120), ("detail", 40), ("detail", 0)), _middle),
        nodes=_shorter(outcome.nodes, _NODES, (("last_line", 100), ("last_line", 40), ("host", 0)), _plain_row),
        events=_shorter(outcome.events, _EVENTS, (("message", 120), ("message", 60)), _old_event),
    )


def _metrics(metrics: Mapping[str, float | str], limit: int) -> Mapping[str, float | str]:
    """Those of a progress report may be 256 of 128 characters; numbers stay before texts."""
    if size(dict(metrics)) <= limit:
        return metrics
    kept = sorted(metrics, key=lambda name: isinstance(metrics[name], str))
    while size({name: metrics[name] for name in kept}) > limit:
        kept.pop()
    return {name: metrics[name] for name in metrics if name in kept}


def _progress(points: Rows, limit: int) -> Rows:
    """Fewer points, evenly chosen, the first and the last among them; the last with as many metrics as the others."""
    if not points:
        return points
    names = list(points[-2]["metrics"] if len(points) > 1 else ()) + list(points[-1]["metrics"])
    last = {name: points[-1]["metrics"][name] for name in dict.fromkeys(names) if name in points[-1]["metrics"]}
    points = (*points[:-1], {**points[-1], "metrics": dict(list(last.items())[:CURVES])})
    while (total := size(points)) > limit and len(points) > 1:
        count = max(1, min(len(points) - 1, len(points) * limit // total))
        step = (len(points) - 1) / max(1, count - 1)
        points = tuple(points[round(i * step)] for i in range(count - 1)) + points[-1:]
    return points if size(points) <= limit else ()


def _diagnosis(diagnosis: Diagnosis) -> Diagnosis:
    """Summary and remedy in short; of the evidence the last lines, which are the nearest to the end."""
    cut = replace(
        diagnosis,
        summary=clip(diagnosis.summary, 400),
        remedy=clip(diagnosis.remedy, 400),
        evidence=tuple(line if len(line) <= 500 else line[:499] + "…" for line in diagnosis.evidence),
    )
    while size(cut.to_json()) > _DIAGNOSIS and cut.evidence:
        cut = replace(cut, evidence=cut.evidence[1:])
    return cut


def _shorter(
    rows: Rows, limit: int, cuts: Sequence[tuple[str, int]], least: Callable[[Sequence[Mapping[str, Any]]], int]
) -> Rows:
    """Rows with shorter texts, and when that is not enough without the least telling of them."""
    for name, length in cuts:
        if size(rows) <= limit:
            return rows
        rows = tuple({**row, name: clip(row[name], length) if length else ""} for row in rows)
    left = list(rows)
    while size(left) > limit:
        left.pop(least(left))
    return tuple(left)


def _middle(rows: Sequence[Mapping[str, Any]]) -> int:
    return len(rows) // 2


def _plain_row(rows: Sequence[Mapping[str, Any]]) -> int:
    """The last node with nothing to tell, else the last one."""
    dull = (i for i in range(len(rows) - 1, -1, -1) if not (rows[i]["restarts"] or rows[i]["exit_code"]))
    return next(dull, len(rows) - 1)


def _old_event(rows: Sequence[Mapping[str, Any]]) -> int:
    """The oldest that is no warning, else the oldest."""
    return next((i for i, row in enumerate(rows) if not row["warning"]), 0)
