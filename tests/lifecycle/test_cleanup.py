"""Stopping many: which are meant, and that one which cannot be stopped does not protect the others."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.errors import Forbidden, InvalidRequest, Unreachable
from trainer_ops.lifecycle.cleanup import cleanup
from trainer_ops.testing import MemoryBackend, VirtualClock

LABELS = {"team": "a"}


@pytest.fixture
def trainings(memory_backend: MemoryBackend, virtual_clock: VirtualClock) -> MemoryBackend:
    """One that runs, one that is suspended, one trained, one failed, and one of others."""
    memory_backend.script("failed", [(0, lambda t: t.fail(exit_code=3))])
    memory_backend.script("trained", [(0, lambda t: t.complete())])
    memory_backend.script("running", [(0, lambda t: t.running())])
    for name in ("running", "suspended", "trained", "failed"):
        spec: dict[str, Any] = {"runtimeRef": {"name": "torch-distributed"}, "suspend": name == "suspended"}
        memory_backend.create({"metadata": {"name": name, "labels": LABELS}, "spec": spec})
    memory_backend.create({"metadata": {"name": "other"}, "spec": {"runtimeRef": {"name": "torch-distributed"}}})
    virtual_clock.advance(10)
    return memory_backend


def names(backend: MemoryBackend) -> list[str]:
    return [raw["metadata"]["name"] for raw in backend.list()]


@pytest.mark.parametrize(
    ("only", "gone"),
    [
        ("active", ["running", "suspended"]),
        ("failed", ["failed"]),
        ("finished", ["trained", "failed"]),
        ("all", ["running", "suspended", "trained", "failed"]),
    ],
)
def test_only(only: Any, gone: list[str], trainings: MemoryBackend, virtual_clock: VirtualClock) -> None:
    done = cleanup(trainings, labels=LABELS, only=only, clock=virtual_clock)
    assert [(one.ref.name, one.how) for one in done] == [(name, "deleted") for name in gone]
    assert set(names(trainings)) == {"running", "suspended", "trained", "failed", "other"} - set(gone)
    assert cleanup(trainings, labels=LABELS, only=only, clock=virtual_clock) == ()


def test_by_names(trainings: MemoryBackend, virtual_clock: VirtualClock) -> None:
    done = cleanup(trainings, names=["running", "nobody"], clock=virtual_clock)
    assert [one.ref.name for one in done] == ["running"]
    assert cleanup(trainings, names=["other"], labels=LABELS, only="all", clock=virtual_clock) == ()


def test_suspending_touches_only_what_is_active(trainings: MemoryBackend, virtual_clock: VirtualClock) -> None:
    done = cleanup(trainings, labels=LABELS, only="all", policy="suspend", clock=virtual_clock)
    assert [(one.ref.name, one.how) for one in done] == [("running", "suspended"), ("suspended", "suspended")]
    assert len(names(trainings)) == 5


def test_only_the_old(trainings: MemoryBackend, virtual_clock: VirtualClock) -> None:
    assert cleanup(trainings, labels=LABELS, older_than=11, clock=virtual_clock) == ()
    assert len(cleanup(trainings, labels=LABELS, older_than=10, clock=virtual_clock)) == 2


def test_one_that_cannot_be_stopped_does_not_keep_the_others(
    trainings: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    trainings.faults.fail_next("delete", Forbidden("no"))
    with pytest.raises(Forbidden):
        cleanup(trainings, labels=LABELS, only="all", clock=virtual_clock)
    assert names(trainings) == ["running", "other"]


def test_a_target_that_is_away_is_asked_again(trainings: MemoryBackend, virtual_clock: VirtualClock) -> None:
    trainings.faults.fail_next("list", Unreachable("reset"), times=2)
    trainings.faults.lose_reply("delete")
    done = cleanup(trainings, labels=LABELS, clock=virtual_clock)
    assert [one.how for one in done] == ["gone", "deleted"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({}, "labels"), ({"labels": {}, "names": []}, "labels"), ({"names": ["x"], "only": "old"}, "only")],
)
def test_everything_is_never_meant_by_leaving_out(
    arguments: dict[str, Any], field: str, trainings: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        cleanup(trainings, clock=virtual_clock, **arguments)
    assert caught.value.field == field
