"""Equal keys are the same training; what is not identity does not change it."""

from __future__ import annotations

import json

import pytest

from trainer_ops.model.identity import JobRef, RunKey

PARTS = {"dag_id": "digits", "run_id": "manual__2026", "task_id": "train", "map_index": -1}
KEY = RunKey.of("airflow", PARTS)

SAME = {
    "built again": RunKey.of("airflow", dict(PARTS)),
    "values are text": RunKey.of("airflow", {**PARTS, "map_index": "-1"}),
    "the slug is for people": RunKey.of("airflow", PARTS, slug="digits"),
}


@pytest.mark.parametrize("key", SAME.values(), ids=SAME.keys())
def test_same_training(key: RunKey) -> None:
    assert (key.digest, key.subject) == (KEY.digest, KEY.subject)


OTHER = {
    "another front end": RunKey.of("cli", PARTS),
    "another run": RunKey.of("airflow", {**PARTS, "run_id": "manual__2027"}),
    "a part more": RunKey.of("airflow", {**PARTS, "try": 2}),
    "parts do not run into each other": RunKey.of("airflow", {"dag_id": "digits run_id=manual__2026"}),
}


@pytest.mark.parametrize("key", OTHER.values(), ids=OTHER.keys())
def test_another_training(key: RunKey) -> None:
    assert key.digest != KEY.digest
    assert key.subject != KEY.subject


def test_a_clear_is_a_new_key_of_the_same_subject() -> None:
    cleared = RunKey.of("airflow", PARTS, generation=1)
    assert cleared.digest != KEY.digest
    assert cleared.subject == KEY.subject


def test_digests_are_label_values_and_stay_what_they_are() -> None:
    # Stored on TrainJobs of earlier versions: a changed digest would train again.
    assert KEY.digest == "b28fcd324710602a8154"
    assert KEY.subject == "fe6d91a052e591f5efac"


def test_readable() -> None:
    cleared = RunKey.of("airflow", {"dag_id": "d", "task_id": "t"}, generation=2)
    assert cleared.readable == "airflow: dag_id=d task_id=t generation=2"


def test_a_ref_crosses_processes_as_plain_json() -> None:
    ref = JobRef("kubernetes://prod/ml", "ml", "digits-1", "u-1")
    assert JobRef.from_json(json.loads(json.dumps(ref.to_json()))) == ref
    assert str(ref) == "ml/digits-1"
