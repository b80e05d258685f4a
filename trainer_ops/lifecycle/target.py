"""From a target's URL to its backend: the only place that knows all of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from trainer_ops.backends.base import Backend
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys

__all__ = ["default_target", "open_backend", "register"]

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
        target: ``local:///absolute/folder``; None takes ``default_target()``.

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
    if separator and scheme == "kubernetes":
        raise InvalidRequest(
            "target", f"{target}: clusters cannot be opened by this version", "Use local:///folder for this machine"
        )
    raise InvalidRequest("target", f'"{target}" is no target', "Write local:///absolute/folder")
