"""``Draft``: the result while it is made, in the form of a generated runtime whichever runtime will carry it.

How a kind is planned (``plan_torch`` is the model)::

    draft.policy, draft.stock, draft.framework = {"torch": {}}, "torch-distributed", "torch"
    part = draft.add_part("node", trains=True)        # a replicatedJob
    pods.carry(draft, role, part)                     # the role's pod template: tables of pod and container fields
    policy.restarts(draft, role, part)                # restartPolicy, backoffLimit
    draft.num_nodes = ...                             # spec.trainer.numNodes
    draft.link(role.path + ("replicas",), ("trainer", "numNodes"))
    pods.same(draft, other_role, part, "why")         # a second role that is the same pod: its leaves are there too
    metadata.name(draft)                              # now addresses can be made
    draft.env(part, "WORLD_SIZE", "4")                # what v1's operator gave
    hosts.rewrite_hosts(draft, lambda role, i: ...)   # v1's host names in commands and variables

``plan`` does the rest for all kinds before and after: object metadata, run policy, gang scheduling.

The main container of every part is called ``node`` and holds image, command, args, env and resources: whether they
end in ``spec.trainer`` or in the runtime is decided by ``emit``, which also decides between runtimePatches on a stock
runtime and a runtime of its own. So a rule says with ``link`` where a v1 leaf went in the draft (``places``), and the
ledger gets the final path. What a stock runtime does by itself anyway is marked with ``as_stock``: it is written
when a runtime is generated and is no reason to generate one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer_ops.migrate.findings import Finding, Severity, finding
from trainer_ops.migrate.ledger import Fate, Ledger
from trainer_ops.migrate.normalise import Role, V1Job
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.paths import Path
from trainer_ops.migrate.places import Key, Place
from trainer_ops.model import keys

__all__ = ["NODE", "Draft", "Link", "Part", "main"]

NODE = keys.STEP_NODE


@dataclass(frozen=True, slots=True)
class Link:
    """A v1 leaf or subtree and where it went.

    Attributes:
        path: in the v1 job.
        place: in the draft; the leaves of a subtree are at the same relative paths below it.
        reason: what was changed on the way, "" when nothing.
        exact: each leaf has to be there with its value; else the place alone counts, for all leaves of the subtree.
        otherwise: the fate of a leaf that is not there (the value of a stock runtime, or of another role).
    """

    path: Path
    place: Place
    reason: str = ""
    exact: bool = True
    otherwise: tuple[Fate, str] | None = None


@dataclass(slots=True)
class Part:
    """One replicatedJob of the result.

    Attributes:
        name: ``node``, ``launcher``, ``ps``…
        trains: spec.trainer controls it (the ancestor label); exactly one part of a draft does.
        pods: parallelism and completions where spec.trainer.numNodes does not set them; None: left to it.
        job: the Job's spec without its template: backoffLimit, successPolicy, podFailurePolicy…
        pod: the pod template, ``metadata`` and ``spec``.
        depends_on: ``dependsOn`` as it is written.
        kept: fields of the container with the code that stay in the runtime although spec.trainer could say them.
    """

    name: str
    trains: bool = False
    pods: int | str | None = None
    job: dict[str, Any] = field(default_factory=dict)
    pod: dict[str, Any] = field(default_factory=lambda: {"metadata": {}, "spec": {}})
    depends_on: list[dict[str, str]] = field(default_factory=list)
    kept: frozenset[str] = frozenset()

    @property
    def spec(self) -> dict[str, Any]:
        """The pod spec."""
        found: dict[str, Any] = self.pod["spec"]
        return found

    @property
    def container(self) -> dict[str, Any]:
        """The container with the code; made when there is none yet."""
        containers: list[dict[str, Any]] = self.spec.setdefault("containers", [])
        found = next((c for c in containers if c.get("name") == NODE), None)
        if found is None:
            found = {"name": NODE}
            containers.insert(0, found)
        return found

    def place(self, *path: str | int | Key) -> Place:
        """A place in the pod template."""
        return ("pod", self.name, *path)


def main(part: Part, *path: str | int | Key) -> Place:
    """A place in the container with the code."""
    return part.place("spec", "containers", Key(NODE), *path)


@dataclass(slots=True)
class Draft:
    """All that is decided about one job so far.

    Attributes:
        name: of the TrainJob; "" with ``generateName``.
        parts: the replicatedJobs, in the order in which JobSet makes them.
        num_nodes: spec.trainer.numNodes; a placeholder's text passes through.
        num_proc: spec.trainer.numProcPerNode, None leaves it out.
        policy: the mlPolicy without numNodes: ``{"torch": {}}``; ``{}`` is the plain one.
        stock: the stock runtime that can carry the job when nothing speaks against it; "" when none can.
        framework: label of a generated runtime, and the end of its name.
        jobset: ``metadata`` and ``spec`` of the JobSet template, without the parts.
        runtime: the rest of the runtime's spec: ``podGroupPolicy``.
        metadata: labels and annotations of the TrainJob.
        trainjob: the rest of its spec: ``suspend``, ``activeDeadlineSeconds``, ``managedBy``.
        outlive: roles of which pods still run when the training is over.
        links: where v1's leaves went, in order of precision.
        stock_places: see ``as_stock``.
        when_stock: findings that are told when a stock runtime carries the job.
        rewritten: see ``rewrote``.
        agreed: see ``agree``.
        sidecars: containers beside the one with the code: where in the job, and in which part.
    """

    job: V1Job
    ledger: Ledger
    options: Options
    name: str = ""
    parts: list[Part] = field(default_factory=list)
    num_nodes: int | str = 1
    num_proc: int | str | None = None
    policy: dict[str, Any] = field(default_factory=dict)
    stock: str = ""
    framework: str = ""
    jobset: dict[str, Any] = field(default_factory=lambda: {"metadata": {}, "spec": {}})
    runtime: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    trainjob: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    outlive: tuple[str, ...] = ()
    links: list[Link] = field(default_factory=list)
    stock_places: set[Place] = field(default_factory=set)
    when_stock: list[Finding] = field(default_factory=list)
    rewritten: dict[Place, str] = field(default_factory=dict)
    agreed: dict[str, Role] = field(default_factory=dict)
    sidecars: list[tuple[Path, Part]] = field(default_factory=list)

    def add_part(self, name: str, *, trains: bool = False, pods: int | str | None = None) -> Part:
        """A new replicatedJob, after those that are there."""
        part = Part(name, trains, pods)
        self.parts.append(part)
        return part

    def part(self, name: str) -> Part | None:
        """The replicatedJob of that name."""
        return next((part for part in self.parts if part.name == name), None)

    @property
    def trainer(self) -> Part | None:
        """The part that spec.trainer controls."""
        return next((part for part in self.parts if part.trains), None)

    @property
    def refused(self) -> bool:
        """Whether a finding so far keeps the job from being converted."""
        return any(found.severity == "refused" for found in self.findings)

    def say(
        self,
        code: str,
        path: Path,
        message: str,
        *,
        severity: Severity | None = None,
        remedy: str | None = None,
        v2_path: str = "",
    ) -> None:
        """Add a finding, once."""
        made = finding(code, path, message, severity=severity, remedy=remedy, v2_path=v2_path)
        if made not in self.findings:
            self.findings.append(made)

    def refuse(self, code: str, path: Path, message: str, *, remedy: str | None = None) -> None:
        """The job cannot be converted, because of what stands here. Options.drop turns it into a loss that is told."""
        if code in self.options.drop:
            told = f"{message}; left out, as asked"
            self.say(code, path, told, severity="warning", remedy="")
            self.ledger.dropped(path, told)
            return
        self.say(code, path, message, severity="refused", remedy=remedy)
        self.ledger.refused(path, message)

    def link(
        self,
        path: Path,
        place: Place,
        reason: str = "",
        *,
        exact: bool = True,
        otherwise: tuple[Fate, str] | None = None,
    ) -> None:
        """What stands at ``path`` is at ``place`` now."""
        self.links.append(Link(path, place, reason, exact, otherwise))

    def drop(self, path: Path, reason: str) -> None:
        """What stands there has no place and no effect in the result."""
        self.ledger.dropped(path, reason)

    def rewrote(self, place: Place, reason: str) -> None:
        """What was carried to this place was changed after it: a v1 leaf there or below need not be found as it was."""
        self.rewritten[place] = reason

    def agree(self, role: Role) -> None:
        """A ROLE-DIFF is told, after which this is the role: what then still differs, no ROLE-DIFF tells."""
        self.agreed[role.name] = role

    def as_stock(self, place: Place) -> None:
        """What is at this place is what a stock runtime does anyway."""
        self.stock_places.add(place)

    def env(self, part: Part, name: str, value: str | Mapping[str, Any], *, first: bool = False) -> None:
        """Give the code a variable, in place of one of the same name: text, or a ``valueFrom``."""
        held: list[dict[str, Any]] = part.container.setdefault("env", [])
        held[:] = [item for item in held if item.get("name") != name]
        entry = {"name": name, **({"value": value} if isinstance(value, str) else {"valueFrom": dict(value)})}
        held.insert(0 if first else len(held), entry)

    @property
    def pods(self) -> int | None:
        """How many pods the training has; None while a placeholder says it."""
        if "mpi" in self.policy:
            # numNodes are the nodes; of the launcher there is one, and with runLauncherAsNode it is one of them.
            more = 0 if self.policy["mpi"].get("runLauncherAsNode") else 1
            return self.num_nodes + more if isinstance(self.num_nodes, int) else None
        total = 0
        for part in self.parts:
            number = self.num_nodes if part.trains else part.pods or 1
            if not isinstance(number, int):
                return None
            total += number
        return total

    @property
    def generate_name(self) -> str:
        """What the API server makes the name of, "" when there is a name."""
        return self.job.generate_name
