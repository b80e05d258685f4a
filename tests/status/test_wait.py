"""What a wait remembers: the first end, which TrainJob it means, results, progress; and that it crosses processes."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Category, Ending, Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.status.wait import Done, Sleep, Stop, Wait

if TYPE_CHECKING:
    from tests.status.conftest import Scene

ACTIVE = {"node": "active=1"}


def running(s: Scene, at: float = 20) -> Observation:
    return s.look(s.job(rows={"node": "active=1 ready=1"}), s.pod("node-0", s.running()), at=at)


def category(wait: Wait) -> Category:
    diagnosis = wait.outcome().diagnosis
    assert diagnosis is not None
    return diagnosis.category


def crossed(wait: Wait) -> Wait:
    """The same wait in another process."""
    return Wait.from_json(json.loads(json.dumps(wait.to_json(), allow_nan=False)))


def test_success(scene: Scene) -> None:
    done = scene.look(
        scene.job(scene.condition("Complete", at=61)),
        scene.pod("node-0", scene.ended(0, message='{"metrics": {"accuracy": 0.9}, "model_uri": "s3://m"}')),
        at=65,
    )
    wait, step = scene.see(scene.begin(attempt=2), running(scene), done)
    assert step == Done()
    assert wait.outcome() == Outcome(
        name="train",
        namespace="default",
        uid="uid-1",
        target="memory://t",
        phase=Phase.SUCCEEDED,
        attempt=2,
        started_at=scene.at(5),
        finished_at=scene.at(61),
        metrics={"accuracy": 0.9},
        model_uri="s3://m",
        seen_at=scene.at(65),
        num_nodes=1,
        phases=wait.outcome().phases,
        nodes=wait.outcome().nodes,
    )


def test_deleted_after_it_was_seen_whatever_the_grace(scene: Scene) -> None:
    wait, step = scene.see(scene.begin(), running(scene, 1), scene.look(None, at=2))
    assert step == Done()
    assert (wait.state.phase, category(wait)) == (Phase.DELETED, Category.DELETED)
    assert wait.outcome().ending is Ending.CANCELLED
    assert wait.outcome().finished_at == scene.at(2)


def test_made_again_under_the_same_name_is_not_adopted(scene: Scene) -> None:
    other = scene.look(scene.job(scene.condition("Complete"), uid="uid-2"), at=50)
    wait, step = scene.see(scene.begin(), running(scene), other)
    assert step == Done()
    assert (wait.state.phase, category(wait)) == (Phase.REPLACED, Category.SUPERSEDED)


def test_deleted_and_made_again_between_two_looks_stays_deleted(scene: Scene) -> None:
    other = scene.look(scene.job(rows=ACTIVE, uid="uid-2"), at=50)
    wait, step = scene.see(scene.begin(), running(scene), scene.look(None, at=40), other)
    assert step == Done()
    assert wait.state.phase is Phase.DELETED


def test_superseded_when_told(scene: Scene) -> None:
    wait, _ = scene.see(scene.begin(), running(scene), scene.look(None, at=40))
    told = wait.superseded("train-2")
    assert category(told) is Category.SUPERSEDED
    assert "train-2" in str(told.outcome().diagnosis)


def test_succeeded_then_deleted_is_a_success(scene: Scene) -> None:
    done = scene.look(scene.job(scene.condition("Complete"), deleting=True), at=50)
    wait, step = scene.see(scene.begin(), done, scene.look(None, at=51))
    assert step == Done()
    assert wait.outcome().succeeded


def test_being_deleted_goes_on_until_it_is_gone(scene: Scene) -> None:
    wait, step = scene.see(scene.begin(), scene.look(scene.job(rows=ACTIVE, deleting=True), at=5))
    assert isinstance(step, Sleep)
    assert scene.see(wait, scene.look(None, at=6))[0].state.phase is Phase.DELETED


REPORT = '{"metrics": {"accuracy": 0.5}}'
LATER = '{"metrics": {"accuracy": 0.9}}'

RESULTS: dict[str, tuple[list[Any], dict[str, float]]] = {
    "kept when the pods are gone before Complete": (
        [lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.ended(0, message=REPORT)))],
        {"accuracy": 0.5},
    ),
    "an earlier run's report gives way to the later one's": (
        [
            lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.ended(3, message=REPORT))),
            lambda s: s.look(
                s.job(rows=ACTIVE),
                s.pod("node-0", s.ended(0, message=LATER), restarts=1, last=s.ended(3, message=REPORT)),
            ),
        ],
        {"accuracy": 0.9},
    ),
    "the pod of a later JobSet attempt counts": (
        [
            lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.ended(3, message=REPORT))),
            lambda s: s.look(
                s.job(rows=ACTIVE),
                s.pod("node-0", s.ended(3, message=REPORT), phase="Failed"),
                s.pod("node-0", s.ended(0, message=LATER), suffix="bbbbb", attempt=1),
            ),
        ],
        {"accuracy": 0.9},
    ),
    "rank 0 speaks, not the others": (
        [
            lambda s: s.look(
                s.job(rows=ACTIVE),
                s.pod("node-0", s.ended(0, message=REPORT)),
                s.pod("node-1", s.ended(0, message=LATER)),
            )
        ],
        {"accuracy": 0.5},
    ),
    "what is not a report is none": (
        [lambda s: s.look(s.job(rows=ACTIVE), s.pod("node-0", s.ended(0, message="bye")))],
        {},
    ),
    "without a report the last progress": (
        [
            lambda s: s.look(
                s.job(
                    rows=ACTIVE,
                    progress={"lastUpdatedTime": s.at(9), "metrics": [{"name": "loss", "value": "0.25"}]},
                )
            )
        ],
        {"loss": 0.25},
    ),
}


@pytest.mark.parametrize(("looks", "metrics"), RESULTS.values(), ids=RESULTS.keys())
def test_result(scene: Scene, looks: list[Any], metrics: dict[str, float]) -> None:
    seen = [look(scene) for look in looks]
    wait, _ = scene.see(scene.begin(), *seen, scene.look(scene.job(scene.condition("Complete")), at=90))
    assert wait.outcome().metrics == metrics


def report(scene: Scene, percent: int, at: float) -> Observation:
    progress = {
        "progressPercentage": percent,
        "estimatedRemainingSeconds": 100 - percent,
        "metrics": [{"name": "loss", "value": str(1 / (1 + at))}, {"name": "note", "value": "warm"}],
        "lastUpdatedTime": scene.at(at),
    }
    return scene.look(scene.job(rows={"node": "active=1 ready=1"}, progress=progress), at=at)


def test_progress_history_is_kept_once_each(scene: Scene) -> None:
    wait, _ = scene.see(scene.begin(), report(scene, 10, 5), report(scene, 10, 5), report(scene, 20, 9))
    assert [(p["percentage"], p["at"]) for p in wait.outcome().progress] == [(10, scene.at(5)), (20, scene.at(9))]
    assert wait.outcome().progress[0]["metrics"]["note"] == "warm"


def test_progress_history_is_thinned_and_keeps_its_ends(scene: Scene) -> None:
    wait = scene.begin()
    for i in range(1, 2001):
        wait, _ = scene.see(wait, report(scene, i // 20, i))
        assert len(wait.progress) <= 200
    times = [p.at - scene.zero for p in wait.progress]
    assert (times[0], times[-1]) == (1, 2000)
    assert times == sorted(set(times))
    assert max(b - a for a, b in itertools.pairwise(times)) <= 40


def test_tails_are_bounded(scene: Scene) -> None:
    wait = scene.begin().hear({f"node-{i}": [f"{n} " + "x" * 9000 for n in range(100)] for i in range(50)})
    assert len(wait.tails) == 16
    assert {len(lines) for lines in wait.tails.values()} == {30}
    assert max(len(line) for lines in wait.tails.values() for line in lines) == 500
    assert wait.tails["node-0"][-1].startswith("99 ")


def test_tails_are_fit_to_show(scene: Scene) -> None:
    bar = "\r".join(f"{n:4}/1000" for n in range(1000))
    wait = scene.begin().hear({"node-0": ["\x1b[31mred\x1b[0m", "a\x00b", bar]})
    assert wait.tails["node-0"] == ("red", "a�b", " 999/1000")


def test_the_tail_of_a_node_that_failed_stays(scene: Scene) -> None:
    failed = scene.look(scene.job(rows=ACTIVE), scene.pod("node-40", scene.ended(1), phase="Failed"))
    wait, _ = scene.see(scene.begin().hear({"node-40": ["Traceback"]}), failed)
    wait = wait.hear({f"node-{i}": ["line"] for i in range(30)}).hear({"node-40": []})
    assert wait.tails["node-40"] == ("Traceback",)
    assert len(wait.tails) == 16


def test_an_error_of_the_target_is_kept_until_it_answers(scene: Scene) -> None:
    wait, _ = scene.begin().unreachable("e" * 9999, scene.zero + 1)
    assert len(wait.error) == 500
    assert scene.see(wait, running(scene))[0].error == ""


def test_a_wait_that_holds_everything_crosses_processes_unchanged(scene: Scene) -> None:
    failing = scene.look(
        scene.job(rows=ACTIVE, progress={"lastUpdatedTime": scene.at(1), "progressPercentage": 3}),
        scene.pod("node-0", scene.ended(3, message=REPORT), restarts=1, phase="Running"),
        scene.pod("node-1", phase="Failed", reason="Evicted", message="low on memory"),
        at=30.25,
    )
    wait, _ = scene.see(scene.begin(Limits(1e6, 2e6, 3e6, 0.1, 0.2, 9), at=0.1), failing)
    wait = wait.hear({"node-0": ["a", "ü"]}).superseded("b").unreachable("503", scene.zero + 31)[0]
    assert crossed(wait) == wait
    assert crossed(wait).outcome() == wait.outcome()


def test_a_wait_that_an_older_version_began_goes_on(scene: Scene) -> None:
    data = crossed(scene.see(scene.begin(), running(scene))[0]).to_json()
    del data["course"]
    wait, _ = scene.see(Wait.from_json(data), running(scene, 90))
    assert [change.phase for change in wait.course.phases] == [Phase.SUBMITTED, Phase.PENDING, Phase.RUNNING]


def test_what_crosses_is_small(scene: Scene) -> None:
    pods = [
        scene.pod(f"node-{i}", scene.ended(1, message="m" * 4096), phase="Running", restarts=3, last=scene.ended(1))
        for i in range(500)
    ]
    wait, _ = scene.see(scene.begin(), scene.look(scene.job(rows=ACTIVE), *pods))
    wait = wait.hear({f"node-{i}": ["x" * 500] * 30 for i in range(500)})
    assert len(wait.evidence.nodes) == 16
    assert len(json.dumps(wait.to_json())) < 300_000


@given(st.data())
def test_any_course_of_a_wait_crosses_processes_at_any_time(scene: Scene, data: st.DataObject) -> None:
    """Whatever is seen, in whatever order: JSON changes nothing, and an end is never left."""
    looks = [
        lambda t: running(scene, t),
        lambda t: scene.look(None, at=t),
        lambda t: scene.look(scene.job(scene.condition("Failed")), at=t),
        lambda t: scene.look(scene.job(scene.condition("Complete")), at=t),
        lambda t: scene.look(scene.job(rows=ACTIVE), scene.pod("node-0", scene.ended(3), restarts=1), at=t),
        lambda t: scene.look(scene.job(suspend=True, queue="q"), at=t),
        lambda t: report(scene, 5, t),
        None,
    ]
    numbers = st.none() | st.floats(0, 500)
    limits = Limits(
        data.draw(numbers), data.draw(numbers), data.draw(numbers), 100.0, 30.0, data.draw(st.none() | st.just(1))
    )
    wait, now = scene.begin(limits), 0.0
    ended: object = None
    for index in data.draw(st.lists(st.integers(0, len(looks) - 1), max_size=12)):
        now += data.draw(st.floats(0, 100))
        look = looks[index]
        if look is None:
            wait, step = crossed(wait).unreachable("503", scene.zero + now)
        else:
            wait, step = crossed(wait).see(look(now), scene.zero + now)
        assert crossed(wait) == wait
        assert ended in (None, step)
        if not isinstance(step, Sleep):
            ended = step
            outcome = wait.outcome()
            assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))).phase is outcome.phase
            assert (outcome.diagnosis is None) == outcome.succeeded
        else:
            assert step.seconds > 0


def test_stop_asks_again_in_the_next_process(scene: Scene) -> None:
    look = scene.look(scene.job(rows=ACTIVE), scene.pod("node-0", scene.ended(3), restarts=1, phase="Running"))
    wait, step = scene.see(scene.begin(Limits(max_restarts=1)), look)
    assert step == Stop()
    # The process dies before it deletes: whoever goes on is told the same, also when the job is gone by then.
    assert crossed(wait).see(scene.look(None), scene.zero + 70)[1] == Stop()
    assert wait.outcome().phase is Phase.FAILED
