"""What ``dataset`` and ``model`` take: a URI, an initializer, a snapshot, its JSON, the text of that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.request import Initializer, TrainRequest
from trainer_ops.model.snapshot import Snapshot

SNAPSHOT = Snapshot("dataset", "hf://datasets/a/b", "c0ffee", "5a" * 16, "pvc://data/5a/data", "sha256:1", 3, 10)
WHOLE = SNAPSHOT.to_json()

TAKEN: dict[str, tuple[Any, Any]] = {
    "a URI": ("hf://a/b", Initializer(storage_uri="hf://a/b")),
    "an initializer's fields": (
        {"storage_uri": "s3://b", "secret_ref": "s"},
        Initializer(storage_uri="s3://b", secret_ref="s"),
    ),
    "an initializer": (Initializer(storage_uri="s3://b"), Initializer(storage_uri="s3://b")),
    "a snapshot": (SNAPSHOT, SNAPSHOT),
    "its JSON": (WHOLE, SNAPSHOT),
    "its JSON as KFP carries it": ({**WHOLE, "files": 3.0, "bytes": 10.0}, SNAPSHOT),
    "the text of its JSON": (json.dumps(WHOLE, indent=1), SNAPSHOT),
    "text with a blank before it": (f"\n {json.dumps(WHOLE)}", SNAPSHOT),
    "the text of an initializer": ('{"storage_uri": "s3://b"}', Initializer(storage_uri="s3://b")),
}


@pytest.mark.parametrize(("given", "expected"), TAKEN.values(), ids=TAKEN.keys())
@pytest.mark.parametrize("field", ["dataset", "model"])
def test_taken(field: str, given: Any, expected: Any) -> None:
    request = TrainRequest(**{"runtime": "torch-distributed", field: given})
    assert getattr(request, field) == expected
    assert request.snapshots == ({field: SNAPSHOT} if expected == SNAPSHOT else {})


@pytest.mark.parametrize("given", TAKEN.values(), ids=TAKEN.keys())
def test_dumped_and_read_again_it_is_the_same(given: tuple[Any, Any]) -> None:
    request = TrainRequest(runtime="torch-distributed", dataset=given[0])
    dumped = json.loads(json.dumps(request.model_dump(mode="json")))
    assert TrainRequest(**dumped) == request


REFUSED: dict[str, tuple[Any, str]] = {
    "half a snapshot": (
        {"location": "pvc://x"},
        (
            "dataset: {'location': 'pvc://x'} is not the JSON of a snapshot: it has no kind. "
            "Give what the initializer step returned, whole"
        ),
    ),
    "files that are no number": (
        {**WHOLE, "files": "many"},
        (
            "is not the JSON of a snapshot: it holds what is no number: invalid literal for int() with base 10: "
            "'many'. Give what"
        ),
    ),
    "broken text": ('{"location', "dataset: '{\"location' is not the JSON of a snapshot: it is no JSON: "),
    "a typo": ({"storage_url": "hf://a/b"}, "dataset.storage_uri: is missing. Give it"),
    "an empty URI": ("", "dataset.storage_uri: is empty. Give a value, or leave it out"),
}


@pytest.mark.parametrize(("given", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(given: Any, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        TrainRequest(runtime="torch-distributed", dataset=given)
    assert text in str(caught.value)


def test_a_manifest_describes_its_data_itself() -> None:
    with pytest.raises(InvalidRequest, match="dataset: manifest already describes the whole TrainJob"):
        TrainRequest(manifest={"spec": {}}, dataset=SNAPSHOT)
