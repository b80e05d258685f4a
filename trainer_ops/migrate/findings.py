"""What a person must know about a migration: a code, where, what, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from trainer_ops.migrate.codes import CODES
from trainer_ops.migrate.paths import Path, text_of

__all__ = ["Finding", "Severity", "finding"]

Severity = Literal["info", "warning", "refused"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. ``refused`` means that no TrainJob comes out.

    Attributes:
        code: of ``codes.CODES``; ``trainer-ops migrate --explain CODE`` tells more.
        severity: how bad.
        v1_path: where in the v1 job.
        v2_path: where in the result, ``trainjob:…`` or ``runtime:…``; "" when nowhere.
        message: one sentence.
        remedy: the flag or the edit that settles it.
    """

    code: str
    severity: Severity
    v1_path: str
    message: str
    v2_path: str = ""
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """The documented form."""
        return {
            "code": self.code,
            "severity": self.severity,
            "v1_path": self.v1_path,
            "v2_path": self.v2_path,
            "message": self.message,
            "remedy": self.remedy,
        }

    def __str__(self) -> str:
        where = f" {self.v1_path}:" if self.v1_path else ""
        return f"{self.code}{where} {self.message}" + (f". {self.remedy}" if self.remedy else "")


def finding(
    code: str,
    path: Path,
    message: str,
    *,
    severity: Severity | None = None,
    v2_path: str = "",
    remedy: str | None = None,
) -> Finding:
    """A finding with what its code says when nothing else is said."""
    known = CODES[code]
    return Finding(
        code, severity or known.severity, text_of(path), message, v2_path, known.remedy if remedy is None else remedy
    )
