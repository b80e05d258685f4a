"""JAXJob: the four variables of v1 beside Trainer's own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.checked import checked, codes, env_of, trainer_of
from tests.migrate.kinds import containers, job, parts, variables

INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
PYTHON = {"command": ["python", "train.py"]}
AGAIN = {"restartPolicy": "OnFailure"}


def test_a_stock_runtime_and_the_variables_of_v1() -> None:
    done = checked(job("JAXJob", {"Worker": 3}, PYTHON, role=AGAIN))
    assert done.runtime is None
    assert done.trainjob is not None
    assert done.trainjob["spec"]["runtimeRef"]["name"] == "jax-distributed"
    assert trainer_of(done)["numNodes"] == 3
    assert env_of(done) == {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_ADDRESS": "j-node-0-0.j",
        "COORDINATOR_PORT": "6666",
        "NUM_PROCESSES": "3",
        "PROCESS_ID": INDEX,
    }


def test_the_default_restart_policy_needs_a_runtime() -> None:
    done = checked(job("JAXJob", {"Worker": 2}, PYTHON))
    held = parts(done)["node"]["template"]["spec"]
    assert (held["backoffLimit"], held["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert done.runtime is not None
    assert done.runtime["spec"]["mlPolicy"] == {"numNodes": 1, "jax": {}}


@pytest.mark.parametrize(
    ("container", "choices", "wanted"),
    [
        pytest.param(
            {"ports": [{"name": "jaxjob-port", "containerPort": 1234}]},
            {},
            {"COORDINATOR_PORT": "1234"},
            id="named-port",
        ),
        pytest.param({"ports": [{"containerPort": 1234}]}, {}, {"COORDINATOR_PORT": "6666"}, id="another-port"),
        pytest.param(
            {"env": [{"name": "NUM_PROCESSES", "value": "9"}]}, {}, {"NUM_PROCESSES": "2"}, id="the-operator-overrules"
        ),
        pytest.param(
            {"env": [{"name": "HOST", "value": "j-worker-0:6666"}]}, {}, {"HOST": "j-node-0-0.j:6666"}, id="v1s-pod"
        ),
        pytest.param({"env": [{"name": "A", "value": "b"}]}, {"env_shim": False}, {"A": "b"}, id="without-the-shim"),
    ],
)
def test_variables(container: dict[str, Any], choices: dict[str, Any], wanted: dict[str, str]) -> None:
    found = env_of(checked(job("JAXJob", {"Worker": 2}, {**PYTHON, **container}, role=AGAIN), **choices))
    assert {name: found[name] for name in wanted} == wanted


def test_other_containers_get_them_too() -> None:
    side = {"name": "side", "image": "s", "env": [{"name": "PROCESS_ID", "value": "7"}, {"name": "X", "value": "y"}]}
    done = checked(job("JAXJob", {"Worker": 2}, PYTHON, pod={"containers": [side]}))
    found = variables(containers(done, "node")[1])
    assert found["PROCESS_ID"] == INDEX
    assert found["X"] == "y"


def test_a_placeholder_is_carried() -> None:
    done = checked(job("JAXJob", {"Worker": "$N"}, PYTHON, role=AGAIN), allow_placeholders=True)
    assert trainer_of(done)["numNodes"] == "$N"
    assert env_of(done)["NUM_PROCESSES"] == "$N"


def test_no_pods() -> None:
    assert codes(checked(job("JAXJob", {"Worker": 0}, PYTHON))) == ["NOT-A-JOB"]


def test_what_the_operator_overruled_was_read_by_the_jobs_own_variables() -> None:
    env = [
        {"name": "PROCESS_ID", "value": "7"},
        {"name": "MINE", "value": "$(PROCESS_ID) $$(PROCESS_ID) $$$(PROCESS_ID)"},
    ]
    found = env_of(checked(job("JAXJob", {"Worker": 2}, {**PYTHON, "env": env}, role=AGAIN)))
    assert found["MINE"] == "7 $$(PROCESS_ID) $$7"
    assert found["PROCESS_ID"] == INDEX
