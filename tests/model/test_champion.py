"""The verdict table: when a candidate takes the champion's place, and in which words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.champion import Candidate, Champion, better, expendable

A = "accuracy"

# case: (candidate, champion, margin, mode, threshold), promoted, the sentence
VERDICTS: dict[str, tuple[tuple[Any, Any, Any, Any, Any], bool, str]] = {
    "the first": ((0.5, None, 0.1, "max", None), True, "the first champion, with accuracy 0.5"),
    "the first, below the threshold": (
        (0.5, None, 0, "max", 0.9),
        False,
        "accuracy 0.5 is below the threshold 0.9",
    ),
    "the first, at the threshold": ((0.9, None, 0, "max", 0.9), True, "the first champion, with accuracy 0.9"),
    "better": ((0.96, 0.95, 0, "max", None), True, "accuracy 0.96 beside the champion's 0.95: better by 0.01"),
    "better and still below the threshold": (
        (0.8, 0.7, 0, "max", 0.9),
        False,
        "accuracy 0.8 is below the threshold 0.9",
    ),
    "the same": ((0.95, 0.95, 0, "max", None), False, "accuracy 0.95 beside the champion's 0.95: the same"),
    "worse": ((0.9, 0.95, 0, "max", None), False, "accuracy 0.9 beside the champion's 0.95: worse by 0.05"),
    "better by less than the margin": (
        (0.951, 0.95, 0.01, "max", None),
        False,
        "accuracy 0.951 beside the champion's 0.95: better by 0.001, which is less than the margin 0.01",
    ),
    "better by the margin exactly, which floats deny": (
        (0.3, 0.2, 0.1, "max", None),
        True,
        "accuracy 0.3 beside the champion's 0.2: better by 0.1",
    ),
    "less is better": ((0.2, 0.3, 0.1, "min", None), True, "accuracy 0.2 beside the champion's 0.3: better by 0.1"),
    "less is better, and it is more": (
        (0.4, 0.3, 0, "min", None),
        False,
        "accuracy 0.4 beside the champion's 0.3: worse by 0.1",
    ),
    "less is better, above the threshold": (
        (0.4, None, 0, "min", 0.3),
        False,
        "accuracy 0.4 is above the threshold 0.3",
    ),
    "negative values": ((-1, -2, 1, "max", None), True, "accuracy -1 beside the champion's -2: better by 1"),
    "diverged, as a report carries it": (
        ("nan", 0.9, 0, "max", None),
        False,
        "the candidate's accuracy is nan: no number",
    ),
    "diverged to infinity": ((float("inf"), 0.9, 0, "max", None), False, "the candidate's accuracy is inf: no number"),
    "diverged, the first": (("NaN", None, 0, "max", None), False, "the candidate's accuracy is NaN: no number"),
    "a champion that diverged": (
        (0.1, "nan", 0.5, "max", None),
        True,
        "accuracy 0.1; the champion's is nan: no number",
    ),
    "numbers in strings": (
        ("0.97", "0.95", 0.01, "max", None),
        True,
        "accuracy 0.97 beside the champion's 0.95: better by 0.02",
    ),
    "a margin and a threshold in strings, as templates render them": (
        (0.951, 0.95, "0.01", "max", "0.5"),
        False,
        "accuracy 0.951 beside the champion's 0.95: better by 0.001, which is less than the margin 0.01",
    ),
    "big whole numbers": (
        (1200.0, 1000.0, 100, "max", None),
        True,
        "accuracy 1200 beside the champion's 1000: better by 200",
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_verdict(case: str) -> None:
    (ours, theirs, margin, mode, threshold), promoted, reason = VERDICTS[case]
    champion = None if theirs is None else {A: theirs}
    verdict = better({A: ours}, champion, A, margin, mode, threshold=threshold)
    assert (verdict.promote, verdict.reason) == (promoted, reason)
    json.dumps(verdict.to_json(), allow_nan=False)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "the candidate has no such metric": (
        {"candidate": {"f1": 1.0, "loss": 2.0}, "champion": None},
        'metric: the candidate has no "accuracy". It has: f1, loss',
    ),
    "the champion has no such metric": (
        {"candidate": {A: 1.0}, "champion": {}},
        'metric: the champion has no "accuracy". It has: none',
    ),
    "text": ({"candidate": {A: "high"}, "champion": None}, "the candidate's \"accuracy\" is the text 'high'"),
    "a negative margin": ({"candidate": {A: 1.0}, "champion": None, "margin": -0.1}, "margin: -0.1 would promote"),
    "a margin that is no number": (
        {"candidate": {A: 1.0}, "champion": None, "margin": float("nan")},
        "margin: nan would promote",
    ),
    "a margin that is a word": (
        {"candidate": {A: 1.0}, "champion": None, "margin": "some"},
        "margin: 'some' is not a number",
    ),
    "no threshold, as a template renders it": (
        {"candidate": {A: 1.0}, "champion": None, "threshold": "None"},
        "threshold: 'None' is not a number",
    ),
    "another mode": ({"candidate": {A: 1.0}, "champion": None, "mode": "most"}, "mode: 'most' is neither max nor min"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_compared_is_refused_by_name(case: str) -> None:
    arguments, text = REFUSED[case]
    with pytest.raises(InvalidRequest) as raised:
        better(**arguments, metric=A)
    assert text in str(raised.value)


def test_a_candidate_is_the_same_however_often_it_was_measured() -> None:
    first = Candidate("s3://m/1", {A: 0.9}, "sha256:1")
    assert first.id == Candidate("s3://m/1", {A: 0.91}, "sha256:1", {"run": "x"}).id
    assert first.id != Candidate("s3://m/2", {A: 0.9}, "sha256:1").id
    assert first.id != Candidate("s3://m/1", {A: 0.9}, "sha256:2").id


def line(*ids: str) -> Champion:
    """Champions one after the other."""
    champion: Champion | None = None
    for name in ids:
        champion = Champion.of(Candidate(name), champion, model_uri=f"kept:{name}", promoted_at="now")
    assert champion is not None
    return champion


def test_a_champion_survives_json() -> None:
    champion = Champion.of(
        Candidate("s3://m/3", {A: 0.9}, "sha256:1", {"trainjob": "digits-1"}),
        line("a", "b"),
        model_uri="s3://r/3",
        promoted_at="2026-11-30T12:00:00Z",
    )
    data = json.loads(json.dumps(champion.to_json()))
    assert Champion.from_json({**data, "version": 3.0}) == champion
    assert champion.version == 3
    assert champion.source_uri == "s3://m/3"
    assert [name[:6] for name in champion.previous] == ["000002", "000001"]


def test_what_is_no_champion_says_so() -> None:
    with pytest.raises(KeyError):
        Champion.from_json({"metrics": {}})


NOW = line("a", "b", "c", "d")
OURS = [*reversed(NOW.previous), NOW.folder]

EXPENDABLE: dict[str, tuple[list[str], int, list[str]]] = {
    "nothing is there": ([], 1, []),
    "all are kept": (OURS, 4, []),
    "more could be": (OURS, 9, []),
    "the newest two stay": (OURS, 2, OURS[:2]),
    "the champion stays": (OURS, 1, OURS[:3]),
    "who lost the version to another": ([*OURS, "000004-other"], 4, ["000004-other"]),
    "a left-over of long ago": ([*OURS, "000002-other"], 9, ["000002-other"]),
    "somebody is promoting it": ([*OURS, "000005-other"], 1, OURS[:3]),
    "what is not ours": ([*OURS, "lost+found", "README"], 4, []),
}


@pytest.mark.parametrize("case", EXPENDABLE)
def test_expendable(case: str) -> None:
    folders, keep, gone = EXPENDABLE[case]
    assert expendable(folders, NOW, keep) == gone


def test_keeping_none_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="keep: 0 is not at least 1"):
        expendable([], NOW, 0)
