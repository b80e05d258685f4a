"""Selectors of v1's pod labels in affinity and spread rules: v2's pods have JobSet's labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trainer_ops.migrate.draft import Draft, Part
from trainer_ops.migrate.paths import Path
from trainer_ops.migrate.places import Place
from trainer_ops.migrate.pods import V1_LABELS
from trainer_ops.model import keys

__all__ = ["rewrite_selectors"]

_JOB: Final = (f"{V1_LABELS}job-name",)


def rewrite_selectors(draft: Draft) -> None:
    """Write the job's own name as v2's label; other v1 labels are told, since no label of v2 says the same."""
    for part in draft.parts:
        for name in ("affinity", "topologySpreadConstraints"):
            if name in part.spec:
                for place, held in _selectors(part.spec[name], part.place("spec", name)):
                    _selector(draft, part, place, held)


def _selectors(value: Any, place: Place) -> Iterator[tuple[Place, dict[str, Any]]]:
    if isinstance(value, dict):
        if "matchLabels" in value or "matchExpressions" in value:
            yield place, value
        for key, item in value.items():
            yield from _selectors(item, (*place, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _selectors(item, (*place, i))


def _selector(draft: Draft, part: Part, place: Place, held: dict[str, Any]) -> None:
    labels = held.get("matchLabels")
    if isinstance(labels, dict) and any(str(key).startswith(V1_LABELS) for key in labels):
        held["matchLabels"] = {}
        for key, value in labels.items():
            if key in _JOB and value == draft.job.name and draft.name:
                held["matchLabels"][keys.LABEL_JOBSET_NAME] = draft.name
                _tell_new(draft, (*place, "matchLabels"), str(key))
                continue
            held["matchLabels"][key] = value
            _tell(draft, place, str(key))
    rules = held.get("matchExpressions")
    for i, rule in enumerate(rules if isinstance(rules, list) else ()):
        key = rule.get("key") if isinstance(rule, dict) else None
        if not str(key).startswith(V1_LABELS):
            continue
        if key in _JOB and rule.get("values") == [draft.job.name] and draft.name:
            rule.update(key=keys.LABEL_JOBSET_NAME, values=[draft.name])
            _tell_new(draft, (*place, "matchExpressions", i), str(key))
        else:
            _tell(draft, place, str(key))


def _tell_new(draft: Draft, place: Place, key: str) -> None:
    message = f"{key} is {keys.LABEL_JOBSET_NAME} now"
    draft.rewrote(place, message)
    draft.say("LABEL-SELECTOR", _path(draft, place), message, severity="info", remedy="")


def _tell(draft: Draft, place: Place, key: str) -> None:
    if key.startswith(V1_LABELS):
        message = f"no pod of v2 has the label {key}: this selects nothing"
        draft.say("LABEL-SELECTOR", _path(draft, place), message)


def _path(draft: Draft, place: Place) -> Path:
    """Of the field in the v1 job that came to this place."""
    near = (link.path for link in draft.links if place[: len(link.place)] == link.place)
    return next(near, ("spec",))
