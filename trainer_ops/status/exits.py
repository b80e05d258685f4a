"""How a program ended, in words. Signals by name, whether the shell's way (128 + n) or the system's (-n)."""

from __future__ import annotations

import signal

from trainer_ops.model.observed import Terminated
from trainer_ops.status.wording import clip

__all__ = ["START_ERRORS", "ending", "exit_text", "signal_name", "start_trouble"]

# Reasons of containers that never ran: containerd and CRI-O, then the Docker shim of old.
START_ERRORS = frozenset({"StartError", "ContainerCannotRun"})


def signal_name(code: int) -> str | None:
    """``SIGSEGV`` for 139 and for -11; None for an ordinary exit code."""
    number = -code if code < 0 else code - 128
    # Codes from 160 on are not signals: 255 is ssh's and Python's sys.exit(-1).
    if not (code < 0 or 128 < code < 160):
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_text(code: int) -> str:
    """``exit code 3``; ``SIGSEGV (exit code 139)``."""
    name = signal_name(code)
    return f"exit code {code}" if name is None else f"{name} (exit code {code})"


def start_trouble(message: str) -> str:
    """What the container runtime says about a command that it cannot start, without its own layers' names."""
    cause = message.partition("unable to start container process: ")[2] or message
    return clip(cause.removeprefix("error during container init: "))


def ending(end: Terminated) -> str:
    """One clause: ``exit code 3``, ``out of memory (OOMKilled, exit code 137)``, ``cannot be started: exec: …``."""
    if end.reason == "OOMKilled":
        return f"out of memory (OOMKilled, exit code {end.exit_code})"
    if end.reason in START_ERRORS:
        return f"cannot be started: {start_trouble(end.message)}"
    if end.reason == "ContainerStatusUnknown":
        return "lost: its machine no longer knows the container"
    return exit_text(end.exit_code)
