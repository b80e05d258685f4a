"""From a connection to the credentials of a snapshot's source."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.airflow.sources import credentials_of, source_credentials
from trainer_ops.errors import InvalidRequest


def connection(kind: str, login: str = "", password: str = "", **extra: Any) -> Callable[[], Any]:
    """Makes one when it is called: Airflow is not imported to collect tests."""

    def make() -> Any:
        from airflow.sdk import Connection

        given = {"conn_type": kind, "login": login, "password": password, "extra": json.dumps(extra) if extra else None}
        return Connection(conn_id="src", **given)

    return make


TOKENS: dict[str, tuple[str, Any]] = {
    "the hub": ("hf://datasets/org/digits", connection("huggingface", password="t0ken")),
    "the hub, by a generic one": ("hf://org/bert", connection("generic", password="t0ken")),
    "the hub, in the extra": ("hf://org/bert", connection("generic", token="t0ken")),
    "a server": ("https://h/x.csv", connection("http", password="t0ken")),
}


def test_a_hub_of_ones_own() -> None:
    from airflow.sdk import Connection

    conn = Connection(conn_id="hub", conn_type="http", host="hub.local", port=8080, schema="http", password="t0ken")
    found = credentials_of(conn, "hf://org/bert")
    assert (found.token, found.options) == ("t0ken", {"endpoint": "http://hub.local:8080"})
    conn = Connection(conn_id="hub", conn_type="huggingface", host="https://hub.local")
    found = credentials_of(conn, "hf://org/bert")
    assert (found.token, found.options) == ("", {"endpoint": "https://hub.local"})


@pytest.mark.parametrize(("uri", "conn"), TOKENS.values(), ids=TOKENS.keys())
def test_tokens(uri: str, conn: Any) -> None:
    assert credentials_of(conn(), uri).token == "t0ken"


OPTIONS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "a key of S3": ("s3://b", connection("aws", "AKIA", "s3cret"), {"key": "AKIA", "secret": "s3cret"}),
    "all of S3": (
        "s3://b",
        connection(
            "aws", "AKIA", "s3cret", region_name="eu-west-1", endpoint_url="http://minio:9000", aws_session_token="t"
        ),
        {
            "key": "AKIA",
            "secret": "s3cret",
            "token": "t",
            "endpoint_url": "http://minio:9000",
            "client_kwargs": {"region_name": "eu-west-1"},
        },
    ),
    "S3 by the worker's own role": (
        "s3://b", connection("aws", region_name="eu"), {"client_kwargs": {"region_name": "eu"}},
    ),
    "Google by a key that is text": (
        "gs://b", connection("google_cloud_platform", keyfile_dict='{"type": "service_account"}'),
        {"token": {"type": "service_account"}},
    ),
    "Google by a file": ("gs://b", connection("google-cloud-platform", key_path="/k.json"), {"token": "/k.json"}),
    "Azure": ("az://c", connection("wasb", "acc", "k3y"), {"account_name": "acc", "account_key": "k3y"}),
    "Azure by a string": ("az://c", connection("wasb", connection_string="x"), {"connection_string": "x"}),
}  # fmt: skip


@pytest.mark.parametrize(("uri", "conn", "options"), OPTIONS.values(), ids=OPTIONS.keys())
def test_options(uri: str, conn: Any, options: dict[str, Any]) -> None:
    found = credentials_of(conn(), uri)
    assert dict(found.options) == options
    assert "s3cret" not in repr(found)


REFUSED: dict[str, tuple[str, Any, str]] = {
    "another type": ("s3://b", connection("http", password="s3cret"), 'has the type "http", which says nothing of s3://'),
    "no token": ("hf://a/b", connection("huggingface"), 'connection "src" lacks a token'),
    "half a key": ("s3://b", connection("aws", "AKIA"), "lacks one of key and secret"),
    "a role": ("s3://b", connection("aws", "a", "s3cret", role_arn="x"), "role_arn of connection"),
    "a login for a server": ("https://h/x", connection("http", "me", "s3cret"), "has a login and a password"),
    "a key that is no JSON": ("gs://b", connection("google_cloud_platform", keyfile_dict="{s3cret"), "that is JSON"),
    "files need none": ("file:///x", connection("aws"), "file needs no credentials"),
    "a source that nobody knows": ("ftp://h", connection("aws"), "ftp://h is no known source"),
}  # fmt: skip


@pytest.mark.parametrize(("uri", "conn", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_names_the_parameter_and_no_secret(uri: str, conn: Any, text: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        credentials_of(conn(), uri)
    assert raised.value.field == "source_conn_id"
    assert text in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_it_is_looked_up_and_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[Any] = []
    monkeypatch.setattr("airflow.sdk.log.mask_secret", lambda value, name=None: masked.append(value))
    monkeypatch.setenv("AIRFLOW_CONN_STORE", "aws://AKIA:s3cret@/?aws_session_token=t0ken")
    found = source_credentials("store", "s3://bucket/x")
    assert found is not None
    assert (found.options["key"], found.options["secret"]) == ("AKIA", "s3cret")
    assert "s3cret" in masked
    assert "t0ken" in masked
    assert source_credentials(None, "s3://bucket/x") is None
