"""A v1 job as its operator takes it: roles by their canonical names, defaults filled in, old places read.

Live objects carry the operator's defaults and files do not; both give the same ``V1Job`` here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.kinds import REMOVED, Kind, kind_of, served
from trainer_ops.migrate.ledger import Ledger
from trainer_ops.migrate.paths import Path, leaves, text_of

__all__ = ["FLAT", "RUN_POLICY", "Role", "V1Job", "normalise"]

Raw = Mapping[str, Any]

RUN_POLICY = (
    "cleanPodPolicy",
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
    "backoffLimit",
    "schedulingPolicy",
    "suspend",
    "managedBy",
)
# The flat form of operators before 1.0; MPIJob v1 has its cleanPodPolicy there to this day.
FLAT = ("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")

# Of the object, not of the job: what the API server or another tool has written.
_SERVER_METADATA = {
    "uid": "set by the API server",
    "resourceVersion": "set by the API server",
    "generation": "set by the API server",
    "creationTimestamp": "set by the API server",
    "deletionTimestamp": "set by the API server",
    "deletionGracePeriodSeconds": "set by the API server",
    "managedFields": "set by the API server",
    "selfLink": "set by the API server",
}
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Role:
    """One entry of the replica specs.

    Attributes:
        name: canonical (``Worker``), however it is spelled.
        path: of the entry in the job.
        replicas: the operator's default when left out; a placeholder's text with ``allow_placeholders``.
        restart_policy: the entry's own, else the kind's default. The pod template's own is overridden by it.
        template: the pod template as written.
        main: index of the container with the code.
    """

    name: str
    path: Path
    replicas: int | str
    restart_policy: str
    template: Raw
    main: int = 0

    @property
    def template_path(self) -> Path:
        """Of the pod template."""
        return (*self.path, "template")

    @property
    def pod_path(self) -> Path:
        """Of the pod spec."""
        return (*self.path, "template", "spec")

    @property
    def pod(self) -> Raw:
        """The pod spec."""
        spec = self.template.get("spec")
        return spec if isinstance(spec, Mapping) else {}

    @property
    def main_path(self) -> Path:
        """Of the container with the code."""
        return (*self.pod_path, "containers", self.main)

    @property
    def container(self) -> Raw:
        """The container with the code."""
        containers = self.pod.get("containers") or ()
        return containers[self.main] if self.main < len(containers) else {}


@dataclass(frozen=True, slots=True)
class V1Job:
    """A v1 job, read.

    Attributes:
        kind: what it is.
        raw: the object.
        name: ``metadata.name``; "" with ``generateName`` only.
        namespace: "" where the object says none.
        run_policy: the fields of ``RUN_POLICY`` that are given, wherever they stand.
        run_policy_paths: where each of them stands.
        roles: in the order of ``kind.roles``.
        findings: what reading it has found.
    """

    kind: Kind
    raw: Raw
    name: str
    namespace: str = ""
    run_policy: Raw = field(default_factory=dict)
    run_policy_paths: Mapping[str, Path] = field(default_factory=dict)
    roles: tuple[Role, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def metadata(self) -> Raw:
        """``metadata``."""
        found = self.raw.get("metadata")
        return found if isinstance(found, Mapping) else {}

    @property
    def spec(self) -> Raw:
        """``spec``."""
        found = self.raw.get("spec")
        return found if isinstance(found, Mapping) else {}

    @property
    def generate_name(self) -> str:
        """``metadata.generateName``, "" when there is a name."""
        return "" if self.name else str(self.metadata.get("generateName") or "")

    def role(self, name: str) -> Role | None:
        """The role of that canonical name, None when the job has none or no replicas of it."""
        return next((role for role in self.roles if role.name == name and role.replicas != 0), None)


def normalise(raw: Raw, ledger: Ledger, *, allow_placeholders: bool = False) -> V1Job | Finding:
    """Read a job; what is of the object and not of the job is settled in the ledger here.

    Returns:
        The job, or the finding that says why it is none.
    """
    kind = kind_of(raw.get("apiVersion"), raw.get("kind"))
    if kind is None:
        return _not_v1(raw.get("apiVersion"), raw.get("kind"))
    findings: list[Finding] = []
    _object(raw, ledger)
    for part in ("metadata", "spec"):
        if not isinstance(raw.get(part), Mapping):
            return finding("NOT-A-JOB", (part,), f"{part} is missing or no mapping")
    metadata, spec = raw["metadata"], raw["spec"]
    policy, paths = _run_policy(spec, findings)
    roles = _roles(kind, spec, findings, allow_placeholders)
    if isinstance(roles, Finding):
        return roles
    return V1Job(
        kind,
        raw,
        str(metadata.get("name") or ""),
        str(metadata.get("namespace") or ""),
        policy,
        paths,
        roles,
        tuple(findings),
    )


def _not_v1(api_version: object, name: object) -> Finding:
    if str(name) in REMOVED:
        remedy = "Train with another framework: there is nothing that it could become"
        return finding("NOT-V1", ("kind",), f"{name}: {REMOVED[str(name)]}", remedy=remedy)
    versions = served(name)
    if not versions:
        return finding("NOT-V1", ("kind",), f"{api_version} {name} is no v1 training job")
    told = f"{name} of {api_version} is not served by any operator of v1"
    return finding("NOT-V1", ("apiVersion",), told, remedy=f"Write it as {' or '.join(versions)} first")


def _object(raw: Raw, ledger: Ledger) -> None:
    ledger.mapped(("apiVersion",), "trainjob:apiVersion")
    ledger.mapped(("kind",), "trainjob:kind")
    ledger.dropped(("status",), "says what happened, not what is wanted")
    for name, reason in _SERVER_METADATA.items():
        ledger.dropped(("metadata", name), reason)
    ledger.dropped(("metadata", "annotations", _LAST_APPLIED), "kubectl's own note of the v1 object")
    for path, value in leaves(raw):
        if value is None and isinstance(path[-1], str):
            ledger.dropped(path, "null says nothing")


def _run_policy(spec: Raw, findings: list[Finding]) -> tuple[dict[str, Any], dict[str, Path]]:
    """The run policy from its place, and from where older versions had it."""
    values: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    nested = spec.get("runPolicy")
    for name, value in (nested if isinstance(nested, Mapping) else {}).items():
        values[name], paths[name] = value, ("spec", "runPolicy", name)
    for name in FLAT:
        if name not in spec:
            continue
        if name in values and values[name] != spec[name]:
            findings.append(
                finding(
                    "RUN-POLICY-TWICE",
                    ("spec", name),
                    f"{name} is {spec[name]!r} here and {values[name]!r} in spec.runPolicy, which wins",
                )
            )
        values.setdefault(name, spec[name])
        paths.setdefault(name, ("spec", name))
    return values, paths


def _roles(kind: Kind, spec: Raw, findings: list[Finding], placeholders: bool) -> tuple[Role, ...] | Finding:
    where: Path = ("spec", kind.replica_specs)
    given = spec.get(kind.replica_specs)
    if not isinstance(given, Mapping) or not given:
        return finding("NOT-A-JOB", where, f"{text_of(where)} is missing or no mapping of roles")
    canonical = {name.lower(): name for name in kind.roles}
    found: dict[str, Role] = {}
    for key, entry in given.items():
        path = (*where, str(key))
        name = canonical.get(str(key).lower())
        if name is None:
            return finding("UNKNOWN-ROLE", path, f"{kind.name} knows no role {key}; known: {', '.join(kind.roles)}")
        if name in found:
            return finding("UNKNOWN-ROLE", path, f"the role {name} is given twice, in two spellings")
        role = _role(kind, name, path, entry, findings, placeholders)
        if isinstance(role, Finding):
            return role
        found[name] = role
    return tuple(_main(found[name], spec) for name in kind.roles if name in found)


def _main(role: Role, spec: Raw) -> Role:
    """An MPIJob of v1 may name the container of its workers in which kubectl exec starts the ranks."""
    wanted = spec.get("mainContainer") if role.name == "Worker" else None
    names = [container.get("name") for container in role.pod["containers"]]
    return replace(role, main=names.index(wanted)) if wanted and wanted in names else role


def _role(kind: Kind, name: str, path: Path, entry: Any, findings: list[Finding], placeholders: bool) -> Role | Finding:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("template"), Mapping):
        return finding("NOT-A-JOB", path, f"{text_of(path)}.template is missing")
    replicas = _replicas(entry.get("replicas"), kind.replicas.get(name, 1), placeholders)
    if replicas is None:
        return finding("PLACEHOLDER", (*path, "replicas"), f"{entry.get('replicas')!r} is not a whole number")
    template: Raw = entry["template"]
    pod = template.get("spec")
    containers = pod.get("containers") if isinstance(pod, Mapping) else None
    if not isinstance(containers, Sequence) or isinstance(containers, str) or not containers:
        return finding("NOT-A-JOB", (*path, "template", "spec", "containers"), "there is no container")
    if not all(isinstance(container, Mapping) for container in containers):
        return finding("NOT-A-JOB", (*path, "template", "spec", "containers"), "a container is no mapping")
    for where, value in _amounts(pod, (*path, "template", "spec")) if not placeholders else ():
        if value.lstrip().startswith(("$", "{{")):
            return finding("PLACEHOLDER", where, f"{value!r} is no amount")
    main = next((i for i, c in enumerate(containers) if c.get("name") == kind.container), None)
    if main is None:
        main = 0
        if kind.container and name != "Launcher":
            findings.append(
                finding(
                    "CONTAINER-NAME",
                    (*path, "template", "spec", "containers", 0, "name"),
                    f'no container is named "{kind.container}", which v1 wants; the first one is taken',
                )
            )
    policy = str(entry.get("restartPolicy") or kind.restart_policies[name])
    return Role(name, path, replicas, policy, template, main)


def _amounts(pod: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """What the containers want and may have, where it is a text."""
    for kind in ("initContainers", "containers"):
        for at, value in leaves(pod.get(kind), (*path, kind)):
            if at[-3:-1] in (("resources", "limits"), ("resources", "requests")) and isinstance(value, str):
                yield at, value


def _replicas(value: Any, default: int, placeholders: bool) -> int | str | None:
    if value is None:
        return default
    if isinstance(value, bool):
        return None
    if isinstance(value, int) and value >= 0:
        return value
    if isinstance(value, str) and placeholders and value.strip().startswith(("$", "{{")):
        return value
    return None
