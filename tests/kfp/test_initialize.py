"""Snapshots as steps, whole processes: in a stand-in for a cluster (retry, terminate, rights), and on the engine."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kfp.apiserver import Request
from tests.kfp.jobserver import JobServer
from tests.kfp.test_cancel import piped, until
from trainer_ops.build.snapshot_job import ANNOTATION_ASKED_BY

pytestmark = [pytest.mark.kfp, pytest.mark.slow]

URI = "hf://datasets/org/digits"
ANSWER = {
    "kind": "dataset",
    "uri": URI,
    "revision": "c0ffee",
    "key": "0" * 32,
    "location": f"pvc://trainer-ops-snapshots/{'0' * 32}/data",
    "digest": "sha256:ab",
    "files": 2,
    "bytes": 70,
    "hit": False,
}
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobServer]:
    for name in ("KUBECONFIG", "TRAINER_OPS_TARGET", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = JobServer(tmp_path / "account")
    yield server
    server.close()


def the_job(jobs: JobServer) -> dict[str, Any]:
    until(lambda: jobs.batch)
    (job,) = jobs.batch.values()
    return job


def test_a_job_makes_it(jobs: JobServer, step: Callable[..., Any]) -> None:
    one = step("initialize_dataset", uri=URI, secret_ref="hub-token", storage="20Gi")
    process = one.start_in(jobs, **PIPES)
    job = the_job(jobs)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "hub-token"}}]
    jobs.end(job["metadata"]["name"], ANSWER)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "a snapshot of 2 files, 70 bytes was made in pvc://trainer-ops-snapshots/" in out
    assert one.written == {"snapshot": ANSWER}
    artifact = one.artifact("dataset")
    assert artifact["uri"] == ANSWER["location"]
    assert artifact["metadata"] == ANSWER


def test_a_step_started_again_takes_up_the_job_of_the_first(jobs: JobServer, step: Callable[..., Any]) -> None:
    one = step("initialize_model", uri="hf://org/model")
    first = one.start_in(jobs, stdout=subprocess.DEVNULL)
    name = the_job(jobs)["metadata"]["name"]
    first.kill()
    first.wait()
    jobs.end(name, {**ANSWER, "kind": "model"})
    again = one.start_in(jobs, **PIPES)
    _, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert list(jobs.batch) == [name]
    assert one.artifact("model")["metadata"]["kind"] == "model"


@pytest.mark.parametrize("when", ["while it waits", "before", "after"])
def test_terminate_deletes_the_job(jobs: JobServer, step: Callable[..., Any], when: str) -> None:
    """Also while the API server has the request, and stores the Job a moment before or after the signal."""
    reached, go_on = threading.Event(), threading.Event()

    def hold(now: str) -> None:
        if now == when:
            reached.set()
            go_on.wait(20)

    jobs.hold = hold
    one = step("initialize_dataset", uri=URI)
    with piped(lambda **options: one.start_in(jobs, **options)) as (process, terminate):
        if when == "while it waits":
            name = the_job(jobs)["metadata"]["name"]
            until(lambda: jobs.seen("GET", name) and jobs.seen("GET", "/version"))
        else:
            until(reached.is_set)
        threading.Timer(0.2, go_on.set).start()
        at = terminate()
    assert process.returncode == 143
    assert jobs.batch == {}
    assert len(jobs.deleted) == 1
    if when == "while it waits":
        first = next(request for request in jobs.requests if request.at >= at)
        assert (first.verb, first.body["propagationPolicy"]) == ("DELETE", "Background")


def test_terminate_leaves_the_job_that_another_step_started(jobs: JobServer, step: Callable[..., Any]) -> None:
    other = step("initialize_dataset", task="a", uri=URI).start_in(jobs, stdout=subprocess.DEVNULL)
    try:
        name = the_job(jobs)["metadata"]["name"]
        one = step("initialize_dataset", task="b", uri=URI)
        before = len(jobs.seen("GET", name))
        with piped(lambda **options: one.start_in(jobs, **options)) as (process, terminate):
            # Looked at by both: the other one looks once a second.
            until(lambda: len({r.connection for r in jobs.seen("GET", name)[before:]}) >= 2)
            terminate()
        assert process.returncode == 143
        assert list(jobs.batch) == [name]
    finally:
        other.kill()
        other.wait()


def test_who_asks_is_the_task(jobs: JobServer, step: Callable[..., Any]) -> None:
    process = step("initialize_dataset", uri=URI).start_in(jobs, stdout=subprocess.DEVNULL)
    asked = the_job(jobs)["metadata"]["annotations"][ANNOTATION_ASKED_BY]
    process.kill()
    process.wait()
    assert len(asked) >= 16


def test_who_may_not_create_jobs_gets_the_role(jobs: JobServer, step: Callable[..., Any]) -> None:
    account = "system:serviceaccount:kubeflow:pipeline-runner"
    what = 'cannot create resource "jobs" in API group "batch" in the namespace "team-a"'

    def refuse(request: Request) -> tuple[int, str] | None:
        return (403, f'jobs is forbidden: User "{account}" {what}') if request.verb == "POST" else None

    jobs.refuse = refuse
    process = step("initialize_dataset", uri=URI).start_in(jobs, **PIPES)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "snapshots of datasets and models" in err
    assert err.strip().splitlines()[-1].startswith("not allowed: creating jobs in namespace team-a as ")
    assert "Traceback" not in err


def test_what_the_job_says_is_the_end_of_the_log(jobs: JobServer, step: Callable[..., Any]) -> None:
    one = step("initialize_dataset", uri=URI)
    process = one.start_in(jobs, **PIPES)
    told = {"error": {"field": "uri", "reason": "the dataset is gated", "remedy": "Ask for access, give a token"}}
    jobs.end(the_job(jobs)["metadata"]["name"], told, code=1)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.strip().splitlines()[-1] == "invalid request: uri: the dataset is gated. Ask for access, give a token"
    assert not (one.folder / "output.json").exists()


class TestOnTheEngine:
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "data"
        folder.mkdir()
        (folder / "digits.csv").write_text("1,2,3\n")
        return folder

    def test_once_made_then_found(self, engine: str, step: Callable[..., Any], tmp_path: Path) -> None:
        uri = self.folder(tmp_path).as_uri()
        found = []
        for task in ("a", "b"):
            one = step("initialize_dataset", task=task, uri=uri, target=engine, secret_ref="not-used-here")
            assert one.start(stdout=subprocess.DEVNULL).wait(timeout=60) == 0
            found.append(one.written["snapshot"])
        assert [one["hit"] for one in found] == [False, True]
        assert found[0]["location"] == found[1]["location"]

    def test_a_source_that_is_not_there(self, engine: str, step: Callable[..., Any], tmp_path: Path) -> None:
        one = step("initialize_dataset", uri=(tmp_path / "absent").as_uri(), target=engine)
        process = one.start(**PIPES)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "absent" in err.strip().splitlines()[-1]
        assert "Traceback" not in err

    def test_terminate_leaves_nothing_half_made(self, engine: str, step: Callable[..., Any], tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        one = step("initialize_dataset", uri=folder.as_uri(), target=engine)
        slow = "import time\nfrom trainer_ops.lifecycle.snapshot_lines import SnapshotLines\n"
        slow += "SnapshotLines.on_start = lambda *a: (print('begun', flush=True), time.sleep(60))\n"
        process = one.start(slow, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        began = time.monotonic()
        process.terminate()
        assert process.wait(timeout=30) == 143
        assert time.monotonic() - began < 30
        process.stdout.close()
        again = step("initialize_dataset", uri=folder.as_uri(), target=engine)
        assert again.start(stdout=subprocess.DEVNULL).wait(timeout=60) == 0
        assert again.written["snapshot"]["hit"] is False


# Each makes the first start of the step kill itself: what it replaces is called for the last time.
KILL = "import os, signal\ndef kill(*a, **k): os.kill(os.getpid(), signal.SIGKILL)\n"
CLUSTER = "from trainer_ops.backends.kubernetes.steps import ClusterSteps as S\n"
POINTS = {
    "as it starts": "from trainer_ops.kfp import initialize; initialize.opened = kill",
    "before the create": f"{CLUSTER}S.create = kill",
    "after the create": f"{CLUSTER}create = S.create\ndef both(*a): create(*a); kill()\nS.create = both",
    "at the first look": f"{CLUSTER}S.look = kill",
    "over, and nothing written": "from trainer_ops.kfp import initialize; initialize._place = kill",
    "outputs written aside": "os.replace = kill",
}


def ends_at_once(jobs: JobServer) -> Callable[[str], None]:
    """Each Job is over as soon as it is there."""

    def hold(when: str) -> None:
        for name in list(jobs.batch) if when == "after" else ():
            jobs.end(name, ANSWER)

    return hold


@pytest.mark.parametrize("patch", POINTS.values(), ids=POINTS.keys())
def test_killed_anywhere_and_started_again_it_is_one_job(jobs: JobServer, step: Callable[..., Any], patch: str) -> None:
    jobs.hold = ends_at_once(jobs)
    one = step("initialize_dataset", uri=URI)
    first = one.start_in(jobs, first=KILL + patch, **PIPES)
    first.communicate(timeout=60)
    assert first.returncode == -9
    again = one.start_in(jobs, **PIPES)
    _, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert len(jobs.batch) == 1
    assert one.written == {"snapshot": ANSWER}


def test_nothing_heavy_is_imported(jobs: JobServer, step: Callable[..., Any]) -> None:
    jobs.hold = ends_at_once(jobs)
    heavy = "print(sorted({'kfp', 'kubernetes', 'huggingface_hub', 'fsspec'} & set(sys.modules)))"
    told = f"import atexit, sys\n@atexit.register\ndef told():\n    {heavy}\n"
    process = step("initialize_dataset", uri=URI).start_in(jobs, first=told, **PIPES)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.endswith("[]\n")
