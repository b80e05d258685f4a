"""Who is waited for in a selection, and what came of each: the values and decisions of ``select``. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trainer_ops.backends.base import Backend, LogSource, RawObject, RawObjects
from trainer_ops.errors import BackendError, InvalidRequest, TrainingEnded
from trainer_ops.lifecycle.listener import Listener, Silent
from trainer_ops.lifecycle.selection import Selection, subject_of
from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation, ObservedTrainJob
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.phase import Phase, State
from trainer_ops.model.result import result_of
from trainer_ops.status.until import Answer, Until
from trainer_ops.status.wait import Wait

__all__ = ["Eye", "Group", "ListenerFor", "Met", "Rule", "Verdict", "Waited"]


@dataclass(frozen=True, slots=True)
class Waited:
    """One training of a selection.

    Attributes:
        ref: which.
        outcome: how it ended, or how far it has come.
        answer: what it says to what is waited for.
    """

    ref: JobRef
    outcome: Outcome
    answer: Answer

    def to_json(self, *, short: bool = False) -> dict[str, Any]:
        """Plain data; ``short`` without the outcome's histories."""
        data = self.outcome.to_json()
        if short:
            data = {name: type(value)() if name in _HISTORIES else value for name, value in data.items()}
        return {"ref": self.ref.to_json(), "outcome": data, "answer": self.answer.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Waited:
        """The inverse of ``to_json``."""
        return cls(JobRef.from_json(data["ref"]), Outcome.from_json(data["outcome"]), Answer(data["answer"]))


# What makes an outcome long; of many at once nobody draws it.
_HISTORIES = frozenset({"progress", "phases", "nodes", "events"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a wait for a selection ended.

    Attributes:
        met: what was waited for has come.
        trainings: those that were selected, oldest first.
        timed_out: the deadline came first.
        error: of the first training that made it impossible; None when none did.
    """

    met: bool
    trainings: tuple[Waited, ...] = ()
    timed_out: bool = False
    error: TrainingEnded | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data, without the error, which follows from the rest."""
        short = len(self.trainings) > 1
        trainings = [waited.to_json(short=short) for waited in self.trainings]
        return {"met": self.met, "timed_out": self.timed_out, "trainings": trainings}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], until: Until) -> Verdict:
        """The inverse of ``to_json``."""
        trainings = tuple(Waited.from_json(each) for each in data["trainings"])
        error = None if data["met"] or data["timed_out"] else first_error(trainings, until)
        return cls(data["met"], trainings, data["timed_out"], error)


@dataclass(frozen=True, slots=True)
class Rule:
    """When a wait for a selection is over.

    Attributes:
        until: what is waited for of each.
        of: ``all`` of them, or ``any``: the first is enough.
        fail_fast: with ``all``, end as soon as one makes it impossible; False waits for the others too.
        nothing: what to do while nothing is selected: ``wait`` for it, or ``refuse``.
        deadline: seconds since the epoch; a past one means: look once.
        limits: of the wait for each; as given they stop no training.
    """

    until: Until = field(default_factory=Until)
    of: Literal["all", "any"] = "all"
    fail_fast: bool = True
    nothing: Literal["wait", "refuse"] = "wait"
    deadline: float | None = None
    limits: Callable[[ObservedTrainJob], Limits] = lambda job: Limits()


ListenerFor = Callable[[JobRef], Listener]


class Group:
    """The members of a selection and what each says to what is waited for."""

    def __init__(
        self, backend: Backend, selection: Selection, rule: Rule, listener_for: ListenerFor | None = None
    ) -> None:
        self.rule = rule
        self._target, self._namespace = backend.target, backend.namespace
        self._selection = selection
        self._listener_for = listener_for or (lambda ref: Silent())
        self._members: dict[str, Waited] = {}
        self._answered = False
        self._away: float | None = None

    @property
    def looks(self) -> bool:
        """Whether the selection may still grow: a name is found once."""
        return not (self._selection.name and self._members)

    def answered(self, raws: RawObjects) -> RawObjects:
        """The target said who is selected."""
        self._answered, self._away = True, None
        return raws

    def unanswered(self, error: BackendError, now: float) -> RawObjects:
        """It did not; nobody for now, unless that is no use."""
        if not (error.retryable or self._answered):
            raise error
        self._away = now if self._away is None else self._away
        if now - self._away >= Limits().unreachable_timeout:
            raise error
        return []

    def take(self, raws: RawObjects, now: float) -> list[tuple[Wait, Eye]]:
        """Of those selected the ones that were not known yet, each with the wait for it."""
        if not raws and not self._members and self.rule.nothing == "refuse" and self._answered:
            raise InvalidRequest(
                "labels" if self._selection.labels else "name",
                f'no TrainJob is meant by "{self._selection}" on {self._target}',
                "All: trainer-ops list",
                what="not found",
            )
        return [self._enter(subject, raw, now) for raw in raws if self._is_new(subject := subject_of(raw), raw)]

    def _is_new(self, subject: str, raw: RawObject) -> bool:
        known = self._members.get(subject)
        return known is None or known.ref.uid != raw["metadata"]["uid"]

    def _enter(self, subject: str, raw: RawObject, now: float) -> tuple[Wait, Eye]:
        job = ObservedTrainJob.from_raw(raw)
        ref = JobRef(self._target, self._namespace, job.name, job.uid)
        waited = Waited(ref, _so_far(ref, Phase.NOT_OBSERVED, job.attempt), Answer.NOT_YET)
        self._members.pop(subject, None)
        self._members[subject] = waited
        wait = Wait.begin(ref, self.rule.limits(job), now=now, attempt=job.attempt)
        return wait, Eye(self, ref, job.attempt, self._listener_for(ref))

    def seen(self, ref: JobRef, attempt: int, state: State, obs: Observation) -> bool:
        """Take a look at one into account; whether what is waited for has come."""
        result, progress = result_of(obs.pods), obs.job.progress if obs.job is not None else None
        metrics = (result.metrics if result else {}) or (progress.metrics if progress else {})
        outcome = replace(
            _so_far(ref, state.phase, attempt), metrics=dict(metrics), model_uri=result.model_uri if result else None
        )
        answer = self.rule.until.judge(state.phase, metrics)
        self._put(Waited(ref, outcome, answer))
        return answer is Answer.MET

    def ended(self, ref: JobRef, outcome: Outcome) -> None:
        """The wait for one is over."""
        answer = self.rule.until.judge(outcome.phase, outcome.metrics)
        # A limit of the wait, too, is an end.
        self._put(Waited(ref, outcome, Answer.NEVER if answer is Answer.NOT_YET else answer))

    def _put(self, waited: Waited) -> None:
        for subject, known in self._members.items():
            if known.ref.uid == waited.ref.uid:
                self._members[subject] = waited
                return

    def verdict(self, now: float) -> Verdict | None:
        """How it ended; None while it goes on."""
        trainings = tuple(self._members.values())
        answers = [waited.answer for waited in trainings]
        if self._is_met(answers):
            return Verdict(True, trainings)
        if self._is_over(answers):
            return Verdict(False, trainings, error=first_error(trainings, self.rule.until))
        if self.rule.deadline is not None and now >= self.rule.deadline:
            return Verdict(False, trainings, timed_out=True)
        return None

    def _is_met(self, answers: list[Answer]) -> bool:
        if self.rule.of == "any" or self._selection.model_uri:
            return Answer.MET in answers
        return bool(answers) and all(answer is Answer.MET for answer in answers)

    def _is_over(self, answers: list[Answer]) -> bool:
        # A model that is waited for may come from the next training, whatever the last one was like.
        if not answers or self._selection.model_uri:
            return False
        if self.rule.of == "all" and self.rule.fail_fast and Answer.NEVER in answers:
            return True
        return Answer.NOT_YET not in answers


def first_error(trainings: Iterable[Waited], until: Until) -> TrainingEnded | None:
    """The error of the first training that will never be what is waited for."""
    return next((until.error(waited.outcome) for waited in trainings if waited.answer is Answer.NEVER), None)


def _so_far(ref: JobRef, phase: Phase, attempt: int) -> Outcome:
    return Outcome(ref.name, ref.namespace, ref.uid, ref.target, phase, attempt)


class Met(Exception):
    """What is waited for has come, and the training goes on: no more of it is waited for."""


class Eye:
    """Sees every look at a training; ends the wait for it when what is waited for comes before its end."""

    def __init__(self, group: Group, ref: JobRef, attempt: int, listener: Listener) -> None:
        self._group, self._ref, self._attempt, self._listener = group, ref, attempt, listener

    def on_state(self, state: State, obs: Observation | None) -> None:
        """Judge it."""
        self._listener.on_state(state, obs)
        if obs is not None and not state.phase.finished and self._group.seen(self._ref, self._attempt, state, obs):
            raise Met

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        """Pass them on."""
        self._listener.on_lines(source, lines)

    def on_note(self, text: str) -> None:
        """Pass it on."""
        self._listener.on_note(text)
