"""In what the pods of two fleets differ, once each pod is called by its place in the training.

A topic is a few words with the name of what differs: ``env RANK``, ``pod nodeSelector``, ``mount /data``,
``volume cache emptyDir.medium``. Whatever differs between a v1 job and its TrainJob must have a row in
``migration_rows``; real pods and simulated ones of one generation must not differ at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.controlplane.migration_pods import plain
from trainer_ops.migrate.simulate.fleet import Fleet, SimContainer, SimPod

__all__ = ["Names", "Unlike", "unfaithful", "unlike"]

Rename = Callable[[str], str]

# Each generation's controllers write their own.
_SYSTEM = re.compile(
    r"(training|trainer)\.kubeflow\.org/|batch\.kubernetes\.io/|jobset\.sigs\.k8s\.io/|job-name$|controller-uid$|"
    r"JOB_COMPLETION_INDEX$"
)
_NOTHING = re.compile(r"(?!)")
# Volumes of mpi-operator by the names that Trainer's have: the ssh key and the hostfile.
_IN_TRAINER = {"ssh-auth": "mpi-ssh-auth", "mpi-job-config": "mpi-hostfile"}
# Compared by other topics, or said by the name of the pod.
_POD_APART = ("containers", "initContainers", "volumes", "hostname", "subdomain")
_CONTAINER_APART = ("name", "env", "envFrom", "command", "args", "volumeMounts", "ports")


@dataclass(frozen=True, slots=True)
class Unlike:
    """One difference.

    Attributes:
        topic: what.
        seat: of which pod, "" for the whole training.
        one: there, "" when there is nothing.
        other: here.
    """

    topic: str
    seat: str
    one: str
    other: str

    def __str__(self) -> str:
        return f"{self.seat + ': ' if self.seat else ''}{self.topic}: {self.one!r}, and {self.other!r}"


def unlike(one: Fleet, other: Fleet) -> list[Unlike]:
    """All differences of two generations; host names are those of seats before anything is compared.

    Where each has one pod only they are held against each other, whatever their seats are called: a launcher without
    workers is rank 0.
    """
    if len(one.pods) == len(other.pods) == 1:
        other = replace(other, pods=(replace(other.pods[0], seat=one.pods[0].seat),))
    return _unlike(one, other, Names(one), Names(other), _SYSTEM)


def unfaithful(simulated: Fleet, real: Fleet) -> list[Unlike]:
    """All differences of a simulated fleet and the real one of the same generation.

    Of the controllers' own labels and variables only those that are simulated have to be there.
    """
    found = _unlike(plain(simulated), real, str, str, _NOTHING)
    found += _texts("services", "", " ".join(sorted(simulated.services)), " ".join(real.services))
    return [one for one in found if one.one or not _SYSTEM.match(one.topic.rpartition(" ")[2])]


def _unlike(one: Fleet, other: Fleet, names: Rename, others: Rename, apart: re.Pattern[str]) -> list[Unlike]:
    found = [
        *_texts("hostfile", "", "\n".join(map(names, one.hostfile)), "\n".join(map(others, other.hostfile))),
        *_texts("nodes", "", str(one.nodes), str(other.nodes)),
    ]
    for seat in dict.fromkeys(pod.seat for fleet in (one, other) for pod in fleet.pods):
        first, second = one.seat(seat), other.seat(seat)
        if first is None or second is None:
            found += _texts("pod", seat, "there" if first else "", "there" if second else "")
        else:
            found += _Pair(seat, names, others, apart).pods(first, second)
    return found


class Names:
    """Replaces the host names of a fleet by ``{seat}``."""

    def __init__(self, fleet: Fleet) -> None:
        self._seats = {
            name: pod.seat for pod in fleet.pods for name in (pod.host, pod.host.partition(".")[0], pod.name)
        }
        known = "|".join(map(re.escape, sorted(self._seats, key=len, reverse=True)))
        space = re.escape(fleet.namespace)
        self._found = re.compile(rf"(?<![\w.-])({known})(?:\.{space}(?:\.svc(?:\.cluster\.local)?)?)?(?![\w-]|\.\w)")

    def __call__(self, text: str) -> str:
        return self._found.sub(lambda match: f"{{{self._seats[match[1]]}}}", text)


def _texts(topic: str, seat: str, one: str, other: str) -> Iterator[Unlike]:
    if one != other:
        yield Unlike(topic, seat, one, other)


@dataclass(frozen=True)
class _Pair:
    """Two pods of one seat."""

    seat: str
    one: Rename
    other: Rename
    apart: re.Pattern[str]

    def pods(self, first: SimPod, second: SimPod) -> Iterator[Unlike]:
        """Everything of two pods."""
        yield from self._maps("label", self._own(first.labels), self._own(second.labels))
        yield from self._maps("annotation", self._own(first.annotations), self._own(second.annotations))
        yield from self._maps("pod", _less(first.spec, _POD_APART), _less(second.spec, _POD_APART))
        there, here = (
            {self._volume(v["name"]): _flat(_less(v, ("name",))) for v in pod.spec.get("volumes") or ()}
            for pod in (first, second)
        )
        for name in {**there, **here}:
            yield from self._maps(f"volume {name}", there.get(name, {}), here.get(name, {}))
        yield from self._containers("", {"": first.code}, {"": second.code})
        yield from self._containers("init ", _named(first.init), _named(second.init))
        yield from self._sidecars(*([c for c in pod.containers if c is not pod.code] for pod in (first, second)))

    def _sidecars(self, first: list[SimContainer], second: list[SimContainer]) -> Iterator[Unlike]:
        """By their place where there are as many, for one of them may be called otherwise."""
        if len(first) != len(second):
            yield from self._containers("sidecar ", _named(first), _named(second))
            return
        for one, other in zip(first, second, strict=True):
            yield from _texts(f"sidecar {one.name} name", self.seat, one.name, other.name)
            yield from self._containers("sidecar ", {one.name: one}, {one.name: other})

    def _containers(
        self, what: str, there: Mapping[str, SimContainer], here: Mapping[str, SimContainer]
    ) -> Iterator[Unlike]:
        for name in {**there, **here}:
            title = f"{what}{name} " if name else ""
            one, other = there.get(name), here.get(name)
            if one is None or other is None:
                yield from _texts(title.strip(), self.seat, "there" if one else "", "there" if other else "")
                continue
            yield from self._maps(f"{title}env", one.env, other.env)
            yield from self._maps(f"{title}mount", self._mounts(one), self._mounts(other))
            yield from self._maps(
                title + "container", _less(one.raw, _CONTAINER_APART), _less(other.raw, _CONTAINER_APART)
            )
            yield from self._maps(f"{title}port", _ports(one), _ports(other))
            yield from self._text(f"{title}envFrom", one.raw.get("envFrom"), other.raw.get("envFrom"))
            # Without a command the image's entry point is started with the arguments.
            yield from self._text(f"{title}argv", _argv(one), _argv(other))

    def _volume(self, name: str) -> str:
        return name if self.apart is _NOTHING else _IN_TRAINER.get(name, name)

    def _mounts(self, container: SimContainer) -> dict[str, Any]:
        return {path: {**mount, "name": self._volume(mount["name"])} for path, mount in container.mounts.items()}

    def _own(self, pairs: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in pairs.items() if not self.apart.match(name)}

    def _maps(self, topic: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Unlike]:
        for name in {**one, **other}:
            yield from self._text(f"{topic} {name}", one.get(name), other.get(name))

    def _text(self, topic: str, one: Any, other: Any) -> Iterator[Unlike]:
        yield from _texts(topic, self.seat, self.one(_plain(one)), self.other(_plain(other)))


def _named(containers: Iterable[SimContainer]) -> dict[str, SimContainer]:
    return {container.name: container for container in containers}


def _argv(container: SimContainer) -> list[str]:
    return [*(() if container.command else ("<entry point>",)), *container.argv]


def _ports(container: SimContainer) -> dict[str, Any]:
    return {str(port["containerPort"]): _less(port, ("containerPort",)) for port in container.raw.get("ports") or ()}


def _flat(volume: Mapping[str, Any]) -> dict[str, Any]:
    """What a volume's source says, by ``source.field``; a source that says nothing is there all the same."""
    made: dict[str, Any] = {}
    for source, said in volume.items():
        made |= {f"{source}.{name}": value for name, value in said.items()} if said else {source: "there"}
    return made


def _less(held: Mapping[str, Any], apart: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in held.items() if name not in apart}


def _plain(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True)
