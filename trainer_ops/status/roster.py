"""How each node stands, or stood when it was last seen: the table of a report. Bounded: it crosses processes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.lines import clean
from trainer_ops.model.observed import Observation, ObservedPod
from trainer_ops.status.evidence import Evidence, NodeEvidence
from trainer_ops.status.nodes import current_pods, restarts
from trainer_ops.status.podwhy import pod_cause
from trainer_ops.status.wording import clip

__all__ = ["LINE_LIMIT", "ROWS_LIMIT", "NodeRow", "Roster", "closed", "hear", "update"]

ROWS_LIMIT = 64
LINE_LIMIT = 200
_NUMBERED = re.compile(r"(.*)-(\d+)")


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node, launcher or initializer.

    Attributes:
        name: the name a person sees.
        state: ``waiting``, ``running``, ``done``, ``failed``; ``ended`` for one whose end was not seen.
        restarts: in its pod, by a new pod, or with its JobSet.
        exit_code: of the run that ended last; None when none has.
        reason: why it does not run, how it ended when not well, or else why it was restarted; the cluster's word.
        host: the machine it is on.
        last_line: the last line of its log that is not blank.
    """

    name: str
    state: str
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    host: str = ""
    last_line: str = ""

    @property
    def telling(self) -> bool:
        """Whether it has something to tell that the others have not."""
        return bool(self.restarts or self.exit_code) or self.state in ("waiting", "failed")

    def to_json(self) -> dict[str, Any]:
        """Plain data, the documented form."""
        return asdict(self)


Roster = tuple[NodeRow, ...]


def update(roster: Roster, obs: Observation, evidence: Evidence) -> Roster:
    """The roster with what the pods show now; a node without a pod stays as it was seen last."""
    rows = {row.name: row for row in roster}
    for pod in current_pods(obs.pods):
        rows[pod.node] = _row(rows.get(pod.node), pod, obs, evidence.nodes.get(pod.node))
    return _bounded(rows.values())


def _row(old: NodeRow | None, pod: ObservedPod, obs: Observation, known: NodeEvidence | None) -> NodeRow:
    main = pod.main
    count = known.restarts if known is not None else pod.attempt + restarts(pod)
    state = main.state if main is not None else "waiting"
    if main is not None and main.terminated is not None:
        state = "done" if main.terminated.exit_code == 0 else "failed"
    code, reason = _last_end(pod, known)
    cause = pod_cause(pod, obs.events) if state in ("waiting", "failed") else None
    return NodeRow(
        name=pod.node,
        state="failed" if pod.phase == "Failed" else state,
        restarts=max(count, old.restarts if old else 0),
        exit_code=code if code is not None or old is None else old.exit_code,
        reason=clip(cause.reason if cause is not None else reason, 60),
        host=clip(pod.host or (old.host if old else ""), 80),
        last_line=old.last_line if old else "",
    )


def _last_end(pod: ObservedPod, known: NodeEvidence | None) -> tuple[int | None, str]:
    """Exit code of the run that ended last, and the reason of the last that did not end well."""
    main = pod.main
    end = (main.terminated or main.last) if main is not None else None
    if end is not None and end.exit_code:
        return end.exit_code, end.reason
    failure = known.failure if known is not None else None
    reason = "" if failure is None or failure.doubtful else failure.reason
    if end is not None:
        return 0, reason
    return (failure.code or None) if reason and failure is not None else None, reason


def hear(roster: Roster, tails: Mapping[str, Sequence[str]]) -> Roster:
    """The roster with the last line of these nodes' logs."""
    return tuple(replace(row, last_line=_last(tails.get(row.name, ())) or row.last_line) for row in roster)


def _last(lines: Sequence[str]) -> str:
    return next((text for text in (clip(clean(line), LINE_LIMIT) for line in reversed(lines)) if text), "")


def closed(roster: Roster) -> Roster:
    """After the end of a training nothing waits or runs: of such a node the end was not seen."""
    return tuple(replace(row, state="ended") if row.state in ("waiting", "running") else row for row in roster)


def _bounded(rows: Iterable[NodeRow]) -> Roster:
    """At most 64, those with something to tell before the others; in the order in which a person reads them."""
    kept = sorted(rows, key=_place)
    if len(kept) > ROWS_LIMIT:
        kept = sorted(sorted(kept, key=lambda row: not row.telling)[:ROWS_LIMIT], key=_place)
    return tuple(kept)


def _place(row: NodeRow) -> tuple[int, str, int]:
    found = _NUMBERED.fullmatch(row.name)
    step, index = (found[1], int(found[2])) if found else (row.name, 0)
    order = {keys.STEP_DATASET: 0, keys.STEP_MODEL: 1, keys.STEP_LAUNCHER: 2}
    return order.get(step, 3), step, index
