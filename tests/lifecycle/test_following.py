"""Logs within a wait: complete, in order, fair, in bounded memory, and never a reason to fail."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from trainer_ops.backends.base import LogChunk, LogSource
from trainer_ops.errors import BackendError, Forbidden, NotFound, Unreachable
from trainer_ops.lifecycle import reading
from trainer_ops.lifecycle.cursor import LogCursor, Tails
from trainer_ops.lifecycle.drive import drive
from trainer_ops.lifecycle.listener import Silent
from trainer_ops.lifecycle.submit import Submitted
from trainer_ops.model.outcome import Outcome
from trainer_ops.status.wait import Wait
from trainer_ops.testing import MemoryBackend, Training, VirtualClock

Put = Callable[..., Submitted]
Begun = Callable[..., Wait]
Go = Callable[..., Outcome]

_RUNNING = [(0.0, Training.pending), (1.0, Training.running)]


@pytest.fixture
def go(memory: MemoryBackend, clock: VirtualClock, recorder: Any) -> Go:
    return lambda wait, **more: drive(memory, wait, clock=clock, **{"listener": recorder, **more})


def reads(memory: MemoryBackend) -> int:
    return sum(method == "logs" for method, _ in memory.calls)


def test_each_line_once_and_in_order(memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any) -> None:
    says = [(2.0 + n, lambda t, n=n: t.say(f"a{n}", f"b{n}", node=0)) for n in range(20)]
    memory.script("*", [*_RUNNING, *says, (30, Training.complete)])
    go(begun(put()))
    assert recorder.lines == [f"[node-0] {letter}{n}" for n in range(20) for letter in "ab"]


def test_what_was_printed_last_is_read_after_the_end(
    memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any
) -> None:
    def leave(t: Training) -> None:
        t.say("bye")
        t.complete()

    memory.script("*", [*_RUNNING, (3, leave)])
    go(begun(put(num_nodes=2)))
    assert recorder.lines == ["[node-0] bye", "[node-1] bye"]


def test_initializers_come_first(memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any) -> None:
    fetch = [(0.0, Training.initializing), (1.0, lambda t: t.say("fetched", node="dataset-initializer"))]
    memory.script("*", [*fetch, (2, Training.running), (3, lambda t: t.say("go")), (4, Training.complete)])
    go(begun(put(runtime="torchtune-llama3.2-1b", dataset="hf://org/digits")))
    assert recorder.lines == ["[dataset-initializer] fetched", "[node-0] go"]


def test_a_restart_is_told_between_the_lines_of_the_two_runs(
    memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any
) -> None:
    def again(t: Training) -> None:
        t.say("oh")
        t.restart(0, 3)
        t.say("again")

    memory.script("*", [*_RUNNING, (2, lambda t: t.say("first")), (3, again), (4, Training.complete)])
    go(begun(put()))
    assert recorder.heard == [
        "[node-0] first",
        "[node-0] oh",
        "node-0 restarted (1): exit code 3",
        "[node-0] again",
    ]


def test_a_restart_without_a_line_is_told_too(
    memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any
) -> None:
    memory.script("*", [*_RUNNING, (3, lambda t: t.restart(1, 137, reason="OOMKilled")), (4, Training.complete)])
    go(begun(put(num_nodes=2)))
    assert recorder.notes == ["node-1 restarted (1): exit code 137, OOMKilled"]


def test_a_jobset_restart_is_told_with_the_new_pods(
    memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any
) -> None:
    memory.script("*", [*_RUNNING, (3, Training.restart_all), (5, lambda t: t.say("anew")), (6, Training.complete)])
    go(begun(put()))
    assert [note.split(",")[0] for note in recorder.notes] == ["node-0 starts again in a new pod"]
    assert recorder.lines == ["[node-0] anew"]


class TestMuch:
    def test_a_chatty_node_does_not_keep_the_others_waiting(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any
    ) -> None:
        def talk(t: Training) -> None:
            t.say(*["x" * 1000] * 5000, node=0)
            t.say("I too", node=1)

        memory.script("*", [*_RUNNING, (2, talk), (3, Training.complete)])
        go(begun(put(num_nodes=2)))
        assert len(recorder.lines) == 5001
        assert recorder.lines.index("[node-1] I too") < 300

    def test_does_not_sleep_while_there_is_more(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put, begun: Begun, go: Go, recorder: Any
    ) -> None:
        lines = 3 * reading.TURN_BYTES // 1000
        memory.script("*", [*_RUNNING, (2, lambda t: t.say(*["x" * 999] * lines, node=0)), (60, Training.complete)])
        times: list[float] = []

        class Timing(Silent):
            def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
                times.extend([clock.now()] * len(lines))

        wait = begun(put())
        go(wait, listener=Timing())
        assert len(times) == lines
        assert set(times) == {wait.began_at + 2}

    def test_200_mb_pass_through_little_memory(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        line, total = "y" * 1023, 200 << 20

        def endless(source: LogSource, *, after: str = "", tail: int | None = None, limit_bytes: int = 0) -> LogChunk:
            start = int(after or 0)
            end = min(start + limit_bytes // 1024, total // 1024)
            lines = tuple(f"{number:07}{line[7:]}" for number in range(start, end))
            return LogChunk(lines, str(end), end < total // 1024, end == total // 1024)

        class Counting(Silent):
            lines = 0

            def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
                self.lines += len(lines)

        monkeypatch.setattr(memory, "logs", endless)
        counting = Counting()
        wait = begun(put())
        tracemalloc.start()
        try:
            go(wait, listener=counting)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert counting.lines == total // 1024
        assert peak < 8 << 20

    def test_tails_are_bounded(self) -> None:
        tails = Tails(lines=3)
        tails.add("node-0", ["a", "b"])
        tails.add("node-0", ["c", "d" * 100_000])
        assert [len(line) for line in tails.to_dict()["node-0"]] == [1, 1, 2000]


class TestTroubles:
    @pytest.mark.parametrize(
        "error", [Unreachable("kubelet is away"), NotFound("pod is gone"), BackendError("odd", status=500)]
    )
    def test_what_cannot_be_read_now_is_read_later(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any, error: BackendError
    ) -> None:
        memory.script(
            "*", [*_RUNNING, (2, lambda t: t.say("one")), (20, lambda t: t.say("two")), (40, Training.complete)]
        )
        made = put()
        memory.faults.fail_next("logs", error, times=2)
        assert go(begun(made)).succeeded
        assert recorder.lines == ["[node-0] one", "[node-0] two"]

    def test_forbidden_logs_are_told_once_and_done_without(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any
    ) -> None:
        memory.faults.fail("logs", Forbidden("reading pods/log in namespace default"))
        assert go(begun(put(num_nodes=3))).succeeded
        assert recorder.notes == ["going on without logs: reading pods/log in namespace default"]
        assert reads(memory) == 1

    def test_logs_that_stay_away_do_not_keep_it_from_ending(
        self, memory: MemoryBackend, clock: VirtualClock, put: Put, begun: Begun, go: Go
    ) -> None:
        memory.faults.fail("logs", Unreachable("kubelet is away"))
        wait = begun(put())
        assert go(wait).succeeded
        assert clock.now() - wait.began_at < 10

    def test_a_source_that_says_more_and_gives_nothing(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[str] = []

        def empty(source: LogSource, **more: Any) -> LogChunk:
            calls.append(source.node)
            return LogChunk(more=len(calls) < 10_000)

        monkeypatch.setattr(memory, "logs", empty)
        assert go(begun(put())).succeeded


class TestWithoutFollowing:
    def test_nothing_is_read_of_a_training_that_goes_well(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any
    ) -> None:
        memory.script("*", [*_RUNNING, (2, lambda t: t.say("one")), (3, Training.complete)])
        assert go(begun(put()), follow_logs=False).succeeded
        assert (reads(memory), recorder.lines) == (0, [])

    def test_the_last_lines_of_a_failure_are(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any
    ) -> None:
        memory.script("*", [*_RUNNING, (2, lambda t: t.say("KeyError: 'x'", node=0)), (3, lambda t: t.fail(0, 3))])
        outcome = go(begun(put()), follow_logs=False)
        assert "KeyError: 'x'" in str(outcome.diagnosis)
        assert recorder.lines == []

    def test_also_when_the_pod_is_deleted_later(
        self, memory: MemoryBackend, put: Put, begun: Begun, go: Go, recorder: Any
    ) -> None:
        def crash(t: Training) -> None:
            t.say("KeyError: 'x'", node=0)
            t.restart(0, 3)

        memory.script("*", [*_RUNNING, (2, crash), (9, lambda t: t.fail(0, 3, keep_pods=False))])
        outcome = go(begun(put()), follow_logs=False)
        assert "KeyError: 'x'" in str(outcome.diagnosis)
        assert recorder.notes == ["node-0 restarted (1): exit code 3"]


def test_cursors_are_plain_data() -> None:
    source = LogSource("node-0", "pod", "uid", "node")
    cursor = LogCursor()
    cursor.take(source, LogChunk(("a",), "1", more=True, ended=True))
    assert (cursor.after(source), cursor.done) == ("1", set())
    cursor.take(source, LogChunk(("b",), "2", ended=True))
    assert cursor.to_json() == {"positions": {}, "done": ["pod/uid/node/0"]}
    assert LogCursor.from_json(cursor.to_json()) == cursor
    assert repr(cursor) == "LogCursor({}, ['pod/uid/node/0'])"
