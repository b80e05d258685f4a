"""From an address to credentials: kubeconfig files, a kubeconfig given as content, or the pod's own service account."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainer_ops.backends.kubernetes.address import IN_CLUSTER, INLINE, Address
from trainer_ops.backends.kubernetes.lean import Connection, in_cluster
from trainer_ops.errors import InvalidRequest

__all__ = ["Access", "Config"]

Config = Mapping[str, Any]

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# Threads of one process that ask at once: the pool that asynchronous waits share has 32.
_POOL = 64


@dataclass(frozen=True, slots=True)
class Access:
    """One user of one cluster, in one namespace.

    Attributes:
        address: with context and namespace filled in.
        key: equal for equal users of equal clusters; holds no secrets. What is shared in a process is shared by it.
        connect: reads the credentials anew and gives an ``ApiClient``. Raises ``ConfigException`` and ``OSError``.
        lean: the same without the client: gives a ``lean.Connection``; None where only the client can.
    """

    address: Address
    key: tuple[str, ...]
    connect: Callable[[], Any] = field(repr=False, compare=False)
    lean: Callable[[], Connection] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def to(cls, address: Address, config: Config | str | None = None) -> Access:
        """Find the credentials; no request is sent, but an exec plugin of the kubeconfig may run.

        Args:
            address: where. An empty context and namespace are filled in.
            config: the content of a kubeconfig, in place of a file: as text (YAML or JSON) or parsed.

        Raises:
            InvalidRequest: field ``target``: no such context, no kubeconfig, not in a cluster.
        """
        if address.kubeconfig == INLINE and config is None:
            raise InvalidRequest(
                "target",
                f"{address}: its kubeconfig was given as content, which a target does not carry",
                "Open it through the Airflow connection that holds it, or name a kubeconfig file: ?kubeconfig=/path",
            )
        if isinstance(config, str):
            config = _parsed(address, config, "the given kubeconfig")
        if config is not None and not (isinstance(config, Mapping) and _is_list(config.get("contexts"))):
            raise _unusable(address, "what was given holds no contexts")
        if config is None and (address.context == IN_CLUSTER or _only_in_cluster(address)):
            return _in_cluster(address)
        return _by_kubeconfig(address, config)


def _only_in_cluster(address: Address) -> bool:
    """No context and no kubeconfig is named, none is there, and this is a pod."""
    if address.context or address.kubeconfig or os.environ.get("KUBECONFIG"):
        return False
    inside = "KUBERNETES_SERVICE_HOST" in os.environ and (_ACCOUNT / "token").exists()
    return inside and not (Path.home() / ".kube" / "config").exists()


def _in_cluster(address: Address) -> Access:
    def connect() -> Any:
        from kubernetes import config

        configuration = _configuration()
        config.load_incluster_config(client_configuration=configuration)
        return _client(configuration)

    try:
        lean = in_cluster(_ACCOUNT)
        host = lean().host if lean is not None else _check(address, connect)
    except (ValueError, OSError) as exc:
        raise InvalidRequest("target", f"{address}: {exc}", "Check where this runs, or name a kubeconfig") from exc
    file = _ACCOUNT / "namespace"
    own = file.read_text().strip() if file.exists() else ""
    filled = replace(address, context=IN_CLUSTER, namespace=address.namespace or own or "default")
    return Access(filled, (IN_CLUSTER, host, filled.namespace), connect, lean)


def _by_kubeconfig(address: Address, content: Config | None) -> Access:
    from kubernetes import config

    file = address.kubeconfig if address.kubeconfig not in ("", INLINE) else None
    context = _context(address, content, file)

    def connect() -> Any:
        configuration = _configuration()
        options = {"context": context["name"], "client_configuration": configuration, "persist_config": False}
        if content is not None:
            config.load_kube_config_from_dict(dict(content), **options)
        else:
            # Always by name: the client reads $KUBECONFIG once, when it is imported.
            config.load_kube_config(config_file=file or _default_files(), **options)
        return _client(configuration)

    inner = context.get("context") or {}
    namespace = address.namespace or inner.get("namespace") or "default"
    host = _check(address, connect)
    source = _digest(content) if content is not None else os.path.abspath(os.path.expanduser(file or _default_files()))
    filled = replace(
        address,
        context=context["name"],
        namespace=namespace,
        kubeconfig=INLINE if content is not None else address.kubeconfig,
    )
    return Access(filled, (source, context["name"], str(inner.get("user")), host, namespace), connect)


def _default_files() -> str:
    return os.environ.get("KUBECONFIG") or "~/.kube/config"


def _digest(content: Config) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _context(address: Address, content: Config | None, file: str | None) -> dict[str, Any]:
    known, current = _contexts(address, content, file)
    wanted = address.context or current
    for context in known:
        if context.get("name") == wanted:
            return context
    names = ", ".join(sorted(str(c.get("name")) for c in known)) or "none"
    if not wanted:
        raise InvalidRequest("target", f"{address}: the kubeconfig has no current context", f"Name one of: {names}")
    raise InvalidRequest("target", f'no context "{wanted}" in the kubeconfig', f"Known: {names}")


def _contexts(address: Address, content: Config | None, file: str | None) -> tuple[list[dict[str, Any]], str]:
    """(contexts, name of the current one). Of several files the first that says something counts, as in kubectl."""
    contexts: list[dict[str, Any]] = []
    current = ""
    for config in [content] if content is not None else _files(address, file):
        contexts += [dict(context) for context in config.get("contexts") or ()]
        current = current or str(config.get("current-context") or "")
    return contexts, current


def _files(address: Address, file: str | None) -> list[Config]:
    # Read by ourselves: the client's own reader refuses a file without a current context even when one is named.
    paths = [Path(path).expanduser() for path in (file or _default_files()).split(os.pathsep) if path]
    try:
        found = [_parsed(address, path.read_text(), str(path)) for path in paths if path.exists()]
    except (OSError, ValueError) as exc:
        raise _unusable(address, str(exc)) from exc
    if not found or not all(isinstance(config, dict) and _is_list(config.get("contexts")) for config in found):
        raise _unusable(address, f"{', '.join(map(str, paths))} {'holds no contexts' if found else 'does not exist'}")
    return found


def _parsed(address: Address, text: str, name: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as exc:
        # Not the error's own words, nor a chain to them: they quote the text, and it holds secrets.
        mark = getattr(exc, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        broken = _unusable(address, f"{name}{where}: {getattr(exc, 'problem', None) or 'no YAML'}")
    raise broken


def _is_list(contexts: Any) -> bool:
    return isinstance(contexts, list) and all(isinstance(context, dict) for context in contexts)


def _unusable(address: Address, why: str) -> InvalidRequest:
    remedy = "Set KUBECONFIG, or use kubernetes://in-cluster inside a cluster"
    return InvalidRequest("target", f"{address}: no usable kubeconfig: {why}"[:500], remedy)


def _configuration() -> Any:
    from kubernetes import client

    # A fresh one, never the library's default: that one is global and other code in this process may have changed it.
    return client.Configuration()


def _client(configuration: Any) -> Any:
    from kubernetes import client

    configuration.connection_pool_maxsize = _POOL
    # Retries are ours: urllib3's own would repeat what must not be repeated and know nothing of Retry-After's limits.
    configuration.retries = False
    return client.ApiClient(configuration)


def _check(address: Address, connect: Callable[[], Any]) -> str:
    """The API server's URL; fails now, with the field's name, rather than at the first call."""
    from kubernetes import config

    try:
        connection = connect()
    except (config.ConfigException, OSError, ValueError, TypeError, AttributeError, LookupError) as exc:
        raise InvalidRequest("target", f"{address}: {exc}", "Check the kubeconfig, or where this runs") from exc
    host = str(connection.configuration.host)
    connection.close()
    return host
