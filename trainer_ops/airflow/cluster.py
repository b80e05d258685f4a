"""Airflow's own connection type ``kubernetes``: which cluster it means, as whom, in which namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainer_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend

__all__ = ["ClusterConnection"]

_WAYS = ("in_cluster", "kube_config_path", "kube_config")


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """The fields of such a connection that name a target.

    Attributes:
        context: of the kubeconfig; "" is its current one, ``in-cluster`` the pod's own service account.
        namespace: "" takes the context's own.
        kubeconfig: path of a kubeconfig file; "" takes $KUBECONFIG or ~/.kube/config.
        content: a kubeconfig that the connection itself holds, in place of a file. It stays in this process.
    """

    context: str = ""
    namespace: str = ""
    kubeconfig: str = ""
    content: Mapping[str, Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, conn: Any, namespace: str | None = None) -> ClusterConnection:
        """Read a connection; ``namespace`` goes before its own.

        Raises:
            InvalidRequest: fields that contradict each other, or that this version cannot do.
        """
        extra = _Extra(conn)
        ways = [name for name in _WAYS if (extra.truth(name) if name == "in_cluster" else extra.get(name))]
        if len(ways) > 1:
            raise extra.wrong(ways[0], f"and {ways[1]} of {extra.title} exclude each other", "Keep one of them")
        if extra.truth("disable_verify_ssl"):
            raise extra.wrong(
                "disable_verify_ssl",
                f"of {extra.title} cannot be used",
                "Write insecure-skip-tls-verify: true into the kubeconfig, or better its certificate authority",
            )
        return cls(
            "in-cluster" if extra.truth("in_cluster") else str(extra.get("cluster_context") or ""),
            str(namespace or extra.get("namespace") or ""),
            str(extra.get("kube_config_path") or ""),
            _content(extra),
        )

    @property
    def target(self) -> str:
        """As a URL; a content is only said to be there."""
        from trainer_ops.backends.kubernetes.address import INLINE, Address

        return str(Address(self.context, self.namespace, self.kubeconfig if self.content is None else INLINE))

    def open(self) -> Backend:
        """The target; the caller closes it."""
        from trainer_ops.lifecycle.target import open_cluster

        return open_cluster(
            context=self.context, namespace=self.namespace, kubeconfig=self.kubeconfig, content=self.content
        )


class _Extra:
    """The extra fields of a connection, whichever of the two names older forms have stored them under."""

    def __init__(self, conn: Any) -> None:
        self._fields = conn.extra_dejson
        self.title = f'connection "{conn.conn_id}"'

    def get(self, name: str) -> Any:
        return self._fields.get(name) or self._fields.get(f"extra__kubernetes__{name}")

    def truth(self, name: str) -> bool:
        return str(self.get(name) or "").lower() in ("true", "1", "yes", "on")

    def wrong(self, name: str, reason: str, remedy: str) -> InvalidRequest:
        return InvalidRequest(name, reason, remedy)


def _content(extra: _Extra) -> Mapping[str, Any] | None:
    """``kube_config``: a kubeconfig as JSON or YAML text, or as it is. Its text is in no message: it holds secrets."""
    import yaml

    given = extra.get("kube_config")
    if not given:
        return None
    try:
        read = yaml.safe_load(given) if isinstance(given, str) else given
    except yaml.YAMLError:  # its text quotes what it could not read
        raise extra.wrong("kube_config", f"of {extra.title} is neither JSON nor YAML", "Paste a kubeconfig") from None
    if not isinstance(read, Mapping):
        raise extra.wrong("kube_config", f"of {extra.title} is no kubeconfig", "Paste a whole one")
    return read
