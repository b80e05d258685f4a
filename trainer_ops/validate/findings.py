"""``Finding``: one thing that is wrong, or worth a word, in a manifest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from trainer_ops.validate.rules import RULES

__all__ = ["Finding", "closed", "error", "in_order", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says about one place.

    Attributes:
        rule: its id, a key of ``rules.RULES``.
        severity: ``error``: it is refused, or never trains as written; ``warning``: it may be what is meant.
        path: where, in the manifest's own terms: ``spec.trainer.numNodes``.
        reason: what is wrong there and why it matters, without a full stop.
        remedy: what to do, without a full stop.
        subject: the kind of object that ``path`` is in.
    """

    rule: str
    severity: Literal["error", "warning"]
    path: str
    reason: str
    remedy: str = ""
    subject: str = "TrainJob"

    @property
    def is_error(self) -> bool:
        """Whether the object is to be refused for it."""
        return self.severity == "error"

    def __str__(self) -> str:
        head = f"invalid {self.subject}" if self.is_error else "warning"
        return closed(f"{head}: {self.path}: {self.reason}") + (f" {closed(self.remedy)}" if self.remedy else "")


def error(rule: str, path: str, reason: str, remedy: str = "") -> Finding:
    """A finding that the object is to be refused for.

    Raises:
        KeyError: ``rule`` is not registered.
    """
    assert RULES[rule]
    return Finding(rule, "error", path, reason, remedy)


def warning(rule: str, path: str, reason: str, remedy: str = "") -> Finding:
    """A finding to be shown.

    Raises:
        KeyError: ``rule`` is not registered.
    """
    assert RULES[rule]
    return Finding(rule, "warning", path, reason, remedy)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors before warnings, each in the order they were found; a finding made twice is told once."""
    once = tuple(dict.fromkeys(findings))
    return tuple(f for f in once if f.is_error) + tuple(f for f in once if not f.is_error)


def closed(text: str) -> str:
    """The text with a full stop, where it does not end a sentence already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."
