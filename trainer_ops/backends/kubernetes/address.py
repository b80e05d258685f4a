"""``kubernetes://CONTEXT/NAMESPACE`` and its parts. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote

from trainer_ops.errors import InvalidRequest

__all__ = ["INLINE", "IN_CLUSTER", "Address"]

IN_CLUSTER = "in-cluster"
# Stands in a target for a kubeconfig that was given as content: a target is stored and shown, and holds no secrets.
INLINE = "inline"

_FORM = "Write kubernetes://CONTEXT/NAMESPACE, or kubernetes://in-cluster/NAMESPACE inside a cluster"
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Address:
    """Which cluster, as whom, in which namespace.

    Attributes:
        context: a context of the kubeconfig, ``in-cluster``, or "" for the kubeconfig's current one (inside a cluster
            and without a kubeconfig: ``in-cluster``).
        namespace: "" takes the context's own, in a cluster the pod's.
        kubeconfig: path of a kubeconfig; "" takes $KUBECONFIG or ~/.kube/config; ``inline`` stands for one that was
            given as content.
    """

    context: str = ""
    namespace: str = ""
    kubeconfig: str = ""

    def __post_init__(self) -> None:
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise InvalidRequest("target", f'"{self.namespace}" is no name of a namespace', _FORM)

    @classmethod
    def parse(cls, target: str) -> Address:
        """Read ``kubernetes://CONTEXT/NAMESPACE[?kubeconfig=PATH]``; ``in-cluster`` alone is ``kubernetes://in-cluster``.

        A context may itself hold slashes (EKS names them by ARN): the namespace is what follows the last one, unless
        they are written as ``%2F``.

        Raises:
            InvalidRequest: field ``target``.
        """
        if target == IN_CLUSTER:
            return cls(IN_CLUSTER)
        scheme, separator, rest = target.partition("://")
        if not separator or scheme != "kubernetes":
            raise InvalidRequest("target", f'"{target}" is no cluster', _FORM)
        path, _, query = rest.partition("?")
        options = parse_qs(query, keep_blank_values=True)
        unknown = sorted(set(options) - {"kubeconfig"})
        if unknown:
            raise InvalidRequest("target", f"{target}: unknown option {unknown[0]}", "Known: kubeconfig")
        context, slash, namespace = path.rpartition("/") if "/" in path else (path, "", "")
        if slash and not namespace:
            raise InvalidRequest("target", f"{target}: the namespace is empty", _FORM)
        return cls(unquote(context), unquote(namespace), options.get("kubeconfig", [""])[0])

    def __str__(self) -> str:
        context = quote(self.context, safe=":@/" if self.namespace else ":@")
        path = f"{context}/{quote(self.namespace)}" if self.namespace else context
        query = f"?kubeconfig={quote(self.kubeconfig)}" if self.kubeconfig else ""
        return f"kubernetes://{path}{query}"
