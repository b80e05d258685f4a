"""Scheduled retraining without a scheduler: whether to train, and whether what came out takes the champion's place.

Both front ends have the same steps: snapshot, ``decide``, train, evaluate, ``conclude``. The evaluation is a step of
its own on data that the training has not seen; when it measures the champion on the same data too, it reports those
numbers as ``champion_<metric>``, and they are what the candidate is compared with.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.champion import Registry
from trainer_ops.lifecycle.fetch import fetch_text
from trainer_ops.lifecycle.fingerprint import Part, fingerprint
from trainer_ops.model.champion import Candidate, Champion, ChampionChanged, Mode, Verdict, better, kept_number
from trainer_ops.model.snapshot import Snapshot

__all__ = ["CHAMPION_PREFIX", "Conclusion", "Plan", "conclude", "decide", "decide_from", "mapping_of"]

CHAMPION_PREFIX: Final = "champion_"
# Others may promote while this one compares; each time it compares anew.
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """Whether to train. Plain data: it crosses XCom and KFP.

    Attributes:
        train: whether.
        reason: one sentence for a person.
        fingerprint: of the data and the code.
        champion: the model in use when this was decided; None before the first promotion.
    """

    train: bool
    reason: str
    fingerprint: str
    champion: Champion | None = None

    def to_json(self) -> dict[str, Any]:
        """The documented form; ``champion_uri`` is "" where there is none, for an evaluation's environment."""
        return {
            "train": self.train,
            "reason": self.reason,
            "fingerprint": self.fingerprint,
            "champion": self.champion.to_json() if self.champion else None,
            "champion_uri": self.champion.model_uri if self.champion else "",
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """The inverse of ``to_json``.

        Raises:
            KeyError: it is no plan's JSON.
        """
        champion = data.get("champion")
        return cls(
            train=bool(data["train"]),
            reason=str(data["reason"]),
            fingerprint=str(data["fingerprint"]),
            champion=Champion.from_json(champion) if champion else None,
        )


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What came of a retraining. Plain data.

    Attributes:
        promoted: whether the candidate is the champion now.
        verdict: why.
        champion: the model in use now; None where the first candidate was not good enough.
        removed: earlier models that were removed.
    """

    promoted: bool
    verdict: Verdict
    champion: Champion | None
    removed: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One line for a person."""
        if self.promoted and self.champion is not None:
            return f"promoted as version {self.champion.version}: {self.verdict.reason}"
        left = f"version {self.champion.version} stays" if self.champion else "there is still no champion"
        return f"not promoted, {left}: {self.verdict.reason}"

    def to_json(self) -> dict[str, Any]:
        """The documented form."""
        return {
            "promoted": self.promoted,
            "text": self.text,
            "verdict": self.verdict.to_json(),
            "champion": self.champion.to_json() if self.champion else None,
            "removed": list(self.removed),
        }


def decide(registry: Registry, *parts: Part, force: bool = False) -> Plan:
    """Whether there is anything new to learn: not when the champion was trained from the very same parts.

    Args:
        registry: where the champion is.
        parts: what the model is made from: the snapshot, the script as a ``Path``, the settings. See ``fingerprint``.
        force: train all the same.

    Raises:
        InvalidRequest: field ``fingerprint``: a part cannot be read.
        RegistryError: the registry cannot be read.
    """
    made_from = fingerprint(*parts)
    champion = registry.champion()
    if champion is None:
        return Plan(True, "there is no champion yet", made_from)
    if champion.fingerprint != made_from:
        return Plan(True, f"data or code changed since version {champion.version}", made_from, champion)
    if force:
        return Plan(True, "told to, though data and code are unchanged", made_from, champion)
    return Plan(False, f"data and code are unchanged since version {champion.version}", made_from, champion)


def decide_from(
    registry: Registry,
    *,
    snapshot: Snapshot | Mapping[str, Any] | None = None,
    script: str = "",
    settings: Mapping[str, Any] | None = None,
    force: bool = False,
    script_field: str = "script",
) -> Plan:
    """``decide`` from what a front end's step is given, so that the same gives the same fingerprint everywhere.

    Args:
        registry: where the champion is.
        snapshot: the data, or its JSON.
        script: the code: a path or a URI; it counts by its text.
        settings: what else the model is made from: plain data.
        force: train all the same.
        script_field: what ``script`` is called there, for errors.

    Raises:
        InvalidRequest: nothing is given, it is no snapshot, or the script cannot be read.
        RegistryError: the registry cannot be read.
    """
    parts: list[Part] = [_snapshot(snapshot)] if snapshot else []
    with tempfile.TemporaryDirectory(prefix="trainer-ops-") as folder:
        if script:
            file = Path(folder, "script")
            file.write_bytes(fetch_text(script, field=script_field).encode())
            parts.append(file)
        if settings:
            parts.append(mapping_of("settings", settings))
        if not parts:
            reason = f"neither snapshot nor {script_field} nor settings are given"
            raise InvalidRequest("snapshot", reason, "Say what the model is made from")
        return decide(registry, *parts, force=force)


def mapping_of(field: str, given: Any) -> Mapping[str, Any]:
    """What a front end was given for a mapping; {} for None.

    Raises:
        InvalidRequest: it is something else, such as text of a template that failed.
    """
    if given is not None and not isinstance(given, Mapping):
        raise InvalidRequest(field, f"{given!r} is no mapping"[:200], "Give plain data: a mapping, whole")
    return given or {}


def _snapshot(given: Snapshot | Mapping[str, Any]) -> Snapshot:
    if isinstance(given, Snapshot):
        return given
    try:
        return Snapshot.from_json(given)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        remedy = "Give what the initializer step returned, whole"
        raise InvalidRequest("snapshot", f"{given!r} is no snapshot"[:200], remedy) from exc


def conclude(
    registry: Registry,
    plan: Plan,
    *,
    model_uri: str | None,
    metrics: Mapping[str, float | str],
    metric: str,
    margin: float | str = 0.0,
    mode: Mode = "max",
    threshold: float | str | None = None,
    keep: int | str = 5,
    note: Mapping[str, Any] | None = None,
) -> Conclusion:
    """Judge the trained model, promote it if it is better, and remove old ones. Doing it again concludes the same.

    Args:
        registry: where the champion is.
        plan: what ``decide`` said before the training.
        model_uri: where the training left the model.
        metrics: what the evaluation reported; ``champion_<metric>`` is the champion's value on the same data. Without
            it, the champion's own of when it was promoted counts.
        metric: which of them.
        margin: by how much it must be better, in the metric's own unit. Numbers may be text (a rendered template).
        mode: ``max`` where more is better, ``min`` where less is.
        threshold: what even the first champion must reach.
        keep: how many promoted models stay, the champion counted.
        note: plain data to keep beside the model.

    Raises:
        InvalidRequest: there is no model, no such metric, or a setting is wrong.
        ChampionChanged: others promoted again and again meanwhile.
        RegistryError: the registry cannot be read or written.
    """
    if not model_uri:
        raise InvalidRequest("model_uri", "the training reported no model", "Call report(model_uri=…) in its code")
    keep = kept_number(keep)  # before anything is promoted
    ours = {name: value for name, value in metrics.items() if not name.startswith(CHAMPION_PREFIX)}
    candidate = Candidate(model_uri, ours, plan.fingerprint, dict(note or {}))
    for _ in range(_TRIES):
        champion = registry.champion()
        if champion is not None and champion.id == candidate.id:
            verdict = Verdict(True, "it is the champion already", metric)
            return Conclusion(True, verdict, champion, tuple(registry.keep(keep)))
        verdict = better(ours, _theirs(plan, champion, metrics), metric, margin, mode, threshold=threshold)
        if not verdict.promote:
            return Conclusion(False, verdict, champion)
        try:
            promoted = registry.promote(candidate, expect=champion.version if champion else 0)
        except ChampionChanged:
            continue
        return Conclusion(True, verdict, promoted, tuple(registry.keep(keep)))
    raise ChampionChanged(
        f"{model_uri} was not promoted: the champion changed {_TRIES} times while it was compared",
        remedy="Let one pipeline at a time promote to this registry",
    )


def _theirs(
    plan: Plan, champion: Champion | None, metrics: Mapping[str, float | str]
) -> Mapping[str, float | str] | None:
    """The champion's numbers; those that were measured beside the candidate's, where it is still that champion."""
    if champion is None:
        return None
    if plan.champion is None or plan.champion.version != champion.version:
        return champion.metrics
    measured = {
        name.removeprefix(CHAMPION_PREFIX): value for name, value in metrics.items() if name.startswith(CHAMPION_PREFIX)
    }
    return {**champion.metrics, **measured}
