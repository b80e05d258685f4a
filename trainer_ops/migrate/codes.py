"""The codes of findings: a contract that scripts and reviews refer to. None is renamed or used for something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["CODES", "Code"]


@dataclass(frozen=True, slots=True)
class Code:
    """One code.

    Attributes:
        title: a few words.
        severity: how bad it is when a rule does not say otherwise.
        remedy: what settles it when a rule does not say otherwise.
        explanation: for ``--explain``: what v1 did, what v2 does, why it matters.
    """

    title: str
    severity: Literal["info", "warning", "refused"]
    remedy: str = ""
    explanation: str = ""


CODES: Final[Mapping[str, Code]] = {
    "NOT-V1": Code(
        "no v1 training job", "refused", "Give a PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob or JAXJob"
    ),
    "NOT-A-JOB": Code("not a whole job", "refused", "The v1 operator would refuse it too; write what is missing"),
    "UNKNOWN-ROLE": Code("unknown or doubled role", "refused", "Keep one entry a role, with its usual name"),
    "CONTAINER-NAME": Code(
        "no container with the usual name", "warning", "Name the container with the code as v1 wants"
    ),
    "RUN-POLICY-TWICE": Code("run policy in two places", "warning", "Keep the one in spec.runPolicy"),
    "PLACEHOLDER": Code("text where a number belongs", "refused", "Render the template first, or allow placeholders"),
}
