"""Addresses in a manifest follow the name under which it is created."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.build.addresses import follow_name
from trainer_ops.build.manifest import build
from trainer_ops.model.identity import RunKey
from trainer_ops.model.request import TrainRequest

TEXTS = {
    "a whole text": ("digits-node-0-0.digits", "new-node-0-0.new"),
    "with a port": ("tcp://digits-node-0-12.digits:29500", "tcp://new-node-0-12.new:29500"),
    "with the domain": ("digits-node-0-0.digits.team.svc", "new-node-0-0.new.team.svc"),
    "several": ("digits-ps-0-0.digits:1,digits-ps-0-1.digits:1", "new-ps-0-0.new:1,new-ps-0-1.new:1"),
    "in JSON": ('{"ps":["digits-ps-0-0.digits:2222"]}', '{"ps":["new-ps-0-0.new:2222"]}'),
    "of another training": ("old-digits-node-0-0.old-digits", None),
    "of one with a longer name": ("digits-2-node-0-0.digits-2", None),
    "of a mixture": ("digits-node-0-0.other", None),
    "the name alone": ("--name digits", None),
    "a host of the same name": ("www.digits-node-0-0.digits", None),
    "a longer domain": ("digits-node-0-0.digits-x", None),
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.values(), ids=TEXTS.keys())
def test_texts(text: str, expected: str | None) -> None:
    assert follow_name(text, "digits", "new") == (expected or text)


def test_nothing_to_follow() -> None:
    held = {"a": ["digits-node-0-0.digits", 1, None]}
    assert follow_name(held, "digits", "digits") is held
    assert follow_name(held, "", "new") is held


MANIFEST: dict[str, Any] = {
    "metadata": {"name": "digits"},
    "spec": {
        "runtimeRef": {"name": "torch-distributed"},
        "trainer": {"numNodes": 2, "env": [{"name": "MASTER_ADDR", "value": "digits-node-0-0.digits"}]},
    },
}


@pytest.mark.parametrize(
    ("metadata", "attempt", "name"),
    [({"name": "digits"}, 1, "digits"), ({"name": "digits"}, 2, "digits-2"), ({"generateName": "digits"}, 1, "")],
    ids=["its own name", "a later attempt", "a run of a DAG"],
)
def test_of_a_manifest(metadata: dict[str, Any], attempt: int, name: str) -> None:
    request = TrainRequest(manifest={**MANIFEST, "metadata": metadata})
    built = build(request, RunKey.of("api", {"key": "a"}, slug="digits"), attempt, runtime=None, version="1")
    assert built.name == (name or built.name)
    assert name or built.name.startswith("digits-")
    address = built.manifest["spec"]["trainer"]["env"][0]["value"]
    assert address == f"{built.name}-node-0-0.{built.name}"
    # The request is what was asked for, and the same for every attempt.
    assert MANIFEST["spec"]["trainer"]["env"][0]["value"] == "digits-node-0-0.digits"
