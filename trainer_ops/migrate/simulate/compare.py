"""In what the pods of two generations differ, after what has to differ is taken out: names of pods and their labels.

Pods are compared by seat, and what their code sees: a variable that named ``job-master-0`` and now names
``job-node-0-0.job`` names the same pod, and is no difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainer_ops.migrate.simulate.amounts import amount
from trainer_ops.migrate.simulate.compare_pods import pods
from trainer_ops.migrate.simulate.fleet import Fleet, SimPod

__all__ = ["Difference", "compare"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which two fleets differ.

    Attributes:
        topic: ``nodes``, ``command``, ``environment``, ``resources``…; the table in ``named`` has them all.
        what: of the topic: the variable, the field.
        seats: of the pods where it is so, () for the whole training.
        v1: what it was, as text; "" when it was not there.
        v2: what it is, as text; "" when it is not there.
        code: of the finding that tells it, "" before ``named.name`` and for what none tells.
    """

    topic: str
    what: str
    seats: tuple[str, ...]
    v1: str
    v2: str
    code: str = ""

    def __str__(self) -> str:
        where = f" ({', '.join(self.seats)})" if self.seats else ""
        return f"{self.topic} {self.what}{where}: {_short(self.v1) or 'nothing'} was, {_short(self.v2) or 'nothing'} is"


def compare(v1: Fleet, v2: Fleet) -> tuple[Difference, ...]:
    """All differences, each once for all pods that have it."""
    pairs, alone = _pairs(v1, v2)
    old, new = _Translation(v1, pairs, 0), _Translation(v2, pairs, 1)
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for topic, what, before, after in _whole(v1, v2, old, new):
        found.setdefault((topic, what, before, after), [])
    for seat, before, after in alone:
        found.setdefault(("pods", "seat", before, after), []).append(seat)
    for one, other in pairs:
        for topic, what, before, after in pods(one, other, old, new, v1, v2):
            found.setdefault((topic, what, text(before), text(after)), []).append(one.seat)
    return tuple(
        Difference(topic, what, tuple(seats), before, after) for (topic, what, before, after), seats in found.items()
    )


class _Translation:
    """Addresses of one fleet's pods in the words that both fleets share: ``<rank 0>``."""

    def __init__(self, fleet: Fleet, pairs: list[tuple[SimPod, SimPod]], side: int) -> None:
        hosts = {pair[side].host: pair[0].seat for pair in pairs}
        paired = {id(pair[side]) for pair in pairs}
        hosts |= {one.host: f"{fleet.generation} {one.seat}" for one in fleet.pods if id(one) not in paired}
        self._hosts = hosts
        name, space = re.escape(fleet.name), re.escape(fleet.namespace)
        self._address = re.compile(rf"(?<![A-Za-z0-9.-]){name}-[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
        # An address may go on with the service, the namespace and the cluster's domain.
        self._tail = re.compile(rf"(\.{name})?(\.{space}(\.svc(\.[a-z0-9-]+)*)?)?")

    def __call__(self, value: str) -> str:
        return self._address.sub(self._said, value) if "-" in value else value

    def _said(self, match: re.Match[str]) -> str:
        # The name alone, or with the Service that is a part of it.
        labels = match[0].split(".")
        for size in (2, 1):
            host = ".".join(labels[:size])
            if host in self._hosts and self._tail.fullmatch(match[0][len(host) :]):
                return f"<{self._hosts[host]}>"
        return match[0]


def text(value: Any) -> str:
    """A value as people read it; the same for what means the same."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _pairs(v1: Fleet, v2: Fleet) -> tuple[list[tuple[SimPod, SimPod]], list[tuple[str, str, str]]]:
    if len(v1.pods) == len(v2.pods) == 1:
        return [(v1.pods[0], v2.pods[0])], []
    mine, others = {one.seat: one for one in v1.pods}, {_known(one.seat, v1): one for one in v2.pods}
    pairs = [(one, others[seat]) for seat, one in mine.items() if seat in others]
    lost = [(seat, one.role, "") for seat, one in mine.items() if seat not in others]
    new = [(seat, "", one.role) for seat, one in others.items() if seat not in mine]
    return pairs, lost + new


def _known(seat: str, v1: Fleet) -> str:
    """The seat of a TFJob's pod whose TF_CONFIG does not say it, because nobody wanted one."""
    kind, _, index = seat.rpartition(" ")
    kinds = {one.seat.rpartition(" ")[0] for one in v1.pods}
    if kind != "rank" or "rank" in kinds:
        return seat
    return next((f"{one} {index}" for one in ("worker", "chief", "master", "evaluator", "ps") if one in kinds), seat)


def _whole(v1: Fleet, v2: Fleet, old: _Translation, new: _Translation) -> Iterator[tuple[str, str, str, str]]:
    """What is of the training and not of one pod."""
    if v1.nodes != v2.nodes:
        yield "nodes", "number", str(v1.nodes), str(v2.nodes)
    if v1.processes != v2.processes and not v1.pods[0].code.env.get("PET_NPROC_PER_NODE"):
        yield "processes", "of a node", v1.processes, v2.processes
    before, after = [[side(line) for line in fleet.hostfile] for side, fleet in ((old, v1), (new, v2))]
    if sorted(before) != sorted(after):
        yield "hostfile", "hosts", "; ".join(before), "; ".join(after)
    elif before != after:
        # Open MPI 5 gives out ranks in the order of the lines.
        yield "ranks", "order of hosts", "; ".join(before), "; ".join(after)
    for name, number in _totals(v1).items():
        other = _totals(v2).get(name)
        if other != number:
            yield "totals", name, str(number), str(other or "")
    yield from _behaviour(v1, v2)


def _totals(fleet: Fleet) -> dict[str, Any]:
    """Devices of all pods together."""
    total: dict[str, Any] = {}
    for one in fleet.pods:
        for container in one.containers:
            for name, value in container.resources.get("limits", {}).items():
                if "/" in name:
                    number = amount(value)
                    total[name] = total.get(name, 0) + (0 if number is None else number)
    return total


def _behaviour(v1: Fleet, v2: Fleet) -> Iterator[tuple[str, str, str, str]]:
    before, after = v1.behaviour, v2.behaviour
    ends = _success(v1, v2)
    if ends is not None:
        yield "success", "pods", *ends
    if before.outlive != after.outlive and _some(v1) and _some(v2):
        yield "cleanup", "running pods", before.outlive, after.outlive
    for what in ("cleanup", "deadline", "ttl", "suspended", "gang"):
        one, other = getattr(before, what), getattr(after, what)
        if one != other:
            yield "cleanup" if what == "ttl" else what, what, text(one), text(other)
    if before.deadline is not None and before.deadline == after.deadline:
        yield "deadline", "beginning", "the first pod", "the creation, or the last resumption"
    if before.start != after.start and before.start:
        yield "start", "order", text(before.start), text(after.start)


def _some(fleet: Fleet) -> bool:
    """Pods may still run when the training has succeeded."""
    ends = fleet.behaviour.success
    return "any" in ends or 0 < len(_counted(ends)) < len(fleet.pods)


def _counted(seats: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(seat for seat in seats if seat != "any")


def _success(v1: Fleet, v2: Fleet) -> tuple[str, str] | None:
    before, after = v1.behaviour.success, v2.behaviour.success
    if len(v1.pods) == len(v2.pods) == 1 or set(before) == set(after):
        return None
    one, other = _ends(before, v1), _ends(after, v2)
    return None if one == other else (one, other)


def _ends(seats: tuple[str, ...], fleet: Fleet) -> str:
    counted = _counted(seats)
    many = "all" if len(counted) == len(fleet.pods) else ", ".join(counted)
    return f"any of {many}" if "any" in seats else many


def _short(value: str) -> str:
    return value if len(value) <= 120 else f"{value[:117]}…"
