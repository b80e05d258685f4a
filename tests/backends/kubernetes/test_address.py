from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from trainer_ops.backends.kubernetes.access import Access
from trainer_ops.backends.kubernetes.address import Address
from trainer_ops.backends.kubernetes.backend import KubernetesBackend
from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.target import open_backend, open_cluster

ARN = "arn:aws:eks:eu-west-1:123456789012:cluster/prod"


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("kubernetes://", Address()),
        ("kubernetes://prod", Address("prod")),
        ("kubernetes://prod/team-a", Address("prod", "team-a")),
        ("kubernetes:///team-a", Address("", "team-a")),
        ("kubernetes://in-cluster", Address("in-cluster")),
        ("in-cluster", Address("in-cluster")),
        ("kubernetes://in-cluster/team-a", Address("in-cluster", "team-a")),
        (f"kubernetes://{ARN}/team-a", Address(ARN, "team-a")),
        (f"kubernetes://{ARN.replace('/', '%2F')}", Address(ARN)),
        ("kubernetes://admin%40prod/a", Address("admin@prod", "a")),
        ("kubernetes://prod/a?kubeconfig=/home/me/k%20c", Address("prod", "a", "/home/me/k c")),
    ],
)
def test_a_target_is_read(target: str, address: Address) -> None:
    assert Address.parse(target) == address
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("https://prod/a", "is no cluster"),
        ("kubernetes://prod/", "the namespace is empty"),
        ("kubernetes://prod/a?context=x", "unknown option context"),
        ("kubernetes://prod/Team A", "no name of a namespace"),
        ("kubernetes://prod/" + "a" * 64, "no name of a namespace"),
    ],
)
def test_a_target_is_refused(target: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        Address.parse(target)
    assert caught.value.field == "target"
    assert "kubernetes://CONTEXT" in caught.value.remedy or "Known" in caught.value.remedy


def kubeconfig(*contexts: str, current: str = "", namespace: str = "", token: str = "secret-token") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}}
            for name in contexts
        ],
    }


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig("dev", "prod", current="prod", namespace="team-a")))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("target", "filled"),
    [
        ("kubernetes://", "kubernetes://prod/team-a"),
        ("kubernetes://dev", "kubernetes://dev/team-a"),
        ("kubernetes://dev/other", "kubernetes://dev/other"),
        ("kubernetes:///other", "kubernetes://prod/other"),
    ],
)
def test_what_is_left_out_comes_from_the_kubeconfig(target: str, filled: str) -> None:
    backend = open_backend(target)
    assert backend.target == filled
    assert backend.namespace == filled.rpartition("/")[2]
    backend.close()


def test_a_kubeconfig_can_be_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    target = f"kubernetes://dev/x?kubeconfig={file}"
    assert open_backend(target).target == target
    assert open_cluster(context="dev", namespace="x", kubeconfig=file).target == target


@pytest.mark.usefixtures("file")
def test_an_unknown_context_names_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match=r'no context "pord" in the kubeconfig\. Known: dev, prod'):
        open_backend("kubernetes://pord/a")


def test_a_kubeconfig_without_a_current_context(file: Path) -> None:
    file.write_text(yaml.safe_dump(kubeconfig("dev")))
    with pytest.raises(InvalidRequest, match=r"no current context\. Name one of: dev"):
        open_backend("kubernetes://")


@pytest.mark.parametrize("text", ["", "[]", "a: b", "::: no yaml :::\n- x: ["])
def test_a_kubeconfig_that_is_none(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(InvalidRequest) as caught:
        open_backend("kubernetes://prod/a")
    assert caught.value.field == "target"


def test_a_kubeconfig_given_as_content_is_in_no_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    content = kubeconfig("prod", current="prod", namespace="team-a")
    backend = open_cluster(content=content)
    assert isinstance(backend, KubernetesBackend)
    assert backend.target == "kubernetes://prod/team-a?kubeconfig=inline"
    access = Access.to(Address(), content)
    assert "secret-token" not in repr(access) + str(access.key) + repr(backend)
    with pytest.raises(InvalidRequest, match="given as content") as caught:
        open_backend(backend.target)
    assert "Airflow connection" in caught.value.remedy


@pytest.mark.parametrize(
    "content", ["token: very-secret\n\t- x: {", "[very-secret]", "very-secret", {"contexts": "very-secret"}]
)
def test_content_that_is_none_is_not_quoted(content: Any) -> None:
    with pytest.raises(InvalidRequest, match="no usable kubeconfig") as caught:
        open_cluster(context="prod", content=content)
    assert "very-secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_content_may_be_text() -> None:
    backend = open_cluster(content=json.dumps(kubeconfig("prod", current="prod")))
    assert backend.target == "kubernetes://prod/default?kubeconfig=inline"


def test_what_is_shared_is_shared_by_equal_users_only(file: Path) -> None:
    other = file.with_name("other")
    other.write_text(file.read_text())
    content = kubeconfig("prod", current="prod", namespace="team-a")
    accesses = {
        "file": Access.to(Address("prod", "team-a")),
        "again": Access.to(Address("prod", "team-a", str(file))),
        "another file": Access.to(Address("prod", "team-a", str(other))),
        "another context": Access.to(Address("dev", "team-a")),
        "another namespace": Access.to(Address("prod", "team-b")),
        "content": Access.to(Address(), content),
        "content again": Access.to(Address(), dict(content)),
        "another token": Access.to(Address(), kubeconfig("prod", current="prod", namespace="team-a", token="t2")),
    }
    assert accesses["file"].key == accesses["again"].key
    assert accesses["content"].key == accesses["content again"].key
    assert len({access.key for access in accesses.values()}) == len(accesses) - 2


def test_the_library_default_is_neither_read_nor_changed(file: Path) -> None:
    from kubernetes import client

    default = client.Configuration()
    default.host = "https://somebody.else"
    client.Configuration.set_default(default)
    try:
        connection = Access.to(Address()).connect()
        assert connection.configuration.host == "https://127.0.0.1:1"
        connection.close()
        assert client.Configuration.get_default_copy().host == "https://somebody.else"
    finally:
        client.Configuration.set_default(None)


def test_in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.config import incluster_config

    from trainer_ops.backends.kubernetes import access

    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    for name, text in (("token", "t"), ("namespace", "mine")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(access, "_ACCOUNT", tmp_path)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    for address in (Address(), Address("in-cluster")):
        assert str(Access.to(address).address) == "kubernetes://in-cluster/mine"
    assert str(Access.to(Address("in-cluster", "other")).address) == "kubernetes://in-cluster/other"
    # Whoever has a kubeconfig in a pod means that one.
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig("prod", current="prod")))
    assert str(Access.to(Address()).address) == "kubernetes://prod/default"


def test_a_named_context_needs_no_current_one_and_may_lie_in_a_second_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = file.with_name("second")
    second.write_text(yaml.safe_dump(kubeconfig("lab")))
    monkeypatch.setenv("KUBECONFIG", f"{file}:{second}:{file.with_name('absent')}")
    assert open_backend("kubernetes://lab/x").target == "kubernetes://lab/x"
    assert open_backend("kubernetes://").target == "kubernetes://prod/team-a"
    monkeypatch.setenv("KUBECONFIG", str(second))
    assert open_backend("kubernetes://lab/x").target == "kubernetes://lab/x"
