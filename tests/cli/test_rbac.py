"""``trainer-ops rbac``: what is printed can be applied as it is."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from trainer_ops.cli.app import run


def printed(capsys: pytest.CaptureFixture[str], *flags: str) -> list[dict[str, Any]]:
    assert run(["rbac", *flags]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_the_role_alone(capsys: pytest.CaptureFixture[str]) -> None:
    role, cluster_role = printed(capsys)
    assert role["metadata"]["namespace"] == "default"
    assert cluster_role["kind"] == "ClusterRole"


def test_of_kfp(capsys: pytest.CaptureFixture[str]) -> None:
    role, binding, *_ = printed(capsys, "--kfp")
    assert role["metadata"]["namespace"] == "kubeflow"
    assert [s["name"] for s in binding["subjects"]] == ["pipeline-runner", "default-editor"]
    assert {s["namespace"] for s in binding["subjects"]} == {"kubeflow"}


def test_of_kfp_with_an_own_account(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--kfp", "--namespace", "team-a", "--service-account", "trainer", "--user", "jane")
    _, binding, *_ = printed(capsys, *flags)
    assert [(s["kind"], s["name"], s.get("namespace")) for s in binding["subjects"]] == [
        ("ServiceAccount", "trainer", "team-a"),
        ("User", "jane", None),
    ]


def test_more_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    role = printed(capsys, "--exec", "--runtimes")[0]
    assert any("pods/exec" in rule["resources"] for rule in role["rules"])


def test_no_service_account(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rbac", "--service-account", "a:b:c"]) == 2
    assert '"a:b:c" is no service account' in capsys.readouterr().err


@pytest.mark.parametrize("name", ["No Such", "team_a", "-a", "a" * 64])
def test_no_namespace(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rbac", f"--namespace={name}"]) == 2
    assert f'--namespace: "{name}" is no name of a namespace' in capsys.readouterr().err
