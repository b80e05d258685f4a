"""torchrun tells its processes their ranks: what its words mention is no reason to give v1's variables."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.migrate.convert import convert

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
