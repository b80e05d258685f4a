"""The rights that a user or a service account needs, as text for ``kubectl apply``. Pure.

The one table of rights: what ``trainer-ops rbac`` prints, what a refused call points to, and what a KFP step prints
when it may not create its training.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys

__all__ = ["KFP_ACCOUNTS", "Subject", "command_for", "covers", "manifests", "subject_of"]

# The service accounts of KFP's steps: where it is installed for one team, and in the namespace of a profile.
KFP_ACCOUNTS: Final = ("pipeline-runner", "default-editor")
_NAME: Final = "trainer-ops"
_CLUSTER_NAME: Final = "trainer-ops-runtimes"
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_API: Final = "rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class _Rule:
    """Verbs on resources of one API group, and what for. ``only`` names the flag without which it is left out."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    only: str = ""


_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "update")
_IN_NAMESPACE: Final = (
    _Rule(keys.GROUP, ("trainjobs",), (*_READ, "create", "patch", "delete"), "trainings"),
    _Rule(keys.GROUP, ("trainingruntimes",), _READ, "runtimes of the namespace"),
    _Rule(keys.GROUP, ("trainingruntimes",), _WRITE, "applying them", "runtimes"),
    _Rule("", ("pods", "events"), _READ, "how trainings stand, and why"),
    _Rule("", ("pods/log",), ("get",), "their logs"),
    _Rule("", ("pods/exec",), ("create", "get"), "trainer-ops exec", "exec"),
    _Rule("jobset.x-k8s.io", ("jobsets",), _READ, "reasons"),
    _Rule("kueue.x-k8s.io", ("workloads",), _READ, "reasons, with Kueue"),
    _Rule("batch", ("jobs",), (*_READ, "create", "delete"), "snapshots of datasets and models"),
    _Rule("", ("persistentvolumeclaims",), ("get", "list", "create"), "where snapshots are"),
)
_IN_CLUSTER: Final = (
    _Rule(keys.GROUP, ("clustertrainingruntimes",), _READ, "runtimes of the cluster"),
    _Rule(keys.GROUP, ("clustertrainingruntimes",), _WRITE, "applying them", "runtimes"),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """Who gets the rights: a service account (with its namespace), or a user (without)."""

    name: str
    namespace: str = ""


def subject_of(user: str, *, namespace: str = "") -> Subject:
    """Who is meant by a name.

    Args:
        user: ``system:serviceaccount:NAMESPACE:NAME``, as the API server says it; ``NAMESPACE:NAME`` and ``NAME`` are
            short for it where ``namespace`` is given.
        namespace: of a service account that is named without one; "" means that the name is a user's.

    Raises:
        InvalidRequest: it is no name.
    """
    text = user.removeprefix(_ACCOUNT_PREFIX)
    if not namespace and text == user:
        return Subject(user)
    space, separator, name = text.rpartition(":")
    if not name or (separator and not space) or ":" in space or "/" in text or " " in text:
        raise InvalidRequest("--service-account", f'"{user}" is no service account', "Write NAME or NAMESPACE:NAME")
    return Subject(name, space or namespace)


def covers(verb: str, resource: str, group: str, *, in_cluster: bool = False) -> bool:
    """Whether the Role (or the ClusterRole) gives this right."""
    rules = _IN_CLUSTER if in_cluster else _IN_NAMESPACE
    return any(rule.group == group and resource in rule.resources and verb in rule.verbs for rule in rules)


def command_for(user: str, namespace: str, verb: str, resource: str, group: str) -> str:
    """The command that prints what gives this right to that user; "" when it is none of ours."""
    if not covers(verb, resource, group, in_cluster=not namespace):
        return ""
    subject = subject_of(user)
    account = (
        f"--service-account {subject.namespace}:{subject.name}" if subject.namespace else f"--user {shlex.quote(user)}"
    )
    where = f" --namespace {namespace}" if namespace else ""
    rule = next(
        rule
        for rule in (_IN_NAMESPACE if namespace else _IN_CLUSTER)
        if rule.group == group and resource in rule.resources and verb in rule.verbs
    )
    return f"trainer-ops rbac{where} {account}" + (f" --{rule.only}" if rule.only else "")


def manifests(namespace: str, subjects: Sequence[Subject], *, parts: Sequence[str] = ()) -> str:
    """A Role and a ClusterRole with their bindings, as YAML with a reason for each right.

    Args:
        namespace: where the trainings are.
        subjects: who gets the rights; none leaves the bindings out.
        parts: of ``exec`` and ``runtimes`` those that are wanted too.
    """
    documents = [
        _role("Role", _NAME, namespace, _rules(_IN_NAMESPACE, parts)),
        *([_binding("Role", _NAME, namespace, subjects)] if subjects else []),
        _role("ClusterRole", _CLUSTER_NAME, "", _rules(_IN_CLUSTER, parts)),
        # A ClusterRole is one for the cluster, its binding one for each namespace that asks.
        *([_binding("ClusterRole", _CLUSTER_NAME, "", subjects, f"{_CLUSTER_NAME}-{namespace}")] if subjects else []),
    ]
    return "---\n".join(documents)


def _rules(rules: Sequence[_Rule], parts: Sequence[str]) -> list[str]:
    return [
        f"# {rule.why}\n- {{apiGroups: [{_scalar(rule.group)}], resources: [{', '.join(rule.resources)}], "
        f"verbs: [{', '.join(rule.verbs)}]}}"
        for rule in rules
        if not rule.only or rule.only in parts
    ]


def _role(kind: str, name: str, namespace: str, rules: Sequence[str]) -> str:
    return "\n".join((*_head(kind, name, namespace), "rules:", *rules, ""))


def _binding(kind: str, role: str, namespace: str, subjects: Sequence[Subject], name: str = "") -> str:
    who = [
        f"- {{kind: ServiceAccount, name: {_scalar(one.name)}, namespace: {_scalar(one.namespace)}}}"
        if one.namespace
        else f"- {{kind: User, name: {_scalar(one.name)}, apiGroup: rbac.authorization.k8s.io}}"
        for one in subjects
    ]
    ref = f"roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: {role}}}"
    return "\n".join((*_head(f"{kind}Binding", name or role, namespace), ref, "subjects:", *who, ""))


def _head(kind: str, name: str, namespace: str) -> tuple[str, ...]:
    where = f", namespace: {_scalar(namespace)}" if namespace else ""
    return f"apiVersion: {_API}", f"kind: {kind}", f"metadata: {{name: {name}{where}}}"


def _scalar(text: str) -> str:
    """A plain scalar where YAML surely reads it as this text, else quoted."""
    plain = text.replace("-", "").replace(".", "")
    safe = plain.isalnum() and plain.isascii() and plain[0].isalpha()
    words = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
    return text if safe and text[-1].isalnum() and text.lower() not in words else json.dumps(text)
