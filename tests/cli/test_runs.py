"""``run``, ``submit`` and ``wait``: exit codes, what is printed where, and what a key means."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.errors import Forbidden, Unreachable
from trainer_ops.testing.memory import MemoryBackend, Script
from trainer_ops.testing.training import Training

Cli = Callable[..., Any]

RUN = ("run", "--runtime", "torch-distributed", "--nodes", "2")
SLEEP = ("--", "sleep", "1")
FAILS: Script = (
    (0, Training.pending),
    (1, Training.running),
    (2, lambda t: t.say("Traceback (most recent call last):", "FileNotFoundError: /data/train.csv", node=1)),
    (3, lambda t: t.fail(exit_code=3, node=1)),
)
FOREVER: Script = ((0, Training.pending), (1, Training.running))
REPORTS: Script = (
    (0, Training.pending),
    (1, Training.running),
    (2, lambda t: t.say("round 1", "round 2")),
    (10, lambda t: t.progress(40, eta_seconds=12, metrics={"loss": 0.5})),
    (20, lambda t: t.progress(45, eta_seconds=12, metrics={"loss": 0.4})),
    (30, lambda t: t.complete({"metrics": {"accuracy": 0.951}, "model_uri": "file:///m.json"})),
)

TRAINJOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: digits}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {numNodes: 2, command: [sleep, "1"]}
"""


@pytest.fixture
def trainjob(tmp_path: Path) -> str:
    path = tmp_path / "trainjob.yaml"
    path.write_text(TRAINJOB)
    return str(path)


def test_trained_is_0_and_every_state_and_line_is_a_line(
    cli: Cli, memory_backend: MemoryBackend, trainjob: str
) -> None:
    memory_backend.script("*", REPORTS)
    ran = cli("run", "-f", trainjob)
    assert ran.code == 0
    assert ran.err == ""
    assert ran.out.splitlines() == [
        "digits  starting    0:00  node-0: preparing the container",
        "digits  running     0:01  2 nodes",
        "[node-0] round 1",
        "[node-0] round 2",
        "[node-1] round 1",
        "[node-1] round 2",
        "digits  running     0:10  ━━━━━━━━━━━━──────────────────   40 %  about 12 s left   loss 0.5",
        "✔ digits trained in 0:29 on 2 nodes   accuracy 0.951   model file:///m.json",
    ]


def test_failed_is_1_and_explains_itself(cli: Cli, memory_backend: MemoryBackend) -> None:
    memory_backend.script("*", FAILS)
    ran = cli(*RUN, "--name", "digits", "--key", "k", "--env", "API_TOKEN=s3cret", *SLEEP)
    name = memory_backend.list()[0]["metadata"]["name"]
    assert ran.code == 1
    lines = ran.out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("✘"))
    assert lines[start] == f"✘ {name} failed after 0:02 (exit_code)"
    assert "exit code 3 on node-1" in lines[start + 1]
    assert "  why     " in ran.out
    assert "FileNotFoundError: /data/train.csv" in "\n".join(lines[start:])
    again = "trainer-ops run --runtime torch-distributed --nodes 2 --name digits --key k --env API_TOKEN -- sleep 1"
    assert f"  again   {again}" in lines
    assert f"  logs    trainer-ops logs {name} --node 1" in lines
    assert "s3cret" not in ran.out + ran.err


@pytest.mark.parametrize("limit", ["--wait-timeout=5s", "--startup-timeout=5s", "--queue-timeout=5s"])
def test_gave_up_is_3_and_leaves_the_training_alone(cli: Cli, memory_backend: MemoryBackend, limit: str) -> None:
    stuck: dict[str, Script] = {
        "--wait-timeout=5s": FOREVER,
        "--startup-timeout=5s": ((0, Training.image_pull_error),),
        "--queue-timeout=5s": ((0, Training.queued),),
    }
    memory_backend.script("*", stuck[limit])
    ran = cli(*RUN, limit, *SLEEP)
    name = memory_backend.list()[0]["metadata"]["name"]
    assert ran.code == 3
    assert f"■ gave up waiting for {name} after " in ran.out
    assert f"  again   trainer-ops wait {name}\n" in ran.out
    assert f"  stop    trainer-ops cancel {name}\n" in ran.out
    assert memory_backend.get(name) is not None


def test_deleted_by_somebody_is_4(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    memory_backend.clock.after(5, lambda: memory_backend.delete("digits"))
    memory_backend.script("*", FOREVER)
    ran = cli("run", "-f", trainjob)
    assert ran.code == 4
    assert "✘ digits was cancelled after " in ran.out


def test_a_target_that_goes_away_is_5(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    memory_backend.script("*", FOREVER)
    memory_backend.clock.after(5, lambda: memory_backend.faults.fail("*", Unreachable("connection reset")))
    ran = cli("run", "-f", trainjob, "--unreachable-timeout", "1m")
    assert ran.code == 5
    assert "· no answer from memory://memory: connection reset; trying again" in ran.out
    assert "■ lost sight of digits after " in ran.out
    assert "  again   trainer-ops wait digits" in ran.out


def test_a_target_that_is_not_there_is_5_and_says_that_it_tries(cli: Cli, memory_backend: MemoryBackend) -> None:
    memory_backend.faults.fail("*", Unreachable("connection refused"))
    ran = cli(*RUN, "--unreachable-timeout", "1m", *SLEEP)
    assert (ran.code, ran.err) == (5, "connection refused\n")
    assert ran.out == "· no answer from memory://memory: connection refused; trying again until it answers\n"


INVALID = {
    "no runtime": (("run",), "invalid request: --runtime: is missing, and there is no --file. Name a runtime"),
    "an unknown runtime": (
        ("run", "--runtime", "torch-distribted"),
        ('runtime not found: "torch-distribted" on memory://memory. Did you mean torch-distributed? Known: '),
    ),
    "no nodes": ((*RUN[:-1], "0"), "invalid request: --nodes: 0 is not at least 1. Give 1 or more"),
    "a script that is not there": ((*RUN, "--", "no.py"), "invalid request: -- no.py: there is no such file here."),
    "a file that is not there": (("run", "-f", "no.yaml"), "unreadable input: no.yaml: there is no such file."),
    "a time that is none": ((*RUN, "--wait-timeout", "x"), 'invalid request: --wait-timeout: "x" is not a length of'),
    "an output that is none": ((*RUN, "-o", "xml"), 'invalid request: --output: "xml" is none of text, json.'),
    "a target that is none": (("list", "--target", "nowhere"), 'invalid request: target: "nowhere" is no target.'),
    "a name that is none": (("wait", "nobody"), 'not found: name: no TrainJob "nobody" on memory://memory.'),
    "an unknown option": ((*RUN, "--rounds", "3"), "Usage: trainer-ops run"),
    "an unknown command": (("tarin",), "Usage: trainer-ops"),
    "a number that is none": (
        (*RUN[:-1], "two"),
        "invalid request: --nodes: is not given a whole number. Write it like",
    ),
}


@pytest.mark.parametrize(("argv", "text"), INVALID.values(), ids=INVALID.keys())
def test_invalid_input_is_2_in_one_paragraph_and_creates_nothing(
    cli: Cli, memory_backend: MemoryBackend, argv: tuple[str, ...], text: str
) -> None:
    ran = cli(*argv)
    assert ran.code == 2
    assert ran.err.startswith(text)
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert ("create", "") not in [(method, "") for method, _ in memory_backend.calls]


def test_an_unknown_option_says_where_the_scripts_own_go(cli: Cli) -> None:
    assert "goes after a --: … -- train.py --rounds 20" in cli(*RUN, "--rounds", "3").err


WRONG = {
    "no nodes": (("numNodes: 2", "numNodes: 0"), "spec.trainer.numNodes: 0 is not at least 1."),
    "a field that is none": (("numNodes", "nodes"), "spec.trainer.nodes: is no field of spec.trainer."),
    "a v1 job": (("kind: TrainJob", "kind: PyTorchJob"), "kind: PyTorchJob is a job of the v1 operators"),
    "no runtime": (("{name: torch-distributed}", "{}"), "spec.runtimeRef.name: is missing."),
    "a spec that is a list": (("spec:", "spec: []\nother:"), "spec: [] is not a mapping."),
    "a name that is too long": (("digits", "x" * 70), "metadata.name: "),
}


@pytest.mark.parametrize(("change", "text"), WRONG.values(), ids=WRONG.keys())
def test_an_invalid_manifest_names_the_field_and_creates_nothing(
    cli: Cli, memory_backend: MemoryBackend, trainjob: str, change: tuple[str, str], text: str
) -> None:
    Path(trainjob).write_text(TRAINJOB.replace(*change))
    ran = cli("run", "-f", trainjob)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("invalid TrainJob: ")
    assert text in ran.err
    assert memory_backend.list() == []


def test_what_the_target_forbids_is_2(cli: Cli, memory_backend: MemoryBackend) -> None:
    memory_backend.faults.fail("create", Forbidden("not allowed: creating trainjobs", remedy="Ask for the Role"))
    ran = cli(*RUN, *SLEEP)
    assert (ran.code, ran.err) == (2, "not allowed: creating trainjobs. Ask for the Role\n")


def test_a_fault_says_how_to_get_its_traceback(
    cli: Cli, memory_backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_backend, "list", lambda labels=None: 1 / 0)
    ran = cli("list")
    assert ran.code == 70
    assert ran.err.startswith("a fault in trainer-ops: ZeroDivisionError: division by zero. ")
    assert "TRAINER_OPS_DEBUG=1" in ran.err
    assert "Traceback" not in ran.err
    monkeypatch.setenv("TRAINER_OPS_DEBUG", "1")
    assert "Traceback (most recent call last)" in cli("list").err


def test_json_is_alone_on_stdout(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    memory_backend.script("*", REPORTS)
    ran = cli("run", "-f", trainjob, "--output", "json")
    outcome = json.loads(ran.out)
    assert ran.code == 0
    assert set(outcome) == {
        "name", "namespace", "uid", "target", "phase", "attempt", "started_at", "finished_at", "metrics", "model_uri",
        "artifacts", "progress", "diagnosis", "seen_at", "num_nodes", "gpus", "phases", "nodes", "events",
    }  # fmt: skip
    assert (outcome["name"], outcome["phase"], outcome["metrics"]) == ("digits", "succeeded", {"accuracy": 0.951})
    assert "[node-0] round 1" in ran.err


def test_json_of_a_failure_has_its_diagnosis(cli: Cli, memory_backend: MemoryBackend) -> None:
    memory_backend.script("*", FAILS)
    ran = cli(*RUN, "-o", "json", *SLEEP)
    assert ran.code == 1
    assert json.loads(ran.out)["diagnosis"]["category"] == "exit_code"
    assert "✘" in ran.err


def test_quiet_says_only_how_it_ended(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    memory_backend.script("*", REPORTS)
    ran = cli("run", "-f", trainjob, "--quiet")
    assert ran.out == "✔ digits trained in 0:29 on 2 nodes   accuracy 0.951   model file:///m.json\n"


def test_quiet_failures_still_have_their_last_lines(cli: Cli, memory_backend: MemoryBackend) -> None:
    memory_backend.script("*", FAILS)
    assert "FileNotFoundError" in cli(*RUN, "--quiet", *SLEEP).out


def test_no_logs_shows_states_only(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    memory_backend.script("*", REPORTS)
    ran = cli("run", "-f", trainjob, "--no-logs")
    assert "running" in ran.out
    assert "round 1" not in ran.out


def test_what_is_printed_has_no_control_characters(cli: Cli, memory_backend: MemoryBackend) -> None:
    memory_backend.script(
        "*",
        (
            (0, Training.running),
            (1, lambda t: t.say("\x1b[31mred\x1b[0m", "10 %\r90 %", "\x1b]0;owned\x07", node=0)),
            (2, lambda t: t.complete()),
        ),
    )
    ran = cli(*RUN, *SLEEP)
    assert [c for c in ran.out if ord(c) < 32 and c != "\n"] == []
    assert "[node-0] red\n[node-0] 90 %\n" in ran.out


def test_without_a_key_every_run_is_its_own(cli: Cli, memory_backend: MemoryBackend) -> None:
    assert [cli(*RUN, *SLEEP).code for _ in range(2)] == [0, 0]
    assert len(memory_backend.list()) == 2


def test_the_same_key_answers_with_its_result(cli: Cli, memory_backend: MemoryBackend) -> None:
    first, again = (cli(*RUN, "--key", "nightly", "-o", "json", *SLEEP) for _ in range(2))
    assert json.loads(first.out)["uid"] == json.loads(again.out)["uid"]
    assert (again.code, len(memory_backend.list())) == (0, 1)
    assert "has trained before: this is its result. To train anew give another --key" in again.err


def test_the_same_key_adopts_what_trains(cli: Cli, memory_backend: MemoryBackend) -> None:
    memory_backend.script("*", REPORTS)
    assert cli("submit", *RUN[1:], "--key", "nightly", *SLEEP).code == 0
    ran = cli(*RUN, "--key", "nightly", *SLEEP)
    assert (ran.code, len(memory_backend.list())) == (0, 1)
    assert "is this run and is training already (attempt 1)" in ran.out


def test_the_same_key_tries_a_failed_one_anew(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    memory_backend.script("*", FAILS, times=1)
    assert cli("run", "-f", trainjob).code == 1
    ran = cli("run", "-f", trainjob)
    assert ran.code == 0
    assert "· attempt 2: the one before did not end well\n" in ran.out
    assert "✔ digits-2 trained" in ran.out


def test_other_code_under_a_key_that_trains_is_refused(cli: Cli, memory_backend: MemoryBackend) -> None:
    memory_backend.script("*", FOREVER)
    cli("submit", *RUN[1:], "--key", "nightly", *SLEEP)
    ran = cli(*RUN, "--key", "nightly", "--", "sleep", "2")
    assert ran.code == 2
    assert "is training for this key (cli: key=nightly) from another request than this one" in ran.err


def test_submit_prints_the_name_and_how_to_wait(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    ran = cli("submit", "-f", trainjob, "--target", memory_backend.target)
    assert (ran.code, ran.out) == (
        0,
        "digits submitted   wait: trainer-ops wait digits --target memory://memory\n",
    )


def test_submit_as_json(cli: Cli, trainjob: str) -> None:
    said = json.loads(cli("submit", "-f", trainjob, "-o", "json").out)
    assert set(said) == {"target", "namespace", "name", "uid", "attempt", "how", "superseded", "warnings"}
    assert (said["name"], said["attempt"], said["how"]) == ("digits", 1, "created")


def test_wait_comes_back_with_the_newest_lines_and_the_result(
    cli: Cli, memory_backend: MemoryBackend, trainjob: str
) -> None:
    talks: Script = (
        (0, Training.running),
        (1, lambda t: t.say(*(f"line {i}" for i in range(100)), node=0)),
        (30, Training.complete),
    )
    memory_backend.script("*", talks)
    cli("submit", "-f", trainjob)
    memory_backend.clock.advance(5)
    ran = cli("wait", "digits")
    assert ran.code == 0
    said = [line for line in ran.out.splitlines() if line.startswith("[")]
    assert said == [f"[node-0] line {i}" for i in range(90, 100)]


def test_wait_means_the_newest_attempt(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    memory_backend.script("*", FAILS, times=1)
    cli("run", "-f", trainjob)
    cli("submit", "-f", trainjob)
    assert "✔ digits-2 trained" in cli("wait", "digits").out


def test_wait_reuses_the_limits_of_the_submission(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    memory_backend.script("*", FOREVER)
    cli("submit", "-f", trainjob, "--wait-timeout", "10s")
    assert cli("wait", "digits").code == 3
    ran = cli("wait", "digits", "--wait-timeout", "90s")
    assert (ran.code, "wait_timeout=1:30" in ran.out) == (3, True)


def test_a_training_that_has_ended_has_its_failure_again(
    cli: Cli, memory_backend: MemoryBackend, trainjob: str
) -> None:
    memory_backend.script("*", FAILS)
    cli("run", "-f", trainjob)
    ran = cli("wait", "digits")
    assert ran.code == 1
    assert "exit code 3 on node-1" in ran.out


def test_stdin(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TRAINJOB.encode())))
    assert "✔ digits trained" in cli("run", "-f", "-").out


def test_ctrl_c_while_submitting_to_a_target_that_is_away(
    cli: Cli, memory_backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_backend.faults.fail("*", Unreachable("connection refused"))
    monkeypatch.setattr(memory_backend.clock, "sleep", lambda seconds, watch=None: signal.raise_signal(signal.SIGINT))
    ran = cli(*RUN, "--key", "k", *SLEEP)
    assert ran.code == 3
    assert "interrupted while submitting: there may be a training." in ran.out
    assert "  again   trainer-ops run --runtime torch-distributed --nodes 2 --key k -- sleep 1\n" in ran.out
    assert "  again   trainer-ops run --key " in cli(*RUN, *SLEEP).out


def test_ctrl_c_in_the_middle_of_a_submission_waits_for_its_end(
    cli: Cli, memory_backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = memory_backend.create

    def interrupted(manifest: dict[str, Any]) -> dict[str, Any]:
        signal.raise_signal(signal.SIGTERM)
        return create(manifest)

    monkeypatch.setattr(memory_backend, "create", interrupted)
    ran = cli(*RUN, *SLEEP)
    (job,) = memory_backend.list()
    assert ran.code == 3
    assert f"detached: {job['metadata']['name']} goes on training." in ran.out


def test_ctrl_c_while_waiting_detaches(
    cli: Cli, memory_backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch, trainjob: str
) -> None:
    monkeypatch.setattr(memory_backend.clock, "sleep", lambda seconds, watch=None: signal.raise_signal(signal.SIGINT))
    ran = cli("run", "-f", trainjob, "--target", memory_backend.target)
    assert ran.code == 3
    assert ran.out.endswith(
        "detached: digits goes on training.\n"
        "  again   trainer-ops wait digits --target memory://memory\n"
        "  stop    trainer-ops cancel digits --target memory://memory\n"
    )


def test_a_failure_after_coming_back_is_explained_by_what_was_said_before(
    cli: Cli, memory_backend: MemoryBackend, trainjob: str
) -> None:
    said = [f"line {i}" for i in range(30)]
    memory_backend.script(
        "*", ((0, Training.running), (1, lambda t: t.say(*said, node=1)), (10, lambda t: t.fail(exit_code=3, node=1)))
    )
    cli("submit", "-f", trainjob)
    memory_backend.clock.advance(5)
    ran = cli("wait", "digits", "-o", "json")
    assert "line 29" in "\n".join(json.loads(ran.out)["diagnosis"]["evidence"])


def test_a_finished_training_is_not_told_again(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    memory_backend.script("*", REPORTS)
    cli("run", "-f", trainjob)
    assert cli("wait", "digits").out.splitlines() == [
        "✔ digits trained in 0:29 on 2 nodes   accuracy 0.951   model file:///m.json"
    ]
