"""Who ended a training that has ``max_restarts``: the node whose restarts are used up, not the first to fail."""

from __future__ import annotations

import pytest

from trainer_ops.status.evidence import Evidence, Failure, NodeEvidence


def node(name: str, run: int, at: float, *, recovered: bool = False, outside: bool = False) -> NodeEvidence:
    failure = Failure(3, "Error", at=at, seen_at=at, run=run, outside=outside)
    return NodeEvidence(name, "node", inside=run, failure=failure, recovered=recovered)


FIRST = node("node-1", run=0, at=1.0)


@pytest.mark.parametrize(
    ("nodes", "limit", "expected"),
    [
        pytest.param([FIRST, node("node-0", 1, 2.0)], 1, "node-0", id="the later one has no restarts left"),
        pytest.param([FIRST, node("node-0", 1, 2.0)], 2, None, id="both have some left"),
        pytest.param([node("node-1", 1, 3.0), node("node-0", 1, 2.0)], 1, "node-0", id="both used up: the first"),
        pytest.param([FIRST, node("node-0", 1, 2.0)], 0, None, id="no restarts: the first failure counts"),
        pytest.param([node("node-0", 1, 2.0, recovered=True)], 1, None, id="it runs again"),
        pytest.param([node("node-0", 1, 2.0, outside=True)], 1, None, id="evicted, which is not held against it"),
    ],
)
def test_worn_out(nodes: list[NodeEvidence], limit: int, expected: str | None) -> None:
    found = Evidence({n.node: n for n in nodes}).worn_out(limit)
    assert (found and found.node) == expected
