"""Logs of real processes through a real API server: without loss or repeat, whatever happens in between."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster
from tests.faults.proxy import FaultProxy
from trainer_ops.backends.base import LogSource, log_sources
from trainer_ops.backends.kubernetes.address import Address
from trainer_ops.backends.kubernetes.backend import KubernetesBackend
from trainer_ops.errors import Unreachable

pytestmark = pytest.mark.cluster
Make = Callable[..., dict[str, Any]]


@pytest.fixture
def run(backend: KubernetesBackend, manifest: Make) -> Callable[..., None]:
    """Starts a training of one node that runs this code."""

    def start(code: str, name: str = "x") -> None:
        trainer = {"numNodes": 1, "command": ["python3", "-u", "-c", code]}
        backend.create(manifest(name, suspend=False, trainer=trainer))

    return start


def until(holds: Callable[[], Any], *, seconds: float = 90.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(Unreachable):
            if found := holds():
                return found
        time.sleep(0.05)
    raise AssertionError("did not come true")


def sources(backend: KubernetesBackend, name: str = "x") -> list[LogSource]:
    pods = backend.observe(name, now=time.time()).pods
    born = [pod for pod in pods if pod.main is not None and (pod.main.state != "waiting" or pod.main.last)]
    return list(log_sources(tuple(born)))


class Reader:
    """Follows all runs of a training as a waiter does."""

    def __init__(self, backend: KubernetesBackend, *, limit: int = 1 << 18) -> None:
        self.lines: dict[int, list[str]] = {}
        self.positions: dict[str, str] = {}
        self.done: set[str] = set()
        self.turns = 0
        self._backend = backend
        self._limit = limit

    def turn(self) -> bool:
        """Read what is new; whether every run that is known was read to its end."""
        self.turns += 1
        found = sources(self._backend)
        for source in found:
            more = source.key not in self.done
            while more:
                after = self.positions.get(source.key, "")
                chunk = self._backend.logs(source, after=after, limit_bytes=self._limit)
                self.positions[source.key] = chunk.position
                self.lines.setdefault(source.restart, []).extend(chunk.lines)
                if chunk.ended:
                    self.done.add(source.key)
                more = chunk.more
        return bool(found) and all(source.key in self.done for source in found)


CHATTY = """
import time
for number in range(400):
    print(number, "x" * 200)
    time.sleep(0.01)
"""


def numbers(lines: list[str]) -> list[int]:
    return [int(line.split()[0]) for line in lines]


def test_a_talkative_node_is_read_once_and_costs_one_request_a_turn(
    backend: KubernetesBackend,
    watch: Callable[[], None],
    run: Callable[..., None],
    proxy: FaultProxy,
) -> None:
    watch()
    run(CHATTY)
    reader = Reader(backend)
    while not reader.turn():
        time.sleep(0.2)
    assert numbers(reader.lines[0]) == list(range(400))
    requests = proxy.seen("GET", "log")
    written = sum(len(line) + 32 for line in reader.lines[0])
    received = sum(request.received for request in requests)
    print(
        f"{received / written:.1f} bytes read for a byte of log, in {reader.turns} turns and {len(requests)} requests"
    )
    assert len(requests) <= reader.turns
    # Of the pod: one look, at the first lines, that they are of this run.
    assert len([r for r in proxy.seen("GET", "pods", watch=False) if "/pods/" in r.path]) <= 2
    # A window of three seconds at most, five times a second.
    assert received < 16 * written


def test_without_a_hub_too(backend: KubernetesBackend, run: Callable[..., None]) -> None:
    run("for number in range(50): print(number)")
    reader = Reader(backend, limit=40)
    until(reader.turn)
    assert numbers(reader.lines[0]) == list(range(50))


@pytest.mark.parametrize("offset", [-3600.0, -5.0, 5.0, 3600.0])
def test_clocks_that_differ(
    proxy: FaultProxy, config: Make, backend: KubernetesBackend, run: Callable[..., None], offset: float
) -> None:
    run(CHATTY)
    other = KubernetesBackend(Address(), config=config(), clock=lambda: time.time() + offset)
    reader = Reader(other)
    while not reader.turn():
        time.sleep(0.2)
    assert numbers(reader.lines[0]) == list(range(400))
    # What one learns of a clock is kept: in the end an answer holds seconds, not the whole log.
    assert proxy.seen("GET", "log")[-1].received < 90_000
    other.close()


RESTARTS = """
import time
run = time.time_ns()
for number in range(30):
    print(number, run)
    time.sleep(0.02)
raise SystemExit(3)
"""


@pytest.mark.parametrize("hub", [True, False], ids=["with a hub", "without"])
def test_each_run_of_a_container_has_its_own_lines(
    backend: KubernetesBackend, watch: Callable[[], None], run: Callable[..., None], hub: bool
) -> None:
    if hub:
        watch()
    run(RESTARTS)
    reader = Reader(backend)
    until(lambda: reader.turn() and len(reader.done) == 4)
    assert sorted(reader.lines) == [0, 1, 2, 3]
    for lines in reader.lines.values():
        assert numbers(lines) == list(range(30))
        assert len({line.split()[1] for line in lines}) == 1


def test_lines_read_during_a_restart_are_not_given_to_the_wrong_run(
    backend: KubernetesBackend, watch: Callable[[], None], run: Callable[..., None], proxy: FaultProxy, config: Make
) -> None:
    """The hub's pods are old news: it knows of no restart while the container is in its second run."""
    run(RESTARTS)
    first = until(lambda: sources(backend))[0]
    proxy.when("GET", "pods", watch=True).hush()
    watch()
    begun = until(lambda: (found := backend.logs(first)).lines and found)
    other = KubernetesBackend(Address(), config=config())
    until(lambda: sources(other)[-1].restart and other.logs(sources(other)[-1]).lines)
    other.close()
    fresh = LogSource(first.node, first.pod, first.pod_uid, first.container)
    for after in (begun.position, ""):
        chunk = backend.logs(fresh, after=after)
        assert (chunk.lines, chunk.position) == ((), after)


def test_a_broken_answer_is_read_again_from_where_it_was(
    backend: KubernetesBackend, run: Callable[..., None], proxy: FaultProxy
) -> None:
    run("for number in range(2000): print(number, 'x' * 100)\nimport time\ntime.sleep(600)")
    (source,) = until(lambda: sources(backend))
    until(lambda: "1999" in str(backend.logs(source, tail=1).lines))
    lines: list[str] = []
    after, broken = "", 0
    for cut in (5_000, 50_000, 100_000, 0):
        proxy.clear()
        if cut:
            proxy.when("GET", "log", times=1).reset_midway(cut)
        more = True
        while more:
            try:
                chunk = backend.logs(source, after=after, limit_bytes=20_000)
            except Unreachable:
                broken += 1
                break
            lines += chunk.lines
            after, more = chunk.position, chunk.more
    assert numbers(lines) == list(range(2000))
    assert broken >= 2


def test_one_request_for_a_long_log_read_in_pieces(
    backend: KubernetesBackend, run: Callable[..., None], proxy: FaultProxy
) -> None:
    run("for number in range(5000): print(number, 'x' * 100)\nimport time\ntime.sleep(600)")
    (source,) = until(lambda: sources(backend))
    until(lambda: "4999" in str(backend.logs(source, tail=1).lines))
    before = len(proxy.seen("GET", "log"))
    lines: list[str] = []
    after, more = "", True
    while more:
        chunk = backend.logs(source, after=after, limit_bytes=10_000)
        assert sum(len(line) for line in chunk.lines) < 10_000 + 65_536
        lines += chunk.lines
        after, more = chunk.position, chunk.more
    assert numbers(lines) == list(range(5000))
    assert len(proxy.seen("GET", "log")) - before == 1


def test_bytes_that_are_no_text_and_a_line_of_five_megabytes(
    backend: KubernetesBackend, run: Callable[..., None]
) -> None:
    code = (
        "import sys\nout = sys.stdout.buffer\nout.write(b'a\\xff\\xfeb\\n')\nout.write(b'y' * (5 << 20) + b'\\n')\n"
        "out.write('ä€😀\\n'.encode())\n"
    )
    run(code)
    reader = Reader(backend)
    until(reader.turn)
    lines = reader.lines[0]
    assert (lines[0], lines[-1]) == ("a\ufffd\ufffdb", "ä€😀")
    assert sum(line.count("y") for line in lines) == 5 << 20
    assert max(map(len, lines)) <= 65_536


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_hundred_megabytes_in_bounded_memory(backend: KubernetesBackend, run: Callable[..., None]) -> None:
    run("line = 'x' * 993\nfor number in range(200_000): print(f'{number:06}', line)\nimport time\ntime.sleep(600)")
    (source,) = until(lambda: sources(backend))
    until(lambda: "199999" in str(backend.logs(source, tail=1).lines), seconds=200)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count, size = 0, 0
    after, more = "", True
    while more:
        chunk = backend.logs(source, after=after)
        for line in chunk.lines:
            assert int(line[:6]) == count
            count, size = count + 1, size + len(line) + 1
        after, more = chunk.position, chunk.more
    assert (count, size) == (200_000, 200_000_000 + 200_000)
    # A chunk of one MiB as text, several times over; in kilobytes. The proxy is in this process too.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000


def test_a_node_that_is_away_is_silent_and_no_error(
    backend: KubernetesBackend, run: Callable[..., None], proxy: FaultProxy
) -> None:
    run("print('ready')\nimport time\ntime.sleep(600)")
    (source,) = until(lambda: sources(backend))
    chunk = until(lambda: (found := backend.logs(source)).lines and found)
    text = 'Get "https://10.0.0.9:10250/containerLogs/n/p/node?timestamps=true": dial tcp 10.0.0.9:10250: refused'
    proxy.when("GET", "log").answer(500, {"message": text})
    away = backend.logs(source, after=chunk.position)
    assert (away.lines, away.position, away.ended) == ((), chunk.position, False)
    proxy.clear()
    proxy.when("GET", "log").answer(503, {"message": "the API server is away"})
    with pytest.raises(Unreachable):
        backend.logs(source, after=chunk.position)


def test_containers_that_have_not_begun_and_pods_that_are_gone(
    backend: KubernetesBackend, control_plane: Cluster, cluster_namespace: str, run: Callable[..., None]
) -> None:
    control_plane.kubelet.hold(cluster_namespace)
    run("print('never')")
    (pod,) = until(lambda: backend.observe("x", now=1.0).pods)
    source = LogSource("node-0", pod.name, pod.uid, "node")
    waiting = backend.logs(source)
    assert (waiting.lines, waiting.ended) == ((), False)
    job = backend.get("x")
    assert job is not None
    backend.delete("x")
    until(lambda: not backend.pods("x", uid=job["metadata"]["uid"]))
    gone = backend.logs(source, after="2026-11-30T12:00:00Z|1")
    assert (gone.lines, gone.ended) == ((), True)
