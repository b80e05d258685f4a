"""A scheduler good enough for tests: the fit of one pod on some nodes, and the text when there is none.

``place`` is pure. The texts are those of Kubernetes 1.36.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.controlplane.quantities import quantity

__all__ = ["Placement", "place", "requests_of"]

_TAINT = "node(s) had untolerated taint(s)"
_SELECTOR = "node(s) didn't match Pod's node affinity/selector"
_CORDONED = "node(s) were unschedulable"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod goes: a node's name, or "" and why not."""

    node: str
    message: str = ""


def requests_of(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    """What a pod asks for: its containers together, or its largest init container."""
    together: dict[str, Decimal] = {}
    for container in pod["spec"].get("containers") or ():
        for name, amount in _asked(container).items():
            together[name] = together.get(name, Decimal(0)) + amount
    for container in pod["spec"].get("initContainers") or ():
        for name, amount in _asked(container).items():
            together[name] = max(together.get(name, Decimal(0)), amount)
    return together


def _asked(container: Mapping[str, Any]) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    found = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(amount) for name, amount in found.items()}


def place(
    pod: Mapping[str, Any],
    nodes: Sequence[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
    *,
    claims: str = "",
) -> Placement:
    """Choose a node.

    Args:
        pod: what is to be placed.
        nodes: all nodes.
        pods: all pods that are bound and have not ended.
        claims: what is wrong with the pod's PersistentVolumeClaims.

    Returns:
        The fitting node with the fewest pods, the first of several.
    """
    total = len(nodes)
    if claims:
        return Placement("", _explain(total, Counter({claims: 0}), 0))
    held: dict[str, list[Mapping[str, Any]]] = {node["metadata"]["name"]: [] for node in nodes}
    for other in pods:
        held.get(other["spec"].get("nodeName", ""), []).append(other)
    wanted = requests_of(pod)
    reasons: Counter[str] = Counter()
    helpless, fitting = 0, []
    for node in nodes:
        name = node["metadata"]["name"]
        against, final = _against(pod, wanted, node, held[name])
        reasons.update(against)
        helpless += final
        if not against:
            fitting.append(name)
    if fitting:
        return Placement(min(fitting, key=lambda name: len(held[name])))
    return Placement("", _explain(total, reasons, helpless))


def _against(
    pod: Mapping[str, Any], wanted: Mapping[str, Decimal], node: Mapping[str, Any], held: Sequence[Mapping[str, Any]]
) -> tuple[list[str], bool]:
    """Why a pod cannot go there, and whether evicting others would not help either."""
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        return [_CORDONED], True
    if not all(_tolerated(taint, pod["spec"].get("tolerations") or ()) for taint in spec.get("taints") or ()):
        return [_TAINT], True
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (pod["spec"].get("nodeSelector") or {}).items()):
        return [_SELECTOR], True
    room = {name: quantity(amount) for name, amount in node["status"]["allocatable"].items()}
    short, final = [], False
    if len(held) >= room.get("pods", Decimal(110)):
        short.append("Too many pods")
    for name, amount in sorted(wanted.items()):
        free = room.get(name, Decimal(0)) - sum((requests_of(p).get(name, Decimal(0)) for p in held), Decimal(0))
        if amount and amount > free:
            short.append(f"Insufficient {name}")
            final = final or amount > room.get(name, Decimal(0))
    return short, final


def _tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    if taint.get("effect") == "PreferNoSchedule":
        return True
    for toleration in tolerations:
        same_effect = toleration.get("effect") in (None, "", taint.get("effect"))
        any_value = toleration.get("operator") == "Exists"
        same_key = toleration.get("key") == taint["key"] or (any_value and not toleration.get("key"))
        if same_effect and same_key and (any_value or toleration.get("value", "") == taint.get("value", "")):
            return True
    return False


def _explain(total: int, reasons: Counter[str], helpless: int) -> str:
    parts = sorted(f"{count} {reason}" if count else reason for reason, count in reasons.items())
    head = f"0/{total} nodes are available"
    text = f"{head}: {', '.join(parts)}." if parts else f"{head}."
    hints = Counter({"No preemption victims found for incoming pod": total - helpless} if total > helpless else {})
    if helpless:
        hints["Preemption is not helpful for scheduling"] = helpless
    if not total or 0 in reasons.values():
        hints = Counter({"Preemption is not helpful for scheduling": total})
    why = ", ".join(sorted(f"{count} {hint}" for hint, count in hints.items()))
    return f"{text} no new claims to deallocate, preemption: {head}: {why}."
