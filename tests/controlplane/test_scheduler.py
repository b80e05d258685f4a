"""Where a pod fits, and the words when it fits nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.quantities import quantity
from tests.controlplane.scheduler import place

_HOPELESS = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def node(name: str = "a", *, labels: Any = None, taints: Any = (), **allocatable: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", **allocatable}},
    }


def pod(at: str = "", *, selector: Any = None, tolerations: Any = (), **requests: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "nodeName": at,
            "nodeSelector": selector or {},
            "tolerations": list(tolerations),
            "containers": [{"resources": {"requests": requests}}],
        },
    }


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}

# name -> (pod, nodes, pods already there, the node)
FITS: dict[str, tuple[Any, Any, Any, str]] = {
    "an empty node": (pod(cpu="1"), [node()], [], "a"),
    "exactly what is left": (pod(cpu="3500m"), [node()], [pod("a", cpu="500m")], "a"),
    "the one with fewer pods": (pod(), [node("a"), node("b")], [pod("a")], "b"),
    "by label": (pod(selector={"disk": "ssd"}), [node("a"), node("b", labels={"disk": "ssd"})], [pod("b")], "b"),
    "a taint that is tolerated": (
        pod(tolerations=[{"key": "gpu", "operator": "Exists"}]),
        [node(taints=[TAINT])],
        [],
        "a",
    ),
    "all taints tolerated": (pod(tolerations=[{"operator": "Exists"}]), [node(taints=[TAINT])], [], "a"),
}


@pytest.mark.parametrize("case", FITS)
def test_it_fits(case: str) -> None:
    wanted, nodes, pods, chosen = FITS[case]
    assert place(wanted, nodes, pods).node == chosen


# name -> (pod, nodes, pods already there, the message's beginning)
MISFITS: dict[str, tuple[Any, Any, Any, str]] = {
    "more than any node has, as seen": (
        pod(cpu="1000"),
        [node()],
        [],
        f"0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, {_HOPELESS}",
    ),
    "no such resource, as seen": (
        pod(**{"nvidia.com/gpu": "9"}),
        [node()],
        [],
        f"0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, {_HOPELESS}",
    ),
    "full for now": (
        pod(cpu="2"),
        [node()],
        [pod("a", cpu="3")],
        (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are "
            "available: 1 No preemption victims found for incoming pod."
        ),
    ),
    "a reason a node": (
        pod(cpu="100", selector={"disk": "ssd"}),
        [node("a"), node("b", labels={"disk": "ssd"}), node("c", taints=[TAINT])],
        [],
        (
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, "
            "1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/3 nodes are available: "
            "3 Preemption is not helpful for scheduling."
        ),
    ),
    "too many pods": (pod(), [node(pods="1")], [pod("a")], "0/1 nodes are available: 1 Too many pods."),
    "no nodes": (pod(), [], [], "0/0 nodes are available."),
}


@pytest.mark.parametrize("case", MISFITS)
def test_it_does_not_fit(case: str) -> None:
    wanted, nodes, pods, text = MISFITS[case]
    found = place(wanted, nodes, pods)
    assert found.node == ""
    assert found.message.startswith(text)


def test_a_claim_that_is_missing_is_named() -> None:
    found = place(pod(), [node()], [], claims='persistentvolumeclaim "data" not found')
    assert found.message == (
        f'0/1 nodes are available: persistentvolumeclaim "data" not found. no new claims to deallocate, {_HOPELESS}'
    )


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("100m", 0.1), ("2Gi", 2**31), ("1k", 1000), ("1e3", 1000), ("5M", 5_000_000)]
)
def test_quantities(text: str, number: float) -> None:
    assert float(quantity(text)) == number
