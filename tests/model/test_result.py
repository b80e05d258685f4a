"""The result contract, as it is read: a termination message may be anything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainer_ops.model import keys
from trainer_ops.model.observed import ObservedPod
from trainer_ops.model.result import Result, parse_result, result_of

FULL = '{"metrics": {"accuracy": 0.95}, "model_uri": "s3://m", "artifacts": {"plot": "s3://p"}}'

PARSED = {
    "all parts": (FULL, Result({"accuracy": 0.95}, "s3://m", {"plot": "s3://p"})),
    "metrics alone": ('{"metrics": {"n": 3}}', Result({"n": 3.0})),
    "text that is a number": ('{"metrics": {"loss": "0.25"}}', Result({"loss": 0.25})),
    "text that is none": ('{"metrics": {"best": "epoch 3"}}', Result({"best": "epoch 3"})),
    "a truth is a number": ('{"metrics": {"converged": true}}', Result({"converged": 1.0})),
    "NaN as text": ('{"metrics": {"loss": "nan"}}', Result({"loss": "nan"})),
    "NaN as some writers spell it": ('{"metrics": {"loss": NaN}}', Result({"loss": "NaN"})),
    "infinity by overflow": ('{"metrics": {"loss": 1e999}}', Result({"loss": "1e999"})),
    "nested metrics are left out": ('{"metrics": {"a": 1, "b": [1], "c": null}}', Result({"a": 1.0})),
    "other keys are left out": ('{"metrics": {"a": 1}, "note": "x"}', Result({"a": 1.0})),
    "a part of the wrong shape is left out": ('{"metrics": [1], "model_uri": "m"}', Result({}, "m")),
    "model of the wrong shape is left out": ('{"metrics": {"a": 1}, "model_uri": 3}', Result({"a": 1.0})),
    "artifacts may nest": ('{"artifacts": {"a": {"b": [1, null]}}}', Result({}, None, {"a": {"b": [1, None]}})),
    "blanks around": (f"\n {FULL}  \n", Result({"accuracy": 0.95}, "s3://m", {"plot": "s3://p"})),
}


@pytest.mark.parametrize(("text", "expected"), PARSED.values(), ids=PARSED.keys())
def test_parsed(text: str, expected: Result) -> None:
    assert parse_result(text) == expected


NOT_A_RESULT = {
    "empty": "",
    "a log tail": "Traceback (most recent call last):\n  File ...",
    "cut by the kubelet": FULL[:40],
    "a list": "[1, 2]",
    "a number": "42",
    "a string": '"done"',
    "null": "null",
    "JSON of somebody else": '{"error": "boom"}',
    "nothing in it": '{"metrics": {}, "model_uri": null, "artifacts": {}}',
    "an empty model": '{"model_uri": ""}',
    "too deep": "[" * 4096,
    "too many digits": '{"metrics": {"a": ' + "9" * 5000 + "}}",
}


@pytest.mark.parametrize("text", NOT_A_RESULT.values(), ids=NOT_A_RESULT.keys())
def test_not_a_result(text: str) -> None:
    found = parse_result(text)
    # Python 3.10 reads integers of any length; what is no float then is text.
    assert found is None or all(isinstance(value, str) for value in found.metrics.values())


@pytest.mark.parametrize("text", [case[0] for case in PARSED.values()], ids=PARSED.keys())
def test_what_is_parsed_is_valid_json_again(text: str) -> None:
    found = parse_result(text)
    assert found is not None
    json.dumps([found.metrics, found.artifacts], allow_nan=False)


def pod(
    step: str, value: int | None, *, index: int = 0, attempt: int = 0, earlier: int | None = None, running: bool = False
) -> ObservedPod:
    """A pod whose main container left the metric ``value``, and in its run before that ``earlier``."""

    def ended(number: int | None) -> dict[str, Any]:
        message = "" if number is None else json.dumps({"metrics": {"v": number}})
        return {"terminated": {"exitCode": 0, "message": message}}

    status: dict[str, Any] = {"name": "node", "state": {"running": {}} if running else ended(value)}
    if earlier is not None:
        status["lastState"] = ended(earlier)
    labels = {
        keys.LABEL_REPLICATED_JOB: step,
        keys.COMPLETION_INDEX: str(index),
        keys.LABEL_RESTART_ATTEMPT: str(attempt),
    }
    return ObservedPod.from_raw(
        {"metadata": {"name": f"{step}-{index}", "labels": labels}, "status": {"containerStatuses": [status]}}
    )


CHOSEN: dict[str, tuple[list[ObservedPod], float | None]] = {
    "no pods": ([], None),
    "rank 0, not the others": ([pod("node", 1, index=1), pod("node", 2)], 2),
    "only another rank": ([pod("node", 1, index=1)], None),
    "the launcher before node-0": ([pod("node", 1), pod("launcher", 2)], 2),
    "node-0 where the launcher says nothing": ([pod("node", 1), pod("launcher", None)], 1),
    "the newest attempt": ([pod("node", 2, attempt=1), pod("node", 1)], 2),
    "not an older attempt's": ([pod("node", 1), pod("node", None, attempt=1)], None),
    "never an initializer": ([pod("dataset-initializer", 1)], None),
    "a step with another name": ([pod("chief", 1)], 1),
    "while it runs again: the run before": ([pod("node", None, earlier=1, running=True)], 1),
    "the last run, not the one before": ([pod("node", 2, earlier=1)], 2),
    "not the run before, when the last said nothing": ([pod("node", None, earlier=1)], None),
}


@pytest.mark.parametrize(("pods", "expected"), CHOSEN.values(), ids=CHOSEN.keys())
def test_result_of(pods: list[ObservedPod], expected: float | None) -> None:
    found = result_of(pods)
    assert (found.metrics["v"] if found else None) == expected
