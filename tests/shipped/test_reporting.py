"""``report``: what it writes, what it posts, what it refuses, and that it never fails a training for the network."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.model.result import Result, parse_result
from trainer_ops.shipped import reporting
from trainer_ops.shipped.reporting import report


@dataclass
class Clock:
    """The module ``time`` with a monotonic clock that a test moves."""

    now: float = 1000.0
    strftime = staticmethod(time.strftime)
    gmtime = staticmethod(time.gmtime)

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A process that has reported nothing yet, outside of any training, and its clock."""
    for name in (*reporting.RANKS, "TRAINER_OPS_RESULT_PATH", *(n for n in os.environ if n.startswith("KUBEFLOW_"))):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(reporting, "_reporter", reporting._Reporter())
    moved = Clock()
    monkeypatch.setattr(reporting, "time", moved)
    return moved


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The termination message of a training, empty as the kubelet makes it."""
    path = tmp_path / "termination-log"
    path.touch()
    monkeypatch.setenv("TRAINER_OPS_RESULT_PATH", str(path))
    return path


class Scalar:
    """What numpy, torch and jax have in common."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        if isinstance(self.value, list):
            raise ValueError("can only convert an array of size 1")
        return self.value


# (calls of report, what is in the file)
WRITTEN: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "metrics": ([{"metrics": {"a": 1, "b": 0.5}}], {"metrics": {"a": 1, "b": 0.5}}),
    "text": ([{"metrics": {"best": "epoch 3"}}], {"metrics": {"best": "epoch 3"}}),
    "model": ([{"model_uri": "s3://m"}], {"model_uri": "s3://m"}),
    "a path is a model": ([{"model_uri": Path("/m")}], {"model_uri": "/m"}),
    "artifacts": ([{"artifacts": {"a": {"b": [1, None, True]}}}], {"artifacts": {"a": {"b": [1, None, True]}}}),
    "tuples are lists": ([{"artifacts": {"a": (1, 2)}}], {"artifacts": {"a": [1, 2]}}),
    "later values replace earlier ones": ([{"metrics": {"a": 1}}, {"metrics": {"a": 2}}], {"metrics": {"a": 2}}),
    "all parts merge": (
        [{"metrics": {"a": 1}}, {"model_uri": "m"}, {"artifacts": {"x": 1}}, {"metrics": {"b": 2}}],
        {"metrics": {"a": 1, "b": 2}, "model_uri": "m", "artifacts": {"x": 1}},
    ),
    "NaN is text": ([{"metrics": {"a": math.nan}}], {"metrics": {"a": "nan"}}),
    "infinity is text": ([{"metrics": {"a": -math.inf}}], {"metrics": {"a": "-inf"}}),
    "also inside": ([{"artifacts": {"a": [math.nan]}}], {"artifacts": {"a": ["nan"]}}),
    "a scalar of an array library": ([{"metrics": {"a": Scalar(0.5)}}], {"metrics": {"a": 0.5}}),
    "a NaN of one": ([{"metrics": {"a": Scalar(math.nan)}}], {"metrics": {"a": "nan"}}),
    "beyond ASCII": ([{"metrics": {"Güte": 1}}], {"metrics": {"Güte": 1}}),
    "no text at all": ([{"metrics": {"a": "\udcff"}}], {"metrics": {"a": "?"}}),
}


@pytest.mark.parametrize(("calls", "expected"), WRITTEN.values(), ids=WRITTEN.keys())
def test_written(result: Path, calls: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    for call in calls:
        report(**call)
    text = result.read_text(encoding="utf-8")
    whole = {"metrics": {}, "model_uri": None, "artifacts": {}, **expected}
    assert json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON")) == whole
    assert text == text.strip()


def test_a_shorter_report_leaves_nothing_of_a_longer_one(result: Path) -> None:
    report({"a": "x" * 500})
    report({"a": 1})
    assert json.loads(result.read_text())["metrics"] == {"a": 1}


def test_what_is_written_is_what_is_read(result: Path) -> None:
    report({"accuracy": 0.5, "loss": math.nan}, model_uri="s3://m", artifacts={"p": {"q": 1}})
    assert parse_result(result.read_text()) == Result({"accuracy": 0.5, "loss": "nan"}, "s3://m", {"p": {"q": 1}})


def test_progress_alone_is_no_result(result: Path) -> None:
    report(progress=50)
    assert result.read_text() == ""


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a metric": ({"metrics": {"a": [1]}}, r"metrics\['a'\] is a list; give a number or text"),
    "an array": ({"metrics": {"a": Scalar([1, 2])}}, r"metrics\['a'\] is a Scalar; give a number or text"),
    "nothing": ({"metrics": {"a": None}}, r"metrics\['a'\] is a NoneType; give a number or text"),
    "an artifact": ({"artifacts": {"m": object()}}, r"artifacts\['m'\] is a object; give plain data"),
    "deep inside": (
        {"artifacts": {"m": [1, {"k": {1, 2}}]}},
        r"artifacts\['m'\]\[1\]\['k'\] is a set; give plain data",
    ),
    "a name": ({"metrics": {1: 1}}, "metrics: the name 1 is a int; give text"),
    "a name inside": ({"artifacts": {"a": {2: 1}}}, r"artifacts\['a'\]: the name 2 is a int; give text"),
    "too long": (
        {"metrics": {"a": 1}, "artifacts": {"a": "x" * 5000}},
        "at most 4096 fit; the biggest part is artifacts with 5008",
    ),
    "too long in bytes": ({"artifacts": {"a": "世" * 1400}}, "at most 4096 fit; the biggest part is artifacts"),
    "too many metrics": ({"metrics": {f"m{i}": i for i in range(500)}}, "the biggest part is metrics"),
}


@pytest.mark.parametrize(("call", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(result: Path, call: dict[str, Any], text: str) -> None:
    report({"before": 1})
    with pytest.raises(ValueError, match=text):
        report(**call)
    report({"after": 2})
    assert json.loads(result.read_text())["metrics"] == {"before": 1, "after": 2}, "something of it was kept"


def test_exactly_4096_bytes_fit(result: Path) -> None:
    around = len('{"metrics":{},"model_uri":null,"artifacts":{"a":""}}')
    report(artifacts={"a": "x" * (4096 - around)})
    assert result.stat().st_size == 4096
    with pytest.raises(ValueError, match="4097 bytes"):
        report(artifacts={"a": "x" * (4097 - around)})


RANKS: dict[str, tuple[dict[str, str], bool]] = {
    "alone": ({}, True),
    "torchrun, rank 0": ({"RANK": "0", "PET_NODE_RANK": "0"}, True),
    "torchrun, second process of node 0": ({"RANK": "1", "PET_NODE_RANK": "0"}, False),
    "torch, second node": ({"PET_NODE_RANK": "1"}, False),
    "jax": ({"JAX_PROCESS_ID": "1"}, False),
    "xgboost": ({"DMLC_TASK_ID": "1"}, False),
    "mpi, rank 0": ({"OMPI_COMM_WORLD_RANK": "0", "JOB_COMPLETION_INDEX": "3"}, True),
    "mpi, on the launcher": ({"OMPI_COMM_WORLD_RANK": "1", "JOB_COMPLETION_INDEX": "0"}, False),
    "plain, second node": ({"JOB_COMPLETION_INDEX": "1"}, False),
    "an empty variable is none": ({"RANK": "", "JOB_COMPLETION_INDEX": "1"}, False),
}


@pytest.mark.parametrize(("env", "writes"), RANKS.values(), ids=RANKS.keys())
def test_only_rank_zero_writes(
    result: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], writes: bool
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    report({"a": 1})
    assert (result.read_text() != "") is writes


def test_outside_of_a_training_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reporting, "TERMINATION_LOG", str(tmp_path / "not-there"))
    report({"a": 1}, progress=50)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_the_termination_log_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    monkeypatch.setattr(reporting, "TERMINATION_LOG", str(log))
    inode = log.stat().st_ino
    report({"a": 1})
    assert json.loads(log.read_text())["metrics"] == {"a": 1}
    assert log.stat().st_ino == inode, "a mounted file cannot be replaced by another"


def test_a_place_that_cannot_be_written_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINER_OPS_RESULT_PATH", str(tmp_path))
    report({"a": 1})
    report({"a": 2})
    assert capfd.readouterr().err.count("trainer_ops: the result cannot be written: ") == 1


@dataclass
class Server:
    """Stands for Trainer's status server."""

    status: int = 200
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def last(self) -> dict[str, Any]:
        row: dict[str, Any] = self.bodies[-1]["trainerStatus"]
        return row


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            made.headers.append(dict(self.headers))
            self.send_response(made.status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    token = tmp_path / "token"
    token.write_text("secret\n")
    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_URL", f"http://127.0.0.1:{listening.server_port}/status")
        monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_TOKEN", str(token))
        monkeypatch.setattr(reporting, "TERMINATION_LOG", str(tmp_path / "not-there"))
        yield made
        listening.shutdown()
        thread.join()


def test_posted(server: Server) -> None:
    report({"loss": 0.5, "note": "ok"}, progress=41.9, eta_seconds=17.4)
    stamp = server.last.pop("lastUpdatedTime")
    assert len(stamp) == len("2026-11-29T12:00:00Z")
    assert server.last == {
        "progressPercentage": 41,
        "estimatedRemainingSeconds": 17,
        "metrics": [{"name": "loss", "value": "0.5"}, {"name": "note", "value": "ok"}],
    }
    assert server.headers[0]["Authorization"] == "Bearer secret"
    assert server.headers[0]["Content-Type"] == "application/json"


SENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "below nothing": ({"progress": -3}, {"progressPercentage": 0}),
    "above everything": ({"progress": 100.5}, {"progressPercentage": 100}),
    "no number": ({"progress": math.nan, "eta_seconds": math.inf}, {}),
    "late": ({"eta_seconds": -1}, {"estimatedRemainingSeconds": 0}),
    "for ever": ({"eta_seconds": 1e12}, {"estimatedRemainingSeconds": 2**31 - 1}),
    "long names and values stay here": ({"metrics": {"n" * 65: 1, "v": "v" * 65, "a": 1}}, {"a": "1"}),
}


@pytest.mark.parametrize(("call", "expected"), SENT.values(), ids=SENT.keys())
def test_what_the_server_would_refuse_is_not_sent(
    server: Server, call: dict[str, Any], expected: dict[str, Any]
) -> None:
    report(**call)
    body = {k: v for k, v in server.last.items() if k not in ("lastUpdatedTime", "metrics")}
    assert {**body, **{row["name"]: row["value"] for row in server.last["metrics"]}} == expected


def test_posts_are_five_seconds_apart_and_lose_nothing(server: Server, clock: Clock) -> None:
    report({"a": 1}, progress=1)
    report({"b": 2}, progress=2)
    assert len(server.bodies) == 1
    clock.now += 5
    report(progress=3)
    assert len(server.bodies) == 2
    assert (server.last["progressPercentage"], len(server.last["metrics"])) == (3, 2)


def test_a_hundred_percent_is_never_held_back(server: Server) -> None:
    report(progress=99)
    report({"a": 1}, progress=100)
    assert server.last["progressPercentage"] == 100


def test_what_was_held_back_goes_out_at_the_end(server: Server) -> None:
    report(progress=10)
    report(progress=20)
    reporting._reporter.flush()
    reporting._reporter.flush()
    assert [body["trainerStatus"]["progressPercentage"] for body in server.bodies] == [10, 20]


def test_only_rank_zero_posts(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    report(progress=100)
    assert server.bodies == []


def test_a_server_that_refuses_fails_no_training(
    server: Server, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    server.status = 403
    report(progress=1)
    clock.now += 30
    report(progress=2)
    assert len(server.bodies) == 1, "it is left alone for a minute"
    clock.now += 31
    server.status = 200
    report(progress=3)
    assert server.last["progressPercentage"] == 3
    assert capfd.readouterr().err.count("trainer_ops: progress cannot be posted: ") == 1


TROUBLE = {
    "nobody listens": {"KUBEFLOW_TRAINER_SERVER_URL": "http://127.0.0.1:9/status"},
    "no URL": {"KUBEFLOW_TRAINER_SERVER_URL": "status"},
    "no token": {
        "KUBEFLOW_TRAINER_SERVER_URL": "http://127.0.0.1:9/",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": "/not/there",
    },
    "no certificate": {
        "KUBEFLOW_TRAINER_SERVER_URL": "https://127.0.0.1:9/",
        "KUBEFLOW_TRAINER_SERVER_CA_CERT": "/not/there",
    },
}


@pytest.mark.parametrize("env", TROUBLE.values(), ids=TROUBLE.keys())
def test_trouble_fails_no_training(
    result: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], env: dict[str, str]
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    report({"a": 1}, progress=100)
    reporting._reporter.flush()
    assert json.loads(result.read_text())["metrics"] == {"a": 1}
    assert capfd.readouterr().err.count("\n") == 1


def test_threads_do_not_lose_each_others_metrics(result: Path) -> None:
    threads = [threading.Thread(target=report, args=({f"m{i}": i},)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(result.read_text())["metrics"]) == 20
