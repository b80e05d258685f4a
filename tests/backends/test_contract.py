"""What every target does alike. A row here is a promise of ``backends.base``; front ends rely on it."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.backends.base import Backend, LogSource, Streams, Terminal, log_sources
from trainer_ops.errors import AlreadyExists, NotFound, PreconditionFailed, RuntimeNotFound
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model import keys
from trainer_ops.model.observed import Condition, Observation, ObservedPod, ObservedTrainJob
from trainer_ops.model.result import result_of
from trainer_ops.status.classify import classify

Make = Callable[..., dict[str, Any]]
WaitFor = Callable[[Callable[[], Any]], Any]


def uid_of(raw: dict[str, Any]) -> str:
    return str(raw["metadata"]["uid"])


def phase(backend: Backend, name: str, rig: Any) -> str:
    return classify(backend.observe(name, now=rig.now())).phase.value


def parsed(raws: list[dict[str, Any]]) -> list[ObservedPod]:
    return [ObservedPod.from_raw(raw) for raw in raws]


def facts(condition: Condition | None) -> tuple[str, bool, str, str]:
    assert condition is not None
    return condition.type, condition.holds, condition.reason, condition.message


class TestCreating:
    def test_returns_the_object_as_stored(self, backend: Backend, manifest: Make) -> None:
        given = manifest("long-a", labels={"team": "a"})
        raw = backend.create(given)
        job = ObservedTrainJob.from_raw(raw)
        assert (raw["apiVersion"], raw["kind"]) == (keys.API_VERSION, keys.KIND)
        assert (job.name, job.namespace, job.runtime) == ("long-a", backend.namespace, "torch-distributed")
        assert job.uid
        assert job.created_at is not None
        assert job.labels["team"] == "a"
        assert raw["spec"]["trainer"] == given["spec"]["trainer"]

    def test_leaves_the_manifest_as_it_was(self, backend: Backend, manifest: Make) -> None:
        given, same = manifest("long-a"), manifest("long-a")
        backend.create(given)
        assert given == same

    def test_a_taken_name_is_refused_and_nothing_changes(self, backend: Backend, manifest: Make) -> None:
        first = backend.create(manifest("long-a"))
        with pytest.raises(AlreadyExists):
            backend.create(manifest("long-a", nodes=2))
        stored = backend.get("long-a")
        assert stored is not None
        assert uid_of(stored) == uid_of(first)
        assert stored["spec"] == first["spec"]

    def test_an_unknown_runtime_is_refused_and_nothing_is_created(self, backend: Backend, manifest: Make) -> None:
        with pytest.raises(RuntimeNotFound, match="no-such-runtime"):
            backend.create(manifest("long-a", runtimeRef={"name": "no-such-runtime"}))
        assert backend.get("long-a") is None

    def test_of_many_at_once_one_wins(self, backend: Backend, manifest: Make) -> None:
        made: list[str] = []
        refused: list[str] = []
        together = threading.Barrier(8)

        def create() -> None:
            together.wait()
            try:
                made.append(uid_of(backend.create(manifest("long-a"))))
            except AlreadyExists as error:
                refused.append(str(error))

        threads = [threading.Thread(target=create) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(made), len(refused)) == (1, 7)


class TestReading:
    def test_what_is_not_there_is_none(self, backend: Backend) -> None:
        assert backend.get("nobody") is None

    def test_answers_are_copies(self, backend: Backend, manifest: Make) -> None:
        backend.create(manifest("long-a", labels={"team": "a"}))
        for answer in (backend.get("long-a"), *backend.list()):
            assert answer is not None
            answer["metadata"]["labels"]["team"] = "b"
            answer["spec"].clear()
        stored = backend.get("long-a")
        assert stored is not None
        assert stored["metadata"]["labels"]["team"] == "a"
        assert stored["spec"]["trainer"]

    def test_list_gives_those_with_all_labels_oldest_first(self, backend: Backend, manifest: Make) -> None:
        for name, labels in (("long-c", {"x": "1"}), ("long-a", {"x": "1", "y": "2"}), ("long-b", {"x": "2"})):
            backend.create(manifest(name, labels=labels, suspend=True))

        def names(wanted: dict[str, str] | None) -> list[str]:
            return [raw["metadata"]["name"] for raw in backend.list(wanted)]

        assert names(None) == ["long-c", "long-a", "long-b"]
        assert names({"x": "1"}) == ["long-c", "long-a"]
        assert names({"x": "1", "y": "2"}) == ["long-a"]
        assert names({"x": "3"}) == []

    def test_the_target_opens_it_again(self, backend: Backend, manifest: Make) -> None:
        raw = backend.create(manifest("long-a", suspend=True))
        again = open_backend(backend.target)
        seen = again.get("long-a")
        assert seen is not None
        assert uid_of(seen) == uid_of(raw)
        again.close()
        again.close()

    def test_runtimes(self, backend: Backend) -> None:
        names = [raw["metadata"]["name"] for raw in backend.runtimes()]
        assert "torch-distributed" in names
        raw = backend.runtime("torch-distributed", keys.CLUSTER_RUNTIME)
        assert raw is not None
        assert raw["spec"]["mlPolicy"]["torch"] is not None
        assert backend.runtime("no-such-runtime", keys.CLUSTER_RUNTIME) is None

    def test_looking_at_nothing(self, backend: Backend) -> None:
        assert backend.observe("nobody", now=12.0) == Observation(12.0, None)

    def test_an_observation_holds_what_the_single_calls_give(
        self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor
    ) -> None:
        raw = backend.create(manifest("quick-a", nodes=2))
        wait_for(lambda: phase(backend, "quick-a", rig) == "succeeded")
        obs = backend.observe("quick-a", now=rig.now())
        stored = backend.get("quick-a")
        assert stored is not None
        assert obs.job == ObservedTrainJob.from_raw(stored)
        pods, events = backend.pods("quick-a", uid=uid_of(raw)), backend.events("quick-a", uid=uid_of(raw))
        assert obs == Observation.from_raw(obs.at, stored, pods, events)


class TestDeleting:
    def test_is_idempotent(self, backend: Backend, manifest: Make) -> None:
        backend.create(manifest("long-a"))
        assert backend.delete("long-a") is True
        assert backend.get("long-a") is None
        assert backend.delete("long-a") is False

    def test_only_the_one_meant(self, backend: Backend, manifest: Make) -> None:
        raw = backend.create(manifest("long-a"))
        with pytest.raises(PreconditionFailed):
            backend.delete("long-a", uid="00000000-0000-4000-8000-000000000000")
        assert backend.get("long-a") is not None
        assert backend.delete("long-a", uid=uid_of(raw)) is True

    def test_nothing_with_a_uid_is_not_an_error(self, backend: Backend) -> None:
        assert backend.delete("nobody", uid="00000000-0000-4000-8000-000000000000") is False

    def test_stops_what_it_runs(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> None:
        raw = backend.create(manifest("long-a", nodes=2))
        wait_for(lambda: phase(backend, "long-a", rig) == "running")
        backend.delete("long-a", uid=uid_of(raw))
        wait_for(lambda: backend.pods("long-a", uid=uid_of(raw)) == [])

    def test_frees_the_name_for_another(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> None:
        old = backend.create(manifest("long-a"))
        wait_for(lambda: phase(backend, "long-a", rig) == "running")
        backend.delete("long-a")
        new = backend.create(manifest("long-a"))
        assert uid_of(new) != uid_of(old)
        with pytest.raises(PreconditionFailed):
            backend.delete("long-a", uid=uid_of(old))
        wait_for(lambda: phase(backend, "long-a", rig) == "running")
        mine = {pod.uid for pod in parsed(backend.pods("long-a", uid=uid_of(new)))}
        assert mine
        assert not mine & {pod.uid for pod in parsed(backend.pods("long-a", uid=uid_of(old)))}
        assert {pod.uid for pod in backend.observe("long-a", now=rig.now()).pods} == mine

    def test_a_finished_one(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> None:
        raw = backend.create(manifest("quick-a"))
        wait_for(lambda: phase(backend, "quick-a", rig) == "succeeded")
        assert backend.delete("quick-a") is True
        wait_for(lambda: backend.pods("quick-a", uid=uid_of(raw)) == [])


class TestSuspending:
    def test_stops_its_processes_and_keeps_it(
        self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor
    ) -> None:
        raw = backend.create(manifest("long-a"))
        wait_for(lambda: phase(backend, "long-a", rig) == "running")
        answer = backend.set_suspended("long-a", True, uid=uid_of(raw))
        assert answer["spec"]["suspend"] is True
        job = wait_for(lambda: suspended(backend, True))
        assert facts(job.condition("Suspended")) == ("Suspended", True, "Suspended", "TrainJob is suspended")
        wait_for(lambda: backend.pods("long-a", uid=uid_of(raw)) == [])
        assert phase(backend, "long-a", rig) == "suspended"
        assert [(row.name, row.suspended, row.active) for row in suspended(backend, True).jobs] == [("node", 1, 0)]

    def test_resuming_starts_anew(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> None:
        raw = backend.create(manifest("long-a"))
        wait_for(lambda: phase(backend, "long-a", rig) == "running")
        before = {pod.uid for pod in parsed(backend.pods("long-a", uid=uid_of(raw)))}
        backend.set_suspended("long-a", True)
        wait_for(lambda: backend.pods("long-a", uid=uid_of(raw)) == [])
        backend.set_suspended("long-a", False)
        wait_for(lambda: phase(backend, "long-a", rig) == "running")
        job = suspended(backend, False)
        assert facts(job.condition("Suspended")) == ("Suspended", False, "Resumed", "TrainJob is resumed")
        assert not before & {pod.uid for pod in parsed(backend.pods("long-a", uid=uid_of(raw)))}

    def test_created_suspended_runs_nothing_until_resumed(
        self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor
    ) -> None:
        raw = backend.create(manifest("quick-a", suspend=True))
        wait_for(lambda: suspended(backend, True, "quick-a"))
        assert backend.pods("quick-a", uid=uid_of(raw)) == []
        backend.set_suspended("quick-a", False)
        wait_for(lambda: phase(backend, "quick-a", rig) == "succeeded")

    def test_twice_is_once(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> None:
        raw = backend.create(manifest("long-a"))
        wait_for(lambda: phase(backend, "long-a", rig) == "running")
        before = [pod.uid for pod in parsed(backend.pods("long-a", uid=uid_of(raw)))]
        backend.set_suspended("long-a", False)
        assert phase(backend, "long-a", rig) == "running"
        assert [pod.uid for pod in parsed(backend.pods("long-a", uid=uid_of(raw)))] == before

    def test_only_the_one_meant(self, backend: Backend, manifest: Make) -> None:
        backend.create(manifest("long-a", suspend=True))
        with pytest.raises(PreconditionFailed):
            backend.set_suspended("long-a", False, uid="00000000-0000-4000-8000-000000000000")
        with pytest.raises(NotFound):
            backend.set_suspended("nobody", True)


def suspended(backend: Backend, holds: bool, name: str = "long-a") -> Any:
    raw = backend.get(name)
    job = ObservedTrainJob.from_raw(raw) if raw else None
    condition = job.condition("Suspended") if job else None
    return job if condition is not None and condition.holds is holds else None


class TestEnding:
    def test_trained(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> None:
        backend.create(manifest("quick-a", nodes=2))
        wait_for(lambda: phase(backend, "quick-a", rig) == "succeeded")
        obs = backend.observe("quick-a", now=rig.now())
        assert obs.job is not None
        assert [facts(c) for c in obs.job.conditions] == [
            ("Complete", True, "AllJobsCompleted", "jobset completed successfully")
        ]
        assert [(r.name, r.succeeded, r.failed, r.active, r.ready) for r in obs.job.jobs] == [("node", 1, 0, 0, 0)]
        assert [(pod.node, pod.phase) for pod in obs.pods] == [("node-0", "Succeeded"), ("node-1", "Succeeded")]
        ends = [pod.main.terminated for pod in obs.pods if pod.main]
        assert [(end.exit_code, end.reason) for end in ends if end] == [(0, "Completed")] * 2
        result = result_of(obs.pods)
        assert result is not None
        assert (result.metrics, result.model_uri) == ({"accuracy": 0.5}, "file:///model")

    def test_failed(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> None:
        backend.create(manifest("fails-a", nodes=2))
        wait_for(lambda: phase(backend, "fails-a", rig) == "failed")
        obs = backend.observe("fails-a", now=rig.now())
        assert obs.job is not None
        text = "jobset failed due to one or more job failures (first failed job: fails-a-node-0)"
        assert [facts(c) for c in obs.job.conditions] == [("Failed", True, "FailedJobs", text)]
        assert [(r.name, r.failed, r.succeeded) for r in obs.job.jobs] == [("node", 1, 0)]
        failed = [pod for pod in obs.pods if pod.node == "node-0"]
        assert [pod.phase for pod in failed] == ["Failed"]
        assert failed[0].main is not None
        end = failed[0].main.terminated
        assert end is not None
        assert (end.exit_code, end.reason) == (3, "Error")
        assert any(event.warning for event in obs.events)


class TestPods:
    def test_shape(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> None:
        raw = backend.create(manifest("long-a", nodes=2))
        wait_for(lambda: phase(backend, "long-a", rig) == "running")
        raws = sorted(backend.pods("long-a", uid=uid_of(raw)), key=lambda pod: pod["metadata"]["name"])
        for index, pod in enumerate(raws):
            meta = pod["metadata"]
            assert re.fullmatch(rf"long-a-node-0-{index}-[a-z0-9]{{5}}", meta["name"])
            wanted = {
                keys.LABEL_JOBSET_NAME: "long-a",
                keys.LABEL_REPLICATED_JOB: "node",
                keys.LABEL_RESTART_ATTEMPT: "0",
                keys.LABEL_JOB_NAME: "long-a-node-0",
                keys.COMPLETION_INDEX: str(index),
            }
            assert wanted.items() <= meta["labels"].items()
        pods = parsed(raws)
        assert [(pod.node, pod.phase, pod.main_name) for pod in pods] == [
            ("node-0", "Running", "node"),
            ("node-1", "Running", "node"),
        ]
        assert all(pod.created_at and pod.host and pod.main and pod.main.started_at for pod in pods)

    def test_of_another_uid_are_not_given(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> None:
        backend.create(manifest("long-a"))
        wait_for(lambda: phase(backend, "long-a", rig) == "running")
        assert backend.pods("long-a", uid="00000000-0000-4000-8000-000000000000") == []
        assert backend.pods("nobody", uid="00000000-0000-4000-8000-000000000000") == []


class TestLogs:
    @pytest.fixture
    def sources(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> tuple[LogSource, ...]:
        backend.create(manifest("quick-a", nodes=2))
        wait_for(lambda: phase(backend, "quick-a", rig) == "succeeded")
        return log_sources(backend.observe("quick-a", now=rig.now()).pods)

    def test_whole(self, backend: Backend, sources: tuple[LogSource, ...]) -> None:
        assert [source.node for source in sources] == ["node-0", "node-1"]
        for source in sources:
            chunk = backend.logs(source)
            assert chunk.lines == ("line 0", "line 1", "line 2")
            assert (chunk.more, chunk.ended) == (False, True)

    def test_in_pieces_without_loss_or_repeat(self, backend: Backend, sources: tuple[LogSource, ...]) -> None:
        lines: list[str] = []
        after, pieces = "", 0
        while True:
            chunk = backend.logs(sources[0], after=after, limit_bytes=8)
            lines += chunk.lines
            after, pieces = chunk.position, pieces + 1
            if not chunk.more:
                break
        assert lines == ["line 0", "line 1", "line 2"]
        assert pieces > 1
        assert backend.logs(sources[0], after=after).lines == ()

    def test_tail_and_on_from_there(self, backend: Backend, sources: tuple[LogSource, ...]) -> None:
        chunk = backend.logs(sources[0], tail=2)
        assert chunk.lines == ("line 1", "line 2")
        assert backend.logs(sources[0], after=chunk.position).lines == ()
        assert backend.logs(sources[0], tail=99).lines == ("line 0", "line 1", "line 2")

    def test_while_it_runs(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> None:
        backend.create(manifest("long-a"))
        wait_for(lambda: phase(backend, "long-a", rig) == "running")
        (source,) = log_sources(backend.observe("long-a", now=rig.now()).pods)
        chunk = wait_for(lambda: (found := backend.logs(source)).lines and found)
        assert (chunk.lines, chunk.ended) == (("ready",), False)
        assert backend.logs(source, after=chunk.position).lines == ()

    def test_what_is_not_there_is_empty(self, backend: Backend, sources: tuple[LogSource, ...]) -> None:
        later = LogSource(sources[0].node, sources[0].pod, sources[0].pod_uid, sources[0].container, 7)
        gone = LogSource("node-0", "quick-a-node-0-0-zzzzz", "00000000-0000-4000-8000-000000000000", "node")
        assert backend.logs(later).lines == ()
        assert backend.logs(gone).lines == ()


class TestCommands:
    @pytest.fixture
    def running(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> list[ObservedPod]:
        raw = backend.create(manifest("long-a", nodes=2))
        wait_for(lambda: phase(backend, "long-a", rig) == "running")
        return sorted(parsed(backend.pods("long-a", uid=uid_of(raw))), key=lambda pod: pod.node)

    @pytest.fixture
    def run(self, backend: Backend, running: list[ObservedPod], tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
        """Runs a command in a node; (exit code, stdout, stderr)."""

        def run(*argv: str, node: int = 0, stdin: str = "", terminal: Terminal | None = None) -> tuple[int, str, str]:
            files = [tmp_path / name for name in ("stdin", "stdout", "stderr")]
            for file in files:
                file.write_text(stdin if file.name == "stdin" else "")
            with ExitStack() as opened:
                given, out, err = (opened.enter_context(file.open("rb+")).fileno() for file in files)
                pod = running[node]
                code = backend.exec(pod.name, pod.main_name, argv, Streams(given, out, err, terminal))
            return code, files[1].read_text(), files[2].read_text()

        return run

    def test_streams_and_exit_code(self, run: Callable[..., tuple[int, str, str]]) -> None:
        assert run("sh", "-c", "echo out; echo err >&2; exit 7") == (7, "out\n", "err\n")

    @pytest.mark.parametrize("size", [5, 300_000])
    def test_stdin_to_its_end(self, run: Callable[..., tuple[int, str, str]], size: int) -> None:
        text = "aé\n" * (size // 3)
        assert run("cat", stdin=text) == (0, text, "")

    def test_in_the_node_that_is_meant(self, run: Callable[..., tuple[int, str, str]]) -> None:
        assert [run("sh", "-c", 'echo "$PET_NODE_RANK"', node=node)[1] for node in (0, 1)] == ["0\n", "1\n"]

    def test_with_a_terminal(self, run: Callable[..., tuple[int, str, str]]) -> None:
        # A cluster's command may begin before it is told the size.
        look = 'until stty size | grep -qv "^0 0"; do sleep 0.05; done; stty size'
        code, out, err = run("sh", "-c", look, terminal=Terminal(lambda: (123, 45)))
        assert (code, err) == (0, "")
        assert "45 123" in out

    def test_what_is_not_there_is_127_as_in_a_shell(self, run: Callable[..., tuple[int, str, str]]) -> None:
        code, out, err = run("no-such-command")
        assert (code, out) == (127, "")
        assert "no-such-command" in err

    def test_only_in_what_runs(self, backend: Backend, running: list[ObservedPod]) -> None:
        for pod, container in (("nobody", "node"), (running[0].name, "nobody")):
            with pytest.raises(NotFound):
                backend.exec(pod, container, ["true"], Streams())


class TestWatching:
    def test_wakes_at_a_change(self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor) -> None:
        watch = backend.watch("quick-a")
        backend.create(manifest("quick-a"))
        wait_for(lambda: watch.wait(0.01))
        wait_for(lambda: phase(backend, "quick-a", rig) == "succeeded" or (watch.wait(0.01) and False))
        watch.close()
        watch.close()

    def test_without_a_change_it_ends(self, backend: Backend) -> None:
        watch = backend.watch("nobody")
        while watch.wait(0.01):  # spurious wakes are allowed, not for ever
            pass
        watch.close()

    def test_in_an_event_loop(self, backend: Backend, manifest: Make) -> None:
        async def watching() -> bool:
            watch = backend.watch("long-a")
            try:
                waiting = asyncio.ensure_future(watch.wait_async(60.0))
                await asyncio.sleep(0)
                await asyncio.to_thread(backend.create, manifest("long-a"))
                return await waiting
            finally:
                watch.close()

        assert asyncio.run(watching()) is True
