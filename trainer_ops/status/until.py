"""What somebody waits for who did not start the training: a success, any end, a phase, a metric that is good enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from trainer_ops.errors import ConditionNotMet, InvalidRequest, TrainingEnded
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.status.verdict import error_for

__all__ = ["END", "SUCCESS", "Answer", "Until"]

SUCCESS, END = "success", "end"

# The way of a training that goes well. Who waits for one of these also has it once the training is further.
_WAY = (Phase.SUBMITTED, Phase.INITIALIZING, Phase.PENDING, Phase.RUNNING, Phase.COMPLETING, Phase.SUCCEEDED)
_BESIDE = {Phase.RESTARTING: Phase.RUNNING, Phase.FAILING: Phase.RUNNING, Phase.BLOCKED: Phase.SUBMITTED}


class Answer(str, Enum):
    """Whether what is waited for has come."""

    NOT_YET = "not_yet"
    MET = "met"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Until:
    """What is waited for: a state, and with it, where one is named, a metric.

    Attributes:
        state: ``success``, ``end`` (whatever it is), or a ``Phase`` by its value. Of the phases of a training that goes
            well (submitted, initializing, pending, running, completing, succeeded) a later one does as well; every
            other is met only while the training is in it.
        metric: a metric that the training has to have reported by then, in its result or on its way.
        at_least: the least value of the metric.
        at_most: the greatest.
    """

    state: str = SUCCESS
    metric: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @classmethod
    def of(
        cls,
        state: str | Phase | None = None,
        *,
        metric: str | None = None,
        at_least: float | str | None = None,
        at_most: float | str | None = None,
    ) -> Until:
        """From what a user gives; limits may be numbers in text.

        Raises:
            InvalidRequest: field ``until``, ``metric``, ``at_least`` or ``at_most``.
        """
        word = str(state or SUCCESS).lower()
        known = (SUCCESS, END, *(phase.value for phase in Phase if phase is not Phase.NOT_OBSERVED))
        if word not in known:
            raise InvalidRequest("until", f'"{word}" is none of {", ".join(known)}', "Give one of them")
        least, most = _number("at_least", at_least), _number("at_most", at_most)
        if metric and least is None and most is None:
            raise InvalidRequest("metric", f"{metric} has no limit", "Give at_least, at_most, or both")
        if least is not None and most is not None and least > most:
            raise InvalidRequest(
                "at_least", f"{least:g} is more than at_most, {most:g}", "No metric is both: correct one"
            )
        if not metric and (least is not None or most is not None):
            raise InvalidRequest("metric", "is missing", "Say which metric has to be within the limits")
        return cls(word, metric or "", least, most)

    def judge(self, phase: Phase, metrics: Mapping[str, float | str]) -> Answer:
        """What a training in this phase, with these metrics so far, says to it."""
        if self._reached(phase) and self._good(metrics):
            return Answer.MET
        return Answer.NEVER if phase.finished else Answer.NOT_YET

    def error(self, outcome: Outcome) -> TrainingEnded:
        """Why it will not come: the training's own error, or that a good training is not what was waited for."""
        failed = error_for(outcome)
        if failed is not None and not (outcome.phase.finished and self._reached(outcome.phase)):
            return failed
        wanted, was = self._in_words(), outcome.metrics.get(self.metric)
        if not self.metric:
            return ConditionNotMet(outcome, f"{outcome.name} {outcome.phase}, and was not seen {wanted}")
        found = f"{self.metric} is {was}" if was is not None else f"it reported no {self.metric}"
        return ConditionNotMet(outcome, f"{outcome.name} {outcome.phase}, but {found}: waited for {wanted}")

    def __str__(self) -> str:
        return self._in_words()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Until:
        """The inverse of ``to_json``."""
        return cls(data["state"], data["metric"], data["at_least"], data["at_most"])

    def _reached(self, phase: Phase) -> bool:
        if self.state == END:
            return phase.finished
        wanted = Phase.SUCCEEDED if self.state == SUCCESS else Phase(self.state)
        there = _BESIDE.get(phase, phase)
        if wanted in _WAY and there in _WAY:
            return _WAY.index(there) >= _WAY.index(wanted)
        return phase is wanted

    def _good(self, metrics: Mapping[str, float | str]) -> bool:
        if not self.metric:
            return True
        value = metrics.get(self.metric)
        if isinstance(value, str) or value is None:
            return False
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def _in_words(self) -> str:
        state = {SUCCESS: "trained", END: "ended"}.get(self.state, self.state)
        limits = [
            f"{self.metric} {words} {limit:g}"
            for words, limit in (("at least", self.at_least), ("at most", self.at_most))
            if limit is not None
        ]
        return f"{state} with {' and '.join(limits)}" if limits else state


def _number(field: str, given: float | str | None) -> float | None:
    if given is None or given == "":
        return None
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = float("nan")
    if value != value:
        raise InvalidRequest(field, f"{given!r} is not a number", "Correct it, or the template that it came from")
    return value
