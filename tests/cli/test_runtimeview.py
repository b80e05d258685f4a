"""What ``runtimes NAME`` says, on runtimes of the shapes that clusters have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.cli.runtimes import pick, runtime_rows, runtimes_table
from trainer_ops.cli.runtimeview import ENVIRONMENT, describe, restarts_of, runtime_lines
from trainer_ops.cli.text import plain
from trainer_ops.errors import RuntimeNotFound
from trainer_ops.local.plan_env import injected
from trainer_ops.local.plan_values import Place
from trainer_ops.model.runtime import TrainingRuntime

Raw = dict[str, Any]
Make = Callable[..., Raw]


def step(name: str, ancestor: str = "", *, container: Raw | None = None, job: Raw | None = None, **more: Any) -> Raw:
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor} if ancestor else {}
    policy = {key: value for key, value in (job or {}).items() if key == "restartPolicy"}
    spec = {key: value for key, value in (job or {}).items() if key != "restartPolicy"}
    pod = {"containers": [{"name": "node" if ancestor == "trainer" else name, **(container or {})}], **policy}
    return {
        "name": name,
        **more,
        "template": {"metadata": {"labels": labels}, "spec": {**spec, "template": {"spec": pod}}},
    }


@pytest.fixture
def make() -> Make:
    def make(
        name: str = "r", *steps: Raw, ml: Raw | None = None, kind: str = "", jobset: Raw | None = None, **meta: Any
    ) -> Raw:
        return {
            "kind": kind or "ClusterTrainingRuntime",
            "metadata": {"name": name, **meta},
            "spec": {
                "mlPolicy": ml or {},
                "template": {"spec": {"replicatedJobs": list(steps) or [step("node", "trainer")], **(jobset or {})}},
            },
        }

    return make


def shown(raw: Raw, *, local: bool = False, width: int = 200) -> dict[str, str]:
    """Label and text of each line."""
    lines = runtime_lines(TrainingRuntime.from_raw(raw), local=local, width=width)
    return {line[0][0].strip(): line[1][0] for line in lines if len(line) > 1}


IN_PLACE = (
    "a script that fails is started again in its pod, {} over all nodes together{}. "
    "Then its pods are deleted, with their logs"
)
NEW_POD = (
    "a node that fails gets a new pod, twice over all nodes together, after pauses of 10 s, 20 s …; "
    "the failed pods and their logs stay meanwhile"
)
RESTARTS: dict[str, tuple[Raw, str]] = {
    "Trainer's own": ({}, IN_PLACE.format("6 times", "; on one node that takes 5 min in pauses alone")),
    "in place, once": ({"backoffLimit": 1}, IN_PLACE.format("once", "")),
    "in place, never": (
        {"backoffLimit": 0},
        "none wanted, but a failed container may begin once more before its pod is deleted, with its log",
    ),
    "new pods": ({"backoffLimit": 2, "restartPolicy": "Never"}, NEW_POD),
    "none": (
        {"backoffLimit": 0, "restartPolicy": "Never"},
        "none: the first node that fails ends the training, and its pod and log stay",
    ),
}


@pytest.mark.parametrize("case", RESTARTS)
def test_restarts_in_plain_words(make: Make, case: str) -> None:
    job, text = RESTARTS[case]
    assert restarts_of(TrainingRuntime.from_raw(make("r", step("node", "trainer", job=job)))) == text


def test_restarts_of_all_nodes(make: Make) -> None:
    raw = make("r", step("node", "trainer"), jobset={"failurePolicy": {"maxRestarts": 3}})
    assert restarts_of(TrainingRuntime.from_raw(raw)).endswith("; then all nodes begin anew, 3 times")


@pytest.mark.parametrize("policy", ["torch", "jax", "xgboost"])
def test_the_environment_is_what_is_injected(policy: str) -> None:
    place = Place("/job", {}, "python3", 29500, "/d", "/m")
    assert {entry.name for entry in injected(policy, nodes=2, procs=None, resources={}, place=place)} == set(
        ENVIRONMENT[policy]
    )


NEEDS: dict[str, tuple[Raw, bool, str, str]] = {
    "an image without a command": ({"image": "i"}, False, "command", "the entry point of the image unless"),
    "a command": ({"command": ["tune"], "args": ["run"]}, False, "command", "the runtime's own unless the TrainJob"),
    "nothing, here": ({}, True, "command", "to be given: a script or command after --"),
    "no image": ({}, False, "image", "none: the TrainJob must give one: --image"),
    "an image, here": ({"image": "i"}, True, "image", "i (this machine ignores images)"),
    "no resources": ({}, False, "resources", "none asked for, and no GPU"),
    "GPUs": ({"resources": {"limits": {"nvidia.com/gpu": 2}}}, False, "resources", "of a node: nvidia.com/gpu 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", NEEDS)
def test_what_it_needs(make: Make, case: str) -> None:
    container, local, label, text = NEEDS[case]
    assert shown(make("r", step("node", "trainer", container=container)), local=local)[label].startswith(text)


def test_initializers(make: Make) -> None:
    after = [{"name": "dataset-initializer", "status": "Complete"}]
    raw = make("r", step("dataset-initializer", "dataset-initializer"), step("node", "trainer", dependsOn=after))
    said = shown(raw)
    assert said["dataset"] == "--dataset URI is fetched before the nodes begin, to /workspace/dataset"
    assert said["model"] == "no initializer in this runtime"
    lines = [plain(line) for line in runtime_lines(TrainingRuntime.from_raw(raw), local=False, width=100)]
    assert lines[-2:] == ["    dataset-initializer", "    node                 after dataset-initializer is complete"]


@pytest.mark.parametrize(("as_node", "text"), [(True, "is one of the nodes"), (False, "runs mpirun and no rank")])
def test_the_launcher(make: Make, as_node: bool, text: str) -> None:
    ml = {"mpi": {"numProcPerNode": 2, "runLauncherAsNode": as_node}}
    said = shown(make("r", step("node"), step("launcher", "trainer"), ml=ml))["launcher"]
    assert said.startswith(text)
    assert "mpirun starts 2 on each node" in said


def test_nothing_is_wider_than_the_terminal(make: Make) -> None:
    raw = make("r", step("node", "trainer", container={"command": ["x"] * 300}), ml={"torch": {}})
    for line in runtime_lines(TrainingRuntime.from_raw(raw), local=False, width=60):
        assert len(plain(line)) <= 60


def test_deprecated_and_namespaced_ones_show(make: Make) -> None:
    old = make("old", labels={"trainer.kubeflow.org/support": "deprecated"})
    own = make("own", kind="TrainingRuntime")
    rows = [plain(line).split() for line in runtimes_table([old, own], 100)]
    assert rows[1:] == [["old", "(deprecated)", "cluster", "plain", "1"], ["own", "namespace", "plain", "1"]]
    assert [row["deprecated"] for row in runtime_rows([old, own])] == [True, False]
    assert "  deprecated: a coming release of Trainer removes it" in [
        plain(line) for line in runtime_lines(TrainingRuntime.from_raw(old), local=False, width=100)
    ]


def test_of_two_with_one_name_the_namespaces_own(make: Make) -> None:
    assert pick([make("r"), make("r", kind="TrainingRuntime")], "r", "here")["kind"] == "TrainingRuntime"
    with pytest.raises(RuntimeNotFound, match="on here"):
        pick([], "r", "here")


def test_the_json_has_all_of_it(make: Make) -> None:
    said = describe(TrainingRuntime.from_raw(make("r", step("node", "trainer", container={"image": "i"}))))
    assert said["steps"] == [
        {
            "name": "node",
            "controlled_by": "trainer",
            "after": {},
            "containers": [{"name": "node", "image": "i"}],
            "restart_policy": "OnFailure",
            "backoff_limit": 6,
        }
    ]
    assert (said["image"], said["dataset"], said["model"], said["resources"]) == ("i", False, False, {})
