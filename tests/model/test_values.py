"""Times, phases, outcomes: the small values that cross processes."""

from __future__ import annotations

import json

import pytest

from trainer_ops.model.outcome import Category, Diagnosis, Ending, Outcome, ProgressPoint
from trainer_ops.model.phase import Phase
from trainer_ops.model.times import duration, parse_time, rfc3339

NOON = 1795953600.0  # 2026-11-29T12:00:00Z

TIMES: dict[str, tuple[str | None, float | None]] = {
    "Z": ("2026-11-29T12:00:00Z", NOON),
    "an offset": ("2026-11-29T13:00:00+01:00", NOON),
    "no zone is UTC": ("2026-11-29T12:00:00", NOON),
    "microseconds": ("2026-11-29T12:00:00.250000Z", NOON + 0.25),
    "nanoseconds": ("2026-11-29T12:00:00.250000999Z", NOON + 0.25),
    "one digit": ("2026-11-29T12:00:00.5Z", NOON + 0.5),
    "none": (None, None),
    "empty": ("", None),
    "no time": ("yesterday", None),
}


@pytest.mark.parametrize(("text", "seconds"), TIMES.values(), ids=TIMES.keys())
def test_parse_time(text: str | None, seconds: float | None) -> None:
    assert parse_time(text) == seconds


def test_written_times_are_read_again() -> None:
    assert rfc3339(NOON) == "2026-11-29T12:00:00Z"
    assert rfc3339(NOON + 0.25, micro=True) == "2026-11-29T12:00:00.250000Z"
    assert parse_time(rfc3339(NOON + 0.25, micro=True)) == NOON + 0.25


DURATIONS = {
    "seconds": (42.9, "0:42"),
    "minutes": (62, "1:02"),
    "hours": (3723, "1:02:03"),
    "days": (90000, "25:00:00"),
    "a clock that went back": (-3, "0:00"),
}


@pytest.mark.parametrize(("seconds", "text"), DURATIONS.values(), ids=DURATIONS.keys())
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("phase", Phase)
def test_a_phase_counts_against_one_limit_at_most(phase: Phase) -> None:
    assert [phase.finished, phase.waiting_in_queue, phase.starting].count(True) <= 1
    assert f"{phase}" == phase.value


FAILED = Diagnosis(Category.EXIT_CODE, "it ended with exit code 3 on node-1", ("line 1", "line 2"), "Look there")
POINT = ProgressPoint(NOON, 40, 12.0, {"loss": 0.1})
CHANGE = {"phase": "running", "reason": "", "detail": "", "at": "2026-11-29T12:00:00.000000Z", "folded": 0}
NODE = {
    "name": "node-1",
    "state": "failed",
    "restarts": 1,
    "exit_code": 3,
    "reason": "Error",
    "host": "m",
    "last_line": "x",
}
EVENT = {
    "at": None,
    "object": "Pod/p",
    "node": "node-1",
    "reason": "BackOff",
    "message": "m",
    "warning": True,
    "count": 2,
}


def outcome(phase: Phase, diagnosis: Diagnosis | None = None) -> Outcome:
    return Outcome(
        name="digits-1",
        namespace="default",
        uid="u-1",
        target="local:///tmp/t",
        phase=phase,
        attempt=2,
        started_at="2026-11-29T12:00:00Z",
        finished_at=None,
        metrics={"accuracy": 0.95, "best": "nan"},
        model_uri="file:///m",
        artifacts={"plot": {"uri": "file:///p"}},
        progress=(POINT.to_json(),),
        diagnosis=diagnosis,
        seen_at="2026-11-29T12:10:00Z",
        num_nodes=2,
        gpus=16,
        phases=(CHANGE,),
        nodes=(NODE,),
        events=(EVENT,),
    )


OUTCOMES = {"success": outcome(Phase.SUCCEEDED), "failure": outcome(Phase.FAILED, FAILED)}


@pytest.mark.parametrize("value", OUTCOMES.values(), ids=OUTCOMES.keys())
def test_an_outcome_survives_json(value: Outcome) -> None:
    assert Outcome.from_json(json.loads(json.dumps(value.to_json(), allow_nan=False))) == value


def test_an_outcome_of_an_older_version_is_read() -> None:
    data = outcome(Phase.SUCCEEDED).to_json()
    for name in ("seen_at", "num_nodes", "gpus", "phases", "nodes", "events"):
        del data[name]
    old = Outcome.from_json(data)
    assert (old.seen_at, old.num_nodes, old.gpus, old.phases, old.nodes, old.events) == (None, 0, 0, (), (), ())


@pytest.mark.parametrize("value", OUTCOMES.values(), ids=OUTCOMES.keys())
def test_an_outcome_is_read_without_what_is_null(value: Outcome) -> None:
    assert Outcome.from_json({name: part for name, part in value.to_json().items() if part is not None}) == value


def test_the_documented_form() -> None:
    assert outcome(Phase.FAILED, FAILED).to_json() == {
        "name": "digits-1",
        "namespace": "default",
        "uid": "u-1",
        "target": "local:///tmp/t",
        "phase": "failed",
        "attempt": 2,
        "started_at": "2026-11-29T12:00:00Z",
        "finished_at": None,
        "metrics": {"accuracy": 0.95, "best": "nan"},
        "model_uri": "file:///m",
        "artifacts": {"plot": {"uri": "file:///p"}},
        "progress": [
            {"at": "2026-11-29T12:00:00Z", "percentage": 40, "eta_seconds": 12.0, "metrics": {"loss": 0.1}},
        ],
        "diagnosis": {
            "category": "exit_code",
            "summary": "it ended with exit code 3 on node-1",
            "evidence": ["line 1", "line 2"],
            "remedy": "Look there",
        },
        "seen_at": "2026-11-29T12:10:00Z",
        "num_nodes": 2,
        "gpus": 16,
        "phases": [CHANGE],
        "nodes": [NODE],
        "events": [EVENT],
    }


def test_a_diagnosis_reads_as_one_block() -> None:
    assert str(FAILED) == "it ended with exit code 3 on node-1 (exit_code)\n  line 1\n  line 2\nLook there"


ENDINGS = {
    "trained": (outcome(Phase.SUCCEEDED), Ending.TRAINED),
    "failed": (outcome(Phase.FAILED, FAILED), Ending.FAILED),
    "deleted": (outcome(Phase.DELETED, Diagnosis(Category.DELETED, "x")), Ending.CANCELLED),
    "replaced": (outcome(Phase.REPLACED, Diagnosis(Category.SUPERSEDED, "x")), Ending.CANCELLED),
    "queued too long": (outcome(Phase.QUEUED, Diagnosis(Category.QUEUED_TOO_LONG, "x")), Ending.GAVE_UP),
    "no answer": (outcome(Phase.RUNNING, Diagnosis(Category.UNREACHABLE, "x")), Ending.UNREACHABLE),
}


@pytest.mark.parametrize(("value", "ending"), ENDINGS.values(), ids=ENDINGS.keys())
def test_ending(value: Outcome, ending: Ending) -> None:
    assert value.ending is ending
