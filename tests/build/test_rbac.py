"""The rights as YAML: whole, readable, and what a refused call points to."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from trainer_ops.build.rbac import Subject, command_for, covers, manifests, subject_of
from trainer_ops.errors import InvalidRequest

WORKER = Subject("worker", "airflow")


def parsed(text: str) -> dict[str, Any]:
    return {raw["kind"]: raw for raw in yaml.safe_load_all(text)}


def rights(role: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (verb, resource, group)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_a_role_and_its_binding() -> None:
    found = parsed(manifests("team-a", [WORKER, Subject("jane@example.org")]))
    assert list(found) == ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
    assert found["Role"]["metadata"] == {"name": "trainer-ops", "namespace": "team-a"}
    for kind in ("Role", "ClusterRole"):
        binding = found[f"{kind}Binding"]
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": kind,
            "name": found[kind]["metadata"]["name"],
        }
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "worker", "namespace": "airflow"},
            {"kind": "User", "name": "jane@example.org", "apiGroup": "rbac.authorization.k8s.io"},
        ]
    assert found["ClusterRoleBinding"]["metadata"] == {"name": "trainer-ops-runtimes-team-a"}


def test_what_it_gives() -> None:
    found = rights(parsed(manifests("a", []))["Role"])
    assert {verb for verb, what, _ in found if what == "trainjobs"} == {
        *("get", "list", "watch", "create", "patch", "delete")
    }
    for verb, what, group in (
        ("get", "pods/log", ""),
        ("watch", "pods", ""),
        ("list", "events", ""),
        ("watch", "jobsets", "jobset.x-k8s.io"),
        ("watch", "workloads", "kueue.x-k8s.io"),
        ("create", "jobs", "batch"),
        ("delete", "jobs", "batch"),
        ("create", "persistentvolumeclaims", ""),
        ("get", "persistentvolumeclaims", ""),
    ):
        assert (verb, what, group) in found
    assert not any("*" in right or "secrets" in right for right in found)
    assert all(covers(*right) for right in found)


def test_what_is_given_only_when_asked_for() -> None:
    plain, more = (parsed(manifests("a", [], parts=parts)) for parts in ((), ("exec", "runtimes")))
    assert rights(more["Role"]) - rights(plain["Role"]) == {
        *((verb, "pods/exec", "") for verb in ("create", "get")),
        *((verb, "trainingruntimes", "trainer.kubeflow.org") for verb in ("create", "update")),
    }
    assert ("update", "clustertrainingruntimes", "trainer.kubeflow.org") in rights(more["ClusterRole"])


def test_every_right_has_its_reason_above_it_and_no_line_is_long() -> None:
    lines = manifests("a", [], parts=("exec", "runtimes")).splitlines()
    assert all(lines[i - 1].startswith("# ") for i, line in enumerate(lines) if line.startswith("- {apiGroups"))
    assert max(map(len, lines)) < 120


@pytest.mark.parametrize("name", ["true", "007", "1e3", "null", "a:b", "x y", "-", "jane@x"])
def test_a_name_is_text_whatever_it_looks_like(name: str) -> None:
    found = parsed(manifests("no", [Subject(name)]))
    assert found["RoleBinding"]["subjects"][0]["name"] == name
    assert found["Role"]["metadata"]["namespace"] == "no"


@pytest.mark.parametrize(
    ("user", "namespace", "subject"),
    [
        ("system:serviceaccount:airflow:worker", "", WORKER),
        ("airflow:worker", "team-a", WORKER),
        ("worker", "airflow", WORKER),
        ("jane", "", Subject("jane")),
        ("oidc:jane", "", Subject("oidc:jane")),
    ],
)
def test_who_is_meant(user: str, namespace: str, subject: Subject) -> None:
    assert subject_of(user, namespace=namespace) == subject


@pytest.mark.parametrize("user", ["", ":", "a:b:c", "airflow:", ":worker", "a/b", "a b"])
def test_no_service_account(user: str) -> None:
    with pytest.raises(InvalidRequest, match="--service-account"):
        subject_of(user, namespace="team-a")


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        (
            ("system:serviceaccount:airflow:worker", "team-a", "create", "trainjobs", "trainer.kubeflow.org"),
            "trainer-ops rbac --namespace team-a --service-account airflow:worker",
        ),
        (("jane", "team-a", "create", "pods/exec", ""), "trainer-ops rbac --namespace team-a --user jane --exec"),
        (
            ("jane", "", "list", "clustertrainingruntimes", "trainer.kubeflow.org"),
            "trainer-ops rbac --user jane",
        ),
        (("jane o'hara", "a", "get", "pods", ""), """trainer-ops rbac --namespace a --user 'jane o'"'"'hara'"""),
        (("jane", "team-a", "create", "secrets", ""), ""),
        (("jane", "", "list", "pods", ""), ""),
    ],
)
def test_what_a_refused_call_points_to(asked: tuple[str, str, str, str, str], command: str) -> None:
    assert command_for(*asked) == command
