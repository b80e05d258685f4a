"""Which pod a command goes to, and what is said when there is none to go to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest, Unreachable
from trainer_ops.lifecycle.exec import Door, door
from trainer_ops.model.identity import JobRef
from trainer_ops.testing import MemoryBackend, Training, VirtualClock

Make = Callable[..., JobRef]


@pytest.fixture
def make(memory: MemoryBackend) -> Make:
    """A training that has gone through these changes."""

    def make(*changes: Callable[[Training], object], runtime: str = "torch-distributed", nodes: int = 2) -> JobRef:
        steps: Sequence[tuple[float, Any]] = [(0, change) for change in changes]
        memory.script("*", steps)
        spec = {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": nodes}}
        raw = memory.create({"metadata": {"name": "t"}, "spec": spec})
        return JobRef(memory.target, "default", "t", raw["metadata"]["uid"])

    return make


def names(memory: MemoryBackend, ref: JobRef) -> list[str]:
    return [raw["metadata"]["name"] for raw in memory.pods(ref.name, uid=ref.uid)]


@pytest.mark.parametrize(("node", "found"), [(None, "node-0"), ("0", "node-0"), ("1", "node-1"), ("node-1", "node-1")])
def test_node_0_unless_another_is_named(
    memory: MemoryBackend, clock: VirtualClock, make: Make, node: str | None, found: str
) -> None:
    ref = make(Training.running)
    place = door(memory, ref, node, clock=clock)
    assert (place.node, place.container) == (found, "node")
    assert place.pod == names(memory, ref)[int(found[-1])]


def test_the_launcher_where_there_is_one(memory: MemoryBackend, clock: VirtualClock, make: Make) -> None:
    ref = make(Training.running, runtime="deepspeed-distributed")
    assert door(memory, ref, None, clock=clock).node == "launcher"
    assert door(memory, ref, "1", clock=clock).node == "node-1"


def test_the_launcher_also_while_it_waits_for_its_nodes(memory: MemoryBackend, clock: VirtualClock, make: Make) -> None:
    def only_nodes(training: Training) -> None:
        training.running()
        training.pods[:] = [pod for pod in training.pods if "launcher" not in pod["metadata"]["name"]]

    ref = make(only_nodes, runtime="deepspeed-distributed")
    with pytest.raises(InvalidRequest, match="launcher of t does not run yet"):
        door(memory, ref, None, clock=clock)


def test_the_newest_pod_of_a_node(memory: MemoryBackend, clock: VirtualClock, make: Make) -> None:
    ref = make(Training.running)
    before = door(memory, ref, "1", clock=clock)
    memory.change("t", lambda training: training.restart_all())
    after = door(memory, ref, "1", clock=clock)
    assert after.pod != before.pod
    assert after.pod in names(memory, ref)


NOT_NOW: dict[str, tuple[list[Callable[[Training], object]], str | None, str]] = {
    "no such node": ([Training.running], "7", 'node: t has no node "node-7". Its nodes: node-0, node-1'),
    "no launcher": ([Training.running], "launcher", 'node: t has no node "launcher". Its nodes: node-0, node-1'),
    "no pods yet": ([], None, "node: node-0 of t does not run yet: the training is submitted"),
    "an image that is not there": (
        [Training.image_pull_error],
        None,
        "node: node-0 of t does not run: Pending (ImagePullBackOff): ",
    ),
    "no room": ([Training.unschedulable], "1", "node: node-1 of t does not run: Pending (Unschedulable): "),
    "between two runs": (
        [Training.running, lambda t: t.crash(0, 3)],
        None,
        "node: node-0 of t does not run: it has ended with exit code 3. Wait until it does: trainer-ops status t",
    ),
    "trained": ([Training.running, Training.complete], None, "name: t has trained, nothing of it runs"),
    "failed": ([Training.running, Training.fail], "1", "name: t has failed, nothing of it runs"),
}


@pytest.mark.parametrize("case", NOT_NOW)
def test_why_not(memory: MemoryBackend, clock: VirtualClock, make: Make, case: str) -> None:
    changes, node, text = NOT_NOW[case]
    ref = make(*changes)
    with pytest.raises(InvalidRequest, match=re.escape(f"cannot run a command: {text}")):
        door(memory, ref, node, clock=clock)


def test_another_of_the_same_name_is_not_entered(memory: MemoryBackend, clock: VirtualClock, make: Make) -> None:
    ref = make(Training.running)
    memory.replace("t")
    with pytest.raises(InvalidRequest, match="t was replaced by another of its name"):
        door(memory, ref, None, clock=clock)


def test_a_silent_target_is_asked_again(memory: MemoryBackend, clock: VirtualClock, make: Make) -> None:
    ref = make(Training.running)
    memory.faults.fail_next("observe", Unreachable("reset"), times=2)
    assert isinstance(door(memory, ref, None, clock=clock), Door)
