"""The model that is in use (champion), the one that wants its place (candidate), and which of them is better. Pure.

``better`` is the only judge: Airflow, KFP and a terminal ask it the same question and get the same sentence back.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final, Literal

from trainer_ops.errors import InvalidRequest, TrainerOpsError

__all__ = [
    "FORMAT",
    "Candidate",
    "Champion",
    "ChampionChanged",
    "Mode",
    "RegistryError",
    "Verdict",
    "better",
    "expendable",
    "kept_number",
]

Mode = Literal["max", "min"]
Metrics = Mapping[str, float | str]

FORMAT: Final = 1
# How many earlier champions a pointer names; older ones are still in their folders until ``keep`` removes them.
_HISTORY: Final = 200


class RegistryError(TrainerOpsError):
    """The registry of champions cannot be read or written. The champion is the one it was."""


class ChampionChanged(RegistryError):
    """Another model became the champion in the meantime. Nothing was promoted; judge again, against that one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trained model that may become the champion.

    Attributes:
        model_uri: where the training left it: a file or a folder.
        metrics: name to number, measured on data that it was not trained on.
        fingerprint: of the data and the code that it was trained from.
        note: plain data for whoever reads the registry: the TrainJob's name, the snapshot's URI and revision.
    """

    model_uri: str
    metrics: Metrics = field(default_factory=dict)
    fingerprint: str = ""
    note: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """12 hex digits: the same model of the same training, however often it was measured."""
        said = json.dumps([FORMAT, self.model_uri, self.fingerprint])
        return hashlib.sha256(said.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Champion:
    """The promoted model. Its JSON is what a pointer file holds; serving systems may read it.

    Attributes:
        version: counts promotions, from 1.
        id: the candidate's.
        model_uri: where to load it from: the registry's own copy, or where the training left it.
        metrics: as they were when it was promoted.
        fingerprint: the candidate's.
        promoted_at: RFC 3339.
        source_uri: where the training left it.
        note: the candidate's.
        previous: names of earlier champions' folders, newest first.
    """

    version: int
    id: str
    model_uri: str
    metrics: Metrics = field(default_factory=dict)
    fingerprint: str = ""
    promoted_at: str = ""
    source_uri: str = ""
    note: Mapping[str, Any] = field(default_factory=dict)
    previous: tuple[str, ...] = ()

    @classmethod
    def of(cls, candidate: Candidate, before: Champion | None, *, model_uri: str, promoted_at: str) -> Champion:
        """What a candidate becomes that follows ``before``."""
        return cls(
            version=before.version + 1 if before else 1,
            id=candidate.id,
            model_uri=model_uri,
            metrics={name: _plain(value) for name, value in candidate.metrics.items()},
            fingerprint=candidate.fingerprint,
            promoted_at=promoted_at,
            source_uri=candidate.model_uri,
            note=dict(candidate.note),
            previous=(before.folder, *before.previous)[:_HISTORY] if before else (),
        )

    @property
    def folder(self) -> str:
        """The name of its folder in a registry: ``000007-3f2a…``. No two promotions share one."""
        return folder_name(self.version, self.id)

    def to_json(self) -> dict[str, Any]:
        """The documented form."""
        return {
            "format": FORMAT,
            "version": self.version,
            "id": self.id,
            "model_uri": self.model_uri,
            "metrics": dict(self.metrics),
            "fingerprint": self.fingerprint,
            "promoted_at": self.promoted_at,
            "source_uri": self.source_uri,
            "note": dict(self.note),
            "previous": list(self.previous),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Champion:
        """The inverse of ``to_json``; whole floats (KFP's numbers) are taken.

        Raises:
            KeyError: it is no champion's JSON.
            ValueError: it is one of a later format.
        """
        if int(data.get("format", FORMAT)) > FORMAT:
            raise ValueError(f"format {data['format']} is of a later trainer-ops")
        return cls(
            version=int(data["version"]),
            id=str(data["id"]),
            model_uri=str(data["model_uri"]),
            metrics=dict(data.get("metrics") or {}),
            fingerprint=str(data.get("fingerprint") or ""),
            promoted_at=str(data.get("promoted_at") or ""),
            source_uri=str(data.get("source_uri") or ""),
            note=dict(data.get("note") or {}),
            previous=tuple(map(str, data.get("previous") or ())),
        )

    def __str__(self) -> str:
        return f"version {self.version} ({self.model_uri})"


def folder_name(version: int, candidate: str) -> str:
    """See ``Champion.folder``; names sort as versions do."""
    return f"{version:06d}-{candidate}"


def expendable(folders: Iterable[str], champion: Champion, keep: int) -> list[str]:
    """The folders of a registry that nobody needs any more, oldest first.

    These are champions beyond the ``keep`` newest, and copies of candidates that lost their version to another one.
    Never the champion's own, and never one of a later version: somebody is promoting that.

    Raises:
        InvalidRequest: field ``keep``: less than one.
    """
    keep = kept_number(keep)
    kept = {champion.folder, *champion.previous[: keep - 1]}
    found = [name for name in sorted(folders) if name not in kept]
    return [name for name in found if name[:6].isdigit() and int(name.partition("-")[0]) <= champion.version]


def kept_number(keep: float | str) -> int:
    """How many promoted models stay; a whole number in text is one (a rendered template).

    Raises:
        InvalidRequest: field ``keep``: no whole number, or less than one.
    """
    number = _number("keep", keep)
    if number < 1 or not number.is_integer():
        raise InvalidRequest("keep", f"{keep} is not at least 1", "The champion itself counts: give 1 or more")
    return int(number)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a candidate takes the champion's place.

    Attributes:
        promote: whether.
        reason: one sentence for a person.
        metric: what was compared.
        candidate: its value; None where it is no number.
        champion: the champion's; None where there is none.
    """

    promote: bool
    reason: str
    metric: str
    candidate: float | None = None
    champion: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The documented form."""
        return {
            "promote": self.promote,
            "reason": self.reason,
            "metric": self.metric,
            "candidate": self.candidate,
            "champion": self.champion,
        }


def better(
    candidate: Metrics,
    champion: Metrics | None,
    metric: str,
    margin: float | str = 0.0,
    mode: Mode = "max",
    *,
    threshold: float | str | None = None,
) -> Verdict:
    """Whether the candidate is better by at least ``margin``; with a margin of 0, better at all.

    Values are compared as they are written: 0.3 is better than 0.2 by 0.1, which floating point denies. A value that is
    no finite number (a training that diverged) is never better; a champion that is none is always worse.

    Args:
        candidate: its metrics.
        champion: the champion's, measured on the same data where that can be; None for the first promotion.
        metric: which of them.
        margin: in the metric's own unit, not negative; a number, or one in text, as a template renders it.
        mode: ``max`` where more is better, ``min`` where less is.
        threshold: what even the first champion must reach; a number, or one in text.

    Raises:
        InvalidRequest: ``metric``: one of the two has none of that name, so that nothing was compared; ``margin``,
            ``threshold``, ``mode``.
    """
    margin, least = _number("margin", margin), None if threshold is None else _number("threshold", threshold)
    _refuse(margin, mode)
    ours = _value(candidate, metric, "candidate")
    if ours is None:
        return Verdict(False, f"the candidate's {metric} is {candidate[metric]}: no number", metric)
    verdict = Verdict(False, "", metric, float(ours))
    sign = 1 if mode == "max" else -1
    if least is not None and sign * (ours - _decimal(least)) < 0:
        worse = "below" if mode == "max" else "above"
        return replace(verdict, reason=f"{metric} {ours} is {worse} the threshold {_decimal(least)}")
    if champion is None:
        return replace(verdict, promote=True, reason=f"the first champion, with {metric} {ours}")
    theirs = _value(champion, metric, "champion")
    if theirs is None:
        return replace(
            verdict, promote=True, reason=f"{metric} {ours}; the champion's is {champion[metric]}: no number"
        )
    verdict = replace(verdict, champion=float(theirs))
    return _compared(verdict, ours, theirs, sign * (ours - theirs), _decimal(margin))


def _compared(verdict: Verdict, ours: Decimal, theirs: Decimal, gain: Decimal, margin: Decimal) -> Verdict:
    said = f"{verdict.metric} {ours} beside the champion's {theirs}"
    if gain <= 0:
        return replace(verdict, reason=f"{said}: {'the same' if gain == 0 else f'worse by {_shown(-gain)}'}")
    if gain < margin:
        return replace(verdict, reason=f"{said}: better by {_shown(gain)}, which is less than the margin {margin}")
    return replace(verdict, promote=True, reason=f"{said}: better by {_shown(gain)}")


def _plain(value: float | str) -> float | str:
    """What JSON has no number for, as text: the same that a training's report does."""
    return value if isinstance(value, str) or math.isfinite(value) else str(value)


def _number(field: str, given: float | str) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        reason = f"{given!r} is not a number"
        raise InvalidRequest(field, reason, "Correct it, or the template that it came from") from None


def _refuse(margin: float, mode: str) -> None:
    if mode not in ("max", "min"):
        raise InvalidRequest("mode", f"{mode!r} is neither max nor min", "Give max where more is better, else min")
    if not (math.isfinite(margin) and margin >= 0):
        raise InvalidRequest("margin", f"{margin!r} would promote what is worse", "Give 0 or more")


def _value(metrics: Metrics, metric: str, whose: str) -> Decimal | None:
    """The number; None for one that is not finite. What a training reports as NaN arrives as text."""
    if metric not in metrics:
        known = ", ".join(sorted(metrics)) or "none"
        raise InvalidRequest("metric", f'the {whose} has no "{metric}"', f"It has: {known}")
    try:
        number = float(metrics[metric])
    except ValueError:
        reason = f'the {whose}\'s "{metric}" is the text {metrics[metric]!r}'
        raise InvalidRequest("metric", reason, "Name a metric that is a number") from None
    return _decimal(number) if math.isfinite(number) else None


def _decimal(number: float) -> Decimal:
    """The number as a person writes it: ``0.3``, ``12``, ``1200``."""
    found = Decimal(repr(float(number)))
    return found.quantize(Decimal(1)) if found == found.to_integral_value() and abs(found) < 10**15 else found


def _shown(gain: Decimal) -> str:
    return f"{gain:.4g}"
