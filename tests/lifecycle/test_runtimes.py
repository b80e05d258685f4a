"""A runtime is applied from whatever it is written in; wrong ones change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer_ops.errors import InvalidRequest, Unreachable
from trainer_ops.lifecycle.runtimes import apply_runtime
from trainer_ops.model import keys
from trainer_ops.testing import MemoryBackend, VirtualClock
from trainer_ops.testing.objects import runtime


@pytest.fixture
def raw() -> dict[str, Any]:
    return runtime("mine", "torch", {"torch": {}})


def apply(backend: MemoryBackend, given: Any, clock: VirtualClock) -> Any:
    return apply_runtime(backend, given, clock=clock)


def test_created_then_unchanged_then_changed(
    memory_backend: MemoryBackend, virtual_clock: VirtualClock, raw: dict[str, Any]
) -> None:
    first = apply(memory_backend, raw, virtual_clock)
    assert (first.how, first.kind, first.name) == ("created", keys.CLUSTER_RUNTIME, "mine")
    assert apply(memory_backend, raw, virtual_clock).how == "unchanged"
    raw["spec"]["mlPolicy"]["numNodes"] = 3
    assert apply(memory_backend, raw, virtual_clock).how == "changed"


@pytest.mark.parametrize("form", ["mapping", "YAML text", "a path", "a path as text", "without kind"])
def test_forms(
    form: str, memory_backend: MemoryBackend, virtual_clock: VirtualClock, raw: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "runtime.yaml"
    file.write_text(f"# a comment\n---\n{yaml.safe_dump(raw)}")
    given: Any = {
        "mapping": raw,
        "YAML text": file.read_text(),
        "a path": file,
        "a path as text": str(file),
        "without kind": {k: v for k, v in raw.items() if k not in ("kind", "apiVersion")},
    }[form]
    assert apply(memory_backend, given, virtual_clock).how == "created"
    assert memory_backend.runtime("mine", keys.CLUSTER_RUNTIME) is not None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nowhere.yaml", "nowhere.yaml cannot be read: No such file"),
        ("a: [", "the text is not YAML"),
        ("just words", "the text is a str"),
        ("a: 1\n---\nb: 2\n", "holds 2 documents"),
        ("", "holds 0 documents"),
        ({"kind": "TrainJob"}, "'TrainJob' is no runtime"),
        ({"metadata": {"name": "x"}}, "spec: is empty"),
        ({"metadata": {"name": "x"}, "spec": {"template": {}, "mlPolicy": {"nodes": 1}}}, "spec.mlPolicy.nodes"),
    ],
)
def test_what_is_wrong_is_refused(
    given: Any, words: str, memory_backend: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    before = memory_backend.runtimes()
    with pytest.raises(InvalidRequest) as caught:
        apply(memory_backend, given, virtual_clock)
    assert words in str(caught.value)
    assert memory_backend.runtimes() == before


def test_a_target_that_is_away_is_asked_again(
    memory_backend: MemoryBackend, virtual_clock: VirtualClock, raw: dict[str, Any]
) -> None:
    memory_backend.faults.fail_next("apply_runtime", Unreachable("reset"), times=2)
    memory_backend.faults.lose_reply("apply_runtime")
    assert apply(memory_backend, raw, virtual_clock).how == "created"
