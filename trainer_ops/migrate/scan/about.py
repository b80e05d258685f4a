"""What the scanners of all forms share: how v1 is named, and how a finding of theirs is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.findings import Severity, finding
from trainer_ops.migrate.kinds import GROUP
from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan.embedded import Inner

__all__ = [
    "KIND_OF_PLURAL",
    "LAUNCHER_IMAGE",
    "LAUNCHER_URL",
    "NAMES",
    "RUNTIMES",
    "call_text",
    "fill_in",
    "operator",
    "placed",
]

_STEMS: Final = ("PyTorch", "TF", "MPI", "XGBoost", "Paddle", "JAX", "MX")
KIND_OF_PLURAL: Final[Mapping[str, str]] = {f"{stem.lower()}jobs": f"{stem}Job" for stem in _STEMS}
NAMES: Final = re.compile(
    rf"\b(?:{'|'.join(_STEMS)})Job\b|\b(?:{'|'.join(map(str.lower, _STEMS))})jobs?\b"
    rf"|\b{re.escape(GROUP)}/v1\b|kubeflow\.training|training\.kubeflow\.org/"
)
"""A file in which this is nowhere knows nothing of v1."""
LAUNCHER_IMAGE: Final = re.compile(r"(?:pytorchjob|tfjob|mpijob|xgboostjob)-launcher|\bnikenano/launcher")
LAUNCHER_URL: Final = re.compile(r"components/kubeflow/(pytorch-)?launcher/")
RUNTIMES: Final[Mapping[str, str]] = {
    "PyTorchJob": "torch-distributed",
    "JAXJob": "jax-distributed",
    "XGBoostJob": "xgboost-distributed",
}


def placed(
    code: str,
    line: int,
    message: str,
    *,
    what: str = "",
    replacement: str = "",
    job: Inner | None = None,
    remedy: str | None = None,
    severity: Severity | None = None,
) -> Placed:
    """A finding at a line of a file that is no manifest; that ``job``, which stands there, is refused is added."""
    refusal, inside = ("", None) if job is None else (job.refusal, job.opened)
    made = finding(code, (), message + refusal, severity=severity, remedy=remedy)
    return Placed(made, line, 0, what, replacement, inside)


def call_text(name: str, arguments: Mapping[str, str]) -> str:
    """A call with one argument on a line; of a single short one on one line."""
    if len(arguments) <= 1 and not any("\n" in value for value in arguments.values()):
        return f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"
    inner = "".join(f"    {key}={value},\n" for key, value in arguments.items())
    return f"{name}(\n{inner})"


def operator(task_id: str, trainjob: str, runtime: str, more: Mapping[str, str]) -> str:
    """Airflow's operators for texts of YAML: the runtime first where there is one.

    Args:
        task_id: as Python: a literal, or an expression.
        trainjob: YAML.
        runtime: YAML, "" with a stock one.
        more: further arguments of both.
    """
    train = {"task_id": task_id, "manifest": _block(trainjob), **more, "deferrable": "True"}
    if not runtime:
        head = f"from trainer_ops.airflow import TrainJobOperator\n\n{fill_in(trainjob)}"
        return f"{head}train = {call_text('TrainJobOperator', train)}\n"
    first = {"task_id": _runtime_id(task_id), "runtime": _block(runtime), **more}
    return (
        f"from trainer_ops.airflow import TrainingRuntimeOperator, TrainJobOperator\n\n{fill_in(trainjob + runtime)}"
        f"runtime = {call_text('TrainingRuntimeOperator', first)}\n"
        f"train = {call_text('TrainJobOperator', train)}\nruntime >> train\n"
    )


def fill_in(text: str) -> str:
    """A comment that names what is not known without running the code, each in its angle brackets; "" without any."""
    holes = list(dict.fromkeys(re.findall(r"<[^<>\n]+>", text)))
    return f"# fill in: {', '.join(holes)}\n" if holes else ""


def _runtime_id(task_id: str) -> str:
    return f"{task_id[:-1]}_runtime{task_id[-1]}" if task_id[-1:] in ("'", '"') else f'{task_id} + "_runtime"'


def _block(yaml: str) -> str:
    raw = "r" if "\\" in yaml else ""
    mark = "'''" if '"""' in yaml else '"""'
    return f"{raw}{mark}\n{yaml}{mark}"
