"""From a connection to a target."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.identity import JobRef
from trainer_ops.testing import MemoryBackend


def connection(kind: str, **extra: Any) -> Any:
    from airflow.sdk import Connection

    return Connection(conn_id="training", conn_type=kind, extra=json.dumps(extra) if extra else None)


def test_a_folder_and_how_many_at_once() -> None:
    from trainer_ops.airflow.hook import target_of

    conn = connection("trainer-local", root="/var/lib/my trainings", max_jobs=2)
    assert target_of(conn) == "local:///var/lib/my%20trainings?max_jobs=2"


@pytest.mark.parametrize(
    ("uri", "target"),
    [
        ("trainer-local:///var/lib/t", "local:///var/lib/t"),
        ("trainer-local://?root=%2Fvar%2Flib%2Ft&max_jobs=3", "local:///var/lib/t?max_jobs=3"),
        ('{"conn_type": "trainer-local", "extra": {"root": "/var/lib/t"}}', "local:///var/lib/t"),
    ],
)
def test_a_connection_in_the_environment(uri: str, target: str) -> None:
    from airflow.sdk import Connection

    from trainer_ops.airflow.hook import target_of

    conn = Connection.from_json(uri, "x") if uri.startswith("{") else Connection.from_uri(uri, "x")
    assert target_of(conn) == target


def test_a_relative_folder_is_under_airflow_home(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer_ops.airflow.hook import target_of

    monkeypatch.setenv("AIRFLOW_HOME", "/opt/airflow")
    assert target_of(connection("trainer-local", root="trainings")) == "local:///opt/airflow/trainings"


def test_without_a_folder_it_is_the_default_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer_ops.airflow.hook import target_of

    monkeypatch.delenv("TRAINER_OPS_TARGET", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/home/me/state")
    assert target_of(connection("trainer-local")) == "local:///home/me/state/trainer-ops"
    assert target_of(connection("trainer-local", max_jobs="2")) == "local:///home/me/state/trainer-ops?max_jobs=2"


@pytest.mark.parametrize("jobs", ["0", "-1", "two", "1.5"])
def test_a_number_that_is_none(jobs: str) -> None:
    from trainer_ops.airflow.hook import target_of

    with pytest.raises(InvalidRequest, match=f"max_jobs: '{jobs}' in connection \"training\""):
        target_of(connection("trainer-local", max_jobs=jobs))


def test_another_type_is_refused_by_name() -> None:
    from trainer_ops.airflow.hook import target_of

    with pytest.raises(InvalidRequest, match='connection "training" has the type "http"'):
        target_of(connection("http"))


def test_a_cluster_is_named_with_its_context_and_namespace() -> None:
    from trainer_ops.airflow.hook import target_of

    conn = connection("kubernetes", cluster_context="prod", namespace="team-a")
    assert target_of(conn) == "kubernetes://prod/team-a"
    assert target_of(conn, "team-b") == "kubernetes://prod/team-b"
    assert target_of(connection("kubernetes", in_cluster=True, namespace="a")) == "kubernetes://in-cluster/a"
    conn = connection("kubernetes", kube_config_path="/etc/kube/config", in_cluster="False")
    assert target_of(conn) == "kubernetes://?kubeconfig=/etc/kube/config"
    conn = connection("kubernetes", extra__kubernetes__cluster_context="arn:aws:eks:eu:1:cluster/a")
    assert target_of(conn, "b") == "kubernetes://arn:aws:eks:eu:1:cluster/a/b"


KUBECONFIG = """
current-context: prod
clusters: [{name: prod, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me, user: {token: s3cret}}]
contexts: [{name: prod, context: {cluster: prod, user: me, namespace: team-a}}]
"""


@pytest.mark.parametrize("form", ["yaml", "json", "mapping"])
def test_a_kubeconfig_in_the_connection_stays_there(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    from trainer_ops.airflow import TrainerHook

    read = yaml.safe_load(KUBECONFIG)
    given = {"yaml": KUBECONFIG, "json": json.dumps(read), "mapping": read}[form]
    text = json.dumps({"conn_type": "kubernetes", "extra": {"kube_config": given}})
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING", text)
    backend = TrainerHook("training").get_conn()
    assert backend.target == "kubernetes://prod/team-a?kubeconfig=inline"
    backend.close()
    # The triggerer is given that target, and finds the rest in the connection.
    again = asyncio.run(TrainerHook("training").aget_conn(JobRef(backend.target, "team-a", "x", "u")))
    assert again.target == backend.target
    again.close()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no verification": ({"disable_verify_ssl": True}, 'disable_verify_ssl: of connection "training" cannot be used'),
    "two ways": ({"in_cluster": True, "kube_config_path": "/x"}, "in_cluster: and kube_config_path of connection"),
    "text that is no kubeconfig": ({"kube_config": "s3cret"}, 'kube_config: of connection "training" is no kubeconfig'),
    "no YAML": ({"kube_config": "{s3cret"}, 'kube_config: of connection "training" is neither JSON nor YAML'),
}


@pytest.mark.parametrize(("extra", "text"), WRONG.values(), ids=WRONG.keys())
def test_what_a_cluster_connection_says_is_never_left_out_silently(extra: dict[str, Any], text: str) -> None:
    from trainer_ops.airflow.hook import target_of

    with pytest.raises(InvalidRequest, match=text) as raised:
        target_of(connection("kubernetes", **extra))
    assert "s3cret" not in str(raised.value)


def test_no_connection_is_the_target_of_the_environment(memory_backend: MemoryBackend, monkeypatch: Any) -> None:
    from trainer_ops.airflow import TrainerHook

    monkeypatch.setenv("TRAINER_OPS_TARGET", memory_backend.target)
    assert TrainerHook().get_conn() is memory_backend


def test_a_triggerer_finds_an_engine_without_the_connection(tmp_path: Path) -> None:
    from trainer_ops.airflow import TrainerHook

    ref = JobRef(f"local://{tmp_path}", "default", "x", "u")
    backend = asyncio.run(TrainerHook("only-the-worker-knows-it").aget_conn(ref))
    assert backend.target.startswith(ref.target)
    backend.close()


def test_the_button_in_the_connection_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer_ops.airflow import TrainerHook

    monkeypatch.setenv("AIRFLOW_CONN_TRAINING", f"trainer-local://{tmp_path}/root")
    ok, text = TrainerHook("training").test_connection()
    assert ok, text
    assert "xgboost-distributed" in text
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING", "http://example.com")
    ok, text = TrainerHook("training").test_connection()
    assert not ok
    assert 'has the type "http"' in text
