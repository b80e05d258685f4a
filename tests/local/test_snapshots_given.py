"""A training on the engine that reads a snapshot where it lies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trainer_ops
from trainer_ops.errors import InvalidRequest
from trainer_ops.model.snapshot import Snapshot

READ = """
import os, sys
folder = os.environ["TRAINER_OPS_DATASET_DIR"]
print(sorted(os.listdir(folder)), open(os.path.join(folder, "train.csv")).read(), sys.argv[1:])
"""


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    folder = tmp_path / "snap shots" / ("5a" * 16) / "data"
    folder.mkdir(parents=True)
    (folder / "train.csv").write_text("1,2")
    return Snapshot("dataset", "file:///src", "r1", "5a" * 16, folder.as_uri(), "sha256:1", 1, 3)


def run(engine: Any, snapshot: Any, **fields: Any) -> trainer_ops.Outcome:
    given = {"runtime": "t-plain", "command": ["python", "-c", READ, "/workspace/dataset/train.csv"], **fields}
    return trainer_ops.run(target=engine.backend, dataset=snapshot, **given)


@pytest.mark.parametrize("form", ["snapshot", "mapping"])
def test_it_reads_the_files_by_the_variable_and_by_the_clusters_path(
    engine: Any, snapshot: Snapshot, form: str
) -> None:
    given: Any = snapshot if form == "snapshot" else snapshot.to_json()
    outcome = run(engine, given, num_nodes=2)
    assert outcome.succeeded, outcome.diagnosis
    folder = Path(snapshot.location.removeprefix("file://").replace("%20", " "))
    for node in (0, 1):
        assert engine.lines(outcome.name, node) == [f"['train.csv'] 1,2 ['{folder}/train.csv']"]


def test_one_that_was_taken_a_moment_ago(engine: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.csv").write_text("3,4")
    made = [trainer_ops.take_snapshot(f"file://{source}", target=engine.backend) for _ in range(2)]
    assert [one.hit for one in made] == [False, True]
    for one in made:
        outcome = run(engine, one)
        assert outcome.succeeded, outcome.diagnosis
        assert engine.lines(outcome.name)[0].startswith("['train.csv'] 3,4 ")


def test_one_that_is_gone_is_refused_before_anything_is_created(engine: Any, snapshot: Snapshot) -> None:
    gone = Snapshot.from_json({**snapshot.to_json(), "location": "file:///nowhere/5a/data"})
    with pytest.raises(InvalidRequest) as caught:
        run(engine, gone)
    assert str(caught.value) == (
        'invalid request: dataset: the snapshot "file:///nowhere/5a/data" is not there (any more). '
        "Make it again: trainer-ops init dataset file:///src"
    )
    assert engine.backend.list() == []


# What is known of one that is gone -> a remedy that can be typed as it stands.
AGAIN = {
    "where it lay": ("file:///nowhere/5a/data", "", "Those that are there: trainer-ops snapshots list"),
    "a path with a blank": ("file:///my data", "", "Make it again: trainer-ops init dataset 'file:///my data'"),
    "a commit": (
        "hf://datasets/a/b",
        "c0ffee",
        "Make it again: trainer-ops init dataset hf://datasets/a/b --revision c0ffee",
    ),
}


@pytest.mark.parametrize("case", AGAIN)
def test_how_to_make_one_again_that_is_gone(case: str, engine: Any, snapshot: Snapshot) -> None:
    uri, revision, remedy = AGAIN[case]
    told = {"uri": uri, "revision": revision, "location": "file:///nowhere/5a/data"}
    with pytest.raises(InvalidRequest) as caught:
        run(engine, Snapshot.from_json({**snapshot.to_json(), **told}))
    assert caught.value.remedy == remedy


def test_one_on_a_claim_is_refused_before_anything_is_created(engine: Any, snapshot: Snapshot) -> None:
    claimed = Snapshot.from_json({**snapshot.to_json(), "location": "pvc://data/5a/data"})
    with pytest.raises(InvalidRequest, match=r"dataset: .* lies on a claim of a cluster"):
        run(engine, claimed)
    assert engine.backend.list() == []


def test_a_run_that_has_trained_is_finished_without_its_data(engine: Any, snapshot: Snapshot) -> None:
    """A retry of a step whose snapshot was cleaned up meanwhile gets the result that there is."""
    assert run(engine, snapshot, key="once").succeeded
    folder = Path(snapshot.location.removeprefix("file://").replace("%20", " "))
    folder.rename(folder.with_name("moved"))
    assert run(engine, snapshot, key="once").succeeded
    assert len(engine.backend.list()) == 1
