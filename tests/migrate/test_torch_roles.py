"""Masters and Workers that are not the same pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.checked import checked, codes, env_of, fates, pytorch, trainer_of

A = {"command": ["python", "a.py"]}
SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
B = {"command": ["python", "b.py", "it's"]}


@pytest.mark.parametrize(
    ("master", "worker"),
    [
        pytest.param({**A, "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
                     {**A, "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}, id="order of env"),
        pytest.param({**A, "ports": [{"name": "pytorchjob-port", "containerPort": 23456}]}, A, id="v1's port"),
        pytest.param({"command": ["python"], "args": ["a.py"]}, A, id="command and args apart"),
        pytest.param({**A, "imagePullPolicy": "IfNotPresent"}, A, id="the default pull policy"),
        pytest.param({**A, "terminationMessagePath": "/dev/termination-log", "stdin": False}, A, id="defaults"),
        pytest.param({**A, "resources": {}, "env": [], "volumeMounts": None}, A, id="empty things"),
        pytest.param({**A, "env": [{"name": "RANK", "value": "0"}]},
                     {**A, "env": [{"name": "RANK", "value": "1"}]}, id="v1 overruled"),
    ],
)  # fmt: skip
def test_what_says_nothing_is_no_difference(master: dict[str, Any], worker: dict[str, Any]) -> None:
    done = checked(pytorch(worker, master_container=master))
    assert done.ok, [str(found) for found in done.findings]
    assert trainer_of(done)["numNodes"] == 2


@pytest.mark.parametrize(
    ("master", "worker", "branch"),
    [
        pytest.param(A, B, True, id="command"),
        pytest.param({**A, "env": [{"name": "X", "value": "1"}]}, A, True, id="env"),
        pytest.param({**A, "image": "example.com/other:1"}, A, False, id="image"),
        pytest.param({**A, "resources": {"limits": {"cpu": 1}}}, A, False, id="resources"),
        pytest.param({**A, "workingDir": "/w"}, A, False, id="workingDir"),
        pytest.param({**A, "args": ["x"]}, A, True, id="args"),
    ],
)
def test_refused_with_what_differs(master: dict[str, Any], worker: dict[str, Any], branch: bool) -> None:
    done = checked(pytorch(worker, master_container=master))
    assert codes(done, "refused") == ["ROLE-DIFF"]
    (found,) = [found for found in done.findings if found.severity == "refused"]
    assert ("--role-branch" in found.remedy) is branch
    assert checked(pytorch(worker, master_container=master), role_branch=True).ok is branch


def test_a_script_that_branches() -> None:
    master = {**A, "env": [{"name": "ROLE", "value": "the 'first'"}, {"name": "SAME", "value": "1"}]}
    worker = {**B, "env": [{"name": "SAME", "value": "1"}, {"name": "ONLY", "value": "2"}]}
    done = checked(pytorch(worker, master_container=master), role_branch=True)
    assert trainer_of(done)["command"][:2] == ["sh", "-c"]
    assert trainer_of(done)["command"][2] == (
        'if [ "$PET_NODE_RANK" = 0 ]; then\n'
        "  export ROLE='the '\"'\"'first'\"'\"''\n"
        "  exec python a.py\n"
        "else\n"
        "  export ONLY=2\n"
        "  exec python b.py 'it'\"'\"'s'\n"
        "fi\n"
    )
    assert "args" not in trainer_of(done)
    assert {"SAME", "RANK"} <= env_of(done).keys()
    assert not {"ROLE", "ONLY"} & env_of(done).keys()
    where = fates(done)
    assert where["spec.pytorchReplicaSpecs.Master.template.spec.containers[0].command[1]"].endswith("trainer.command")
    assert where["spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].env[1].value"].endswith("trainer.command")


@pytest.mark.parametrize(
    ("master", "worker"),
    [
        pytest.param({"args": ["a"]}, {"args": ["b"]}, id="an entry point that is not known"),
        pytest.param({**A, "env": [{"name": "X", "valueFrom": SECRET}]}, A, id="a secret"),
    ],
)  # fmt: skip
def test_no_script_can_say_it(master: dict[str, Any], worker: dict[str, Any]) -> None:
    done = checked(pytorch(worker, master_container=master), role_branch=True)
    assert codes(done, "refused") == ["ROLE-DIFF"]


@pytest.mark.parametrize(("taken", "image"), [("master", "example.com/m:1"), ("worker", "example.com/train:1")])
def test_one_template_for_all(taken: Any, image: str) -> None:
    master = {**A, "image": "example.com/m:1", "resources": {"limits": {"cpu": "1"}}}
    done = checked(pytorch(A, master_container=master, workers=2), template_from=taken)
    assert trainer_of(done)["image"] == image
    assert trainer_of(done)["numNodes"] == 3
    assert codes(done, "warning") == ["ROLE-DIFF"]
    other = "Worker" if taken == "master" else "Master"
    where = fates(done)
    assert where[f"spec.pytorchReplicaSpecs.{other}.template.spec.containers[0].image"] == "dropped"
    assert where[f"spec.pytorchReplicaSpecs.{other}.template.spec.containers[0].command[0]"].startswith("trainjob:")


def test_labels_of_both() -> None:
    job = pytorch()
    roles = job["spec"]["pytorchReplicaSpecs"]
    roles["Master"]["template"]["metadata"] = {"labels": {"a": "1", "b": "m"}}
    roles["Worker"]["template"]["metadata"] = {"labels": {"b": "w"}, "annotations": {"c": "3"}}
    done = checked(job)
    assert done.trainjob is not None
    (patch,) = done.trainjob["spec"]["runtimePatches"]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert node["template"]["spec"]["template"]["metadata"] == {
        "labels": {"b": "w", "a": "1"},
        "annotations": {"c": "3"},
    }
    assert fates(done)["spec.pytorchReplicaSpecs.Master.template.metadata.labels.b"] == "dropped"
    assert "ROLE-DIFF" in codes(done, "warning")


def test_restart_policies_that_differ() -> None:
    job = pytorch()
    job["spec"]["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = "Never"
    assert codes(checked(job), "refused") == ["ROLE-DIFF"]
    done = checked(job, template_from="worker")
    assert fates(done)["spec.pytorchReplicaSpecs.Master.restartPolicy"] == "dropped"
