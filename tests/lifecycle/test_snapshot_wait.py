"""What a look at a snapshot's Job makes of the wait: go on, done, start again, or an error with its remedy."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from trainer_ops.build.snapshot_job import SnapshotAsk
from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.lifecycle.snapshot_wait import Answer, Finished, Gone, Look, SnapshotWait, judge
from trainer_ops.model.observed_pod import Terminated
from trainer_ops.status.stepjob import StepState

ASK = SnapshotAsk(uri="hf://datasets/a/b", store="pvc://data", image="img:1", active_deadline_seconds=60)
WAIT = SnapshotWait("kubernetes://c/n", "n", "snapshot-b-1", "uid", 1, ASK, began_at=1000.0, answered_at=1000.0)
RUNNING = StepState("running")
CONFIG = StepState("waiting", "CreateContainerConfigError", 'secret "s" not found', patience=60.0)
IMAGE = StepState("waiting", "ErrImagePull", 'image "i" cannot be pulled: not found', patience=300.0)
FULL = StepState("waiting", "Unschedulable", "0/2 nodes are available")


def failed(message: str = "", code: int = 1, reason: str = "Error", *, why: str = "BackoffLimitExceeded") -> StepState:
    return StepState("failed", why, f"exit code {code}", message=message, exit=Terminated(code, reason), tries=3)


def told(**error: Any) -> str:
    return json.dumps({"error": {"field": "", "reason": "", "remedy": "", "transient": False, **error}})


def error_of(state: StepState, wait: SnapshotWait = WAIT) -> Exception:
    _, step = judge(wait, state, 1010.0)
    assert isinstance(step, Answer)
    return step.error


# (state, what is said)
FAILED: dict[str, tuple[StepState, str]] = {
    "the input is to blame": (
        failed(told(field="include", reason="*.x matches none", remedy="There are: a.")),
        "invalid request: include: *.x matches none. There are: a.",
    ),
    "the source is": (failed(told(reason="gated", remedy="Ask for access")), "gated. Ask for access"),
    "lines before the answer": (
        failed(f"Traceback: x\nsomething {{\n{told(reason='gated', remedy='Ask')}"),
        "gated. Ask",
    ),
    "memory": (
        failed(told(reason="earlier"), 137, "OOMKilled"),
        (
            "the snapshot's Job snapshot-b-1 ran out of memory, in its last of 3 tries. Give it more: "
            'resources={"limits": {"memory": "4Gi"}}; what was fetched is kept'
        ),
    ),
    "time": (
        failed(told(reason="no answer"), 75, why="DeadlineExceeded"),
        (
            "the snapshot's Job snapshot-b-1 was not done within 60 s (active_deadline_seconds): no answer. "
            "Give it more time; what was fetched is kept and gone on from"
        ),
    ),
    "another image": (
        failed("/usr/bin/python3: No module named trainer_ops", 1),
        (
            "the snapshot's Job snapshot-b-1 failed: exit code 1; its last words: /usr/bin/python3: No module named "
            "trainer_ops. Give an image that has trainer-ops[initializers] of this version: img:1 is the one used"
        ),
    ),
    "nobody knows": (
        replace(failed(), exit=None, detail="Evicted: the node was low on memory"),
        (
            "the snapshot's Job snapshot-b-1 failed: Evicted: the node was low on memory. "
            "Try again: what was fetched is kept"
        ),
    ),
}


@pytest.mark.parametrize(("state", "text"), FAILED.values(), ids=FAILED.keys())
def test_failures_say_what_to_do(state: StepState, text: str) -> None:
    assert str(error_of(state)) == text


def test_errors_are_of_the_kind_that_they_were_in_the_pod() -> None:
    assert isinstance(error_of(failed(told(field="uri", reason="r"))), InvalidRequest)
    passing = error_of(failed(told(reason="r", transient=True)))
    assert isinstance(passing, SnapshotError)
    assert passing.transient


def test_an_answer() -> None:
    wait, step = judge(WAIT, StepState("succeeded", message='{"key": "k"}'), 1010.0)
    assert step == Finished({"key": "k"})
    assert wait.answered_at == 1010.0


@pytest.mark.parametrize("message", ["", "no JSON", "[1]"])
def test_a_job_that_is_complete_but_says_nothing_is_started_again(message: str) -> None:
    assert judge(WAIT, StepState("succeeded", message=message), 1010.0)[1] == Gone()


def test_one_that_was_deleted_is_gone() -> None:
    assert judge(WAIT, StepState("gone", "Deleted"), 1010.0)[1] == Gone()


def test_damage_that_was_found_is_an_answer_and_no_failure() -> None:
    verify = replace(WAIT, ask=replace(ASK, verb="verify"))
    found = failed(json.dumps({"problems": {"k": ["a is missing"]}}))
    assert judge(verify, found, 1010.0)[1] == Finished({"problems": {"k": ["a is missing"]}})
    assert isinstance(judge(WAIT, found, 1010.0)[1], Answer)


def test_what_a_person_must_correct_is_given_a_minute() -> None:
    wait, step = judge(WAIT, CONFIG, 1010.0)
    assert isinstance(step, Look)
    wait, step = judge(wait, CONFIG, 1069.9)
    assert isinstance(step, Look)
    _, step = judge(wait, CONFIG, 1070.0)
    assert isinstance(step, Answer)
    assert step.delete
    assert str(step.error) == (
        'the snapshot\'s Job snapshot-b-1 cannot start: secret "s" not found. Create it (kubectl create secret generic '
        "s -n n --from-literal=HF_TOKEN=…), or correct env"
    )


S3 = SnapshotAsk(uri="s3://b/x", store="s3://c/y", secret_ref="s")
OF_A_KEY = {
    "HF_TOKEN": {"valueFrom": {"secretKeyRef": {"name": "one", "key": "k"}}},
    "A": {"secretKeyRef": {"name": "two"}},
}
# (what is asked for, what the kubelet says, the remedy)
ABSENT: dict[str, tuple[SnapshotAsk, str, str]] = {
    "the Secret": (
        S3,
        'secret "s" not found',
        (
            "Create it (kubectl create secret generic s -n n --from-literal=AWS_ACCESS_KEY_ID=… "
            "--from-literal=AWS_SECRET_ACCESS_KEY=…), or correct secret_ref"
        ),
    ),
    "one with a file": (
        SnapshotAsk(uri="gs://b/x", secret_ref="s"),
        'secret "s" not found',
        (
            "Create it (kubectl create secret generic s -n n --from-file=GOOGLE_APPLICATION_CREDENTIALS=…), "
            "or correct secret_ref"
        ),
    ),
    "one whose keys nobody knows": (
        SnapshotAsk(uri="pvc://b/x", secret_ref="s"),
        'secret "s" not found',
        "Create it (kubectl create secret generic s -n n --from-literal=KEY=…), or correct secret_ref",
    ),
    "a key of it": (
        SnapshotAsk(uri="hf://a/b", env=OF_A_KEY),
        "couldn't find key k in Secret n/one",
        "Add the key k to Secret one, or correct env",
    ),
}


@pytest.mark.parametrize(("ask", "detail", "remedy"), ABSENT.values(), ids=ABSENT.keys())
def test_a_secret_that_is_not_as_it_should_be(ask: SnapshotAsk, detail: str, remedy: str) -> None:
    wait, _ = judge(replace(WAIT, ask=ask), replace(CONFIG, detail=detail), 1000.0)
    _, step = judge(wait, replace(CONFIG, detail=detail), 1060.0)
    assert isinstance(step, Answer)
    assert step.error.remedy == remedy


# (what is asked for, what is wrong with the credentials, what is said besides the program's words)
WHOSE: dict[str, tuple[SnapshotAsk, str, str]] = {
    "refused": (S3, "refused", "The Job was given Secret s of namespace n"),
    "missing": (S3, "missing", "The Job was given Secret s of namespace n, whose keys must have these names"),
    "of single keys": (replace(ASK, env=OF_A_KEY), "refused", "The Job was given Secrets one and two of namespace n"),
    "missing, no Secret": (ASK, "missing", "The Job was given no Secret: name one of namespace n with secret_ref"),
    "refused, no Secret": (ASK, "refused", ""),  # the pod's own identity
    "of the store": (
        replace(S3, uri="pvc://a/b", secret_ref=""),
        "missing",
        "The Job was given no Secret: name one of namespace n with secret_ref",
    ),
    "no Secret can help": (SnapshotAsk(uri="pvc://b/x"), "missing", ""),
    "it is not them": (S3, "", ""),
}


@pytest.mark.parametrize(("ask", "trouble", "hint"), WHOSE.values(), ids=WHOSE.keys())
def test_credentials_are_told_with_the_secret_that_they_are_of(ask: SnapshotAsk, trouble: str, hint: str) -> None:
    said = failed(told(reason="No.", remedy="Give others.", credentials=trouble))
    error = error_of(said, replace(WAIT, ask=ask))
    assert isinstance(error, SnapshotError)
    assert (error.message, error.credentials) == ("No.", trouble)
    assert error.remedy == (f"Give others. {hint}" if hint else "Give others.")


# (what the pod wrote, what is shown while the next try is waited for)
TRIES: dict[str, tuple[str, str]] = {
    "its reason": (told(reason="no answer\nfrom the hub", transient=True), "no answer from the hub; it is tried again"),
    "a long one": (told(reason="x" * 300), "x" * 199 + "…; it is tried again"),
    "killed": ("", "exit code 75; it is tried again"),
    "no reason": (told(), "exit code 75; it is tried again"),
}


@pytest.mark.parametrize(("message", "detail"), TRIES.values(), ids=TRIES.keys())
def test_a_try_that_failed_is_told_with_its_reason(message: str, detail: str) -> None:
    again = StepState("waiting", "Retrying", "exit code 75; it is tried again", message)
    wait, step = judge(replace(WAIT, wait_until=1100.0), again, 1010.0)
    assert (wait.detail, isinstance(step, Look)) == (detail, True)
    _, step = judge(wait, again, 1100.0)
    assert isinstance(step, Answer)
    assert f"(wait_timeout): {detail}. It goes on" in str(step.error)


def test_a_trouble_that_passes_is_forgotten() -> None:
    wait, _ = judge(WAIT, CONFIG, 1010.0)
    wait, _ = judge(wait, FULL, 1060.0)
    wait, step = judge(wait, CONFIG, 1100.0)
    assert isinstance(step, Look)
    assert isinstance(judge(wait, CONFIG, 1160.0)[1], Answer)


def test_both_names_of_a_missing_image_are_one_trouble() -> None:
    wait, _ = judge(WAIT, IMAGE, 1000.0)
    wait, step = judge(wait, replace(IMAGE, reason="ImagePullBackOff"), 1200.0)
    assert isinstance(step, Look)
    _, step = judge(wait, IMAGE, 1300.0)
    assert isinstance(step, Answer)
    assert "TRAINER_OPS_INITIALIZER_IMAGE" in str(step.error)


def test_one_that_does_not_start_in_time_is_taken_away() -> None:
    wait = replace(WAIT, start_until=1100.0)
    assert isinstance(judge(wait, FULL, 1099.0)[1], Look)
    _, step = judge(wait, FULL, 1100.0)
    assert isinstance(step, Answer)
    assert step.delete
    # Once it has run, a second try that has to wait is not late.
    started, _ = judge(wait, RUNNING, 1050.0)
    assert isinstance(judge(started, FULL, 1200.0)[1], Look)


def test_one_that_the_caller_has_no_more_patience_with_goes_on() -> None:
    wait = replace(WAIT, wait_until=1100.0)
    _, step = judge(wait, RUNNING, 1100.0)
    assert isinstance(step, Answer)
    assert not step.delete
    assert str(step.error) == (
        "the snapshot's Job snapshot-b-1 has not ended after 1:40 (wait_timeout). It goes on; asking again joins it. "
        "Give a longer wait_timeout, or none"
    )


PAUSES: dict[str, tuple[dict[str, Any], float, float]] = {
    "often at first": ({}, 1010.0, 1.0),
    "then less": ({}, 1031.0, 5.0),
    "not past a deadline": ({"wait_until": 1033.0}, 1031.0, 2.0),
    "nor spinning at it": ({"wait_until": 1031.01}, 1031.0, 0.1),
    "nor for one that is over": ({"start_until": 1000.0}, 1031.0, 5.0),
}


@pytest.mark.parametrize(("fields", "now", "seconds"), PAUSES.values(), ids=PAUSES.keys())
def test_pauses(fields: dict[str, Any], now: float, seconds: float) -> None:
    assert replace(WAIT, **fields).pause(now) == pytest.approx(seconds)


def test_it_crosses_processes() -> None:
    wait = replace(WAIT, wait_until=1100.0, position={"pod/uid/snapshot/0": "2026|1"}, joined=True, trouble="60")
    assert SnapshotWait.from_json(json.loads(json.dumps(wait.to_json()))) == wait
