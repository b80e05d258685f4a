"""Real processes under a root folder of the test's own; nothing of them may outlive the session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.backends.base import LogSource, log_sources
from trainer_ops.local import processes
from trainer_ops.local.engine import LocalBackend
from trainer_ops.local.store import Store
from trainer_ops.model.observed import Observation
from trainer_ops.model.phase import Phase, State
from trainer_ops.status.classify import classify

Raw = dict[str, Any]
PATIENCE = 60.0

_UIDS: set[str] = set()


def until(look: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Ask until the answer is true; that answer."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def _job_template(name: str, ancestor: str, *, restart: str, backoff: int, grace: int, pod: Raw, after: Raw) -> Raw:
    containers = pod.pop("containers", [{"name": "node", "image": "none"}])
    spec = {"restartPolicy": restart, "terminationGracePeriodSeconds": grace, "containers": containers, **pod}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor} if ancestor else {}
    template = {"metadata": {"labels": labels}, "spec": {"backoffLimit": backoff, "template": {"spec": spec}}}
    depends = [{"name": n, "status": s} for n, s in after.items()]
    return {"name": name, "template": template, **({"dependsOn": depends} if depends else {})}


def runtime(
    name: str,
    *,
    restart: str = "Never",
    backoff: int = 0,
    grace: int = 5,
    initializers: Sequence[str] = (),
    before: Sequence[Raw] = (),
    pod: Raw | None = None,
    jobset: Raw | None = None,
) -> Raw:
    """A runtime for tests: ``node`` and whatever comes before it."""
    jobs = [
        _job_template(
            step,
            step,
            restart="Never",
            backoff=0,
            grace=2,
            pod={"containers": [{"name": step, "image": "x"}]},
            after={},
        )
        for step in initializers
    ]
    jobs += [_job_template(b["name"], "", restart="Never", backoff=0, grace=2, pod=dict(b), after={}) for b in before]
    after = {j["name"]: "Complete" for j in jobs}
    after.update({b["name"]: b.get("until", "Complete") for b in before})
    jobs.append(
        _job_template("node", "trainer", restart=restart, backoff=backoff, grace=grace, pod=pod or {}, after=after)
    )
    for job in jobs:
        for key in ("name", "until"):
            job["template"]["spec"]["template"]["spec"].pop(key, None)
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": jobs, **(jobset or {})}}},
    }


@dataclass
class Engine:
    """A ``LocalBackend`` and what tests ask of it."""

    backend: LocalBackend
    folder: Path

    def create(
        self, name: str, code: str | Sequence[str], *, nodes: int = 1, runtime: str = "t-plain", **spec: Any
    ) -> str:
        """Create a TrainJob of Python code (or of argv); its uid."""
        argv = [sys.executable, "-c", textwrap.dedent(code)] if isinstance(code, str) else list(code)
        meta = spec.pop("metadata", {})
        trainer = {"numNodes": nodes, "command": argv, **spec.pop("trainer", {})}
        manifest = {
            "metadata": {"name": name, **meta},
            "spec": {"runtimeRef": {"name": runtime}, "trainer": trainer, **spec},
        }
        uid = str(self.backend.create(manifest)["metadata"]["uid"])
        _UIDS.add(uid)
        return uid

    def look(self, name: str) -> Observation:
        """What there is to see."""
        return self.backend.observe(name, now=time.time())

    def state(self, name: str) -> State:
        """The verdict."""
        return classify(self.look(name))

    def phase(self, name: str, *phases: Phase) -> Observation:
        """Wait for one of these phases; what was seen then."""
        seen: list[Observation] = []

        def look() -> bool:
            seen[:] = [self.look(name)]
            return classify(seen[0]).phase in phases

        until(look)
        return seen[0]

    def finished(self, name: str) -> Observation:
        """Wait for its end."""
        return self.phase(name, Phase.SUCCEEDED, Phase.FAILED)

    def settled(self, uid: str) -> None:
        """Wait until no supervisor works on it; looking is what ends those that were killed."""

        def look() -> bool:
            self.backend.pods("", uid=uid)
            return self.row(uid) is None or self.row(uid)["claim_pid"] is None

        until(look)

    def row(self, uid: str) -> Any:
        """Its row in the database."""
        with self.store.read() as connection:
            return connection.execute("SELECT * FROM jobs WHERE uid = ?", (uid,)).fetchone()

    @property
    def store(self) -> Store:
        """The store behind it."""
        return self.backend._store

    def source(self, name: str, index: int = 0, run: int = 0) -> LogSource:
        """A source of the step ``node``."""
        found = log_sources(self.look(name).pods)
        return [s for s in found if s.node == f"node-{index}"][run]

    def lines(self, name: str, index: int = 0, run: int = 0) -> list[str]:
        """All that node has printed so far."""
        source, position = self.source(name, index, run), ""
        lines: list[str] = []
        while True:
            chunk = self.backend.logs(source, after=position)
            lines += chunk.lines
            position = chunk.position
            if not chunk.more:
                return lines

    def printed(self, name: str, text: str, index: int = 0) -> None:
        """Wait until that node has printed a line with this text."""

        def look() -> bool:
            pods = [p for p in self.look(name).pods if p.step == "node" and p.index == index and p.main]
            return bool(pods) and any(text in line for line in self.lines(name, index))

        until(look)

    def deleted(self, name: str, uid: str) -> None:
        """Delete it and wait until nothing is left."""
        self.backend.delete(name, uid=uid)
        until(lambda: not self.folder_of(uid).exists() and self.row(uid) is None)

    def folder_of(self, uid: str) -> Path:
        """Its folder."""
        return Path(self.store.folder(uid))

    def kill(self, uid: str, *who: str) -> None:
        """``kill -9`` of ``claim`` (the supervisor) and ``guard``, as they are recorded; of both as good as at once."""
        row = until(lambda: (r := self.row(uid)) is not None and r["claim_pid"] and r)
        pids = [row[f"{name}_pid"] for name in who]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def alive(uid: str) -> list[processes.Process]:
    """The processes that carry this TrainJob's marker."""
    return processes.marked(uid)


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., Any]:
    """Ask until the answer is true."""
    return until


@pytest.fixture(scope="session")
def processes_of() -> Callable[[str], list[processes.Process]]:
    """The processes that carry a TrainJob's marker."""
    return alive


@pytest.fixture(scope="session")
def make_runtime() -> Callable[..., Raw]:
    """A runtime for tests."""
    return runtime


@pytest.fixture
def make_engine(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    """Engines under ``tmp_path``; at the end all their TrainJobs are deleted and nothing of them may be left."""
    made: list[Engine] = []

    def make(*extra: Raw, max_jobs: int = 16, root: str = "root") -> Engine:
        folder = tmp_path / f"runtimes-{len(made)}"
        folder.mkdir()
        for one in (runtime("t-plain"), *extra):
            (folder / f"{one['metadata']['name']}.yaml").write_text(json.dumps(one))
        engine = Engine(LocalBackend(tmp_path / root, max_jobs=max_jobs, runtimes=[folder]), tmp_path)
        made.append(engine)
        return engine

    yield make
    for engine in made:
        _clean(engine)


def _clean(engine: Engine) -> None:
    with engine.store.read() as connection:
        uids = [row["uid"] for row in connection.execute("SELECT uid FROM jobs")]
    spared = _engine_pids(engine, uids)
    for job in engine.backend.list():
        engine.backend.delete(job["metadata"]["name"])
    for pid in {p.pid for uid in uids for p in alive(uid)} - spared:
        processes.send(pid, signal.SIGKILL)  # no test waits for a grace period that it is not about
    engine.backend._store._closed = False
    until(lambda: not engine.backend.list() and not _left(engine))
    engine.backend.close()


def _engine_pids(engine: Engine, uids: Sequence[str]) -> set[int]:
    rows = [engine.row(uid) for uid in uids]
    return {row[key] for row in rows if row is not None for key in ("claim_pid", "guard_pid")}


def _left(engine: Engine) -> bool:
    folder = engine.backend.root / "jobs"
    return folder.is_dir() and any(folder.iterdir())


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    """One engine with the runtime ``t-plain``: nothing restarts."""
    return make_engine()


@pytest.fixture(scope="session", autouse=True)
def nothing_survives() -> Iterator[None]:
    """No process of any TrainJob of these tests outlives them."""
    yield
    left = [p for uid in _UIDS for p in until_gone(uid)]
    assert not left, [Path(f"/proc/{p.pid}/cmdline").read_bytes()[:200] for p in left]


def until_gone(uid: str, seconds: float = 10.0) -> list[processes.Process]:
    """What is left of a TrainJob after at most that long."""
    end = time.monotonic() + seconds
    while (left := alive(uid)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


@pytest.fixture(scope="session")
def gone() -> Callable[[str], None]:
    """Wait until no process of a TrainJob is left."""

    def check(uid: str) -> None:
        assert not until_gone(uid, PATIENCE)

    return check


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.Popen[bytes]]:
    """Another Python process."""

    def start(code: str, *args: str, **more: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), *args], **more)

    return start
