"""An Outcome's JSON is small whatever was seen: the worst of everything, at once and one by one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from trainer_ops.model import keys
from trainer_ops.model.limits import Limits
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.status.fit import SIZE_LIMIT, fitted
from trainer_ops.status.wait import Wait

if TYPE_CHECKING:
    from tests.status.conftest import Scene

# In JSON of ASCII these three bytes take six.
WIDE = "漢"


def size(value: Any) -> int:
    return len(json.dumps(value.to_json()))


def big_result(char: str) -> str:
    """A termination message of 4096 bytes, all of it one metric's name."""
    head, tail = '{"metrics": {"', '": 1}, "model_uri": "m"}'
    return head + char * ((keys.RESULT_LIMIT - len(head + tail)) // len(char.encode())) + tail


def reports(scene: Scene, at: float, number: int) -> dict[str, Any]:
    """The largest report that Trainer takes: 256 metrics, names and values of 64 characters."""
    metrics = [{"name": f"{WIDE * 60}{i:04}", "value": f"{WIDE * 58}{number:06}"} for i in range(256)]
    return {"progressPercentage": 1, "metrics": metrics, "lastUpdatedTime": scene.at(at)}


def loud(i: int) -> dict[str, Any]:
    return {"waiting": {"reason": f"{WIDE * 90}{i}", "message": WIDE * 5000}}


def worst(scene: Scene, *, message: str, failed: bool) -> Wait:
    """600 nodes that all fail with long words, 206 reports, 200 long events, a hundred restarts."""
    active = {"node": "active=1"}
    events = [scene.event(f"Pod/{WIDE * 200}", WIDE * 90 + str(k), WIDE * 999, at=k) for k in range(200)]
    wait = scene.begin(Limits(queue_timeout=1e9))
    for i in range(205):
        job = scene.job(rows=active, progress=reports(scene, i, i))
        pod = scene.pod("node-0", loud(i) if i % 2 else scene.running(0.1), restarts=i // 2)
        wait, _ = scene.see(wait, scene.look(job, pod, at=60 + 3 * i, events=events[i:]))
    pods = [
        scene.pod(f"node-{i}", scene.ended(1, WIDE * 90, message), phase="Failed", nodeName=WIDE * 200, restarts=i)
        for i in range(600)
    ]
    job = scene.job(rows=active, progress=reports(scene, 300, 300))
    wait, _ = scene.see(wait, scene.look(job, *pods, at=900))
    wait = wait.hear({f"node-{i}": [WIDE * 9000] * 30 for i in range(600)})
    end = scene.condition("Failed" if failed else "Complete", reason=WIDE * 900, message=WIDE * 30_000, at=950)
    return scene.see(wait, scene.look(scene.job(end), at=1000))[0]


WORST = {
    "failed, no result": ("", True),
    "failed, a result": (big_result(WIDE), True),
    "failed, a result of bytes that JSON writes as six": (big_result("\x7f"), True),
    "trained": (big_result("é"), False),
}


@pytest.mark.parametrize(("message", "failed"), WORST.values(), ids=WORST.keys())
def test_the_worst_of_everything(scene: Scene, message: str, failed: bool) -> None:
    wait = worst(scene, message=message, failed=failed)
    outcome = wait.outcome()
    assert size(outcome) <= SIZE_LIMIT
    assert outcome.phases, "each part still has something to say"
    assert outcome.nodes
    assert outcome.events
    if message:
        assert set(outcome.metrics) == set(json.loads(message, strict=False)["metrics"])
        assert outcome.model_uri == "m"
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome
    # What crosses between processes before the end is not cut to bytes, but bounded too.
    assert len(json.dumps(wait.course.to_json())) < 400_000


def test_what_is_small_is_left_as_it_is(scene: Scene) -> None:
    obs = scene.look(scene.job(rows={"node": "active=1"}), scene.pod("node-0", scene.ended(3, message="x")))
    outcome = scene.see(scene.begin(), obs)[0].outcome()
    assert fitted(outcome) is outcome


def large(**parts: Any) -> Outcome:
    return Outcome("n", "default", "u", "memory://t", Phase.FAILED, **parts)


def point(i: int, count: int) -> dict[str, Any]:
    metrics = {f"metric number {k}": i / 7 for k in range(count)}
    return {
        "at": f"2026-01-01T00:{i // 60:02}:{i % 60:02}Z",
        "percentage": i // 2,
        "eta_seconds": None,
        "metrics": metrics,
    }


def test_a_long_history_keeps_its_ends_and_its_shape() -> None:
    outcome = fitted(large(progress=tuple(point(i, 16) for i in range(200))))
    assert size(outcome) <= SIZE_LIMIT
    at = [p["percentage"] for p in outcome.progress]
    assert (at[0], at[-1]) == (0, 99)
    assert len(at) > 50
    assert at == sorted(at)


LINES = {
    "long": ("x" * 1000, 64, {"x" * 99 + "…"}),
    "wide": (WIDE * 1000, 40, {WIDE * 39 + "…"}),
}


@pytest.mark.parametrize(("line", "rows", "lines"), LINES.values(), ids=LINES.keys())
def test_nodes_lose_of_their_lines_first_and_failures_are_the_last_to_go(line: str, rows: int, lines: set[str]) -> None:
    def row(i: int) -> dict[str, Any]:
        known = {"name": f"node-{i}", "state": "done", "restarts": 0, "exit_code": int(i == 63), "reason": ""}
        return {**known, "host": "machine", "last_line": line}

    outcome = fitted(large(nodes=tuple(map(row, range(64)))))
    assert len(outcome.nodes) >= rows
    assert outcome.nodes[-1]["name"] == "node-63"
    assert {node["last_line"] for node in outcome.nodes} == lines
