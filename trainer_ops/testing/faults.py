"""Calls that fail, as a real target's do."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainer_ops.errors import BackendError, Unreachable

__all__ = ["Faults"]


@dataclass
class Faults:
    """What the next calls of a ``MemoryBackend`` meet."""

    _before: dict[str, list[BackendError]] = field(default_factory=dict)
    _after: dict[str, list[BackendError]] = field(default_factory=dict)
    _standing: dict[str, BackendError] = field(default_factory=dict)

    def fail_next(self, method: str, error: BackendError, *, times: int = 1) -> None:
        """Let the next calls of a method fail without doing anything."""
        self._before.setdefault(method, []).extend([error] * times)

    def fail(self, method: str, error: BackendError | None) -> None:
        """Let every call of a method fail (``*``: of any) until this is called with None."""
        if error is None:
            self._standing.pop(method, None)
        else:
            self._standing[method] = error

    def lose_reply(self, method: str, *, times: int = 1) -> None:
        """Let the next calls do their work and fail then: the reply was lost."""
        error = Unreachable(f"the reply of {method} was lost")
        self._after.setdefault(method, []).extend([error] * times)

    def before(self, method: str) -> BackendError | None:
        """The error that this call meets before it does anything."""
        waiting = self._before.get(method)
        if waiting:
            return waiting.pop(0)
        return self._standing.get(method) or self._standing.get("*")

    def after(self, method: str) -> BackendError | None:
        """The error that this call meets after it did its work."""
        waiting = self._after.get(method)
        return waiting.pop(0) if waiting else None
