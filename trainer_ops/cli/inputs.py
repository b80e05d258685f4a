"""Flags and files to a TrainRequest and a RunKey: every error here names the flag that was typed.

Pure, but for the questions that are arguments: is this a file, what is in the environment, which snapshot, a fresh key.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainer_ops.cli.durations import seconds
from trainer_ops.cli.flags import LimitFlags, TrainFlags
from trainer_ops.errors import InvalidRequest
from trainer_ops.model.identity import RunKey
from trainer_ops.model.limits import Limits

if TYPE_CHECKING:
    from trainer_ops.model.request import TrainRequest
    from trainer_ops.model.snapshot import SnapshotKind

__all__ = ["FLAG_OF", "key_of", "limits_over", "pairs", "request_of"]

# A field of TrainRequest under the name that a person typed it by.
FLAG_OF = {
    "num_nodes": "--nodes",
    "num_proc_per_node": "--procs-per-node",
    "resources_per_node": "--resource",
    "packages": "--package",
    "script": "--",
    "command": "--",
    "args": "--",
    "manifest": "--file",
    "termination_grace_period_seconds": "--grace-period",
    "labels": "--label",
    "annotations": "--annotation",
}
_SAME_NAME = (
    "name", "runtime", "runtime_kind", "image", "pip_index_url", "runner", "queue", "priority_class", "dataset",
    "model", "checkpoint_dir",
)  # fmt: skip
_TIMES = ("queue_timeout", "startup_timeout", "wait_timeout", "unreachable_timeout", "missing_grace")
GPU = "nvidia.com/gpu"


def request_of(
    flags: TrainFlags,
    limits: LimitFlags,
    manifest: dict[str, Any] | None,
    *,
    is_file: Callable[[str], bool],
    environ: Mapping[str, str],
    data: Callable[[str, SnapshotKind], Any] = lambda text, kind: text,
) -> TrainRequest:
    """The request that these flags, and the manifest of ``--file``, describe.

    Raises:
        InvalidRequest: names the flag, the reason and the remedy. Nothing was created.
    """
    from trainer_ops.model.request import TrainRequest

    if flags.gpu is not None and any(item.partition("=")[0] == GPU for item in flags.resource or ()):
        raise InvalidRequest("--gpu", f"--resource {GPU} says the same", "Give one of them")
    given: dict[str, Any] = {name: getattr(flags, name) for name in _SAME_NAME}
    kinds: tuple[SnapshotKind, ...] = ("dataset", "model")
    given |= {kind: data(text, kind) for kind in kinds if (text := getattr(flags, kind)) is not None}
    given |= {
        "manifest": manifest,
        "num_nodes": flags.nodes,
        "num_proc_per_node": flags.procs_per_node,
        "packages": flags.package,
        "env": pairs(flags.env, "--env", environ=environ),
        "labels": pairs(flags.label, "--label"),
        "annotations": pairs(flags.annotation, "--annotation"),
        "resources_per_node": _resources(flags),
        "suspend": flags.suspend or None,
        "active_deadline_seconds": _whole(flags.active_deadline_seconds, "--active-deadline-seconds"),
        "termination_grace_period_seconds": _whole(flags.grace_period, "--grace-period"),
        **_limits(limits),
        **_code(flags.argv or (), is_file=is_file),
    }
    if flags.package and not (flags.argv or [""])[0].endswith(".py"):
        remedy = "Give -- SCRIPT.py, or put the packages into the image"
        raise InvalidRequest("--package", "is installed before a script of yours, and there is none", remedy)
    if manifest is None and not flags.runtime:
        raise InvalidRequest(
            "--runtime",
            "is missing, and there is no --file",
            "Name a runtime such as --runtime torch-distributed (all: trainer-ops runtimes), or give -f TRAINJOB.yaml",
        )
    try:
        return TrainRequest(**{name: value for name, value in given.items() if value is not None and value != {}})
    except InvalidRequest as exc:
        raise in_flags(exc) from exc


def in_flags(error: InvalidRequest) -> InvalidRequest:
    """The same error, its field under the name of the flag."""
    head, dot, rest = error.field.partition(".")
    known = {*_SAME_NAME, *_TIMES, *FLAG_OF, "max_restarts", "env", "suspend", "active_deadline_seconds"}
    if head not in known:
        return error
    flag = FLAG_OF.get(head, "--" + head.replace("_", "-"))
    remedy = error.remedy
    for name in (head, "script", "manifest"):
        remedy = remedy.replace(f"leave {name} out", f"leave {flag} out")
    return InvalidRequest(flag + dot + rest, error.reason, remedy)


def key_of(
    key: str | None, manifest: Mapping[str, Any] | None, *, fresh: Callable[[], str] = lambda: uuid.uuid4().hex
) -> RunKey:
    """Who asks: ``--key``, else the manifest's name, else nobody has asked before."""
    if key is not None and not key.strip():
        raise InvalidRequest("--key", "is empty", "Give the run a name of its own, or leave --key out")
    metadata = (manifest or {}).get("metadata")
    named = metadata.get("name") if isinstance(metadata, dict) else None
    return RunKey.of("cli", {"key": key or named or fresh()})


def limits_over(flags: LimitFlags, stored: Limits) -> Limits:
    """The limits that the training was submitted with, with those that were typed now in their place."""
    return Limits.from_json(stored.to_json() | {k: v for k, v in _limits(flags).items() if v is not None})


def pairs(items: Sequence[str] | None, flag: str, *, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """``K=V`` texts as a mapping; with ``environ``, ``K`` alone takes the value that K has there.

    Raises:
        InvalidRequest: no name, no value, or a name given twice.
    """
    found: dict[str, str] = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not name or name != name.strip():
            raise InvalidRequest(flag, f'"{item}" has no name before the "="', f"Write {flag} NAME=VALUE")
        if name in found:
            raise InvalidRequest(flag, f"{name} is given twice", "Give it once")
        if not equals:
            if environ is None:
                raise InvalidRequest(flag, f'"{item}" has no value', f"Write {flag} {name}=VALUE")
            if name not in environ:
                raise InvalidRequest(flag, f"{name} is not set here", f"Write {flag} {name}=VALUE, or export {name}")
            value = environ[name]
        found[name] = value
    return found


def _resources(flags: TrainFlags) -> dict[str, str]:
    found = {name: value for name, value in (("cpu", flags.cpu), ("memory", flags.memory), (GPU, flags.gpu)) if value}
    for name, value in pairs(flags.resource, "--resource").items():
        if name in found:
            raise InvalidRequest("--resource", f"--{name} says the same", "Give one of them")
        found[name] = value
    return found


def _limits(flags: LimitFlags) -> dict[str, Any]:
    times = {name: seconds(getattr(flags, name), "--" + name.replace("_", "-")) for name in _TIMES}
    for name, value in times.items():
        if value == 0 and name != "missing_grace":
            raise InvalidRequest("--" + name.replace("_", "-"), "0 is no time to wait", "Leave it out for no limit")
    if flags.max_restarts is not None and flags.max_restarts < 0:
        raise InvalidRequest("--max-restarts", f"{flags.max_restarts} is not at least 0", "Give 0 or more")
    return {**times, "max_restarts": flags.max_restarts}


def _whole(text: str | None, flag: str) -> int | None:
    value = seconds(text, flag)
    if value is None:
        return None
    if value != int(value) or value < 1:
        raise InvalidRequest(flag, f'"{text}" is not a whole number of seconds from 1', "Write it like 90 or 10m")
    return int(value)


def _code(argv: Sequence[str], *, is_file: Callable[[str], bool]) -> dict[str, Any]:
    """A .py file that exists is sent along; anything else is what a node runs.

    A missing .py file is refused, though an image might hold it: far more often it is a typing error, and a node
    would find out only after it queued, started and pulled.
    """
    if not argv:
        return {}
    first = argv[0]
    if not first.endswith(".py"):
        return {"command": list(argv)}
    if not is_file(first):
        raise InvalidRequest(
            f"-- {first}", "there is no such file here", f"Check the path; for a file in the image: -- python {first}"
        )
    return {"script": first, "args": list(argv[1:]) or None}
