"""Whether to train, and what comes of it: over a real registry in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.champion import Registry, open_registry
from trainer_ops.lifecycle.retraining import Conclusion, Plan, conclude, decide
from trainer_ops.model.champion import Candidate, ChampionChanged
from trainer_ops.testing import VirtualClock

A = "accuracy"


@pytest.fixture
def registry(tmp_path: Path, clock: VirtualClock) -> Registry:
    return open_registry(str(tmp_path / "registry"), clock=clock)


@pytest.fixture
def trained(tmp_path: Path) -> Callable[[str], str]:
    """A trained model's URI."""

    def make(name: str) -> str:
        file = tmp_path / name / "model.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(name)
        return file.as_uri()

    return make


def test_three_rounds(registry: Registry, trained: Any) -> None:
    plan = decide(registry, "data 1", "code 1")
    assert (plan.train, plan.reason, plan.champion) == (True, "there is no champion yet", None)
    first = conclude(registry, plan, model_uri=trained("one"), metrics={A: 0.9}, metric=A, note={"trainjob": "t-1"})
    assert first.text == "promoted as version 1: the first champion, with accuracy 0.9"
    assert registry.champion() == first.champion
    assert first.champion is not None
    assert first.champion.note == {"trainjob": "t-1"}

    plan = decide(registry, "data 1", "code 1")
    assert (plan.train, plan.reason) == (False, "data and code are unchanged since version 1")
    assert decide(registry, "data 1", "code 1", force=True).train

    plan = decide(registry, "data 2", "code 1")
    assert (plan.train, plan.reason) == (True, "data or code changed since version 1")
    third = conclude(registry, plan, model_uri=trained("two"), metrics={A: 0.8}, metric=A)
    assert third.text == "not promoted, version 1 stays: accuracy 0.8 beside the champion's 0.9: worse by 0.1"
    assert registry.champion() == first.champion
    json.dumps([first.to_json(), third.to_json()])


def test_a_plan_survives_json(registry: Registry, trained: Any) -> None:
    before = decide(registry, "x")
    assert Plan.from_json(json.loads(json.dumps(before.to_json()))) == before
    assert before.to_json()["champion_uri"] == ""
    conclude(registry, before, model_uri=trained("one"), metrics={A: 0.9}, metric=A)
    after = decide(registry, "y")
    assert Plan.from_json(json.loads(json.dumps(after.to_json()))) == after
    assert after.champion is not None
    assert after.to_json()["champion_uri"] == after.champion.model_uri


# metrics of the evaluation -> promoted, the sentence's end; the champion had 0.9 when it was promoted
MEASURED: dict[str, tuple[dict[str, Any], bool, str]] = {
    "the champion is worse on today's data": ({A: 0.85, "champion_accuracy": 0.8}, True, "0.8: better by 0.05"),
    "the champion is better on today's data": ({A: 0.95, "champion_accuracy": 0.99}, False, "0.99: worse by 0.04"),
    "only the candidate was measured": ({A: 0.95}, True, "0.9: better by 0.05"),
    "another metric was measured": ({A: 0.95, "champion_f1": 0.99}, True, "0.9: better by 0.05"),
}


@pytest.mark.parametrize("case", MEASURED)
def test_both_are_compared_on_the_same_data_where_they_were_measured(
    case: str, registry: Registry, trained: Any
) -> None:
    conclude(registry, decide(registry, "1"), model_uri=trained("one"), metrics={A: 0.9}, metric=A)
    metrics, promoted, text = MEASURED[case]
    found = conclude(registry, decide(registry, "2"), model_uri=trained("two"), metrics=metrics, metric=A)
    assert (found.promoted, found.verdict.reason.endswith(text)) == (promoted, True), found.text
    if promoted:
        assert found.champion is not None
        assert found.champion.metrics == {A: metrics[A]}


def test_doing_it_again_concludes_the_same(registry: Registry, trained: Any) -> None:
    plan = decide(registry, "1")
    once = conclude(registry, plan, model_uri=trained("one"), metrics={A: 0.9}, metric=A)
    # A retry after the clean-up broke; the numbers may differ a little.
    again = conclude(registry, plan, model_uri=trained("one"), metrics={A: 0.89}, metric=A, threshold=0.9)
    assert again.champion == once.champion
    assert again.text == "promoted as version 1: it is the champion already"


def test_old_models_go(registry: Registry, trained: Any, tmp_path: Path) -> None:
    found: list[Conclusion] = []
    for number in range(4):
        plan = decide(registry, str(number))
        metrics = {A: 0.5 + number / 10}
        found.append(conclude(registry, plan, model_uri=trained(str(number)), metrics=metrics, metric=A, keep=2))
    assert [len(one.removed) for one in found] == [0, 0, 1, 1]
    assert len(list((tmp_path / "registry" / "versions").iterdir())) == 2


class Rivalled:
    """A registry in which somebody else promotes whenever this one wants to."""

    def __init__(self, registry: Registry, rivals: list[Candidate]) -> None:
        self._registry = registry
        self._rivals = rivals

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)

    def promote(self, candidate: Candidate, *, expect: int) -> Any:
        if self._rivals:
            self._registry.promote(self._rivals.pop(0), expect=expect)
        return self._registry.promote(candidate, expect=expect)


def test_a_champion_of_meanwhile_is_compared_too(registry: Registry, trained: Any) -> None:
    conclude(registry, decide(registry, "1"), model_uri=trained("one"), metrics={A: 0.9}, metric=A)
    plan = decide(registry, "2")
    rivalled: Any = Rivalled(registry, [Candidate(trained("rival"), {A: 0.94})])
    # What was measured of the champion before says nothing about the new one.
    metrics = {A: 0.95, "champion_accuracy": 0.7}
    found = conclude(rivalled, plan, model_uri=trained("two"), metrics=metrics, metric=A, margin=0.05)
    assert found.text == (
        "not promoted, version 2 stays: accuracy 0.95 beside the champion's 0.94: better by 0.01, "
        "which is less than the margin 0.05"
    )
    found = conclude(rivalled, plan, model_uri=trained("two"), metrics=metrics, metric=A)
    assert found.text.startswith("promoted as version 3: accuracy 0.95 beside the champion's 0.94")


def test_rivals_without_end(registry: Registry, trained: Any) -> None:
    rivals: Any = Rivalled(registry, [Candidate(trained(f"r{n}"), {A: 0.1}) for n in range(9)])
    with pytest.raises(ChampionChanged, match="changed 5 times"):
        conclude(rivals, decide(registry, "1"), model_uri=trained("one"), metrics={A: 0.9}, metric=A)


@pytest.mark.parametrize("keep", [0, "0", "many", 1.5, None])
def test_a_wrong_setting_is_told_before_anything_is_promoted(keep: Any, registry: Registry, trained: Any) -> None:
    with pytest.raises(InvalidRequest, match="keep: "):
        conclude(registry, decide(registry, "1"), model_uri=trained("one"), metrics={A: 1}, metric=A, keep=keep)
    assert registry.champion() is None


def test_numbers_may_be_text(registry: Registry, trained: Any) -> None:
    rule: dict[str, Any] = {"metric": A, "margin": "0.1", "threshold": "0.5", "keep": "1"}
    for number, accuracy in enumerate((0.6, 0.8)):
        plan = decide(registry, str(number))
        assert conclude(registry, plan, model_uri=trained(str(number)), metrics={A: accuracy}, **rule).promoted


@pytest.mark.parametrize("uri", [None, ""])
def test_a_training_without_a_model(uri: str | None, registry: Registry) -> None:
    with pytest.raises(InvalidRequest, match=r"model_uri: the training reported no model. Call report\(model_uri=…\)"):
        conclude(registry, decide(registry, "1"), model_uri=uri, metrics={A: 1}, metric=A)
