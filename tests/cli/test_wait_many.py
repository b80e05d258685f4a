"""``wait -l``: many trainings, a table, and the worst exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.testing.memory import MemoryBackend

Cli = Callable[..., Any]

RESULT = {"metrics": {"accuracy": 0.9}}
SCRIPTS: dict[str, Any] = {
    "good-*": [(0, lambda t: t.running()), (5, lambda t: t.complete(RESULT))],
    "slow-*": [(0, lambda t: t.running()), (500, lambda t: t.complete(RESULT))],
    "bad-*": [(0, lambda t: t.running()), (3, lambda t: t.fail(exit_code=3))],
}


@pytest.fixture
def create(memory_backend: MemoryBackend) -> Callable[..., None]:
    for pattern, script in SCRIPTS.items():
        memory_backend.script(pattern, script)

    def many(*names: str) -> None:
        for name in names:
            spec = {"runtimeRef": {"name": "torch-distributed"}}
            memory_backend.create({"metadata": {"name": name, "labels": {"team": "a", "n": name}}, "spec": spec})

    return many


def test_all_that_train(cli: Cli, create: Any) -> None:
    create("good-a", "good-b")
    ran = cli("wait", "-l", "team=a")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["good-a", "running"], ["good-b", "running"]]
    assert lines[-3].split()[:4] == ["NAME", "STATE", "NODES", "AGE"]
    assert [line.split()[:2] for line in lines[-2:]] == [["good-a", "trained"], ["good-b", "trained"]]
    assert all("accuracy 0.9" in line for line in lines[-2:])


def test_one_that_fails(cli: Cli, create: Any) -> None:
    create("good-a", "bad-a", "slow-a")
    ran = cli("wait", "-l", "team=a", "-q")
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["good-a", "trained"],
        ["bad-a", "failed"],
        ["slow-a", "trained"],
    ]
    assert "exit code 3 on node-0" in lines[2]
    assert lines[4] == "1 of 3 did not train   why: trainer-ops wait bad-a"


def test_any(cli: Cli, create: Any, memory_backend: MemoryBackend) -> None:
    create("bad-a", "good-a", "slow-a")
    begun = memory_backend.clock.now()
    assert cli("wait", "-l", "team=a", "--any").code == 0
    assert memory_backend.clock.now() < begun + 10


def test_any_of_none(cli: Cli, create: Any) -> None:
    create("bad-a", "bad-b")
    assert cli("wait", "-l", "team=a", "--any").code == 1


def test_limits_hold_for_each(cli: Cli, create: Any, memory_backend: MemoryBackend) -> None:
    create("good-a", "slow-a")
    ran = cli("wait", "-l", "team=a", "--wait-timeout", "60s")
    assert ran.code == 3
    assert len(memory_backend.list()) == 2


def test_the_worst_is_a_failure(cli: Cli, create: Any, memory_backend: MemoryBackend) -> None:
    create("bad-a", "slow-a", "slow-b")
    memory_backend.clock.after(10, lambda: memory_backend.delete("slow-b"))
    assert cli("wait", "-l", "team=a", "--wait-timeout", "60s").code == 1
    create("slow-b")
    memory_backend.clock.after(10, lambda: memory_backend.delete("slow-b"))
    assert cli("wait", "-l", "team=a,n=slow-b").code == 4


def test_json(cli: Cli, create: Any) -> None:
    create("good-a", "bad-a")
    ran = cli("wait", "-l", "team=a", "-o", "json")
    assert ran.code == 1
    outcomes = json.loads(ran.out)["trainings"]
    assert [(one["name"], one["phase"]) for one in outcomes] == [("good-a", "succeeded"), ("bad-a", "failed")]
    assert outcomes[1]["diagnosis"]["category"] == "exit_code"
    assert "did not train" in ran.err


def test_ctrl_c_detaches(cli: Cli, create: Any, memory_backend: MemoryBackend) -> None:
    import signal

    create("slow-a", "slow-b")
    memory_backend.clock.after(10, lambda: signal.raise_signal(signal.SIGINT))
    ran = cli("wait", "-l", "team=a")
    assert ran.code == 3
    assert "detached: 2 trainings go on." in ran.out
    assert "again   trainer-ops wait -l team=a" in ran.out
    assert len(memory_backend.list()) == 2


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "neither a name nor -l is given"),
        (["x", "-l", "a=b"], "a name and -l exclude each other"),
        (["x", "--any"], "a name and --any exclude each other"),
        (["-l", "team"], '"team" is not written as key=value'),
        (["-l", "team=nobody"], 'no TrainJob is meant by "team=nobody" on memory://memory'),
    ],
)
def test_what_makes_no_sense(argv: list[str], words: str, cli: Cli) -> None:
    ran = cli("wait", *argv)
    assert ran.code == 2
    assert words in ran.err
