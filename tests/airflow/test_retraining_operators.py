"""DecideRetrainingOperator and PromoteModelOperator: over a real registry in a folder, run as a worker runs them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SNAPSHOT = {
    "kind": "dataset", "uri": "hf://datasets/a/b", "revision": "c0", "key": "0" * 32, "location": "pvc://s/k/data",
    "digest": "sha256:ab", "files": 2, "bytes": 70, "hit": False,
}  # fmt: skip


def make(kind: str, **kwargs: Any) -> Any:
    from airflow.sdk import DAG

    import trainer_ops.airflow as ours

    with DAG("digits", schedule=None):
        return getattr(ours, kind)(task_id="act", **kwargs)


@pytest.fixture
def registry(tmp_path: Path) -> str:
    return (tmp_path / "champions").as_uri()


@pytest.fixture
def model(tmp_path: Path) -> str:
    file = tmp_path / "model.json"
    file.write_text("{}")
    return file.as_uri()


@pytest.fixture
def decide(worker: Any, registry: str) -> Callable[..., Any]:
    def run(**given: Any) -> Any:
        return worker(make("DecideRetrainingOperator", **{"registry": registry, "settings": {"a": 1}, **given}))

    return run


@pytest.fixture
def promote(worker: Any, registry: str, model: str) -> Callable[..., Any]:
    def run(plan: Any, **given: Any) -> Any:
        usual = {"registry": registry, "model_uri": model, "metrics": {"accuracy": 0.9}, "metric": "accuracy"}
        return worker(make("PromoteModelOperator", plan=plan, **{**usual, **given}))

    return run


def test_a_round_that_promotes_and_one_with_nothing_new(decide: Any, promote: Any, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("pass")
    made_from = {"snapshot": SNAPSHOT, "script": str(script), "settings": {"rounds": "8"}}
    plan = decide(**made_from)
    assert plan.state == "success", plan.error
    assert plan.xcoms["champion_uri"] == ""
    assert plan.xcoms["text"] == "there is no champion yet"

    # Numbers and truths as a template renders them.
    done = promote(plan.result, margin="0.01", keep="2", copy="False", note={"data": SNAPSHOT})
    assert done.state == "success", done.error
    assert done.xcoms["text"] == "promoted as version 1: the first champion, with accuracy 0.9"
    pointer = json.loads((tmp_path / "champions" / "champion.json").read_text())
    assert done.result["champion"] == pointer
    assert (pointer["model_uri"], pointer["note"]) == (pointer["source_uri"], {"data": SNAPSHOT})

    again = decide(**{**made_from, "snapshot": {**SNAPSHOT, "hit": True}}, force="False")
    assert (again.state, again.result) == ("skipped", None)
    assert again.xcoms["text"] == "data and code are unchanged since version 1"
    assert decide(**made_from, force="True").state == "success"
    script.write_text("pass  # changed")
    changed = decide(**made_from)
    assert changed.xcoms["champion_uri"] == pointer["model_uri"]

    worse = promote(changed.result, metrics={"accuracy": 0.85, "champion_accuracy": 0.95})
    assert worse.state == "skipped"
    assert (
        worse.xcoms["text"] == "not promoted, version 1 stays: accuracy 0.85 beside the champion's 0.95: worse by 0.10"
    )


def test_it_is_the_fingerprint_of_the_component(decide: Any, tmp_path: Path) -> None:
    """KFP's body takes the same way: ``lifecycle.retraining.decide_from``."""
    from trainer_ops.lifecycle.champion import open_registry
    from trainer_ops.lifecycle.retraining import decide_from

    script = tmp_path / "train.py"
    script.write_text("pass")
    there = decide_from(open_registry(str(tmp_path)), snapshot=SNAPSHOT, script=script.as_uri(), settings={"a": 1})
    assert decide(snapshot=SNAPSHOT, script=str(script)).result["fingerprint"] == there.fingerprint


# What is wrong with it -> what the task says; it is not tried again.
UNDECIDED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"settings": None}, "snapshot: neither snapshot nor script nor settings are given"),
    "no snapshot": ({"snapshot": {"uri": "x"}}, "snapshot: {'uri': 'x'} is no snapshot"),
    "an upstream without a result": ({"snapshot": "None"}, "snapshot: 'None' is no snapshot"),
    "no script": ({"script": "nowhere.py"}, 'script: "nowhere.py" is neither in '),
    "force": ({"force": "perhaps"}, "force: 'perhaps' is neither true nor false"),
    "registry": ({"registry": ""}, "registry: is empty"),
}


@pytest.mark.parametrize("case", UNDECIDED)
def test_not_decided(case: str, decide: Any) -> None:
    given, says = UNDECIDED[case]
    ran = decide(**given, retries=3)
    assert ran.state == "failed"
    assert type(ran.error).__name__ == "AirflowFailException"
    assert says in str(ran.error)


UNPROMOTED: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model_uri": None}, "model_uri: the training reported no model"),
    "no such metric": ({"metric": "f1"}, 'metric: the candidate has no "f1". It has: accuracy'),
    "no metrics": ({"metrics": None}, 'metric: the candidate has no "accuracy". It has: none'),
    "metrics": ({"metrics": "None"}, "metrics: 'None' is no mapping"),
    "margin": ({"margin": "a bit"}, "margin: 'a bit' is not a number"),
    "keep": ({"keep": "0"}, "keep: 0 is not at least 1"),
    "copy": ({"copy": "maybe"}, "copy: 'maybe' is neither true nor false"),
    "mode": ({"mode": "most"}, "mode: 'most' is neither max nor min"),
}


@pytest.mark.parametrize("case", UNPROMOTED)
def test_not_promoted(case: str, decide: Any, promote: Any, tmp_path: Path) -> None:
    given, says = UNPROMOTED[case]
    ran = promote(decide().result, **given, retries=3)
    assert ran.state == "failed"
    assert type(ran.error).__name__ == "AirflowFailException"
    assert says in str(ran.error)
    assert not (tmp_path / "champions" / "champion.json").exists()


@pytest.mark.parametrize("plan", [None, "None", {}, {"train": True}, []])
def test_no_plan(plan: Any, promote: Any) -> None:
    ran = promote(plan)
    assert "plan: is none. Give the output of DecideRetrainingOperator, whole" in str(ran.error)


def test_a_registry_that_cannot_be_read_is_tried_again(decide: Any, tmp_path: Path) -> None:
    (tmp_path / "champions").mkdir()
    (tmp_path / "champions" / "champion.json").write_text("half a")
    ran = decide(retries=3)
    assert ran.state == "up_for_retry"
    assert "is no pointer of ours" in str(ran.error)
