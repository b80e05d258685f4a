"""The commands that look at a training or change it, in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.testing.memory import MemoryBackend, Script
from trainer_ops.testing.training import Training

Cli = Callable[..., Any]

FOREVER: Script = (
    (0, Training.pending),
    (1, Training.running),
    (2, lambda t: t.say("zero", node=0)),
    (2, lambda t: t.say("one", "two", node=1)),
)
FAILS: Script = ((0, Training.running), (1, lambda t: t.say("boom")), (2, lambda t: t.fail(exit_code=3, node=1)))

TRAINJOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: digits}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {numNodes: 2, image: example.com/train:1, command: [sleep, "1"]}
"""

STATUS_FIELDS = {
    "name", "namespace", "uid", "target", "phase", "reason", "detail", "finished", "attempt", "run_key", "identity",
    "runtime", "num_nodes", "queue", "created_at", "started_at", "finished_at", "percentage", "eta_seconds", "metrics",
}  # fmt: skip


@pytest.fixture
def trainjob(tmp_path: Path) -> str:
    path = tmp_path / "trainjob.yaml"
    path.write_text(TRAINJOB)
    return str(path)


@pytest.fixture
def running(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> str:
    memory_backend.script("*", FOREVER)
    assert cli("submit", "-f", trainjob).code == 0
    memory_backend.clock.advance(5)
    return "digits"


def test_nothing_to_list(cli: Cli) -> None:
    assert cli("list").out == "no trainings on memory://memory   a first one: trainer-ops demo\n"


def test_status_without_a_name_is_a_table(cli: Cli, running: str) -> None:
    assert cli("status").out.splitlines() == [
        "NAME    STATE    NODES  AGE  TOOK",
        "digits  running      2  5 s  0:04",
    ]


def test_status_of_one_shows_its_nodes(cli: Cli, running: str) -> None:
    lines = cli("status", running).out.splitlines()
    assert lines[0] == "digits  running     0:05  2 nodes"
    assert [line.split() for line in lines[-2:]] == [["node-0", "running", "0"], ["node-1", "running", "0"]]


def test_status_as_json(cli: Cli, running: str) -> None:
    said = json.loads(cli("status", running, "-o", "json").out)
    assert set(said) == {*STATUS_FIELDS, "nodes"}
    assert (said["phase"], said["finished"], said["num_nodes"]) == ("running", False, 2)
    assert said["nodes"][0] == {"node": "node-0", "state": "running", "restarts": 0, "exit_code": None, "why": ""}


def test_list_as_json(cli: Cli, running: str) -> None:
    said = json.loads(cli("list", "-o", "json").out)
    assert [set(one) for one in said["trainings"]] == [STATUS_FIELDS]


def test_list_shows_the_newest_attempt_and_all_with_all(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    memory_backend.script("*", FAILS, times=1)
    cli("run", "-f", trainjob)
    cli("run", "-f", trainjob)
    names = [[line.split()[0] for line in cli(*argv).out.splitlines()[1:]] for argv in (("list",), ("list", "--all"))]
    assert names == [["digits-2"], ["digits-2", "digits"]]
    assert "exit code 3 on node-1" in cli("list", "--all").out


def test_list_wide_has_runtime_attempt_and_identity(cli: Cli, running: str) -> None:
    header, row = cli("list", "-o", "wide").out.splitlines()
    assert header.split() == ["NAME", "STATE", "NODES", "AGE", "TOOK", "RUNTIME", "ATTEMPT", "QUEUE", "RUN"]
    assert "torch-distributed  1" in row
    assert "cli: key=digits" in row


LOGS = {
    "all": ((), ["[node-0] zero", "[node-1] one", "[node-1] two"]),
    "one node by its number": (("--node", "1"), ["[node-1] one", "[node-1] two"]),
    "one node by its name": (("--node", "node-0"), ["[node-0] zero"]),
    "the last lines": (("--tail", "1"), ["[node-0] zero", "[node-1] two"]),
}


@pytest.mark.parametrize(("argv", "wanted"), LOGS.values(), ids=LOGS.keys())
def test_logs(cli: Cli, running: str, argv: tuple[str, ...], wanted: list[str]) -> None:
    ran = cli("logs", running, *argv)
    assert (ran.code, ran.out.splitlines()) == (0, wanted)


def test_logs_of_a_node_that_is_not_there(cli: Cli, running: str) -> None:
    ran = cli("logs", running, "--node", "7")
    assert ran.code == 2
    assert 'digits has no node "node-7". Its nodes: node-0, node-1' in ran.err


def test_logs_follow_to_the_end(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    later = (*FOREVER, (20, lambda t: t.say("last", node=0)), (21, Training.complete))
    memory_backend.script("*", later)
    cli("submit", "-f", trainjob)
    assert "[node-0] last" in cli("logs", "-f", "digits").out


def test_logs_mean_the_newest_attempt(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    memory_backend.script("*", FAILS, times=1)
    cli("run", "-f", trainjob)
    memory_backend.script("*", FOREVER)
    cli("submit", "-f", trainjob)
    memory_backend.clock.advance(5)
    assert cli("logs", "digits").out.splitlines() == ["[node-0] zero", "[node-1] one", "[node-1] two"]


def test_cancel(cli: Cli, memory_backend: MemoryBackend, running: str) -> None:
    ran = cli("cancel", running)
    assert (ran.code, ran.out) == (0, "digits cancelled\n")
    assert memory_backend.list() == []


def test_cancel_without_waiting_says_that_processes_still_end(cli: Cli, running: str) -> None:
    assert cli("cancel", running, "--wait", "0").out == "digits cancelled; its processes still end (grace period)\n"


def test_cancel_as_json(cli: Cli, running: str) -> None:
    said = json.loads(cli("cancel", running, "-o", "json").out)
    assert set(said) == {"target", "namespace", "name", "uid", "how", "ended"}
    assert (said["how"], said["ended"]) == ("deleted", True)


def test_cancel_what_has_ended(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    cli("run", "-f", trainjob)
    ran = cli("cancel", "digits")
    assert (ran.code, ran.out) == (0, "digits had ended already: nothing to cancel\n")


def test_cancel_with_a_policy_that_is_none(cli: Cli, running: str) -> None:
    ran = cli("cancel", running, "--policy", "maybe")
    assert (ran.code, ran.err) == (
        2,
        'invalid request: --policy: "maybe" is none of delete, suspend. Give delete, or leave it out\n',
    )


def test_suspend_and_resume(cli: Cli, memory_backend: MemoryBackend, running: str) -> None:
    said = cli("suspend", running).out
    assert said == "digits is suspended   resume it: trainer-ops resume digits\n"
    assert json.loads(cli("status", running, "-o", "json").out)["phase"] == "suspended"
    assert cli("resume", running).out == "digits goes on   wait: trainer-ops wait digits\n"
    assert json.loads(cli("suspend", running, "-o", "json").out)["suspended"] is True


@pytest.mark.parametrize("verb", ["suspend", "resume"])
def test_what_has_ended_is_neither_suspended_nor_resumed(
    cli: Cli, memory_backend: MemoryBackend, trainjob: str, verb: str
) -> None:
    cli("run", "-f", trainjob)
    ran = cli(verb, "digits")
    assert (ran.code, ran.err) == (
        2,
        f"cannot {verb}: name: digits has succeeded already. See it: trainer-ops status digits\n",
    )


@pytest.mark.parametrize("verb", ["status", "logs", "cancel", "suspend", "resume", "wait"])
def test_a_name_that_is_nearly_right(cli: Cli, running: str, verb: str) -> None:
    ran = cli(verb, "digit")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == 'not found: name: no TrainJob "digit" on memory://memory. Did you mean digits?\n'


def test_validate_says_nothing_wrong(cli: Cli, trainjob: str) -> None:
    ran = cli("validate", trainjob)
    assert (ran.code, ran.out) == (0, f"✔ {trainjob}: TrainJob digits: nothing to say\n")


def test_validate_says_all_that_is_wrong_of_every_document(cli: Cli, trainjob: str) -> None:
    wrong = TRAINJOB.replace("numNodes: 2", "numNodes: 0, replicas: 3").replace("digits", "Digits")
    Path(trainjob).write_text(f"{TRAINJOB}---\n{wrong}")
    ran = cli("validate", trainjob)
    lines = ran.out.splitlines()
    assert ran.code == 2
    assert lines[0] == f"✔ {trainjob}: TrainJob digits, document 1 (line 1): nothing to say"
    assert lines[1].startswith(f"✘ {trainjob}: TrainJob Digits, document 2 (line 8): 3 errors")
    said = "\n".join(lines[2:])
    for path in ("spec.trainer.numNodes", "spec.trainer.replicas", "metadata.name"):
        assert f"  invalid TrainJob: {path}: " in said


def test_validate_goes_on_after_a_file_it_cannot_read(cli: Cli, trainjob: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("a:\n\tb: 1\n")
    ran = cli("validate", str(bad), trainjob)
    assert ran.code == 2
    assert ran.out.splitlines() == [
        f"✘ unreadable input: {bad}: line 2, column 1: a tab where YAML wants spaces. Indent with spaces",
        f"✔ {trainjob}: TrainJob digits: nothing to say",
    ]


def test_validate_as_json(cli: Cli, trainjob: str) -> None:
    Path(trainjob).write_text(TRAINJOB.replace("numNodes: 2", "numNodes: 0"))
    ran = cli("validate", trainjob, "-o", "json")
    (document,) = json.loads(ran.out)["documents"]
    assert ran.code == 2
    assert (document["valid"], document["runtime_known"], document["unreadable"]) == (False, True, None)
    assert set(document["findings"][0]) == {"rule", "severity", "path", "reason", "remedy"}


def test_validate_asks_nobody_without_a_target(cli: Cli, memory_backend: MemoryBackend, trainjob: str) -> None:
    cli("validate", trainjob)
    assert memory_backend.calls == []


def test_validate_against_a_target_that_lacks_the_runtime(
    cli: Cli, memory_backend: MemoryBackend, trainjob: str
) -> None:
    Path(trainjob).write_text(TRAINJOB.replace("torch-distributed", "nobodys"))
    ran = cli("validate", trainjob, "--target", memory_backend.target)
    assert ran.code == 0
    assert "  not checked against its runtime: nobodys is not known here; give --target" in ran.out


def test_runtimes(cli: Cli) -> None:
    header, *rows = cli("runtimes").out.splitlines()
    assert header.split() == ["NAME", "KIND", "FRAMEWORK", "NODES", "IMAGE"]
    assert "torch-distributed" in [row.split()[0] for row in rows]


def test_runtimes_as_json(cli: Cli) -> None:
    said = json.loads(cli("runtimes", "-o", "json").out)["runtimes"]
    assert set(said[0]) == {"name", "kind", "policy", "framework", "deprecated", "num_nodes", "image"}


def test_one_runtime(cli: Cli) -> None:
    said = cli("runtimes", "torch-distributed").out
    assert said.splitlines()[1] == "  policy    torch, framework torch"
    assert "  env       PET_NNODES, " in said


def test_one_runtime_for_programs_and_whole(cli: Cli) -> None:
    said = json.loads(cli("runtimes", "torch-distributed", "-o", "json").out)
    assert (said["name"], said["runtime"]["metadata"]["name"]) == ("torch-distributed", "torch-distributed")
    assert cli("runtimes", "torch-distributed", "-o", "yaml").out.startswith("apiVersion: ")
    assert cli("runtimes", "-o", "yaml").code == 2


def test_a_runtime_that_is_nearly_right(cli: Cli) -> None:
    ran = cli("runtimes", "torch-distribted")
    assert ran.code == 2
    assert "Did you mean torch-distributed?" in ran.err
