from __future__ import annotations

from collections.abc import Callable

import pytest

from trainer_ops.errors import Forbidden, InvalidRequest, NotFound, Unreachable
from trainer_ops.lifecycle.logs import LogCursor, logs
from trainer_ops.lifecycle.submit import Submitted
from trainer_ops.testing import MemoryBackend, Training, VirtualClock

Put = Callable[..., Submitted]
Read = Callable[..., list[str]]

_RUNNING = [(0.0, Training.pending), (1.0, Training.running)]


@pytest.fixture
def read(memory: MemoryBackend, clock: VirtualClock) -> Read:
    def lines(made: Submitted, **more: object) -> list[str]:
        return [f"[{s.node}] {line}" for s, line in logs(memory, made.ref, clock=clock, **more)]  # type: ignore[arg-type]

    return lines


def talk(training: Training) -> None:
    for number in range(4):
        training.say(f"line {number}")


@pytest.fixture
def made(memory: MemoryBackend, clock: VirtualClock, put: Put) -> Submitted:
    """Two nodes that have printed four lines each."""
    memory.script("*", [*_RUNNING, (2, talk), (5, Training.complete)])
    submitted = put(num_nodes=2)
    clock.advance(3)
    return submitted


def test_of_all_nodes_in_order(made: Submitted, read: Read) -> None:
    assert read(made) == [f"[node-{node}] line {number}" for node in (0, 1) for number in range(4)]


@pytest.mark.parametrize("node", ["1", "node-1"])
def test_of_one_node(made: Submitted, read: Read, node: str) -> None:
    assert read(made, node=node) == [f"[node-1] line {number}" for number in range(4)]


@pytest.mark.parametrize("follow", [False, True])
def test_of_a_node_that_is_not_there(made: Submitted, read: Read, follow: bool) -> None:
    with pytest.raises(InvalidRequest, match=r"no node \"node-7\".*Its nodes: node-0, node-1") as caught:
        read(made, node="7", follow=follow)
    assert caught.value.field == "node"


def test_the_last_lines_of_each_node(made: Submitted, read: Read) -> None:
    assert read(made, tail=1) == ["[node-0] line 3", "[node-1] line 3"]
    assert read(made, tail=0) == []


def test_of_one_that_has_ended(clock: VirtualClock, made: Submitted, read: Read) -> None:
    clock.advance(100)
    assert len(read(made)) == 8
    assert len(read(made, follow=True)) == 8


def test_of_one_that_is_gone(memory: MemoryBackend, clock: VirtualClock, made: Submitted, read: Read) -> None:
    memory.delete(made.ref.name)
    assert len(read(made)) == 8  # its pods still end
    clock.advance(60)
    with pytest.raises(NotFound):
        read(made)


def test_never_of_another_of_the_same_name(
    memory: MemoryBackend, clock: VirtualClock, made: Submitted, read: Read
) -> None:
    memory.grace = 0
    memory.replace(made.ref.name)
    clock.advance(3)
    with pytest.raises(NotFound):
        read(made)


def test_what_comes_later_with_a_cursor(memory: MemoryBackend, made: Submitted, read: Read) -> None:
    cursor = LogCursor()
    assert len(read(made, cursor=cursor)) == 8
    memory.change(made.ref.name, lambda t: t.say("more", node=1))
    assert read(made, cursor=cursor) == ["[node-1] more"]


def test_restarts_show(memory: MemoryBackend, clock: VirtualClock, put: Put, read: Read) -> None:
    def again(t: Training) -> None:
        t.restart(0, 3)
        t.say("second", node=0)

    memory.script("*", [*_RUNNING, (2, lambda t: t.say("first", node=0)), (3, again), (9, Training.complete)])
    made = put()
    expected = ["[node-0] first", "[node-0] --- node-0 restarted (1): exit code 3 ---", "[node-0] second"]
    assert read(made, follow=True) == expected
    assert read(made) == ["[node-0] first", "[node-0] --- node-0 restarted (1) ---", "[node-0] second"]


class TestFollowing:
    def test_from_before_there_are_pods_to_the_end(self, memory: MemoryBackend, put: Put, read: Read) -> None:
        memory.script(
            "*",
            [(0, Training.queued), (60, Training.pending), (90, Training.running), (91, talk), (99, Training.complete)],
        )
        assert len(read(put(num_nodes=2), follow=True)) == 8

    def test_pods_that_come_later(self, memory: MemoryBackend, put: Put, read: Read) -> None:
        memory.script("*", [*_RUNNING, (2, talk), (5, Training.restart_all), (6, talk), (8, Training.complete)])
        lines = read(put(), follow=True)
        assert lines.count("[node-0] line 3") == 2
        assert any("starts again in a new pod" in line for line in lines)

    def test_begins_with_the_last_lines(self, memory: MemoryBackend, made: Submitted, read: Read) -> None:
        memory.change(made.ref.name, lambda t: t.say("line 4"))
        lines = read(made, follow=True, tail=2, node="0")
        assert lines == ["[node-0] line 3", "[node-0] line 4"]

    def test_ends_when_it_is_deleted(self, memory: MemoryBackend, put: Put, read: Read) -> None:
        memory.script("*", [*_RUNNING, (2, talk), (5, lambda t: memory.delete(t.name))])
        assert len(read(put(), follow=True)) == 4

    def test_a_target_that_is_away_repeats_nothing(self, memory: MemoryBackend, made: Submitted, read: Read) -> None:
        for method in ("observe", "logs"):
            memory.faults.fail_next(method, Unreachable("reset"), times=3)
        assert len(read(made, follow=True)) == 8


def test_forbidden(memory: MemoryBackend, made: Submitted, read: Read) -> None:
    memory.faults.fail("logs", Forbidden("reading pods/log"))
    with pytest.raises(Forbidden):
        read(made)


def test_the_watch_is_closed_when_nobody_reads_on(memory: MemoryBackend, clock: VirtualClock, made: Submitted) -> None:
    reading = logs(memory, made.ref, clock=clock, follow=True)
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert not memory._watches[made.ref.name]
