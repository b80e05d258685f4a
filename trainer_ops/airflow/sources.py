"""From an Airflow connection to the credentials of a snapshot's source. They stay in the worker that reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trainer_ops.airflow.compat import exception
from trainer_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from trainer_ops.initializers.provider import Credentials

__all__ = ["FIELD", "credentials_of", "source_credentials"]

# The operator's parameter: what errors here are about.
FIELD = "source_conn_id"


def source_credentials(conn_id: str | None, uri: str) -> Credentials | None:
    """The credentials that a connection holds for this source; None for no connection.

    Airflow masks them in the task's log.

    Raises:
        InvalidRequest: field ``source_conn_id``: there is no such connection, or it is not for such a source.
    """
    if conn_id is None:
        return None
    from airflow.sdk import BaseHook

    try:
        conn = BaseHook.get_connection(conn_id)
    except exception("AirflowNotFoundException") as exc:
        reason, remedy = f'there is no connection "{conn_id}"', f"Make it, or set AIRFLOW_CONN_{conn_id.upper()}"
        raise InvalidRequest(FIELD, reason, remedy) from exc
    credentials = credentials_of(conn, uri)
    _mask(credentials)
    return credentials


def credentials_of(conn: Any, uri: str) -> Credentials:
    """What this connection means for a source of this scheme.

    Raises:
        InvalidRequest: field ``source_conn_id``; no secret is in the message.
    """
    from trainer_ops.initializers.provider import Credentials

    scheme = uri.partition("://")[0].lower()
    if scheme not in _READ:
        reason = f"{scheme or uri} needs no credentials" if scheme in ("file", "pvc") else f"{uri} is no known source"
        raise InvalidRequest(FIELD, reason, f"Leave {FIELD} out")
    types, read = _READ[scheme]
    kind = str(conn.conn_type or "").replace("-", "_")
    if kind not in types:
        raise InvalidRequest(
            FIELD,
            f'connection "{conn.conn_id}" has the type "{conn.conn_type}", which says nothing of {scheme}://',
            f"Name one of type {' or '.join(types)}",
        )
    found = read(conn)
    return found if isinstance(found, Credentials) else Credentials(options=found)


def _token(conn: Any) -> Credentials:
    """A token is the password, or ``token`` of the extra fields."""
    from trainer_ops.initializers.provider import Credentials

    token = conn.password or conn.extra_dejson.get("token")
    if not token:
        raise _lacks(conn, "a token", "Write it as its password")
    return Credentials(token=str(token))


def _hub(conn: Any) -> Credentials:
    """The token, and where the connection has a host, the hub that is there."""
    from trainer_ops.initializers.provider import Credentials

    if not conn.host:
        return _token(conn)
    host = conn.host if "://" in conn.host else f"{conn.schema or 'https'}://{conn.host}"
    endpoint = f"{host}:{conn.port}" if conn.port else host
    token = conn.password or conn.extra_dejson.get("token") or ""
    return Credentials(token=str(token), options={"endpoint": endpoint})


def _http(conn: Any) -> Credentials:
    if conn.login and conn.password:
        raise InvalidRequest(
            FIELD,
            f'connection "{conn.conn_id}" has a login and a password; sources are asked with a bearer token',
            "Put the token into the password and leave the login empty",
        )
    return _token(conn)


def _aws(conn: Any) -> dict[str, object]:
    """Fields as Airflow's own ``aws`` type has them; fields that would make somebody else ask are refused by name."""
    extra = conn.extra_dejson
    _refuse(conn, extra, ("role_arn", "profile_name", "assume_role_method"), "Give a key and a secret")
    client = {"region_name": extra.get("region_name")}
    given = {
        "key": conn.login or extra.get("aws_access_key_id"),
        "secret": conn.password or extra.get("aws_secret_access_key"),
        "token": extra.get("aws_session_token"),
        "endpoint_url": extra.get("endpoint_url") or extra.get("host"),
        "client_kwargs": {name: value for name, value in client.items() if value},
    }
    if bool(given["key"]) is not bool(given["secret"]):
        raise _lacks(conn, "one of key and secret", "Give both, or neither for those of the worker's own role")
    return _said(given)


def _google(conn: Any) -> dict[str, object]:
    extra = conn.extra_dejson
    _refuse(conn, extra, ("impersonation_chain", "key_secret_name", "credential_config_file"), "Give a keyfile")
    return _said(
        {"token": _mapping(conn, extra.get("keyfile_dict")) or extra.get("key_path"), "project": extra.get("project")}
    )


def _azure(conn: Any) -> dict[str, object]:
    extra = conn.extra_dejson
    names = ("connection_string", "sas_token", "tenant_id", "client_id", "client_secret", "account_url")
    return _said(
        {"account_name": conn.login, "account_key": conn.password, **{name: extra.get(name) for name in names}}
    )


def _mapping(conn: Any, value: Any) -> Mapping[str, Any] | None:
    import json

    if not value or isinstance(value, Mapping):
        return value or None
    try:
        read = json.loads(value)
    except ValueError:  # its text quotes the key
        read = None
    if not isinstance(read, dict):
        raise _lacks(conn, "a keyfile that is JSON", "Paste the service account's key as it was downloaded")
    return read


def _said(given: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in given.items() if value}


def _refuse(conn: Any, extra: Mapping[str, Any], names: tuple[str, ...], remedy: str) -> None:
    for name in names:
        if extra.get(name):
            raise InvalidRequest(FIELD, f'{name} of connection "{conn.conn_id}" cannot be used here', remedy)


def _lacks(conn: Any, what: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(FIELD, f'connection "{conn.conn_id}" lacks {what}', remedy)


_Read = Callable[[Any], "Credentials | dict[str, object]"]

# Scheme: which types of connection say something of it, and what.
_READ: dict[str, tuple[tuple[str, ...], _Read]] = {
    "hf": (("huggingface", "http", "generic"), _hub),
    "http": (("http", "generic"), _http),
    "https": (("http", "generic"), _http),
    "s3": (("aws", "generic"), _aws),
    "gs": (("google_cloud_platform", "generic"), _google),
    "az": (("wasb", "adls", "azure_data_lake", "generic"), _azure),
}


def _mask(credentials: Credentials) -> None:
    """Airflow masks a connection's password by itself, and its extra fields by their names only."""
    try:
        from airflow.sdk.log import mask_secret
    except ImportError:  # before 3.1
        return
    secrets = {name: value for name, value in credentials.options.items() if name in _SECRET}
    for value in (credentials.token, *secrets.values()):
        if value:
            mask_secret(value)


_SECRET = frozenset({"secret", "token", "account_key", "sas_token", "connection_string", "client_secret"})
