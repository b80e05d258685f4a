"""TFJob: roles as replicated jobs, TF_CONFIG, when the training is over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.migrate.checked import checked, codes, env_of, fates, trainer_of
from tests.migrate.kinds import containers, job, parts, variables

INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
PYTHON = {"command": ["python", "train.py"]}


def config(env: dict[str, Any], index: int = 0) -> dict[str, Any]:
    """TF_CONFIG as the code of a pod reads it."""
    found: dict[str, Any] = json.loads(env["TF_CONFIG"].replace("$(TASK_INDEX)", str(index)))
    return found


def hosts(part: str, number: int, port: int = 2222, name: str = "j") -> list[str]:
    return [f"{name}-{part}-0-{i}.{name}:{port}" for i in range(number)]


def test_workers_find_each_other_by_tf_config() -> None:
    done = checked(job("TFJob", {"Worker": 3}, PYTHON))
    assert trainer_of(done)["numNodes"] == 3
    env = env_of(done)
    assert list(env) == ["TASK_INDEX", "TF_CONFIG"]
    assert env["TASK_INDEX"] == INDEX
    for index in range(3):
        assert config(env, index) == {
            "cluster": {"worker": hosts("node", 3)},
            "task": {"type": "worker", "index": index},
            "environment": "cloud",
        }
    assert done.runtime is not None
    assert done.runtime["spec"]["mlPolicy"] == {"numNodes": 1}


def test_every_role_has_its_own_task() -> None:
    roles = {"Chief": 1, "Worker": 2, "PS": 2, "Evaluator": 1}
    done = checked(job("TFJob", roles, PYTHON))
    cluster = {
        "chief": hosts("chief", 1),
        "evaluator": hosts("evaluator", 1),
        "ps": hosts("ps", 2),
        "worker": hosts("node", 2),
    }
    assert list(parts(done)) == ["node", "chief", "evaluator", "ps"]
    assert config(env_of(done), 1) == {
        "cluster": cluster,
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }
    for name, number in (("chief", 1), ("evaluator", 1), ("ps", 2)):
        (container,) = containers(done, name)
        found = config(variables(container), number - 1)
        assert found == {"cluster": cluster, "task": {"type": name, "index": number - 1}, "environment": "cloud"}
        held = parts(done)[name]["template"]["spec"]
        assert (held["parallelism"], held["completions"], held["completionMode"]) == (number, number, "Indexed")
    labelled = [name for name, one in parts(done).items() if "metadata" in one["template"]]
    assert labelled == ["node"]


@pytest.mark.parametrize(
    ("roles", "trains", "others"),
    [
        pytest.param({"Worker": 1, "Chief": 1}, "worker", ["chief"], id="workers-before-a-chief"),
        pytest.param({"Chief": 1, "PS": 1}, "chief", ["ps"], id="chief-when-there-are-no-workers"),
        pytest.param({"Master": 1, "PS": 1}, "master", ["ps"], id="master-is-chief-by-its-old-name"),
        pytest.param({"PS": 2}, "ps", [], id="servers-alone"),
        pytest.param({"worker": 1, "ps": 1}, "worker", ["ps"], id="any-spelling"),
    ],
)
def test_who_is_node(roles: dict[str, int], trains: str, others: list[str]) -> None:
    done = checked(job("TFJob", roles, PYTHON))
    assert list(parts(done)) == ["node", *others]
    assert f'"type":"{trains}"' in env_of(done)["TF_CONFIG"]


@pytest.mark.parametrize(
    ("roles", "spec", "targets", "first"),
    [
        pytest.param({"Worker": 2}, {}, None, True, id="worker-0"),
        pytest.param({"Worker": 2}, {"successPolicy": ""}, None, True, id="worker-0-said"),
        pytest.param({"Worker": 2}, {"successPolicy": "AllWorkers"}, None, False, id="all-workers"),
        pytest.param({"Worker": 2, "PS": 1}, {}, ["node"], True, id="worker-0-beside-servers"),
        pytest.param({"Worker": 2, "PS": 1}, {"successPolicy": "AllWorkers"}, ["node"], False, id="all-beside-servers"),
        pytest.param({"Worker": 2, "Chief": 1}, {}, ["chief"], False, id="chief"),
        pytest.param({"Worker": 2, "Chief": 1}, {"successPolicy": "AllWorkers"}, ["chief"], False, id="chief-wins"),
        pytest.param({"Chief": 1, "PS": 1}, {}, ["node"], False, id="chief-is-node"),
        pytest.param({"Worker": 1, "PS": 1}, {}, ["node"], False, id="one-worker"),
    ],
)
def test_when_it_is_over(roles: dict[str, int], spec: dict[str, Any], targets: Any, first: bool) -> None:
    done = checked(job("TFJob", roles, PYTHON, **spec))
    assert done.runtime is not None
    held = done.runtime["spec"]["template"]["spec"]
    wanted = {"successPolicy": {"operator": "All", "targetReplicatedJobs": targets}} if targets else {}
    assert {name: held[name] for name in ("successPolicy",) if name in held} == wanted
    rules = {"rules": [{"succeededIndexes": "0"}]}
    assert parts(done)["node"]["template"]["spec"].get("successPolicy") == (rules if first else None)


def test_one_pod_gets_no_tf_config() -> None:
    done = checked(job("TFJob", {"Worker": 1}, {**PYTHON, "env": [{"name": "TF_CONFIG", "value": "{}"}]}))
    assert env_of(done) == {"TF_CONFIG": "{}"}
    assert "TF-CONFIG" not in codes(done)


def test_the_jobs_own_tf_config_had_no_effect() -> None:
    done = checked(job("TFJob", {"Worker": 2}, {**PYTHON, "env": [{"name": "TF_CONFIG", "value": "{}"}]}))
    assert env_of(done)["TF_CONFIG"] != "{}"
    assert "RESERVED-ENV" in codes(done, "info")
    assert fates(done)["spec.tfReplicaSpecs.Worker.template.spec.containers[0].env[0].value"] == "dropped"


def test_only_the_container_with_the_code_gets_it() -> None:
    done = checked(job("TFJob", {"Worker": 2}, PYTHON, pod={"containers": [{"name": "board", "image": "b"}]}))
    assert [variables(one) for one in containers(done, "node")[1:]] == [{}]


def test_the_port_is_that_of_the_roles_container() -> None:
    ports = {"ports": [{"name": "tfjob-port", "containerPort": 3333}]}
    done = checked(job("TFJob", {"Worker": (2, ports), "PS": 1}, PYTHON))
    assert config(env_of(done))["cluster"] == {"ps": hosts("ps", 1), "worker": hosts("node", 2, 3333)}


def test_a_name_that_is_not_known_yet_is_a_variable() -> None:
    done = checked(job("TFJob", {"Worker": 2}, PYTHON, metadata={"generateName": "j-"}))
    env = env_of(done)
    assert list(env) == ["TRAINJOB_NAME", "TASK_INDEX", "TF_CONFIG"]
    assert "$(TRAINJOB_NAME)-node-0-1.$(TRAINJOB_NAME):2222" in env["TF_CONFIG"]


def test_v1s_pods_in_commands_are_v2s() -> None:
    container = {"command": ["python", "t.py", "--ps=j-ps-0.default.svc:2222", "--me=j-worker-1"]}
    done = checked(job("TFJob", {"Worker": 2, "PS": 1}, container))
    assert trainer_of(done)["command"][2:] == ["--ps=j-ps-0-0.j.default.svc:2222", "--me=j-node-0-1.j"]


def test_an_index_of_the_jobs_own_is_left_alone() -> None:
    env = [{"name": "TASK_INDEX", "value": "mine"}]
    found = env_of(checked(job("TFJob", {"Worker": 2}, {**PYTHON, "env": env})))
    assert found["TASK_INDEX"] == "mine"
    assert found["TASK_INDEX_2"] == INDEX
    assert '"index":$(TASK_INDEX_2)' in found["TF_CONFIG"]


@pytest.mark.parametrize(
    ("raw", "choices", "code"),
    [
        pytest.param(job("TFJob", {"Worker": 2}, enableDynamicWorker=True), {}, "TF-DYNAMIC", id="workers-come-and-go"),
        pytest.param(job("TFJob", {"Chief": 1, "Master": 1}), {}, "NOT-A-JOB", id="chief-and-master"),
        pytest.param(job("TFJob", {"Chief": 2}), {}, "NOT-A-JOB", id="two-chiefs"),
        pytest.param(job("TFJob", {"Worker": 0}), {}, "NOT-A-JOB", id="no-pods"),
        pytest.param(job("TFJob", {"Worker": 1}, successPolicy="Some"), {}, "NOT-A-JOB", id="unknown-success"),
        pytest.param(
            job("TFJob", {"Worker": "$N"}), {"allow_placeholders": True}, "PLACEHOLDER", id="a-list-of-unknown-length"
        ),
    ],
)
def test_refused(raw: dict[str, Any], choices: dict[str, Any], code: str) -> None:
    assert code in codes(checked(raw, **choices), "refused")


def test_there_is_no_other_way_without_the_shim() -> None:
    raw = job("TFJob", {"Worker": 2}, PYTHON)
    assert env_of(checked(raw, env_shim=False)) == env_of(checked(raw))


def test_restart_policies_are_each_roles_own() -> None:
    raw = job("TFJob", {"Worker": 2, "PS": 1}, PYTHON, runPolicy={"backoffLimit": 3})
    raw["spec"]["tfReplicaSpecs"]["PS"]["restartPolicy"] = "OnFailure"
    done = checked(raw)
    held = {name: one["template"]["spec"] for name, one in parts(done).items()}
    assert (held["node"]["backoffLimit"], held["node"]["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert (held["ps"]["backoffLimit"], held["ps"]["template"]["spec"]["restartPolicy"]) == (3, "OnFailure")
