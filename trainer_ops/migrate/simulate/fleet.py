"""``Fleet``: the pods of one training and what happens around them, of either generation.

The pods are in the form of the API (``SimPod.raw``), without what the API server fills in and without random names;
``containers`` and ``init`` are the same pods as the kubelet starts them. So a simulated pod can be held against a real
one as it stands, and two generations against each other by what their code sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Behaviour", "Fleet", "SimContainer", "SimPod"]

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SimContainer:
    """One container as the kubelet starts it.

    Attributes:
        name: of the container.
        image: of the container, "" when it has none.
        command: the entry point with ``$(NAME)`` replaced, () for the image's own.
        args: as ``command``.
        env: what the process finds, in the order in which it is set: of two with one name the last. What is not in
            the pod stands as its source: ``<secret hf/token>``, ``<status.podIP>``.
        sources: all of ``envFrom``, as text, in their order.
        resources: ``limits`` and ``requests``, quantities as text; requests that are left out are the limits.
        mounts: volumeMounts by their path.
        raw: the container in the form of the API.
    """

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    mounts: Mapping[str, Raw] = field(default_factory=dict)
    raw: Raw = field(default_factory=dict)

    @property
    def argv(self) -> tuple[str, ...]:
        """Command and args together."""
        return (*self.command, *self.args)


@dataclass(frozen=True, slots=True)
class SimPod:
    """One pod.

    Attributes:
        role: what its controller calls it: ``Master`` (v1), ``node`` (v2).
        index: within the role.
        seat: what it is in the training, in the same words for both generations: ``rank 0``, ``launcher``, ``host 1``
            (of the hostfile), ``ps 0``. Pods of one seat are compared with each other.
        name: ``metadata.name``; without the random tail where there is one.
        host: the name by which the other pods of the namespace reach it.
        main: the name of the container with the code.
        raw: ``metadata`` (labels, annotations) and ``spec`` in the form of the API.
        init: the init containers, in order.
        containers: the containers, in order.
    """

    role: str
    index: int
    seat: str
    name: str
    host: str
    main: str
    raw: Raw = field(default_factory=dict)
    init: tuple[SimContainer, ...] = ()
    containers: tuple[SimContainer, ...] = ()

    @property
    def code(self) -> SimContainer:
        """The container with the code."""
        return next((c for c in self.containers if c.name == self.main), self.containers[0])

    @property
    def spec(self) -> Raw:
        """The pod spec in the form of the API."""
        found: Raw = self.raw.get("spec") or {}
        return found

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the pod."""
        return dict((self.raw.get("metadata") or {}).get("labels") or {})

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations of the pod."""
        return dict((self.raw.get("metadata") or {}).get("annotations") or {})


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What happens around the pods.

    Attributes:
        restart: seat -> ``in-place`` (the container starts again), ``always`` (after success, too), ``new-pod``,
            ``exit-code`` (a new pod, for exit codes from 128 on), ``never``.
        retries: seat -> how often before the training fails; None: for ever.
        shared_retries: the number is of all pods together; else of each role's.
        success: seats of the pods of which the good end is the training's; ``any`` among them: of any of these.
        outlive: what becomes of pods that still run when the training has succeeded: ``ended``, ``left``.
        cleanup: what becomes of finished pods: ``kept``, ``deleted``.
        deadline: seconds, None without one.
        ttl: seconds after the end, None without one.
        suspended: it is made suspended.
        gang: ``coscheduling``, ``volcano`` or "".
        start: role -> roles that have to be ready before its pods are made.
    """

    restart: Mapping[str, str] = field(default_factory=dict)
    retries: Mapping[str, int | None] = field(default_factory=dict)
    shared_retries: bool = False
    success: tuple[str, ...] = ()
    outlive: str = "ended"
    cleanup: str = "kept"
    deadline: int | None = None
    ttl: int | None = None
    suspended: bool = False
    gang: str = ""
    start: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fleet:
    """One training's pods.

    Attributes:
        name: of the job.
        namespace: of the job; "default" when it says none.
        generation: ``v1`` or ``v2``.
        pods: in the order of roles and indexes.
        nodes: how many pods take part: all that are ranks or have a task; mpi: hosts of the hostfile.
        processes: of each node as the controller counts them, as text: ``2``, ``auto``; mpi: slots of a host.
        hostfile: lines of MPI's hostfile, as ``host slots=N``; () without MPI.
        services: names of headless Services.
        config_maps: name -> data of those that the controller makes (hostfile; training-operator's scripts).
        secrets: names of those that the controller makes (ssh key).
        rights: ServiceAccounts that the controller makes where there are none -> pods in which they may run commands;
            () are all of the namespace.
        behaviour: what happens around the pods.
    """

    name: str
    namespace: str
    generation: str
    pods: tuple[SimPod, ...] = ()
    nodes: int = 0
    processes: str = "1"
    hostfile: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    rights: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    behaviour: Behaviour = field(default_factory=Behaviour)

    def seat(self, seat: str) -> SimPod | None:
        """The pod of that seat."""
        return next((pod for pod in self.pods if pod.seat == seat), None)

    @property
    def first(self) -> SimPod | None:
        """The pod that rank 0 runs in, or that starts the ranks: the launcher, rank 0, the chief, worker 0."""
        for seat in ("launcher", "rank 0", "chief 0", "master 0", "worker 0"):
            found = self.seat(seat)
            if found is not None:
                return found
        return self.pods[0] if self.pods else None
