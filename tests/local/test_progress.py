"""The progress endpoint, as training code uses it and as it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainer_ops.local.progress_server import check_status

CLIENT = """
import json, os, sys, urllib.error, urllib.request
url = os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
assert oct(os.stat(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).st_mode)[-3:] == "600"
import ssl
ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])

def post(body, url=url, token=token, method="POST"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
"""

GOOD = {
    "progressPercentage": 40,
    "estimatedRemainingSeconds": 30,
    "metrics": [{"name": "loss", "value": "0.5"}, {"name": "note", "value": "warm"}],
    "lastUpdatedTime": "2026-11-30T12:00:00Z",
}


def test_a_report_is_seen_on_the_trainjob(engine: Any) -> None:
    engine.create("told", CLIENT + f"\nprint(json.dumps(post({{'trainerStatus': json.loads({json.dumps(GOOD)!r})}})))")
    seen = engine.finished("told")
    assert json.loads(engine.lines("told")[0]) == [200, {"trainerStatus": GOOD}]
    assert engine.backend.get("told")["status"]["trainerStatus"] == GOOD
    progress = seen.job.progress
    assert (progress.percentage, progress.eta_seconds) == (40, 30.0)
    assert progress.metrics == {"loss": 0.5, "note": "warm"}


def test_refusals(engine: Any) -> None:
    code = """
ok = {"trainerStatus": {"progressPercentage": 1}}
print(post(ok, token="wrong")[0])
print(post(ok, url=url.replace("/trainjobs/refused/", "/trainjobs/other/"))[0])
print(post(b"x" * 70000)[0])
print(post({"trainerStatus": {"progressPercentage": 101}})[0])
print(post(b"no json")[0])
print(post([])[0])
print(post(ok, method="GET")[0])
print(post(ok)[0])
"""
    engine.create("refused", CLIENT + code)
    engine.finished("refused")
    assert engine.lines("refused") == ["403", "404", "413", "422", "422", "422", "405", "200"]


def test_many_reports_at_once_do_not_hold_the_training_up(engine: Any) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    codes = list(pool.map(lambda i: post({"trainerStatus": {"progressPercentage": i}})[0], range(64)))
print(set(codes))
"""
    engine.create("many", CLIENT + code, nodes=2)
    engine.finished("many")
    assert engine.lines("many", 0) == ["{200}"]
    assert engine.lines("many", 1) == ["{200}"]


def test_a_client_that_says_nothing_holds_nothing_up(engine: Any) -> None:
    code = """
import socket, urllib.parse
silent = socket.create_connection(("127.0.0.1", urllib.parse.urlsplit(url).port))
print(post({"trainerStatus": {"progressPercentage": 7}})[0])
"""
    engine.create("silent", CLIENT + code)
    engine.finished("silent")
    assert engine.lines("silent") == ["200"]


def test_a_report_without_time_gets_one(engine: Any) -> None:
    engine.create("now", CLIENT + "\npost({'trainerStatus': {'progressPercentage': 5}})")
    seen = engine.finished("now")
    assert abs(seen.job.progress.at - seen.at) < 60


@pytest.mark.parametrize(
    ("status", "text"),
    [
        pytest.param([], "no object", id="no object"),
        pytest.param({"percent": 1}, "unknown field percent", id="unknown"),
        pytest.param({"progressPercentage": -1}, "progressPercentage", id="negative"),
        pytest.param({"progressPercentage": 1.5}, "progressPercentage", id="fraction"),
        pytest.param({"progressPercentage": True}, "progressPercentage", id="bool"),
        pytest.param({"estimatedRemainingSeconds": -1}, "estimatedRemainingSeconds", id="eta"),
        pytest.param({"lastUpdatedTime": "yesterday"}, "lastUpdatedTime", id="time"),
        pytest.param({"metrics": {}}, "metrics", id="metrics no list"),
        pytest.param({"metrics": [{"name": "a", "value": 1}]}, "value", id="value no text"),
        pytest.param({"metrics": [{"name": "a" * 65, "value": "1"}]}, "name", id="long name"),
        pytest.param({"metrics": [{"name": "a", "value": "1"}] * 257}, "metrics", id="too many"),
    ],
)
def test_rules(status: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check_status(status)


def test_nulls_are_absent() -> None:
    assert check_status({"progressPercentage": 5, "metrics": None}) == {"progressPercentage": 5}
