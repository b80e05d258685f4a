"""XGBoostJob and LightGBM: Master and Workers as nodes, v1's variables, what Trainer sets itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.checked import checked, codes, env_of, fates, trainer_of
from tests.migrate.kinds import job, parts

INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
PYTHON = {"command": ["python", "train.py"]}
AGAIN = {"restartPolicy": "OnFailure"}


def xgboost(container: Any = None, workers: int = 2, **more: Any) -> dict[str, Any]:
    roles = {"Master": 1, **({"Worker": workers} if workers else {})}
    return job("XGBoostJob", roles, container or PYTHON, **{"role": AGAIN, **more})


def test_master_and_workers_are_nodes_of_a_stock_runtime() -> None:
    done = checked(xgboost())
    assert done.trainjob is not None
    assert done.trainjob["spec"]["runtimeRef"]["name"] == "xgboost-distributed"
    assert trainer_of(done)["numNodes"] == 3
    assert env_of(done) == {
        "MASTER_PORT": "9999",
        "MASTER_ADDR": "j-node-0-0.j",
        "WORLD_SIZE": "3",
        "RANK": INDEX,
        "PYTHONUNBUFFERED": "1",
        "WORKER_PORT": "9999",
        "WORKER_ADDRS": "j-node-0-1.j,j-node-0-2.j",
    }


def test_lightgbm_finds_workers_and_their_port() -> None:
    ports = {"ports": [{"name": "xgboostjob-port", "containerPort": 9991}]}
    found = env_of(checked(xgboost({**PYTHON, **ports}, workers=1)))
    assert (found["MASTER_PORT"], found["WORKER_PORT"], found["WORKER_ADDRS"]) == ("9991", "9991", "j-node-0-1.j")


@pytest.mark.parametrize(
    ("host", "made"),
    [
        pytest.param("j-master-0", "j-node-0-0.j", id="the-master"),
        pytest.param("j-worker-1:9", "j-node-0-2.j:9", id="a-worker"),
        pytest.param("j-worker-2", "j-worker-2", id="no-such-worker"),
        pytest.param("j-master-1", "j-master-1", id="no-such-master"),
    ],
)
def test_addresses_of_pods_that_were_there(host: str, made: str) -> None:
    found = env_of(checked(xgboost({**PYTHON, "env": [{"name": "A", "value": host}]})))
    assert found["A"] == made


def test_a_master_alone_has_no_workers_to_know() -> None:
    found = env_of(checked(xgboost(workers=0)))
    assert found["WORLD_SIZE"] == "1"
    assert "WORKER_ADDRS" not in found


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        pytest.param("DMLC_TRACKER_URI", "j-master-0", True, id="the-same-host"),
        pytest.param("DMLC_TRACKER_PORT", "29500", True, id="the-same-port"),
        pytest.param("DMLC_NUM_WORKER", "3", True, id="the-same-number"),
        # Kubernetes fills in what is set before, and v1's operator set RANK behind the job's own variables.
        pytest.param("DMLC_TASK_ID", "$(RANK)", False, id="never-filled-in"),
        pytest.param("DMLC_TRACKER_PORT", "9991", False, id="another-port"),
        pytest.param("DMLC_NUM_WORKER", "6", False, id="another-number"),
    ],
)
def test_what_trainer_sets_itself(name: str, value: str, kept: bool) -> None:
    done = checked(xgboost({**PYTHON, "env": [{"name": name, "value": value}]}))
    assert done.ok is kept
    if kept:
        assert name not in env_of(done)
        assert fates(done)["spec.xgbReplicaSpecs.Master.template.spec.containers[0].env[0].value"] == "dropped"
    else:
        assert codes(done, "refused") == ["RESERVED-ENV"]


def test_quotes_alone_are_no_difference() -> None:
    raw = job(
        "XGBoostJob",
        {
            "Master": (1, {"args": ["--p=objective:softprob,n:3", "--x=1"]}),
            "Worker": (2, {"args": ['--p="objective:softprob,n:3"', "--x=1"]}),
        },
        role=AGAIN,
    )
    done = checked(raw)
    assert trainer_of(done)["args"] == ["--p=objective:softprob,n:3", "--x=1"]
    assert codes(done, "warning") == ["ROLE-DIFF"]
    assert (
        fates(done)["spec.xgbReplicaSpecs.Worker.template.spec.containers[0].args[0]"]
        == "trainjob:spec.trainer.args[0]"
    )


@pytest.mark.parametrize(
    ("choices", "policy", "retries"),
    [
        pytest.param({}, "Never", 2147483647, id="the-workers-exit-codes"),
        pytest.param({"template_from": "master"}, "OnFailure", 2147483647, id="the-masters-as-asked"),
    ],
)
def test_one_restart_policy_for_all(choices: dict[str, Any], policy: str, retries: int) -> None:
    raw = xgboost(role={})
    raw["spec"]["xgbReplicaSpecs"]["Master"]["restartPolicy"] = "OnFailure"
    raw["spec"]["xgbReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    done = checked(raw, runtime="generate", **choices)
    held = parts(done)["node"]["template"]["spec"]
    assert (held["template"]["spec"]["restartPolicy"], held["backoffLimit"]) == (policy, retries)
    assert "ROLE-DIFF" in codes(done, "warning")


@pytest.mark.parametrize(
    ("roles", "choices", "code"),
    [
        pytest.param({"Worker": 2}, {}, "NOT-A-JOB", id="no-master"),
        pytest.param({"Master": 2}, {}, "NOT-A-JOB", id="two-masters"),
        pytest.param(
            {"Master": 1, "Worker": "$N"}, {"allow_placeholders": True}, "PLACEHOLDER", id="a-sum-of-unknowns"
        ),
        pytest.param({"Master": 1, "Worker": (1, {"image": "other"})}, {}, "ROLE-DIFF", id="another-image"),
    ],
)
def test_refused(roles: dict[str, Any], choices: dict[str, Any], code: str) -> None:
    assert code in codes(checked(job("XGBoostJob", roles, PYTHON), **choices), "refused")


def test_several_gpus_are_several_workers_for_trainer() -> None:
    done = checked(xgboost({**PYTHON, "resources": {"limits": {"nvidia.com/gpu": 4}}}))
    assert "XGBOOST-GPUS" in codes(done, "warning")
    assert "XGBOOST-GPUS" not in codes(checked(xgboost({**PYTHON, "resources": {"limits": {"nvidia.com/gpu": 1}}})))


def test_it_ends_with_the_master_where_that_is_asked() -> None:
    assert "SUCCESS-RULE" in codes(checked(xgboost()), "info")
    held = parts(checked(xgboost(), preserve_success=True))["node"]["template"]["spec"]
    assert held["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}


def test_roles_that_differ_in_their_command_branch_by_the_task() -> None:
    raw = job("XGBoostJob", {"Master": (1, {"command": ["a"]}), "Worker": (2, {"command": ["b"]})}, role=AGAIN)
    assert "$DMLC_TASK_ID" in trainer_of(checked(raw, role_branch=True))["command"][2]


def test_a_template_that_says_it_is_a_pod() -> None:
    raw = xgboost()
    for role in raw["spec"]["xgbReplicaSpecs"].values():
        role["template"] = {"apiVersion": "v1", "kind": "Pod", **role["template"]}
    assert fates(checked(raw))["spec.xgbReplicaSpecs.Worker.template.kind"] == "dropped"
