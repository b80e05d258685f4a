"""The table of nodes: what each row says, and that a node which is gone keeps its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from trainer_ops.model.observed import Observation
from trainer_ops.status.roster import ROWS_LIMIT

if TYPE_CHECKING:
    from tests.status.conftest import Scene

ACTIVE = {"node": "active=1"}
IN_ORDER = ("dataset-initializer", "model-initializer", "launcher", "node-2", "node-10")
Row = tuple[str, str, int, int | None, str]

ROWS: dict[str, tuple[list[Callable[[Any], Observation]], list[Row]]] = {
    "running": (
        [lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.running()))],
        [("node-0", "running", 0, None, "")],
    ),
    "no container yet": (
        [lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0"))],
        [("node-0", "waiting", 0, None, "ContainerCreating")],
    ),
    "an image that is not there": (
        [
            lambda s: s.look(
                s.job(rows=ACTIVE), s.pod("node-0", s.waiting("ImagePullBackOff", 'Back-off pulling image "x"'))
            )
        ],
        [("node-0", "waiting", 0, None, "ImagePullBackOff")],
    ),
    "ended well": ([lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.ended(0)))], [("node-0", "done", 0, 0, "")]),
    "out of memory": (
        [lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.ended(137, "OOMKilled"), phase="Failed"))],
        [("node-0", "failed", 0, 137, "OOMKilled")],
    ),
    "runs again after a crash: the crash's code": (
        [lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.running(90), restarts=2, last=s.ended(3)))],
        [("node-0", "running", 2, 3, "Error")],
    ),
    "ended well after a crash": (
        [
            lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.running(90), restarts=1, last=s.ended(3))),
            lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.ended(0, at=99), restarts=1, last=s.ended(3))),
        ],
        [("node-0", "done", 1, 0, "Error")],
    ),
    "a pod that is gone keeps its row": (
        [
            lambda s: s.look(
                s.job(rows=ACTIVE), s.pod("node-0", s.ended(3), phase="Failed"), s.pod("node-1", s.running())
            ),
            lambda s: s.look(s.job(rows=ACTIVE), at=90),
        ],
        [("node-0", "failed", 0, 3, "Error"), ("node-1", "running", 0, None, "")],
    ),
    "evicted: no exit code of its own": (
        [
            lambda s: s.look(
                s.job(rows=ACTIVE), s.pod("node-0", phase="Failed", reason="Evicted", message="low on memory")
            )
        ],
        [("node-0", "failed", 0, None, "Evicted")],
    ),
    "made anew by the JobSet": (
        [
            lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.ended(3), phase="Failed")),
            lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.running(50), suffix="bbbbb", attempt=1)),
        ],
        [("node-0", "running", 1, 3, "Error")],
    ),
    "the order in which a person reads": (
        [
            lambda s: s.look(
                s.job(rows={"node": "active=1", "launcher": "active=1"}),
                *(s.pod(name, s.running()) for name in reversed(IN_ORDER)),
            )
        ],
        [(name, "running", 0, None, "") for name in IN_ORDER],
    ),
}


@pytest.mark.parametrize(("looks", "wanted"), ROWS.values(), ids=ROWS.keys())
def test_rows(scene: Scene, looks: list[Any], wanted: list[Row]) -> None:
    wait, _ = scene.see(scene.begin(), *(look(scene) for look in looks))
    found = [(r["name"], r["state"], r["restarts"], r["exit_code"], r["reason"]) for r in wait.outcome().nodes]
    assert found == wanted


def test_after_the_end_nothing_runs(scene: Scene) -> None:
    running = scene.look(scene.job(rows=ACTIVE), scene.pod("node-0", scene.running()), scene.pod("node-1"))
    wait, _ = scene.see(scene.begin(), running)
    assert [row["state"] for row in wait.outcome().nodes] == ["running", "waiting"]
    wait, _ = scene.see(wait, scene.look(scene.job(scene.condition("Failed")), at=90))
    assert [row["state"] for row in wait.outcome().nodes] == ["ended", "ended"]


def test_of_very_many_those_with_something_to_tell(scene: Scene) -> None:
    pods = [scene.pod(f"node-{i}", scene.ended(1 if i == 397 else 0), phase="Running") for i in range(400)]
    wait, _ = scene.see(scene.begin(), scene.look(scene.job(rows=ACTIVE), *pods))
    names = [row["name"] for row in wait.outcome().nodes]
    assert (len(names), names[:2], names[-1]) == (ROWS_LIMIT, ["node-0", "node-1"], "node-397")
    assert wait.outcome().num_nodes == 400


def test_the_last_line_of_every_node_that_spoke(scene: Scene) -> None:
    pods = [scene.pod(f"node-{i}", scene.running()) for i in range(40)]
    wait, _ = scene.see(scene.begin(), scene.look(scene.job(rows=ACTIVE), *pods))
    wait = wait.hear(
        {f"node-{i}": ["first", f"\x1b[1mlast {i}\x1b[0m", "  ", ""] for i in range(40)} | {"node-99": ["x"]}
    )
    rows = wait.hear({"node-0": []}).outcome().nodes
    assert [row["last_line"] for row in rows] == [f"last {i}" for i in range(40)]


def test_gpus_and_nodes_that_were_asked_for(scene: Scene) -> None:
    gpu = [{"name": "node", "resources": {"limits": {"nvidia.com/gpu": "4", "cpu": "8", "nvidia.com/mig-1g.5gb": "1"}}}]
    pods = [scene.pod(f"node-{i}", scene.running(), containers=gpu) for i in range(2)]
    initializer = scene.pod("dataset-initializer", scene.ended(0), containers=gpu)
    obs = scene.look(scene.job(rows=ACTIVE, trainer={"numNodes": 3}), initializer, *pods)
    wait, _ = scene.see(scene.begin(), obs, scene.look(scene.job(rows=ACTIVE), at=90))
    assert (wait.outcome().num_nodes, wait.outcome().gpus) == (3, 8)


def test_a_launcher_is_no_node(scene: Scene) -> None:
    pods = [scene.pod(name, scene.running()) for name in ("launcher", "node-0", "node-1")]
    rows = {"node": "active=1", "launcher": "active=1"}
    wait, _ = scene.see(scene.begin(), scene.look(scene.job(rows=rows), *pods))
    assert (wait.outcome().num_nodes, len(wait.outcome().nodes)) == (2, 3)
