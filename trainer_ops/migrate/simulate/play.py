"""The last check of a conversion: both generations played and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.normalise import V1Job
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.paths import leaves
from trainer_ops.migrate.simulate.compare import Difference, compare
from trainer_ops.migrate.simulate.named import extras, name, told_of_roles
from trainer_ops.migrate.simulate.runtimes import STOCK
from trainer_ops.migrate.simulate.v1 import simulate_v1
from trainer_ops.migrate.simulate.v2 import simulate_v2

__all__ = ["MAX_PODS", "play"]

MAX_PODS: Final = 512
"""Of either generation: beyond that a comparison says nothing new and takes long."""

_NUMBERS: Final = ("numNodes", "numProcPerNode")


def play(
    job: V1Job,
    trainjob: Mapping[str, Any],
    runtime: Mapping[str, Any] | None,
    options: Options,
    findings: Sequence[Finding],
    agreed: V1Job | None = None,
) -> tuple[tuple[Difference, ...], tuple[Finding, ...]]:
    """All differences, each with the code that tells it, and what is to be told besides.

    Args:
        job: the v1 job.
        trainjob: what became of it.
        runtime: its own; None: the stock one that it names.
        options: of the conversion.
        findings: of the conversion.
        agreed: the v1 job with roles that are the same pods, if ROLE-DIFF has told in what they were not.
    """
    why = _unplayable(job, trainjob, runtime)
    if why:
        return (), (finding("NOT-PLAYED", ("spec",), why),)
    v1, v2 = simulate_v1(job), simulate_v2(trainjob, runtime)
    if not v1.pods or not v2.pods:
        return (), (finding("NOT-PLAYED", ("spec",), "the job has no pods"),)
    found = name(compare(v1, v2), job, options, findings, v2)
    if agreed is not None and agreed != job:
        rest = name(compare(simulate_v1(agreed), v2), agreed, options, findings, v2)
        found = told_of_roles(found, rest)
    return found, (extras(v1, v2),)


def _unplayable(job: V1Job, trainjob: Mapping[str, Any], runtime: Mapping[str, Any] | None) -> str:
    spec = trainjob["spec"]
    trainer = spec.get("trainer") or {}
    numbers = [*(role.replicas for role in job.roles), *(trainer.get(field) or 1 for field in _NUMBERS)]
    if not all(isinstance(number, int) for number in numbers) or _open_amounts(trainer):
        return "a placeholder stands where a number belongs"
    if sum(int(role.replicas) for role in job.roles) > MAX_PODS or trainer.get("numNodes", 0) > MAX_PODS:
        return f"more than {MAX_PODS} pods"
    reference = str(spec["runtimeRef"].get("name"))
    if runtime is None and reference not in STOCK:
        return f"{reference} is no stock runtime, so its pods are not known here"
    return ""


def _open_amounts(trainer: Mapping[str, Any]) -> bool:
    """How many GPUs there are decides how many processes Trainer starts."""
    amounts = leaves(trainer.get("resourcesPerNode"))
    return any(isinstance(value, str) and value.lstrip().startswith(("$", "{{")) for _, value in amounts)
