"""Words of torchrun, and of others who start processes: what they mention, and what Kubernetes writes into them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.checked import checked, pytorch, trainer_of
from trainer_ops.migrate.convert import convert

GPU = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
SHIM = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


@pytest.mark.parametrize(
    ("command", "given"),
    [
        pytest.param(["torchrun", "train.py"], False, id="nothing"),
        pytest.param(["torchrun", "train.py", "--name", "RANK"], False, id="a word"),
        pytest.param(["torchrun", "--no-python", "python", "-c", "environ['RANK']"], False, id="code that it starts"),
        pytest.param(["sh", "-c", "torchrun --node_rank=$RANK train.py"], True, id="a shell before it"),
        pytest.param(["torchrun", "--node_rank=$(RANK)", "train.py"], True, id="Kubernetes before it"),
    ],
)
def test_words_of_torchrun(command: list[str], given: bool) -> None:
    pod = {"spec": {"containers": [{"name": "pytorch", "image": "none.example/image", "command": command}]}}
    roles: dict[str, Any] = {role: {"replicas": 1, "template": pod} for role in ("Master", "Worker")}
    raw = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "t"}}
    made = convert({**raw, "spec": {"pytorchReplicaSpecs": roles}})
    assert made.trainjob is not None, [str(found) for found in made.findings]
    names = {entry["name"] for entry in made.trainjob["spec"]["trainer"].get("env") or ()}
    assert (names >= SHIM) == given


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["accelerate", "launch", "--main_process_port", "$(MASTER_PORT)", "t.py"], id="a word"),
        pytest.param(["torchrun", "--rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT)", "t.py"], id="part of a word"),
        pytest.param(["torchrun", "--master_port=$(PET_MASTER_PORT)", "t.py"], id="torchrun's own"),
    ],
)
def test_a_port_that_kubernetes_writes_into_the_command(words: list[str]) -> None:
    """The new port is told where the variable is; that the command follows it is no difference of its own."""
    done = checked(pytorch({"command": words, **GPU}))
    assert trainer_of(done)["command"] == words
    assert "command" not in {one.topic for one in done.differences}
    assert "23456" in [one.v1 for one in done.differences if one.topic == "port"]


def test_a_port_in_the_command_is_compared() -> None:
    """Only what a variable wrote follows the variable."""
    words = ["python", "t.py", "$(MASTER_PORT)", "23456"]
    done = checked(pytorch({"command": words, **GPU}))
    assert trainer_of(done)["command"] == words
