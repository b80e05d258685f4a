"""``kubernetes://CONTEXT/NAMESPACE`` and its parts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote

from trainer_ops.errors import InvalidRequest

__all__ = ["IN_CLUSTER", "Address"]

IN_CLUSTER = "in-cluster"


@dataclass(frozen=True, slots=True)
class Address:
    """Which cluster, as whom, in which namespace.

    Attributes:
        context: a context of the kubeconfig, ``in-cluster``, or "" for the kubeconfig's current one.
        namespace: "" takes the context's own, in a cluster the pod's.
        kubeconfig: path of a kubeconfig; "" takes $KUBECONFIG or ~/.kube/config.
    """

    context: str = ""
    namespace: str = ""
    kubeconfig: str = ""

    @classmethod
    def parse(cls, target: str) -> Address:
        """Read ``kubernetes://CONTEXT/NAMESPACE[?kubeconfig=PATH]``.

        A context may itself hold slashes (EKS names them by ARN): the namespace is what follows the last one.

        Raises:
            InvalidRequest: field ``target``.
        """
        scheme, separator, rest = target.partition("://")
        if not separator or scheme != "kubernetes":
            raise InvalidRequest("target", f'"{target}" is no cluster', "Write kubernetes://CONTEXT/NAMESPACE")
        path, _, query = rest.partition("?")
        options = parse_qs(query, keep_blank_values=True)
        unknown = sorted(set(options) - {"kubeconfig"})
        if unknown:
            raise InvalidRequest("target", f"{target}: unknown option {unknown[0]}", "Known: kubeconfig")
        context, slash, namespace = path.rpartition("/") if "/" in path else (path, "", "")
        if slash and not namespace:
            raise InvalidRequest("target", f"{target}: the namespace is empty", "Write kubernetes://CONTEXT/NAMESPACE")
        return cls(unquote(context), unquote(namespace), options.get("kubeconfig", [""])[0])

    def __str__(self) -> str:
        query = f"?kubeconfig={quote(self.kubeconfig)}" if self.kubeconfig else ""
        return f"kubernetes://{quote(self.context, safe=':@/')}/{quote(self.namespace)}{query}"
