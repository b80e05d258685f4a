"""PaddleJob: collective training met at worker 0, and parameter servers."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.migrate.checked import checked, codes, env_of, trainer_of, unwrapped
from tests.migrate.kinds import containers, job, parts, variables

IP = {"fieldRef": {"fieldPath": "status.podIP"}}
PADDLE = {"command": ["python"], "args": ["-m", "paddle.distributed.launch", "t.py"]}


def test_all_nodes_meet_at_the_first() -> None:
    done = checked(job("PaddleJob", {"Worker": 2}, PADDLE))
    assert trainer_of(done)["numNodes"] == 2
    assert env_of(done) == {
        "PYTHONUNBUFFERED": "1",
        "PADDLE_JOB_ID": "j",
        "PADDLE_NNODES": "2",
        "POD_IP_DUMMY": IP,
        "PADDLE_MASTER": "j-node-0-0.j:36543",
    }
    assert done.runtime is not None
    assert done.runtime["spec"]["mlPolicy"] == {"numNodes": 1}
    assert {"ENV-SHIM", "PADDLE-MASTER"} <= set(codes(done, "info"))
    assert codes(done, "warning") == []


@pytest.mark.parametrize(("index", "master"), [("0", "10.1.2.3:36543"), ("1", "j-node-0-0.j:36543")])
def test_the_first_pod_is_told_its_own_address(index: str, master: str) -> None:
    raw = job(
        "PaddleJob", {"Worker": 2}, {"command": ["sh", "-c", 'echo "$PADDLE_MASTER $0 $1"'], "args": ["a b", "$c"]}
    )
    held = trainer_of(checked(raw))
    env = {"JOB_COMPLETION_INDEX": index, "POD_IP_DUMMY": "10.1.2.3", "PADDLE_MASTER": "j-node-0-0.j:36543"}
    argv = [*held["command"], *held["args"]]
    done = subprocess.run(argv, env={**env, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == f"{master} a b $c\n"
    assert list(unwrapped(argv)) == ["sh", "-c", 'echo "$PADDLE_MASTER $0 $1"', "a b", "$c"]


def test_one_node_needs_no_shell() -> None:
    done = checked(job("PaddleJob", {"Worker": 1}, PADDLE))
    assert trainer_of(done)["command"] == ["python"]
    assert env_of(done)["PADDLE_MASTER"] == "$(POD_IP_DUMMY):36543"


def test_the_port_is_that_of_the_container() -> None:
    ports = {"ports": [{"name": "master", "containerPort": 37777}]}
    done = checked(job("PaddleJob", {"Worker": 2}, {**PADDLE, **ports}))
    assert env_of(done)["PADDLE_MASTER"] == "j-node-0-0.j:37777"


def test_servers_are_a_job_of_their_own() -> None:
    roles: dict[str, Any] = {"Master": (2, {"image": "example.com/server:1"}), "Worker": 3}
    done = checked(job("PaddleJob", roles, PADDLE))
    assert list(parts(done)) == ["node", "master"]
    assert done.runtime is not None
    held = done.runtime["spec"]["template"]["spec"]
    assert held["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["master"]}
    trained = env_of(done)
    assert (trained["PADDLE_NNODES"], trained["PADDLE_TRAINER_NUM"]) == ("5", "1")
    assert trained["PADDLE_MASTER"] == "j-master-0-0.j:36543"
    assert "POD_IP_DUMMY" not in trained
    (server,) = containers(done, "master")
    served = variables(server)
    assert (served["PADDLE_SERVER_NUM"], served["POD_IP_DUMMY"]) == ("1", IP)
    assert server["command"][:2] == ["sh", "-c"]
    assert trainer_of(done)["command"] == ["python"]


def test_an_elastic_policy_of_one_number_says_nothing() -> None:
    done = checked(job("PaddleJob", {"Worker": 2}, PADDLE, elasticPolicy={"minReplicas": 2, "maxRestarts": 3}))
    assert trainer_of(done)["numNodes"] == 2


@pytest.mark.parametrize(("pin", "nodes"), [("min", 1), ("max", 4), ("replicas", 2), (3, 3)])
def test_an_elastic_job_is_pinned(pin: Any, nodes: int) -> None:
    raw = job("PaddleJob", {"Worker": 2}, PADDLE, elasticPolicy={"minReplicas": 1, "maxReplicas": 4})
    assert codes(checked(raw), "refused") == ["ELASTIC-RANGE"]
    done = checked(raw, pin_elastic=pin)
    assert trainer_of(done)["numNodes"] == nodes
    assert env_of(done)["PADDLE_NNODES"] == str(nodes)


@pytest.mark.parametrize(
    ("raw", "choices", "code"),
    [
        pytest.param(job("PaddleJob", {"Worker": 2}, {}), {}, "PADDLE-MASTER", id="an-entry-point-cannot-be-told"),
        pytest.param(job("PaddleJob", {"Worker": 0}, PADDLE), {}, "NOT-A-JOB", id="no-pods"),
        pytest.param(
            job("PaddleJob", {"Worker": "$N", "Master": 1}, PADDLE),
            {"allow_placeholders": True},
            "PLACEHOLDER",
            id="a-sum-of-unknowns",
        ),
    ],
)
def test_refused(raw: dict[str, Any], choices: dict[str, Any], code: str) -> None:
    assert code in codes(checked(raw, **choices), "refused")


def test_a_placeholder_alone_is_carried() -> None:
    done = checked(job("PaddleJob", {"Worker": "$N"}, PADDLE), allow_placeholders=True)
    assert (trainer_of(done)["numNodes"], env_of(done)["PADDLE_NNODES"]) == ("$N", "$N")


def test_a_name_that_is_not_known_yet_is_a_variable() -> None:
    found = env_of(checked(job("PaddleJob", {"Worker": 2}, PADDLE, metadata={"generateName": "j-"})))
    assert found["PADDLE_JOB_ID"] == "$(TRAINJOB_NAME)"
    assert found["PADDLE_MASTER"] == "$(TRAINJOB_NAME)-node-0-0.$(TRAINJOB_NAME):36543"


def test_there_is_no_other_way_without_the_shim() -> None:
    raw = job("PaddleJob", {"Worker": 2}, PADDLE)
    assert env_of(checked(raw, env_shim=False)) == env_of(checked(raw))
