"""From a target's URL to its backend: the only place that knows all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainer_ops.backends.base import Backend
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys

__all__ = ["default_target", "open_backend", "open_cluster", "register"]

_FORMS = "Write local:///absolute/folder for this machine, kubernetes://CONTEXT/NAMESPACE for a cluster, or in-cluster"

_openers: dict[str, Callable[[str], Backend]] = {}


def register(scheme: str, opener: Callable[[str], Backend]) -> None:
    """Let ``open_backend`` open targets of another scheme; ``testing`` does it for ``memory://``."""
    _openers[scheme] = opener


def default_target() -> str:
    """$TRAINER_OPS_TARGET, else the engine in the user's state folder ($XDG_STATE_HOME, ~/.local/state)."""
    given = os.environ.get(keys.ENV_TARGET)
    if given:
        return given
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return f"local://{Path(state).expanduser() / 'trainer-ops'}"


def open_backend(target: str | None = None) -> Backend:
    """Open a target; the caller closes it.

    Args:
        target: ``local:///absolute/folder``, ``kubernetes://CONTEXT/NAMESPACE[?kubeconfig=/path]``,
            ``kubernetes://in-cluster/NAMESPACE`` or ``in-cluster``; of a cluster both parts may be left out. None takes
            ``default_target()``.

    Raises:
        InvalidRequest: field ``target``: it cannot be opened.
    """
    target = target or default_target()
    scheme, separator, _ = target.partition("://")
    if separator and scheme in _openers:
        return _openers[scheme](target)
    if separator and scheme == "local":
        from trainer_ops.local.target import open_local

        return open_local(target)
    if (separator and scheme == "kubernetes") or target == "in-cluster":
        from trainer_ops.backends.kubernetes.address import Address
        from trainer_ops.backends.kubernetes.backend import KubernetesBackend

        return KubernetesBackend(Address.parse(target))
    raise InvalidRequest("target", f'"{target}" is no target', _FORMS)


def open_cluster(
    *,
    context: str = "",
    namespace: str = "",
    kubeconfig: str | Path = "",
    content: Mapping[str, Any] | str | None = None,
) -> Backend:
    """Open a cluster by its parts, for front ends that hold them apart; the caller closes it.

    Args:
        context: of the kubeconfig; "" is its current one, ``in-cluster`` the pod's own service account.
        namespace: "" takes the context's own.
        kubeconfig: path of a kubeconfig; "" takes $KUBECONFIG or ~/.kube/config.
        content: a kubeconfig's content (YAML or JSON text, or parsed), in place of a file. Its secrets are in no
            target and in no log, so the target of such a backend cannot be opened by itself: it reads
            ``kubernetes://CONTEXT/NAMESPACE?kubeconfig=inline``.

    Raises:
        InvalidRequest: field ``target``: it cannot be opened.
    """
    from trainer_ops.backends.kubernetes.address import Address
    from trainer_ops.backends.kubernetes.backend import KubernetesBackend

    return KubernetesBackend(Address(context, namespace, str(kubeconfig)), config=content)
