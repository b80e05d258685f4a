"""Names are a pure function of identity and attempt, and short enough for what Trainer makes of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_ops.model.identity import RunKey
from trainer_ops.model.names import MAX_NAME, job_name, manifest_job_name, name_limit, slug

RFC_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
KEY = RunKey.of("airflow", {"dag_id": "digits", "run_id": "manual__1"})

SLUGS = {
    "plain": ("train", 20, "train"),
    "spaces and capitals": ("Train Digits", 20, "train-digits"),
    "underscores": ("train_digits.v2", 20, "train-digits-v2"),
    "runs of others become one dash": ("a -- b", 20, "a-b"),
    "no dash at the ends": ("--a--", 20, "a"),
    "a digit first": ("3d-unet", 20, "t-3d-unet"),
    "accents": ("café", 20, "cafe"),
    "nothing usable": ("日本", 20, "train"),
    "empty": ("", 20, "train"),
    "cut": ("recommender-embeddings", 11, "recommender"),
    "cut at a dash": ("recommender-embeddings", 12, "recommender"),
}


@pytest.mark.parametrize(("text", "limit", "expected"), SLUGS.values(), ids=SLUGS.keys())
def test_slug(text: str, limit: int, expected: str) -> None:
    assert slug(text, limit) == expected


# jobset v0.12: <name>-<step>-0-<index>-xxxxx is at most 63 characters.
LIMITS = {
    "node": (["node"], 9, 48),
    "node, two digits": (["node"], 10, 47),
    "launcher and node": (["launcher", "node"], 9, 44),
    "model-initializer": (["model-initializer", "node"], 0, 35),
    "dataset-initializer": (["dataset-initializer", "model-initializer", "node"], 0, 33),
    "dataset-initializer, two digits": (["dataset-initializer"], 99, 32),
    "no steps": ([], 0, 63),
}


@pytest.mark.parametrize(("steps", "index", "expected"), LIMITS.values(), ids=LIMITS.keys())
def test_name_limit(steps: list[str], index: int, expected: int) -> None:
    assert name_limit(steps, index) == expected


def test_ours_fits_every_step_of_the_shipped_runtimes_with_two_digit_indexes() -> None:
    assert name_limit(["dataset-initializer", "model-initializer", "launcher", "node"], 99) >= MAX_NAME


def test_attempts_of_one_run_share_a_prefix_and_number_from_two() -> None:
    first, second, tenth = (job_name(KEY, attempt, "digits") for attempt in (1, 2, 10))
    assert re.fullmatch(r"digits-[a-z0-9]{8}", first)
    assert (second, tenth) == (f"{first}-2", f"{first}-10")


def test_another_generation_is_another_name() -> None:
    cleared = RunKey(KEY.kind, KEY.parts, generation=1)
    assert job_name(KEY, 1, "digits") != job_name(cleared, 1, "digits")


@given(st.text(max_size=60), st.integers(1, 10**9), st.text(max_size=10))
def test_every_name_is_legal_and_short(title: str, attempt: int, part: str) -> None:
    name = job_name(RunKey.of("cli", {"key": part}), attempt, title)
    assert len(name) <= MAX_NAME
    assert RFC_1035.fullmatch(name)


MANIFEST_NAMES = {
    "the first is the user's": ("digits", 1, "digits"),
    "a long first one too": ("d" * 48, 1, "d" * 48),
    "later ones are numbered": ("digits", 3, "digits-3"),
    "up to what ours may have": ("d" * 30, 2, "d" * 30 + "-2"),
}


@pytest.mark.parametrize(("name", "attempt", "expected"), MANIFEST_NAMES.values(), ids=MANIFEST_NAMES.keys())
def test_manifest_job_name(name: str, attempt: int, expected: str) -> None:
    assert manifest_job_name(name, attempt) == expected


def test_a_numbered_name_is_never_longer_than_the_users_own() -> None:
    made = manifest_job_name("team-a-retrain-recommender-embeddings-night", 12)
    assert len(made) <= 43
    assert re.fullmatch(r"team-a-retrain-recommender-embedd?i?-[a-z0-9]{6}-12", made)
    assert made != manifest_job_name("team-a-retrain-recommender-embeddings-other", 12)
