"""A terminated run cancels its training: a real process, a closed stdout, a kill 0.7 s later, as KFP does it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.kfp.apiserver import ApiServer, Request
from trainer_ops.lifecycle.target import open_backend

pytestmark = [pytest.mark.kfp, pytest.mark.slow]

# What is left of a step after the signal (seen on KFP 2.17.0: 0.73 to 0.99 s).
BUDGET = 0.7
INPUTS: dict[str, Any] = {"runtime": "plain", "command": ["sleep", "600"]}


@contextmanager
def piped(start: Callable[..., subprocess.Popen[str]]) -> Iterator[tuple[subprocess.Popen[str], Callable[[], float]]]:
    """A step whose output goes into a pipe, and what terminates it: the reader dies, SIGTERM, and the kill."""
    read, write = os.pipe()
    process = start(stdout=write, stderr=write)
    os.close(write)
    reader = threading.Thread(target=_drain, args=(read,), daemon=True)
    reader.start()

    def terminate() -> float:
        os.close(read)
        at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=BUDGET)
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
        return at

    try:
        yield process, terminate
    finally:
        process.kill()
        process.wait()


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:
        return


def until(done: Callable[[], Any], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def after(cluster: ApiServer, at: float) -> list[Request]:
    return [one for one in list(cluster.requests) if one.at >= at]


class TestOnACluster:
    def test_while_it_waits(self, cluster: ApiServer, step: Callable[..., Any]) -> None:
        one = step("train_job", **INPUTS)
        with piped(lambda **o: one.start_in(cluster, **o)) as (process, terminate):
            # The wait has begun, and the connection for the end is open.
            until(lambda: cluster.seen("GET", "/version") and any(r.query.get("watch") for r in cluster.requests))
            (job,) = cluster.jobs.values()
            time.sleep(0.2)
            at = terminate()
        assert process.returncode == 143
        assert cluster.deleted == [job["metadata"]["name"]]
        first = after(cluster, at)[0]
        assert (first.verb, first.body["preconditions"]) == ("DELETE", {"uid": job["metadata"]["uid"]})
        assert first.body["propagationPolicy"] == "Background"
        assert first.connection in {one.connection for one in cluster.seen("GET", "/version")}

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_while_it_creates(self, cluster: ApiServer, step: Callable[..., Any], when: str) -> None:
        """The API server has the request, and stores the TrainJob a moment before, or after, the signal."""
        reached, go_on = threading.Event(), threading.Event()

        def hold(now: str) -> None:
            if now == when:
                reached.set()
                go_on.wait(20)

        cluster.hold = hold
        one = step("train_job", **INPUTS)
        with piped(lambda **o: one.start_in(cluster, **o)) as (process, terminate):
            until(reached.is_set)
            threading.Timer(0.2, go_on.set).start()
            terminate()
        assert process.returncode == 143
        assert cluster.jobs == {}
        assert len(cluster.deleted) == 1

    def test_before_it_creates(self, cluster: ApiServer, step: Callable[..., Any]) -> None:
        reached = threading.Event()

        def refuse(request: Request) -> None:
            if request.path.endswith("/clustertrainingruntimes/plain"):
                reached.set()
                time.sleep(3)

        cluster.refuse = refuse
        one = step("train_job", **INPUTS)
        with piped(lambda **o: one.start_in(cluster, **o)) as (process, terminate):
            until(reached.is_set)
            terminate()
        assert process.returncode == 143
        assert cluster.seen("POST") == []

    def test_a_second_start_of_the_step_cancels_what_the_first_has_submitted(
        self, cluster: ApiServer, step: Callable[..., Any]
    ) -> None:
        one = step("train_job", **INPUTS)
        first = one.start_in(cluster, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: cluster.jobs)
        first.kill()
        first.wait()
        reached = threading.Event()

        def refuse(request: Request) -> None:
            if request.path.endswith("/clustertrainingruntimes/plain"):
                reached.set()
                time.sleep(3)

        cluster.refuse = refuse
        with piped(lambda **o: one.start_in(cluster, **o)) as (process, terminate):
            until(reached.is_set)
            terminate()
        assert process.returncode == 143
        assert cluster.jobs == {}

    @pytest.mark.parametrize(("by", "on_terminate", "deleted"), [("name", "", 0), ("ref", "", 1), ("ref", "keep", 0)])
    def test_a_step_that_waits_for_another(
        self, cluster: ApiServer, step: Callable[..., Any], by: str, on_terminate: str, deleted: int
    ) -> None:
        submitted = step("submit_train_job", task="a", **INPUTS)
        assert submitted.start_in(cluster, stdout=subprocess.DEVNULL).wait(timeout=60) == 0
        ref = submitted.written["ref"]
        which = {"name": ref["name"]} if by == "name" else {"ref": ref}
        waits = step("wait_train_job", task="b", on_terminate=on_terminate, **which)
        with piped(lambda **o: waits.start_in(cluster, **o)) as (process, terminate):
            until(lambda: any(r.query.get("watch") for r in cluster.requests))
            time.sleep(0.2)
            terminate()
        assert process.returncode == 143
        assert len(cluster.deleted) == deleted


class TestOnTheEngine:
    def test_while_it_waits(self, engine: str, step: Callable[..., Any]) -> None:
        backend = open_backend(engine)
        one = step("train_job", target=engine, **INPUTS)
        with piped(one.start) as (process, terminate):
            until(lambda: any(_running(job) for job in backend.list()))
            terminate()
        assert process.returncode == 143
        assert backend.list() == []
        backend.close()


def _running(job: dict[str, Any]) -> bool:
    return any(row["active"] for row in (job.get("status") or {}).get("jobsStatus") or ())
