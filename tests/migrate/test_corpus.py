"""Every job of the corpus: it converts or is refused as the table says, and trains what it trained.

``TRAINER_OPS_CORPUS`` names more folders (separated as in PATH) with manifests to go over: those of the operators'
own examples, or of one's own cluster. Nothing is known of them but what holds for every job.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.migrate.checked import checked, codes
from tests.migrate.outcomes import OUTCOMES, Outcome
from trainer_ops.migrate.convert import Converted
from trainer_ops.migrate.kinds import kind_of
from trainer_ops.migrate.ledger import Ledger
from trainer_ops.migrate.normalise import V1Job, normalise
from trainer_ops.migrate.simulate.compare import compare
from trainer_ops.migrate.simulate.fleet import Fleet
from trainer_ops.migrate.simulate.v1 import simulate_v1
from trainer_ops.migrate.simulate.v2 import simulate_v2

CORPUS = Path(__file__).with_name("corpus")
ALL_FLAGS = {
    "image_has_sshd": True,
    "pin_elastic": "replicas",
    "template_from": "worker",
    "role_branch": True,
    "allow_placeholders": True,
    "drop": frozenset({"GANG-MIN", "UNKNOWN-FIELD"}),
}
_OUTCOMES = [pytest.param(name, outcome, id=name) for name, outcome in OUTCOMES.items()]


def job(name: str) -> dict[str, Any]:
    # Those of a kind that another operator's CRD stands in the way of have a folder of their own.
    (path,) = CORPUS.rglob(f"{name}.yaml")
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def fleets(done: Converted) -> tuple[Fleet, Fleet]:
    read = normalise(done.raw, Ledger(done.raw))
    assert isinstance(read, V1Job)
    assert done.trainjob is not None
    return simulate_v1(read), simulate_v2(done.trainjob, done.runtime)


def test_the_table_is_whole() -> None:
    assert sorted(OUTCOMES) == sorted(path.stem for path in CORPUS.rglob("*.yaml"))
    assert len(OUTCOMES) > 40


@pytest.mark.parametrize(("name", "outcome"), _OUTCOMES)
def test_outcome(name: str, outcome: Outcome) -> None:
    done = checked(job(name))
    assert codes(done, "refused") == sorted(outcome.refused)
    if not outcome.refused:
        assert codes(done, "warning") == sorted(outcome.warned)
    elif outcome.flags:
        done = checked(job(name), **outcome.flags)
        assert codes(done, "warning") == sorted(outcome.then)
    else:
        assert not checked(job(name), **ALL_FLAGS).ok


@pytest.mark.parametrize(("name", "outcome"), _OUTCOMES)
def test_it_trains_what_it_trained(name: str, outcome: Outcome) -> None:
    done = checked(job(name), **outcome.flags)
    if not done.ok:
        return
    assert done.differences or done.runtime or codes(done)
    if any(found.code == "NOT-PLAYED" for found in done.findings):
        assert "placeholder" in name
        return
    assert all(one.code for one in done.differences)
    v1, v2 = fleets(done)
    topics = {one.topic for one in compare(v1, v2)}
    # The world: as many ranks, the same slots, on the same seats.
    assert not topics & {"pods", "hostfile"}
    assert ("nodes" in topics) == (name in ("mpi-launcher-only", "mpi-v1-alone"))
    assert _world(v1) == _world(v2)
    # What rank 0 starts.
    first = [one for one in done.differences if one.topic == "command" and v1.first and v1.first.seat in one.seats]
    assert bool(first) == outcome.rewritten, first
    # All that it holds.
    assert bool(topics & {"totals", "resources"}) == outcome.grown


def _world(fleet: Fleet) -> list[str | None]:
    return [one.code.env.get("WORLD_SIZE") for one in fleet.pods if "torchrun" not in " ".join(one.code.argv)]


def _others() -> Iterator[Path]:
    for folder in filter(None, os.environ.get("TRAINER_OPS_CORPUS", "").split(os.pathsep)):
        yield from sorted([*Path(folder).rglob("*.yaml"), *Path(folder).rglob("*.yml")])


def _jobs(path: Path) -> list[dict[str, Any]]:
    try:
        documents = list(yaml.safe_load_all(path.read_text()))
    except (yaml.YAMLError, UnicodeDecodeError):
        return []
    return [one for one in documents if isinstance(one, dict) and kind_of(one.get("apiVersion"), one.get("kind"))]


# The corpus itself is one of the folders, so that there always is one.
@pytest.mark.parametrize("path", [pytest.param(path, id=str(path)[-80:]) for path in (CORPUS / "jax.yaml", *_others())])
def test_another_corpus(path: Path) -> None:
    for raw in _jobs(path):
        done = checked(raw)
        if not done.ok:
            done = checked(raw, **ALL_FLAGS)
        assert all(one.code for one in done.differences)
        if done.ok and done.differences:
            v1, v2 = fleets(done)
            assert len(v1.pods) == len(v2.pods)
